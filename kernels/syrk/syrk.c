/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. The threads of a work item have
 * neighbouring elements of its row. */

FLASH_KERNEL syrk(const FLASH_T alpha, const FLASH_T beta, const flash_u64 k, const flash_u32 transposed,
                  const flash_u64 lda, const flash_u64 ldc, FLASH_GLOBAL const FLASH_T *a,
                  FLASH_GLOBAL FLASH_T *c, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0), own = FLASH_OWN_INDEX(c), width = min(i + 1, FLASH_ROW_LEN(c));
        const flash_u64 depth = alpha == 0 ? 0 : k;
        /* With sizes that the array does not have there are no products. */
        const int known = has_matrix(FLASH_LEN(a), transposed ? depth : i + 1, transposed ? i + 1 : depth, lda);
        const flash_u64 end = known ? depth : 0;
        for (flash_u64 j = FLASH_LANE(); j < width; j += FLASH_THREADS_PER_ITEM) {
            FLASH_T sum = 0;
            for (flash_u64 l = 0; l < end; ++l)
                sum += FLASH_AT(a, transposed ? l * lda + i : i * lda + l) *
                       FLASH_AT(a, transposed ? l * lda + j : j * lda + l);
            sum *= alpha;
            if (beta != 0)
                sum += beta * FLASH_AT(c, own + j);
            FLASH_AT(c, own + j) = sum;
        }
    }
}
