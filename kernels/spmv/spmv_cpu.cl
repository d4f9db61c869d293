/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double. */

/* Elements of a row that are added beside each other. */
#define LANES 4

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL spmv(FLASH_GLOBAL const flash_u64 *start, FLASH_GLOBAL const flash_u32 *column,
                  FLASH_GLOBAL const FLASH_T *value, FLASH_GLOBAL const FLASH_T *x, FLASH_GLOBAL FLASH_T *y,
                  FLASH_ARGS) {
    const flash_u64 columns = FLASH_LEN(x);
    const flash_u64 there = min(FLASH_PART_END(value, 0), FLASH_PART_END(column, 0));
    const flash_u64 first_there = max(FLASH_PART_BEGIN(value, 0), FLASH_PART_BEGIN(column, 0));
    FLASH_GLOBAL const flash_u32 *of = &FLASH_AT(column, 0);
    FLASH_GLOBAL const FLASH_T *values = &FLASH_AT(value, 0), *with = &FLASH_AT(x, 0);
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_INDEX(0);
        /* Row pointers and columns may be wrong: only existing elements of the row, and of `x`, are used. */
        const int known = row + 1 < FLASH_LEN(start);
        const flash_u64 end = known ? min(FLASH_AT(start, row + 1), there) : 0;
        FLASH_T sums[LANES] = {0};
        flash_u64 at = known ? min(max(FLASH_AT(start, row), first_there), end) : 0;
        for (; at + LANES <= end; at += LANES)
#pragma unroll
            for (int l = 0; l < LANES; ++l)
                if (of[at + l] < columns)
                    sums[l] = mad(values[at + l], with[of[at + l]], sums[l]);
        for (; at < end; ++at)
            if (of[at] < columns)
                sums[0] = mad(values[at], with[of[at]], sums[0]);
        FLASH_AT(y, row) = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
}
