/* The kernels of the library as a C programmer writes them, for all threads, in single precision or with
 * DOUBLE in double. No two arrays
 * overlap. */

#include <immintrin.h>
#include <omp.h>
#include <stdint.h>

#ifdef DOUBLE
#define T double
#define OF(name) name##d
#else
#define T float
#define OF(name) name##s
#endif

#if defined(__AVX512F__)
#define BYTES 64
#define VECTOR(name) OF(_mm512_##name##_p)
#elif defined(__AVX__)
#define BYTES 32
#define VECTOR(name) OF(_mm256_##name##_p)
#else
#define BYTES 16
#define VECTOR(name) OF(_mm_##name##_p)
#endif

/* AMD's CPUs give most to one place at a time, without prefetching; others to four, with it. */
static int one_place(void) {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
}

/* With non-temporal stores, which go past the caches, for whole vectors: of four places, or four that follow each other.
 * All four are read before the first is stored, for reads of the place of a page where was just stored wait for that. */
#define ELEMENTWISE(kernel, operation, sign)                                                                 \
    static inline __attribute__((always_inline)) void four_##kernel(long i, long apart, const T *restrict a, \
        const T *restrict b, T *restrict c) {                                                                \
        __typeof__(VECTOR(loadu)(a)) results[4];                                                             \
        _Pragma("GCC unroll 4") for (long k = 0, j = i; k < 4; k++, j += apart)                              \
            results[k] = VECTOR(operation)(VECTOR(loadu)(a + j), VECTOR(loadu)(b + j));                      \
        __asm__ volatile("" : : : "memory");                                                                 \
        _Pragma("GCC unroll 4") for (long k = 0, j = i; k < 4; k++, j += apart)                              \
            VECTOR(stream)(c + j, results[k]);                                                               \
    }                                                                                                        \
    void kernel(int threads, long n, const T *restrict a, const T *restrict b, T *restrict c) {              \
        const long lanes = BYTES / sizeof(T), past = (long)((uintptr_t)c % BYTES);                           \
        const long stream = 32768 / sizeof(T), ahead = 2048 / sizeof(T);                                     \
        long head = past ? (BYTES - past) / (long)sizeof(T) : 0;                                             \
        if (head > n)                                                                                        \
            head = n;                                                                                        \
        const long all = one_place() ? head : head + (n - head) / (4 * stream) * (4 * stream);               \
        const long end = all + (n - all) / (4 * lanes) * (4 * lanes);                                        \
        _Pragma("omp parallel num_threads(threads)") {                                                       \
            _Pragma("omp for schedule(static) nowait") for (long k = head; k < all; k += 4 * stream)         \
                for (long j = k; j < k + stream; j += lanes) {                                               \
                    for (long i = j + ahead; i < j + ahead + 4 * stream; i += stream) {                      \
                        __builtin_prefetch(a + i);                                                           \
                        __builtin_prefetch(b + i);                                                           \
                    }                                                                                        \
                    four_##kernel(j, stream, a, b, c);                                                       \
                }                                                                                            \
            _Pragma("omp for schedule(static) nowait") for (long i = all; i < end; i += 4 * lanes)           \
                four_##kernel(i, lanes, a, b, c);                                                            \
            _mm_sfence();                                                                                    \
        }                                                                                                    \
        for (long i = 0; i < head; i++)                                                                      \
            c[i] = a[i] sign b[i];                                                                           \
        for (long i = end; i < n; i++)                                                                       \
            c[i] = a[i] sign b[i];                                                                           \
    }

ELEMENTWISE(ewmm, mul, *)
ELEMENTWISE(ewmd, div, /)
#undef ELEMENTWISE

void vdp(int threads, long n, const T *restrict x, const T *restrict y, T *restrict sum) {
    T total = 0;
#pragma omp parallel for simd schedule(static) num_threads(threads) reduction(+ : total)
    for (long i = 0; i < n; i++)
        total += x[i] * y[i];
    *sum = total;
}

/* What two vectors' elements, or a matrix's, cost to read: their bits are combined. */
typedef long registers __attribute__((vector_size(64), aligned(8), may_alias));

void reading(int threads, long n, const T *data, T *result) {
    enum { STREAMS = 4, AHEAD = 2048 };
    const long lines = n * (long)sizeof(T) / 64;
    long all = 0;
#pragma omp parallel num_threads(threads) reduction(^ : all)
    {
        const long count = omp_get_num_threads(), thread = omp_get_thread_num();
        const long first = lines * thread / count, last = lines * (thread + 1) / count;
        const long piece = one_place() ? 0 : (last - first) / STREAMS;
        const char *begin = (const char *)data + first * 64;
        registers bits[STREAMS] = {{0}};
        if (piece == 0)
            for (long i = 0; i + STREAMS <= last - first; i += STREAMS)
                for (int s = 0; s < STREAMS; s++)
                    bits[s] ^= ((const registers *)begin)[i + s];
        for (long i = 0; i < piece; i++)
            for (int s = 0; s < STREAMS; s++) {
                const char *at = begin + (s * piece + i) * 64;
                __builtin_prefetch(at + AHEAD);
                bits[s] ^= *(const registers *)at;
            }
        for (int s = 0; s < STREAMS; s++)
            for (int k = 0; k < 8; k++)
                all ^= bits[s][k];
    }
    *result = (T)all;
}

typedef T lanes __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));

/* Some rows at once, for as many streams from memory; `rows` and `ask` are constants where it is inlined. */
static inline __attribute__((always_inline)) void dots(const int rows, const int ask, long n, const T *restrict a,
                                                       const T *restrict x, T *restrict y) {
    enum { LANES = BYTES / sizeof(T), AHEAD = 2048 / sizeof(T) };
    lanes sums[8] = {{0}};
    const long end = n / LANES * LANES;
    for (long j = 0; j < end; j += LANES)
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            if (ask)
                __builtin_prefetch(a + r * n + j + AHEAD);
            sums[r] += *(const lanes *)(a + r * n + j) * *(const lanes *)(x + j);
        }
    for (int r = 0; r < rows; r++) {
        T total = 0;
        for (int k = 0; k < LANES; k++)
            total += sums[r][k];
        for (long j = end; j < n; j++)
            total += a[r * n + j] * x[j];
        y[r] = total;
    }
}

void mvm(int threads, long m, long n, const T *restrict a, const T *restrict x, T *restrict y) {
    const int one = one_place();
    const long rows = one ? 4 : 8, all = m / rows * rows;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long i = 0; i < all; i += rows) {
        if (one)
            dots(4, 0, n, a + i * n, x, y + i);
        else
            dots(8, 1, n, a + i * n, x, y + i);
    }
    for (long i = all; i < m; i++)
        dots(1, 0, n, a + i * n, x, y + i);
}

/* Registers of results, to which each element of the filter adds its part of the signal. */
void conv1d(int threads, long k, long n, const T *restrict filter, const T *restrict signal,
                  T *restrict out) {
    enum { LANES = BYTES / sizeof(T), R = 12 };
    const long len = n - k + 1, end = len / (R * LANES) * (R * LANES);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long first = 0; first < end; first += R * LANES) {
        lanes sums[R] = {{0}};
        for (long j = 0; j < k; j++) {
            const T h = filter[k - 1 - j];
            const T *x = signal + first + j;
#pragma GCC unroll 16
            for (int r = 0; r < R; r++)
                sums[r] += h * *(const lanes *)(x + r * LANES);
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++)
            *(lanes *)(out + first + r * LANES) = sums[r];
    }
    for (long i = end; i < len; i++) {
        T sum = 0;
        for (long j = 0; j < k; j++)
            sum += filter[k - 1 - j] * signal[i + j];
        out[i] = sum;
    }
}

void js(int threads, long nx, long ny, long nz, T h2, const T *restrict from, const T *restrict f,
              T *restrict to) {
    const long row = nx, plane = nx * ny;
    const T sixth = (T)1 / 6;
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
    for (long z = 1; z < nz - 1; z++) {
        for (long y = 1; y < ny - 1; y++) {
            const long at = (z * ny + y) * nx;
#pragma omp simd
            for (long x = at + 1; x < at + nx - 1; x++)
                to[x] = ((from[x - 1] + from[x + 1]) + (from[x - row] + from[x + row]) +
                         (from[x - plane] + from[x + plane]) - h2 * f[x]) *
                        sixth;
        }
    }
}

/* 64 columns of a row in registers, to which multiples of rows of b are added. The rows are prefetched, as the CPU
 * does not. Rows of equal length on average: a static schedule is a fair one. */
void smmm(int threads, long m, long n, const uint64_t *restrict start, const uint32_t *restrict column,
                const T *restrict value, const T *restrict b, T *restrict c) {
    enum { LANES = BYTES / sizeof(T), COLUMNS = 64, R = COLUMNS / LANES, AHEAD = 8 };
    const long end = n / COLUMNS * COLUMNS;
    const uint64_t all = start[m];
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long i = 0; i < m; i++) {
        for (long first = 0; first < end; first += COLUMNS) {
            lanes sums[R] = {{0}};
            for (uint64_t at = start[i]; at < start[i + 1]; at++) {
                if (at + AHEAD < all) {
                    const char *next = (const char *)(b + (long)column[at + AHEAD] * n + first);
#pragma GCC unroll 8
                    for (long line = 0; line < COLUMNS * (long)sizeof(T); line += 64)
                        __builtin_prefetch(next + line);
                }
                const T x = value[at];
                const T *row = b + (long)column[at] * n + first;
#pragma GCC unroll 16
                for (int r = 0; r < R; r++)
                    sums[r] += x * *(const lanes *)(row + r * LANES);
            }
#pragma GCC unroll 16
            for (int r = 0; r < R; r++)
                *(lanes *)(c + i * n + first + r * LANES) = sums[r];
        }
        for (long j = end; j < n; j++) {
            T sum = 0;
            for (uint64_t at = start[i]; at < start[i + 1]; at++)
                sum += value[at] * b[(long)column[at] * n + j];
            c[i * n + j] = sum;
        }
    }
}

/* Three numbers for each body. */
void integrate(int threads, long n, T dt, const T *restrict acc, T *restrict pos, T *restrict vel) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (long i = 0; i < 3 * n; i++) {
        vel[i] += acc[i] * dt;
        pos[i] += vel[i] * dt;
    }
}
