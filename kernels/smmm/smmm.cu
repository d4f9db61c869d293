/* The kernel of mod.rs in CUDA C++. FLASH_T is float or double. A warp has a row of the product. */

/* Columns of a thread, in registers: it reads an element once for all of them. */
constexpr int COLUMNS = 4;

FLASH_KERNEL smmm(const flash_u64 n, const flash_u64 leading, const flash_u64 *start, const flash_u32 *column,
                  const FLASH_T *value, const FLASH_T *b, FLASH_T *c, FLASH_ARGS) {
    const flash_u32 lane = (flash_u32)FLASH_LANE();
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_INDEX(0), width = min(n, FLASH_ROW_LEN(c));
        /* Row pointers may be wrong: only existing elements of the row, and existing rows of `b`, are used. */
        const bool known = row + 1 < FLASH_LEN(start);
        const flash_u64 end =
            known ? min(FLASH_AT(start, row + 1), min(FLASH_PART_END(value, 0), FLASH_PART_END(column, 0))) : 0;
        const flash_u64 first_there = max(FLASH_PART_BEGIN(value, 0), FLASH_PART_BEGIN(column, 0));
        const flash_u64 begin = known ? min(max(FLASH_AT(start, row), first_there), end) : 0;
        const flash_u64 behind = FLASH_LEN(b) < width ? 0 : FLASH_LEN(b) - width + 1;
        FLASH_T *to = &FLASH_AT(c, FLASH_OWN_INDEX(c));
        /* Threads beside each other have columns beside each other; where those are few, others have other elements
         * of the row. */
        flash_u32 across = 1;
        while (across < 32 && across < width)
            across *= 2;
        const flash_u32 slot = lane / across, slots = 32 / across;
        for (flash_u64 first = lane % across; first - lane % across < width; first += COLUMNS * across) {
            FLASH_T sums[COLUMNS] = {};
#pragma unroll 2
            for (flash_u64 at = begin + slot; at < end; at += slots) {
                const FLASH_T x = FLASH_AT(value, at);
                const flash_u64 from = FLASH_AT(column, at) * leading;
                if (from >= behind)
                    continue; /* none of the rows of `b` */
                /* Of threads beyond the last column it is not read. */
                const FLASH_T *with = &FLASH_AT(b, from + min(first, width - 1));
#pragma unroll
                for (int k = 0; k < COLUMNS; ++k)
                    if (first + k * across < width)
                        sums[k] = fma(x, with[k * across], sums[k]);
            }
#pragma unroll
            for (int k = 0; k < COLUMNS; ++k) {
                for (flash_u32 away = across; away < 32; away *= 2)
                    sums[k] += __shfl_xor_sync(0xffffffffu, sums[k], away);
                if (slot == 0 && first + k * across < width)
                    to[first + k * across] = sums[k];
            }
        }
    }
}
