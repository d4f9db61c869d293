/* Nothing, as one writes it oneself, and as the framework cuts and orders it. */

__kernel void touch(float a, __global const float *x, __global float *y, __global float *z) {}

#ifdef FLASH_KERNEL
FLASH_KERNEL touch_args(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_GLOBAL float *z, FLASH_ARGS) {
}
#endif
