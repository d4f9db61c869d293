/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double. */

/* Registers of results that share each element of the filter. */
#define REGISTERS 8
#define WIDTH (REGISTERS * LANES)

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL conv1d(FLASH_GLOBAL const FLASH_T *filter, FLASH_GLOBAL const FLASH_T *signal,
                    FLASH_GLOBAL FLASH_T *out, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        const flash_u64 i = FLASH_INDEX(0), k = FLASH_LEN(filter), len = FLASH_END(signal), count = FLASH_RUN();
        /* Results for which the signal is long enough. */
        const flash_u64 inside = i + k <= len ? min(count, len - k - i + 1) : 0;
        FLASH_GLOBAL const FLASH_T *from = &FLASH_AT(signal, i), *with = &FLASH_AT(filter, 0);
        FLASH_GLOBAL FLASH_T *to = &FLASH_AT(out, i);
        flash_u64 at = 0;
        for (; at + WIDTH <= inside; at += WIDTH) {
            VECTOR sums[REGISTERS];
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v)
                sums[v] = 0;
            for (flash_u64 j = 0; j < k; ++j) {
                const VECTOR h = with[k - 1 - j];
#pragma unroll
                for (int v = 0; v < REGISTERS; ++v)
                    sums[v] = fma(h, LOAD(v, from + at + j), sums[v]);
            }
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v)
                STORE(sums[v], v, to + at);
        }
        /* One by one in the same order: no cut changes a bit. */
        for (; at < inside; ++at) {
            FLASH_T sum = 0;
            for (flash_u64 j = 0; j < k; ++j)
                sum = fma(with[k - 1 - j], from[at + j], sum);
            to[at] = sum;
        }
        for (; at < count; ++at)
            to[at] = 0;
    }
}
