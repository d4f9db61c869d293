/* The kernel of mod.rs in OpenCL C. FLASH_T is float or double. */

/* Products that are summed beside each other. */
#define LANES 16

FLASH_KERNEL mvm(const flash_u64 n, FLASH_GLOBAL const FLASH_T *a, FLASH_GLOBAL const FLASH_T *x,
                 FLASH_GLOBAL FLASH_T *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_GLOBAL const FLASH_T *row = &FLASH_AT(a, FLASH_OWN_INDEX(a)), *with = &FLASH_AT(x, 0);
        /* Only as far as the row and the vector go. */
        const flash_u64 end = min(n, min(FLASH_ROW_LEN(a), FLASH_LEN(x))), whole = end / LANES * LANES;
        FLASH_T sums[LANES] = {0}, total = 0;
        for (flash_u64 j = 0; j < whole; j += LANES)
            for (int l = 0; l < LANES; ++l)
                sums[l] += row[j + l] * with[j + l];
        for (flash_u64 j = whole; j < end; ++j)
            total += row[j] * with[j];
        for (int l = 0; l < LANES; ++l)
            total += sums[l];
        FLASH_AT(y, FLASH_INDEX(0)) = total;
    }
}
