/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double; without it factors are bf16, the upper
 * halves of floats.
 *
 * A thread has some rows of the product. It copies a block of `a` and a block of `b` in the order in which it reads
 * them, so that they come in sequence from the nearest caches, and sums tiles of the product in registers. */

#ifdef FLASH_T
#define FACTOR FLASH_T
#define WIDE(x) (x)
#define WIDE_VECTOR(x) (x)
#else
#define FLASH_T float
#define FACTOR ushort
#define WIDE(x) as_float((uint)(x) << 16)
#define WIDE_VECTOR(x) as_float16(convert_uint16(x) << 16)
#endif

/* A tile: 16 sums in registers, which hide the latency of an addition. */
#define ROWS 8
#define REGISTERS 2
#define COLUMNS (REGISTERS * LANES)
/* Rows, and columns, of a block of `a`; tiles beside each other in one of `b`: some 200 KiB each. */
#define HEIGHT (2048 / (int)sizeof(FLASH_T) / 4)
#define DEPTH 384
#define TILES 4

/* The product of `depth` columns of `left`, ROWS high, and as many rows of `right`, as wide as a tile. */
static inline void product(const FLASH_T *left, const VECTOR right[][REGISTERS], const int depth, FLASH_T *to) {
    VECTOR sums[ROWS][REGISTERS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
            sums[r][v] = 0;
    for (int l = 0; l < depth; ++l)
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v)
                sums[r][v] = mad((VECTOR)left[l * ROWS + r], right[l][v], sums[r][v]);
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
            STORE(sums[r][v], r * REGISTERS + v, to);
}

/* Copies some rows of `a`, ROWS of them side by side. Rows behind the last one belong to no tile. */
static inline void copy_left(FLASH_GLOBAL const FACTOR *a, const flash_u64 apart, const int high, const int deep,
                             FLASH_T *left) {
    for (int i = 0; i < high; ++i) {
        FLASH_T *to = left + i / ROWS * ROWS * DEPTH + i % ROWS;
        for (int l = 0; l < deep; ++l)
            to[l * ROWS] = WIDE(a[i * apart + l]);
    }
}

/* Copies some columns of `b`, tile by tile. */
static inline void copy_right(FLASH_GLOBAL const FACTOR *b, const flash_u64 apart, const int deep, const int wide,
                              VECTOR right[TILES][DEPTH][REGISTERS]) {
    for (int l = 0; l < deep; ++l) {
        FLASH_GLOBAL const FACTOR *row = b + l * apart;
        int v = 0;
        for (; (v + 1) * LANES <= wide; ++v)
            right[v / REGISTERS][l][v % REGISTERS] = WIDE_VECTOR(LOAD(v, row));
        if (v * LANES < wide) {
            FLASH_T lanes[LANES] = {0};
            for (int j = v * LANES; j < wide; ++j)
                lanes[j % LANES] = WIDE(row[j]);
            right[v / REGISTERS][l][v % REGISTERS] = LOAD(0, lanes);
        }
    }
}

/* Stores a part of a tile in the product, or adds it to the product. */
static inline void put(const FLASH_T *sums, const int add, const int high, const int wide, FLASH_GLOBAL FLASH_T *c,
                       const flash_u64 apart) {
    for (int r = 0; r < high; ++r) {
        FLASH_GLOBAL FLASH_T *to = c + r * apart;
        const FLASH_T *from = sums + r * COLUMNS;
        if (wide == COLUMNS)
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v)
                STORE(add ? LOAD(v, to) + LOAD(v, from) : LOAD(v, from), v, to);
        else
            for (int j = 0; j < wide; ++j)
                to[j] = add ? to[j] + from[j] : from[j];
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL mmm(const flash_u64 n, const flash_u64 k, const flash_u64 lda, const flash_u64 ldb,
                 const flash_u64 ldc, FLASH_GLOBAL const FACTOR *a, FLASH_GLOBAL const FACTOR *b,
                 FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    FLASH_T left[HEIGHT * DEPTH], sums[ROWS * COLUMNS];
    VECTOR right[TILES][DEPTH][REGISTERS];
    FLASH_FOR_RUNS {
        FLASH_GLOBAL const FACTOR *rows = &FLASH_AT(a, FLASH_OWN_INDEX(a)), *columns = &FLASH_AT(b, 0);
        FLASH_GLOBAL FLASH_T *to = &FLASH_AT(c, FLASH_OWN_INDEX(c));
        const flash_u64 a_apart = FLASH_STRIDE(a, 0), c_apart = FLASH_STRIDE(c, 0), height = FLASH_RUN();
        /* Only as far as the rows go, and those of `b`. */
        const flash_u64 width = min(n, FLASH_ROW_LEN(c)), there = FLASH_LEN(b);
        const flash_u64 known = there < width ? 0 : (there - width) / max(ldb, (flash_u64)1) + 1;
        const flash_u64 depth = min(k, min(FLASH_ROW_LEN(a), known));
        for (flash_u64 i = 0; i < height; i += HEIGHT) {
            const int high = min(height - i, (flash_u64)HEIGHT);
            /* With no products there is one round: the sums are 0. */
            for (flash_u64 l = 0; l == 0 || l < depth; l += DEPTH) {
                const int deep = min(depth - l, (flash_u64)DEPTH);
                copy_left(rows + i * a_apart + l, a_apart, high, deep, left);
                for (flash_u64 j = 0; j < width; j += TILES * COLUMNS) {
                    const int wide = min(width - j, (flash_u64)(TILES * COLUMNS));
                    copy_right(columns + l * ldb + j, ldb, deep, wide, right);
                    for (int x = 0; x < wide; x += COLUMNS)
                        for (int y = 0; y < high; y += ROWS) {
                            product(left + y * DEPTH, right[x / COLUMNS], deep, sums);
                            put(sums, l > 0, min(high - y, ROWS), min(wide - x, COLUMNS),
                                to + (i + y) * c_apart + j + x, c_apart);
                        }
                }
            }
        }
    }
}
