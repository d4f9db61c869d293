/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double. A thread has one block of the vectors. */

/* Sums beside each other: as many as hide the latency of an addition. */
#define REGISTERS 8
#define WIDTH (REGISTERS * LANES)

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL vdp(FLASH_GLOBAL const FLASH_T *x, FLASH_GLOBAL const FLASH_T *y, FLASH_GLOBAL FLASH_T *sum,
                 FLASH_ARGS) {
    FLASH_FOR_RUNS {
        const flash_u64 i = FLASH_INDEX(0), count = FLASH_RUN();
        FLASH_GLOBAL const FLASH_T *left = &FLASH_AT(x, i), *right = &FLASH_AT(y, i);
        VECTOR sums[REGISTERS];
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
            sums[v] = 0;
        flash_u64 at = 0;
        for (; at + WIDTH <= count; at += WIDTH)
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v)
                sums[v] = mad(LOAD(v, left + at), LOAD(v, right + at), sums[v]);
        FLASH_T total = 0;
        for (; at < count; ++at)
            total = mad(left[at], right[at], total);
#pragma unroll
        for (int v = 1; v < REGISTERS; ++v)
            sums[0] += sums[v];
        FLASH_T lanes[LANES];
        STORE(sums[0], 0, lanes);
        for (int l = 0; l < LANES; ++l)
            total += lanes[l];
        FLASH_REDUCE(sum, 0) += total;
    }
}
