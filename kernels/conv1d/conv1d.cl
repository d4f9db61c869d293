/* The kernel of mod.rs in OpenCL C. FLASH_T is float or double. */

FLASH_KERNEL conv1d(FLASH_GLOBAL const FLASH_T *filter, FLASH_GLOBAL const FLASH_T *signal,
                    FLASH_GLOBAL FLASH_T *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0), k = FLASH_LEN(filter);
        FLASH_T sum = 0;
        if (i + k <= FLASH_END(signal))
            for (flash_u64 j = 0; j < k; ++j)
                sum += FLASH_AT(filter, k - 1 - j) * FLASH_AT(signal, i + j);
        FLASH_AT(out, i) = sum;
    }
}
