/* What kernels for devices check of the matrices that they get, in OpenCL C and CUDA C++. */

/* True if `len` elements have `rows` rows of `columns`, `leading` elements apart. */
FLASH_FUNCTION int has_matrix(const flash_u64 len, const flash_u64 rows, const flash_u64 columns,
                              const flash_u64 leading) {
    if (!rows || !columns)
        return 1;
    return columns <= len && columns <= leading && (rows == 1 || (len - columns) / (rows - 1) >= leading);
}

/* The threads of a work-group wait for each other, and then see what the others wrote to arrays. */
#ifdef __OPENCL_VERSION__
#define MEET() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define MEET() __syncthreads()
#endif
