/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double. */

/* Rows that share each part of the vector; parts that are summed beside each other. */
#define ROWS 4
#define REGISTERS 4
#define WIDTH (REGISTERS * LANES)

/* Products of some rows, `apart` from each other, and the vector. Each has the same sums, whatever their number. */
static inline void products(const int rows, FLASH_GLOBAL const FLASH_T *row, const flash_u64 apart,
                            FLASH_GLOBAL const FLASH_T *with, const flash_u64 end, FLASH_GLOBAL FLASH_T *to) {
    VECTOR sums[ROWS][REGISTERS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
            sums[r][v] = 0;
    flash_u64 j = 0;
    for (; j + WIDTH <= end; j += WIDTH)
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v) {
            const VECTOR x = LOAD(v, with + j);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                if (r < rows)
                    sums[r][v] = mad(LOAD(v, row + r * apart + j), x, sums[r][v]);
        }
    for (int r = 0; r < rows; ++r) {
        FLASH_T total = 0, lanes[WIDTH];
        for (flash_u64 rest = j; rest < end; ++rest)
            total = mad(row[r * apart + rest], with[rest], total);
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
            STORE(sums[r][v], v, lanes);
        for (int l = 0; l < WIDTH; ++l)
            total += lanes[l];
        to[r] = total;
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL mvm(const flash_u64 n, FLASH_GLOBAL const FLASH_T *a, FLASH_GLOBAL const FLASH_T *x,
                 FLASH_GLOBAL FLASH_T *y, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        /* Only as far as the rows and the vector go. */
        const flash_u64 end = min(n, min(FLASH_ROW_LEN(a), FLASH_LEN(x))), apart = FLASH_STRIDE(a, 0);
        FLASH_GLOBAL const FLASH_T *row = &FLASH_AT(a, FLASH_OWN_INDEX(a)), *with = &FLASH_AT(x, 0);
        FLASH_GLOBAL FLASH_T *to = &FLASH_AT(y, FLASH_INDEX(0));
        flash_u64 at = 0;
        for (; at + ROWS <= FLASH_RUN(); at += ROWS)
            products(ROWS, row + at * apart, apart, with, end, to + at);
        for (; at < FLASH_RUN(); ++at)
            products(1, row + at * apart, apart, with, end, to + at);
    }
}
