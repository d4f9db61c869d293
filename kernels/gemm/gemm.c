/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. The threads of a work item have
 * neighbouring elements of its row. */

FLASH_KERNEL gemm(const FLASH_T alpha, const FLASH_T beta, const flash_u64 n, const flash_u64 k,
                  const flash_u32 a_transposed, const flash_u32 b_transposed, const flash_u64 lda,
                  const flash_u64 ldb, const flash_u64 ldc, FLASH_GLOBAL const FLASH_T *a,
                  FLASH_GLOBAL const FLASH_T *b, FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0), own = FLASH_OWN_INDEX(c), width = min(n, FLASH_ROW_LEN(c));
        const flash_u64 depth = alpha == 0 ? 0 : k;
        /* With sizes that the arrays do not have there are no products. */
        const int known = has_matrix(FLASH_LEN(a), a_transposed ? depth : i + 1, a_transposed ? i + 1 : depth, lda) &&
                          has_matrix(FLASH_LEN(b), b_transposed ? n : depth, b_transposed ? depth : n, ldb);
        const flash_u64 end = known ? depth : 0;
        for (flash_u64 j = FLASH_LANE(); j < width; j += FLASH_THREADS_PER_ITEM) {
            FLASH_T sum = 0;
            for (flash_u64 l = 0; l < end; ++l)
                sum += FLASH_AT(a, a_transposed ? l * lda + i : i * lda + l) *
                       FLASH_AT(b, b_transposed ? j * ldb + l : l * ldb + j);
            sum *= alpha;
            if (beta != 0)
                sum += beta * FLASH_AT(c, own + j);
            FLASH_AT(c, own + j) = sum;
        }
    }
}
