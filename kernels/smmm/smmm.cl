/* The kernel of mod.rs in OpenCL C. FLASH_T is float or double. */

/* Columns that a work item has in registers: it reads its elements once for all of them. */
#define COLUMNS 32

FLASH_KERNEL smmm(const flash_u64 n, const flash_u64 leading, FLASH_GLOBAL const flash_u64 *start,
                  FLASH_GLOBAL const flash_u32 *column, FLASH_GLOBAL const FLASH_T *value,
                  FLASH_GLOBAL const FLASH_T *b, FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_INDEX(0), width = min(n, FLASH_ROW_LEN(c));
        /* Row pointers may be wrong: only existing elements of the row, and existing rows of `b`, are used. */
        const int known = row + 1 < FLASH_LEN(start);
        const flash_u64 end =
            known ? min(FLASH_AT(start, row + 1), min(FLASH_PART_END(value, 0), FLASH_PART_END(column, 0))) : 0;
        const flash_u64 first_there = max(FLASH_PART_BEGIN(value, 0), FLASH_PART_BEGIN(column, 0));
        const flash_u64 begin = known ? min(max(FLASH_AT(start, row), first_there), end) : 0;
        const flash_u64 behind = FLASH_LEN(b) < width ? 0 : FLASH_LEN(b) - width + 1;
        FLASH_GLOBAL FLASH_T *to = &FLASH_AT(c, FLASH_OWN_INDEX(c));
        for (flash_u64 first = 0; first < width; first += COLUMNS) {
            const flash_u64 count = min((flash_u64)COLUMNS, width - first);
            FLASH_T sums[COLUMNS] = {0};
            for (flash_u64 at = begin; at < end; ++at) {
                const FLASH_T x = FLASH_AT(value, at);
                const flash_u64 from = FLASH_AT(column, at) * leading;
                FLASH_GLOBAL const FLASH_T *with = &FLASH_AT(b, from + first);
                if (from >= behind)
                    continue; /* none of the rows of `b` */
                if (count == COLUMNS) {
                    for (int j = 0; j < COLUMNS; ++j)
                        sums[j] += x * with[j];
                } else {
                    for (flash_u64 j = 0; j < count; ++j)
                        sums[j] += x * with[j];
                }
            }
            for (flash_u64 j = 0; j < count; ++j)
                to[first + j] = sums[j];
        }
    }
}
