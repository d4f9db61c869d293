/* All-pairs N-body in C, for the benchmark: the loop as people write it, and the best this file's
 * author could do by hand.
 *
 *   a_i = sum over j of  g m_j d_ij (|d_ij|^2 + softening2)^(-3/2),   d_ij = x_j - x_i
 *
 * Compile as a shared library with -O3 -march=native -fopenmp; and the plain loops once more with
 * -DPLAIN_ONLY -O3 -march=native -ffp-contract=off -fopenmp.
 *
 * Do not unload the library once two threads have run: libgomp's would lose their code.
 *
 * Every function computes bodies first .. first + count of n into acc[0 .. count], with `threads`
 * threads in static shares; 1 enters no parallel region. Positions and accelerations are x, y, z
 * per body in turn. Softening must not be 0: a body meets itself.
 *
 *   nbody_f32, nbody_f64        by hand: bodies i in the lanes of vector registers, several
 *                               registers in flight, j broadcast; the power -3/2 from the
 *                               instruction's approximation and a polynomial; sums in blocks of j
 *   nbody_exact_f32             the same with 1/sqrt instead of the approximation
 *   nbody_plain_f32, _f64       scalar loops over i and j
 *
 * Where there is no AVX-512, these use AVX2 (f64: with sqrt and division); where there is neither,
 * they are the plain loops.
 */
#include <math.h>
#include <stddef.h>

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#endif

/* In shares of whole tiles: the last thread has what is left. */
#define PARALLEL(TILE, CALL)                                                                       \
    do {                                                                                           \
        const ptrdiff_t tiles = ((ptrdiff_t)count + (TILE)-1) / (TILE);                            \
        if (threads <= 1) {                                                                        \
            for (ptrdiff_t tile = 0; tile < tiles; tile++) {                                       \
                const size_t at = (size_t)tile * (TILE);                                           \
                const size_t len = count - at < (TILE) ? count - at : (TILE);                      \
                CALL;                                                                              \
            }                                                                                      \
        } else {                                                                                   \
            _Pragma("omp parallel for schedule(static) num_threads(threads)")                      \
            for (ptrdiff_t tile = 0; tile < tiles; tile++) {                                       \
                const size_t at = (size_t)tile * (TILE);                                           \
                const size_t len = count - at < (TILE) ? count - at : (TILE);                      \
                CALL;                                                                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* ---- The plain loops ------------------------------------------------------------------------ */

#define PLAIN_BODY(T, SQRT)                                                                        \
    {                                                                                              \
        const T x = pos[3 * (first + i)], y = pos[3 * (first + i) + 1],                            \
                z = pos[3 * (first + i) + 2];                                                      \
        T ax = 0, ay = 0, az = 0;                                                                  \
        for (size_t j = 0; j < n; j++) {                                                           \
            const T dx = pos[3 * j] - x, dy = pos[3 * j + 1] - y, dz = pos[3 * j + 2] - z;         \
            const T inv = 1 / SQRT(dx * dx + dy * dy + dz * dz + softening2);                      \
            const T w = g * mass[j] * inv * inv * inv;                                             \
            ax += w * dx;                                                                          \
            ay += w * dy;                                                                          \
            az += w * dz;                                                                          \
        }                                                                                          \
        acc[3 * i] = ax;                                                                           \
        acc[3 * i + 1] = ay;                                                                       \
        acc[3 * i + 2] = az;                                                                       \
    }

#define PLAIN(NAME, T, SQRT)                                                                       \
    void NAME(size_t n, size_t first, size_t count, T g, T softening2, const T *restrict pos,      \
              const T *restrict mass, T *restrict acc, int threads)                                \
    {                                                                                              \
        if (threads <= 1) {                                                                        \
            for (size_t i = 0; i < count; i++)                                                     \
                PLAIN_BODY(T, SQRT)                                                                \
        } else {                                                                                   \
            _Pragma("omp parallel for schedule(static) num_threads(threads)")                      \
            for (size_t i = 0; i < count; i++)                                                     \
                PLAIN_BODY(T, SQRT)                                                                \
        }                                                                                          \
    }

PLAIN(nbody_plain_f32, float, sqrtf)
PLAIN(nbody_plain_f64, double, sqrt)

#ifndef PLAIN_ONLY

enum { BLOCK = 512 };

/* ---- By hand --------------------------------------------------------------------------------- */

/* One tile of R registers of W bodies: the same for every type and instruction set. */
#define TILE(NAME, T, V, W, R, SPLAT, LOAD, STORE, ADD, SUB, MUL, FMA, WEIGHT, SCALE)              \
    static void NAME(size_t n, size_t first, size_t len, T g, T softening2,                        \
                     const T *restrict pos, const T *restrict mass, T *restrict acc)               \
    {                                                                                              \
        T lanes[R][3][W] = {0};                                                                    \
        for (size_t l = 0; l < len; l++)                                                           \
            for (int k = 0; k < 3; k++)                                                            \
                lanes[l / W][k][l % W] = pos[3 * (first + l) + k];                                 \
        V x[R][3], total[R][3];                                                                    \
        for (int r = 0; r < R; r++)                                                                \
            for (int k = 0; k < 3; k++) {                                                          \
                x[r][k] = LOAD(lanes[r][k]);                                                       \
                total[r][k] = SPLAT(0);                                                            \
            }                                                                                      \
        const V soft = SPLAT(softening2);                                                          \
        for (size_t start = 0; start < n; start += BLOCK) {                                        \
            const size_t end = n - start < BLOCK ? n : start + BLOCK;                              \
            V sum[R][3];                                                                           \
            for (int r = 0; r < R; r++)                                                            \
                for (int k = 0; k < 3; k++)                                                        \
                    sum[r][k] = SPLAT(0);                                                          \
            for (size_t j = start; j < end; j++) {                                                 \
                const V px = SPLAT(pos[3 * j]), py = SPLAT(pos[3 * j + 1]),                        \
                        pz = SPLAT(pos[3 * j + 2]), m = SPLAT(mass[j]);                            \
                _Pragma("GCC unroll 8")                                                            \
                for (int r = 0; r < R; r++) {                                                      \
                    const V dx = SUB(px, x[r][0]), dy = SUB(py, x[r][1]), dz = SUB(pz, x[r][2]);   \
                    const V r2 = FMA(dz, dz, FMA(dy, dy, FMA(dx, dx, soft)));                      \
                    const V w = WEIGHT(r2, m);                                                     \
                    sum[r][0] = FMA(w, dx, sum[r][0]);                                             \
                    sum[r][1] = FMA(w, dy, sum[r][1]);                                             \
                    sum[r][2] = FMA(w, dz, sum[r][2]);                                             \
                }                                                                                  \
            }                                                                                      \
            for (int r = 0; r < R; r++)                                                            \
                for (int k = 0; k < 3; k++)                                                        \
                    total[r][k] = ADD(total[r][k], sum[r][k]);                                     \
        }                                                                                          \
        const V factor = SPLAT((T)(g * (SCALE)));                                                  \
        for (int r = 0; r < R; r++)                                                                \
            for (int k = 0; k < 3; k++)                                                            \
                STORE(lanes[r][k], MUL(total[r][k], factor));                                      \
        for (size_t l = 0; l < len; l++)                                                           \
            for (int k = 0; k < 3; k++)                                                            \
                acc[3 * l + k] = lanes[l / W][k][l % W];                                           \
    }

#define BY_HAND(NAME, TILE_NAME, T, BODIES)                                                        \
    void NAME(size_t n, size_t first, size_t count, T g, T softening2, const T *restrict pos,      \
              const T *restrict mass, T *restrict acc, int threads)                                \
    {                                                                                              \
        PARALLEL(BODIES, TILE_NAME(n, first + at, len, g, softening2, pos, mass, acc + 3 * at));   \
    }

#if defined(__AVX512F__)

/* With y near r2^(-1/2) and e = 1 - r2 y^2: r2^(-3/2) = y^3 (1 - e)^(-3/2), |e| <= 2^-13.
 * f32: 1 + 3/2 e = 3/2 (5/3 - r2 y^2); f64: up to e^3, in v = e + H. */
#define C32 (5.0f / 3.0f)
#define E (1.0 / 8192)

static inline __m512 weight_f32(__m512 r2, __m512 m)
{
    const __m512 y = _mm512_rsqrt14_ps(r2);
    const __m512 y2 = _mm512_mul_ps(y, y);
    const __m512 c = _mm512_fnmadd_ps(r2, y2, _mm512_set1_ps(C32));
    return _mm512_mul_ps(_mm512_mul_ps(_mm512_mul_ps(y, m), y2), c);
}

static inline __m512 weight_exact_f32(__m512 r2, __m512 m)
{
    const __m512 inv = _mm512_div_ps(_mm512_set1_ps(1), _mm512_sqrt_ps(r2));
    return _mm512_mul_ps(_mm512_mul_ps(m, inv), _mm512_mul_ps(inv, inv));
}

#define A3 (35.0 / 16)
#define A2 (15.0 / 8 + 315.0 / 128 * E * E)
#define A1 (3.0 / 2)
#define H (A2 / A3 / 3)
#define P (A1 / A3 - 3 * H * H)
#define Q (1 / A3 - A1 / A3 * H + 2 * H * H * H)

static inline __m512d weight_f64(__m512d r2, __m512d m)
{
    const __m512d y = _mm512_rsqrt14_pd(r2);
    const __m512d y2 = _mm512_mul_pd(y, y);
    const __m512d v = _mm512_fnmadd_pd(r2, y2, _mm512_set1_pd(1 + H));
    const __m512d c =
        _mm512_fmadd_pd(v, _mm512_fmadd_pd(v, v, _mm512_set1_pd(P)), _mm512_set1_pd(Q));
    return _mm512_mul_pd(_mm512_mul_pd(_mm512_mul_pd(y, m), y2), c);
}

/* Registers in flight: the fastest of 1 to 4 with gcc 12, and by more than 2 % only over 1. */
#ifndef R32
#define R32 4
#endif
#ifndef R64
#define R64 3
#endif

TILE(tile_f32, float, __m512, 16, R32, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps,
     _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_fmadd_ps, weight_f32,
     (1 + 15.0 / 16 * E * E) / (C32 - 1.0))
TILE(tile_f64, double, __m512d, 8, R64, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd,
     _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_fmadd_pd, weight_f64,
     1 / ((1 + H - 1) * ((1 + H - 1) * (1 + H - 1) + P) + Q))
TILE(tile_exact_f32, float, __m512, 16, R32, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps,
     _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_fmadd_ps, weight_exact_f32, 1.0)
BY_HAND(nbody_f32, tile_f32, float, 16 * R32)
BY_HAND(nbody_exact_f32, tile_exact_f32, float, 16 * R32)
BY_HAND(nbody_f64, tile_f64, double, 8 * R64)

#elif defined(__AVX2__) && defined(__FMA__)

/* |e| <= 1.5 * 2^-11, so f32 goes up to e^2, in v = e + 2/5. */
#define V0 (1.4f)
#define Q32 ((float)(8.0 / 15 - 4.0 / 25))

static inline __m256 weight_f32(__m256 r2, __m256 m)
{
    const __m256 y = _mm256_rsqrt_ps(r2);
    const __m256 y2 = _mm256_mul_ps(y, y);
    const __m256 v = _mm256_fnmadd_ps(r2, y2, _mm256_set1_ps(V0));
    const __m256 c = _mm256_fmadd_ps(v, v, _mm256_set1_ps(Q32));
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(y, m), y2), c);
}

static inline __m256 weight_exact_f32(__m256 r2, __m256 m)
{
    const __m256 inv = _mm256_div_ps(_mm256_set1_ps(1), _mm256_sqrt_ps(r2));
    return _mm256_mul_ps(_mm256_mul_ps(m, inv), _mm256_mul_ps(inv, inv));
}

static inline __m256d weight_f64(__m256d r2, __m256d m)
{
    return _mm256_div_pd(m, _mm256_mul_pd(r2, _mm256_sqrt_pd(r2)));
}

TILE(tile_f32, float, __m256, 8, 2, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
     _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_fmadd_ps, weight_f32,
     1 / ((V0 - 1.0) * (V0 - 1.0) + Q32))
TILE(tile_f64, double, __m256d, 4, 2, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd,
     _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_fmadd_pd, weight_f64, 1.0)
TILE(tile_exact_f32, float, __m256, 8, 2, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
     _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_fmadd_ps, weight_exact_f32, 1.0)
BY_HAND(nbody_f32, tile_f32, float, 16)
BY_HAND(nbody_exact_f32, tile_exact_f32, float, 16)
BY_HAND(nbody_f64, tile_f64, double, 8)

#else

void nbody_f32(size_t n, size_t first, size_t count, float g, float softening2, const float *pos,
               const float *mass, float *acc, int threads)
{
    nbody_plain_f32(n, first, count, g, softening2, pos, mass, acc, threads);
}

void nbody_exact_f32(size_t n, size_t first, size_t count, float g, float softening2,
                     const float *pos, const float *mass, float *acc, int threads)
{
    nbody_plain_f32(n, first, count, g, softening2, pos, mass, acc, threads);
}

void nbody_f64(size_t n, size_t first, size_t count, double g, double softening2,
               const double *pos, const double *mass, double *acc, int threads)
{
    nbody_plain_f64(n, first, count, g, softening2, pos, mass, acc, threads);
}

#endif
#endif
