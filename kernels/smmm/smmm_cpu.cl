/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double. */

/* Registers of columns: a row's elements are read once for all of them. */
#define REGISTERS 8

/* Elements between the prefetch of a row of `b` and its use: no CPU guesses which row comes next. */
#define AHEAD 8
#define ASK(at) __builtin_prefetch((const void *)(flash_u64)(at))

/* Adds up a row's elements in some registers of columns, from those at `with` on. The matrix's elements end at
 * `there`. */
static inline void add_up(const int registers, FLASH_GLOBAL const flash_u32 *column, FLASH_GLOBAL const FLASH_T *value,
                          const flash_u64 begin, const flash_u64 end, const flash_u64 there,
                          FLASH_GLOBAL const FLASH_T *with, const flash_u64 leading, const flash_u64 behind,
                          FLASH_GLOBAL FLASH_T *to) {
    VECTOR sums[REGISTERS];
#pragma unroll
    for (int v = 0; v < REGISTERS; ++v)
        sums[v] = 0;
    for (flash_u64 at = begin; at < end; ++at) {
        if (at + AHEAD < there) {
            FLASH_GLOBAL const FLASH_T *soon = with + column[at + AHEAD] * leading;
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v)
                if (v < registers)
                    ASK(soon + v * LANES);
        }
        const flash_u64 row = column[at] * leading;
        if (row >= behind)
            continue; /* none of the rows of `b` */
        const VECTOR x = value[at];
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
            if (v < registers)
                sums[v] = mad(x, LOAD(v, with + row), sums[v]);
    }
#pragma unroll
    for (int v = 0; v < REGISTERS; ++v)
        if (v < registers)
            STORE(sums[v], v, to);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL smmm(const flash_u64 n, const flash_u64 leading, FLASH_GLOBAL const flash_u64 *start,
                  FLASH_GLOBAL const flash_u32 *column, FLASH_GLOBAL const FLASH_T *value,
                  FLASH_GLOBAL const FLASH_T *b, FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    const flash_u64 width = min(n, FLASH_ROW_LEN(c)), behind = FLASH_LEN(b) < width ? 0 : FLASH_LEN(b) - width + 1;
    const flash_u64 there = min(FLASH_PART_END(value, 0), FLASH_PART_END(column, 0));
    const flash_u64 first_there = max(FLASH_PART_BEGIN(value, 0), FLASH_PART_BEGIN(column, 0));
    FLASH_GLOBAL const flash_u32 *columns = &FLASH_AT(column, 0);
    FLASH_GLOBAL const FLASH_T *values = &FLASH_AT(value, 0), *with = &FLASH_AT(b, 0);
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        /* Row pointers may be wrong: only existing elements of the row, and existing rows of `b`, are used. */
        const int known = i + 1 < FLASH_LEN(start);
        const flash_u64 end = known ? min(FLASH_AT(start, i + 1), there) : 0;
        const flash_u64 begin = known ? min(max(FLASH_AT(start, i), first_there), end) : 0;
        FLASH_GLOBAL FLASH_T *to = &FLASH_AT(c, FLASH_OWN_INDEX(c));
        if (width < LANES) {
            FLASH_T sums[LANES] = {0};
            for (flash_u64 at = begin; at < end; ++at) {
                const flash_u64 row = columns[at] * leading;
                if (row < behind)
                    for (int j = 0; j < (int)width; ++j)
                        sums[j] = mad(values[at], with[row + j], sums[j]);
            }
            for (int j = 0; j < (int)width; ++j)
                to[j] = sums[j];
            continue;
        }
#define TILE(registers, first) \
    add_up(registers, columns, values, begin, end, there, with + (first), leading, behind, to + (first))
        flash_u64 first = 0;
        for (; first + 8 * LANES <= width; first += 8 * LANES)
            TILE(8, first);
        if (first + 4 * LANES <= width) {
            TILE(4, first);
            first += 4 * LANES;
        }
        if (first + 2 * LANES <= width) {
            TILE(2, first);
            first += 2 * LANES;
        }
        if (first + LANES <= width) {
            TILE(1, first);
            first += LANES;
        }
        /* The last register repeats columns of the one before. */
        if (first < width)
            TILE(1, width - LANES);
    }
}
