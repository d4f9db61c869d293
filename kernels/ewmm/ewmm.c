/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. */

FLASH_KERNEL ewmm(const flash_u64 n, FLASH_GLOBAL const FLASH_T *a, FLASH_GLOBAL const FLASH_T *b,
                  FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(c, i) = FLASH_AT(a, i) * FLASH_AT(b, i);
    }
}
