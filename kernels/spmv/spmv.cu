/* The kernel of mod.rs in CUDA C++. FLASH_T is float or double. A warp has a row. */

FLASH_KERNEL spmv(const flash_u64 *start, const flash_u32 *column, const FLASH_T *value, const FLASH_T *x, FLASH_T *y,
                  FLASH_ARGS) {
    const flash_u32 lane = (flash_u32)FLASH_LANE();
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_INDEX(0), columns = FLASH_LEN(x);
        /* Row pointers and columns may be wrong: only existing elements of the row, and of `x`, are used. */
        const bool known = row + 1 < FLASH_LEN(start);
        const flash_u64 end =
            known ? min(FLASH_AT(start, row + 1), min(FLASH_PART_END(value, 0), FLASH_PART_END(column, 0))) : 0;
        const flash_u64 first_there = max(FLASH_PART_BEGIN(value, 0), FLASH_PART_BEGIN(column, 0));
        const flash_u64 begin = known ? min(max(FLASH_AT(start, row), first_there), end) : 0;
        FLASH_T sum = 0;
#pragma unroll 4
        for (flash_u64 at = begin + lane; at < end; at += 32) {
            const flash_u64 of = FLASH_AT(column, at);
            if (of < columns)
                sum = fma(FLASH_AT(value, at), FLASH_AT(x, of), sum);
        }
        for (int away = 16; away > 0; away /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, away);
        if (lane == 0)
            FLASH_AT(y, row) = sum;
    }
}
