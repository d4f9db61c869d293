/* The kernel of mod.rs in OpenCL C. FLASH_T is float or double; without it factors are
 * bf16, the upper halves of floats. */

#ifdef FLASH_T
typedef FLASH_T factor;
#define WIDE(x) (x)
#else
#define FLASH_T float
typedef ushort factor;
#define WIDE(x) as_float((uint)(x) << 16)
#endif

/* Columns that a work item has in registers: it reads its row of `a` once for all of them. */
#define COLUMNS 32

FLASH_KERNEL mmm(const flash_u64 n, const flash_u64 k, const flash_u64 lda, const flash_u64 ldb,
                 const flash_u64 ldc, FLASH_GLOBAL const factor *a, FLASH_GLOBAL const factor *b,
                 FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_GLOBAL const factor *row = &FLASH_AT(a, FLASH_OWN_INDEX(a)), *right = &FLASH_AT(b, 0);
        FLASH_GLOBAL FLASH_T *to = &FLASH_AT(c, FLASH_OWN_INDEX(c));
        /* Only as far as the rows go, and those of `b`. */
        const flash_u64 width = min(n, FLASH_ROW_LEN(c)), there = FLASH_LEN(b);
        const flash_u64 rows = there < width ? 0 : (there - width) / max(ldb, (flash_u64)1) + 1;
        const flash_u64 depth = min(k, min(FLASH_ROW_LEN(a), rows));
        for (flash_u64 first = 0; first < width; first += COLUMNS) {
            FLASH_T sums[COLUMNS] = {0};
            if (first + COLUMNS <= width) {
                for (flash_u64 l = 0; l < depth; ++l)
                    for (int j = 0; j < COLUMNS; ++j)
                        sums[j] += WIDE(row[l]) * WIDE(right[l * ldb + first + j]);
                for (int j = 0; j < COLUMNS; ++j)
                    to[first + j] = sums[j];
            } else {
                for (flash_u64 l = 0; l < depth; ++l)
                    for (flash_u64 j = first; j < width; ++j)
                        sums[j - first] += WIDE(row[l]) * WIDE(right[l * ldb + j]);
                for (flash_u64 j = first; j < width; ++j)
                    to[j] = sums[j - first];
            }
        }
    }
}
