/* Kernels of these tests: one text for all of them. */

#ifdef FLASH_ENTRY_scale
FLASH_KERNEL scale(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(y, i) += a * FLASH_AT(x, i);
    }
}
#endif

/* As kernels are that know nothing of FLASH; in CUDA C++ with OpenCL's names. */
#ifdef __CUDACC__
#define __kernel extern "C" __global__
#define __global
typedef unsigned long ulong;
__device__ size_t get_global_id(int dim) {
    return dim == 0   ? (size_t)blockIdx.x * blockDim.x + threadIdx.x
           : dim == 1 ? (size_t)blockIdx.y * blockDim.y + threadIdx.y
                      : (size_t)blockIdx.z * blockDim.z + threadIdx.z;
}
#endif
#ifdef FLASH_ENTRY_scale_plain
__kernel void scale_plain(float a, __global const float *x, __global float *y) {
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
#endif

#ifdef FLASH_ENTRY_grid
FLASH_KERNEL grid(FLASH_GLOBAL flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(out, FLASH_OWN_INDEX(out)) +=
            1 + FLASH_INDEX(0) + 1000 * FLASH_INDEX(1) + 1000000 * FLASH_INDEX(2);
    }
}
#endif

#ifdef FLASH_ENTRY_grid_plain
__kernel void grid_plain(__global ulong *out) {
    size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    out[x + 9 * (y + 7 * z)] += 1 + x + 1000 * y + 1000000 * z;
}
#endif

#ifdef FLASH_ENTRY_far
FLASH_KERNEL far(FLASH_GLOBAL flash_u32 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(out, FLASH_INDEX(0)) += FLASH_INDEX(1) > 100;
    }
}
#endif

/* Sums of the neighbours as they were, and of what the parts say of themselves. */
#ifdef FLASH_ENTRY_spread
FLASH_KERNEL spread(FLASH_GLOBAL const flash_u64 *cells, FLASH_GLOBAL flash_u64 *cells_next, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        flash_u64 i = FLASH_INDEX(0), last = FLASH_LEN(cells) - 1;
        flash_u64 sum = 3 * FLASH_AT(cells, i) + FLASH_PHASE() + i;
        if (i > 0)
            sum += FLASH_AT(cells, i - 1);
        if (i < last)
            sum += FLASH_AT(cells, i + 1);
        if (FLASH_PART_BEGIN(cells, 0) > (i > 0 ? i - 1 : 0) || FLASH_PART_END(cells, 0) < (i < last ? i + 2 : last + 1))
            sum = 0;
        FLASH_NEXT(cells, i) = sum;
    }
}
#endif

#ifdef FLASH_ENTRY_wrap
FLASH_KERNEL wrap(FLASH_GLOBAL const flash_u64 *cells, FLASH_GLOBAL flash_u64 *cells_next, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        flash_u64 i = FLASH_INDEX(0);
        FLASH_NEXT(cells, i) = FLASH_AT(cells, (i + 1) % FLASH_LEN(cells)) + 1;
    }
}
#endif

/* The group combines its values itself. */
#ifdef FLASH_ENTRY_total
FLASH_KERNEL total(FLASH_GLOBAL const flash_u64 *values, FLASH_GLOBAL flash_u64 *sum, FLASH_ARGS) {
    FLASH_LOCAL flash_u64 partial[64];
    flash_u64 own = 0;
    FLASH_FOR_ITEMS {
        own += FLASH_AT(values, FLASH_INDEX(0));
    }
    partial[FLASH_LOCAL_ID()] = own;
    FLASH_BARRIER();
    if (FLASH_LOCAL_ID() == 0) {
        flash_u64 flash_item = FLASH_GROUP() * flash_run.block;
        for (flash_u64 i = 0; i < FLASH_GROUP_SIZE(); ++i)
            FLASH_REDUCE(sum, 0) += partial[i];
    }
}
#endif
