/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. A work-group has a matrix, and its threads
 * have rows of it. It ends at the first pivot that is not positive, which stays on the diagonal. */

#ifdef __OPENCL_VERSION__
__attribute__((reqd_work_group_size(FLASH_THREADS_PER_ITEM, 1, 1)))
#endif
FLASH_KERNEL potrf(const flash_u64 n, const flash_u64 lda, FLASH_GLOBAL FLASH_T *a, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 own = FLASH_OWN_INDEX(a);
        const flash_u64 columns = has_matrix(FLASH_ROW_LEN(a), n, n, lda) ? n : 0;
        int positive = 1;
        for (flash_u64 j = 0; j < columns && positive; ++j) {
            MEET();
            const FLASH_T pivot = FLASH_AT(a, own + j * lda + j);
            positive = pivot > 0;
            const FLASH_T root = sqrt(pivot);
            for (flash_u64 i = j + 1 + FLASH_LANE(); i < n && positive; i += FLASH_THREADS_PER_ITEM)
                FLASH_AT(a, own + i * lda + j) /= root;
            MEET();
            if (FLASH_LANE() == 0 && positive)
                FLASH_AT(a, own + j * lda + j) = root;
            for (flash_u64 i = j + 1 + FLASH_LANE(); i < n && positive; i += FLASH_THREADS_PER_ITEM) {
                const FLASH_T by = FLASH_AT(a, own + i * lda + j);
                for (flash_u64 q = j + 1; q <= i; ++q)
                    FLASH_AT(a, own + i * lda + q) -= by * FLASH_AT(a, own + q * lda + j);
            }
        }
    }
}
