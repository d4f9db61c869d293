/* Streaming kernels as a C programmer writes them: the triad a = b + s c in double
 * precision on all threads, with and without non-temporal stores. No two arrays
 * overlap. */

#include <immintrin.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 8
#define STREAM(a, b, s, c)                             \
    _mm512_stream_pd((a), _mm512_fmadd_pd(_mm512_set1_pd(s), _mm512_loadu_pd(c), _mm512_loadu_pd(b)))
#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 4
#define STREAM(a, b, s, c)                             \
    _mm256_stream_pd((a), _mm256_fmadd_pd(_mm256_set1_pd(s), _mm256_loadu_pd(c), _mm256_loadu_pd(b)))
#else
#define LANES 2
#define STREAM(a, b, s, c) \
    _mm_stream_pd((a), _mm_add_pd(_mm_loadu_pd(b), _mm_mul_pd(_mm_set1_pd(s), _mm_loadu_pd(c))))
#endif

void triad_plain(int threads, long n, double *restrict a, const double *restrict b,
                 const double *restrict c, double s) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (long i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

/* Non-temporal stores go past the caches: no line of `a` is read before it is
 * written. Whole vectors between the first and the last aligned element. */
void triad_nt(int threads, long n, double *restrict a, const double *restrict b,
              const double *restrict c, double s) {
    const uintptr_t bytes = LANES * sizeof(double);
    const uintptr_t past = (uintptr_t)a % bytes;
    long head = past ? (long)((bytes - past) / sizeof(double)) : 0;
    if (head > n)
        head = n;
    const long end = head + (n - head) / LANES * LANES;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static) nowait
        for (long i = head; i < end; i += LANES)
            STREAM(a + i, b + i, s, c + i);
        _mm_sfence();
    }
    for (long i = 0; i < head; i++)
        a[i] = b[i] + s * c[i];
    for (long i = end; i < n; i++)
        a[i] = b[i] + s * c[i];
}
