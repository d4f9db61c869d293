/* The kernel of mod.rs in OpenCL C. FLASH_T is float or double. */

/* Elements of a row that are added beside each other. */
#define LANES 4

FLASH_KERNEL spmv(FLASH_GLOBAL const flash_u64 *start, FLASH_GLOBAL const flash_u32 *column,
                  FLASH_GLOBAL const FLASH_T *value, FLASH_GLOBAL const FLASH_T *x, FLASH_GLOBAL FLASH_T *y,
                  FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_INDEX(0), columns = FLASH_LEN(x);
        /* Row pointers and columns may be wrong: only existing elements of the row, and of `x`, are used. */
        const int known = row + 1 < FLASH_LEN(start);
        const flash_u64 end =
            known ? min(FLASH_AT(start, row + 1), min(FLASH_PART_END(value, 0), FLASH_PART_END(column, 0))) : 0;
        const flash_u64 first_there = max(FLASH_PART_BEGIN(value, 0), FLASH_PART_BEGIN(column, 0));
        const flash_u64 begin = known ? min(max(FLASH_AT(start, row), first_there), end) : 0;
        FLASH_T sums[LANES] = {0};
        flash_u64 at = begin;
        for (; at + LANES <= end; at += LANES)
            for (int l = 0; l < LANES; ++l) {
                const flash_u64 of = FLASH_AT(column, at + l);
                if (of < columns)
                    sums[l] += FLASH_AT(value, at + l) * FLASH_AT(x, of);
            }
        for (; at < end; ++at) {
            const flash_u64 of = FLASH_AT(column, at);
            if (of < columns)
                sums[0] += FLASH_AT(value, at) * FLASH_AT(x, of);
        }
        FLASH_AT(y, row) = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
}
