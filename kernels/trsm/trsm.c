/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. A work-group has a work item. Forward, the
 * unknowns before one are known, and their factors are a row of the triangle; backward, those behind it, and their
 * factors are a column. */

/* The factor of unknown `p` in the equation of unknown `j`. */
#define FACTOR(j, p) FLASH_AT(l, forward ? (j) * ldl + (p) : (p) * ldl + (j))

#ifdef __OPENCL_VERSION__
__attribute__((reqd_work_group_size(FLASH_THREADS_PER_ITEM, 1, 1)))
#endif
FLASH_KERNEL trsm(const FLASH_T alpha, const flash_u64 n, const flash_u64 width, const flash_u32 right,
                  const flash_u32 transposed, const flash_u32 unit, const flash_u64 ldl, const flash_u64 ldb,
                  FLASH_GLOBAL const FLASH_T *l, FLASH_GLOBAL FLASH_T *b, FLASH_ARGS) {
    const int forward = !right == !transposed;
    FLASH_FOR_ITEMS {
        const flash_u64 own = FLASH_OWN_INDEX(b);
        /* With sizes that the arrays do not have there are no unknowns. */
        const int known = has_matrix(FLASH_ROW_LEN(b), right ? 1 : n, right ? n : width, ldb) &&
                          (alpha == 0 || has_matrix(FLASH_LEN(l), n, n, ldl));
        const flash_u64 unknowns = known ? n : 0;
        if (right) {
            /* The item's row is a system, of which each thread has some unknowns. */
            const flash_u64 solved = alpha == 0 ? 0 : unknowns;
            for (flash_u64 j = FLASH_LANE(); j < unknowns; j += FLASH_THREADS_PER_ITEM)
                FLASH_AT(b, own + j) = alpha == 0 ? 0 : alpha * FLASH_AT(b, own + j);
            for (flash_u64 step = 0; step < solved; ++step) {
                const flash_u64 p = forward ? step : n - 1 - step;
                const flash_u64 first = forward ? p + 1 : 0, end = forward ? n : p;
                MEET();
                const FLASH_T rest = FLASH_AT(b, own + p), x = unit ? rest : rest / FLASH_AT(l, p * ldl + p);
                for (flash_u64 j = first + FLASH_LANE(); j < end; j += FLASH_THREADS_PER_ITEM)
                    FLASH_AT(b, own + j) -= x * FACTOR(j, p);
            }
            MEET();
            for (flash_u64 j = FLASH_LANE(); j < solved && !unit; j += FLASH_THREADS_PER_ITEM)
                FLASH_AT(b, own + j) /= FLASH_AT(l, j * ldl + j);
        } else {
            /* Each column is a system. */
            const flash_u64 last = own + (unknowns ? width : 0);
            for (flash_u64 column = own + FLASH_LANE(); column < last; column += FLASH_THREADS_PER_ITEM)
                for (flash_u64 step = 0; step < unknowns; ++step) {
                    const flash_u64 j = forward ? step : n - 1 - step;
                    const flash_u64 first = forward ? 0 : j + 1, end = alpha == 0 ? 0 : forward ? j : n;
                    FLASH_T x = alpha == 0 ? 0 : alpha * FLASH_AT(b, column + j * ldb);
                    for (flash_u64 p = first; p < end; ++p)
                        x -= FACTOR(j, p) * FLASH_AT(b, column + p * ldb);
                    FLASH_AT(b, column + j * ldb) = unit || alpha == 0 ? x : x / FLASH_AT(l, j * ldl + j);
                }
        }
    }
}
