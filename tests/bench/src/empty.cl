/* Nothing, as the framework calls it, and as one calls it oneself. */

#ifdef FLASH_ENTRY_touch
FLASH_KERNEL touch(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_GLOBAL float *z, FLASH_ARGS) {}
#else
__kernel void touch(float a, __global const float *x, __global float *y, __global float *z) {}
#endif
