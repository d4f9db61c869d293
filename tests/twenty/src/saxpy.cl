#pragma OPENCL FP_CONTRACT OFF

FLASH_KERNEL saxpy(const float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(y, i) += a * FLASH_AT(x, i);
    }
}
