#pragma OPENCL FP_CONTRACT OFF

FLASH_KERNEL heat(const float rate, FLASH_GLOBAL const float *from, FLASH_GLOBAL float *to, FLASH_ARGS) {
    const flash_u64 width = FLASH_STRIDE(to, 1);
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(1) * width + FLASH_INDEX(0);
        const float here = FLASH_AT(from, i);
        const float around =
            FLASH_AT(from, i - 1) + FLASH_AT(from, i + 1) + FLASH_AT(from, i - width) + FLASH_AT(from, i + width);
        FLASH_AT(to, i) = here + rate * (around - 4.0f * here);
    }
}
