/* The kernel of mod.rs in OpenCL C, for CPUs. FLASH_T is float or double. */

/* Registers of results that share each element of the filter. */
#define REGISTERS 8

/* Elements of the filter, LANES apart, that are multiplied with the same registers of the signal: each register is
 * loaded once for all of them, and not once for each. Loads that cross cache lines, as most of these do, take longer
 * than multiplying. */
#define TAPS 4

/* The numbers of a filter's elements in the order in which their products are added: `count` of them at a time, each
 * LANES behind the one before. */
#define FOR_TAPS(k, first, count) \
    for (flash_u64 block = 0; block < k; block += TAPS * LANES) \
        for (flash_u64 first = block, count = TAPS; \
             first < min(k, block + LANES) && \
             (count = (min(k, block + TAPS * LANES) - first + LANES - 1) / LANES); \
             ++first)

/* Adds the products of `count` elements of the filter, the first at `with` and each of the others LANES in front of
 * it, with the registers of the signal from `at` on. */
#define ADD(count)                                                         \
    {                                                                      \
        VECTOR h[count];                                                   \
        _Pragma("unroll") for (int c = 0; c < count; ++c) h[c] = with[-c * LANES]; \
        _Pragma("unroll") for (int u = 0; u < REGISTERS + count - 1; ++u)  \
            if (u < registers + count - 1) {                               \
                const VECTOR x = LOAD(u, at);                              \
                _Pragma("unroll") for (int c = 0; c < count; ++c)          \
                    if (u >= c && u - c < registers)                       \
                        sums[u - c] = mad(h[c], x, sums[u - c]);           \
            }                                                              \
    }

/* Some registers of results, from that at `to` on, of the signal from `from` on. */
static inline void results(const int registers, FLASH_GLOBAL const FLASH_T *filter, const flash_u64 k,
                           FLASH_GLOBAL const FLASH_T *from, FLASH_GLOBAL FLASH_T *to) {
    VECTOR sums[REGISTERS];
#pragma unroll
    for (int v = 0; v < REGISTERS; ++v)
        sums[v] = 0;
    FOR_TAPS(k, first, count) {
        FLASH_GLOBAL const FLASH_T *with = filter + (k - 1 - first), *at = from + first;
        switch (count) {
        case 1:
            ADD(1)
            break;
        case 2:
            ADD(2)
            break;
        case 3:
            ADD(3)
            break;
        default:
            ADD(TAPS)
        }
    }
#pragma unroll
    for (int v = 0; v < REGISTERS; ++v)
        if (v < registers)
            STORE(sums[v], v, to);
}

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
        if (inside >= LANES) {
            for (; at + 8 * LANES <= inside; at += 8 * LANES)
                results(8, with, k, from + at, to + at);
            for (; at + 2 * LANES <= inside; at += 2 * LANES)
                results(2, with, k, from + at, to + at);
            for (; at + LANES <= inside; at += LANES)
                results(1, with, k, from + at, to + at);
            /* The last register repeats results of the one before: no cut changes a bit. */
            if (at < inside)
                results(1, with, k, from + inside - LANES, to + inside - LANES);
            at = inside;
        }
        for (; at < inside; ++at) {
            FLASH_T sum = 0;
            FOR_TAPS(k, first, taps)
                for (flash_u64 j = first; j < first + taps * LANES; j += LANES)
                    sum = mad(with[k - 1 - j], from[at + j], sum);
            to[at] = sum;
        }
        for (; at < count; ++at)
            to[at] = 0;
    }
}
