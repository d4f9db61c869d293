// Jacobi's method with 13 points in C, over gcc's OpenMP: the sums of the kernel flash.star, in its order, so that the
// bits are the same. The threads stay together over all iterations, and meet after each.

#include <omp.h>

#define JACOBI(T, NAME)                                                                                          \
    /* Seconds for `iterations` from `a` to `b` and back, each of (n + 4)^3 points with the wall. */             \
    double NAME(int threads, long n, long iterations, T scale, T *a, T *b) {                                     \
        const long row = n + 4, plane = row * row;                                                               \
        double start = omp_get_wtime();                                                                          \
        _Pragma("omp parallel num_threads(threads)")                                                             \
        for (long k = 0; k < iterations; ++k) {                                                                  \
            const T *from = k % 2 ? b : a;                                                                       \
            T *to = k % 2 ? a : b;                                                                               \
            _Pragma("omp for schedule(static)")                                                                  \
            for (long z = 2; z < n + 2; ++z)                                                                     \
                for (long y = 2; y < n + 2; ++y) {                                                               \
                    const T *u = from + z * plane + y * row;                                                     \
                    T *restrict v = to + z * plane + y * row;                                                    \
                    _Pragma("omp simd")                                                                          \
                    for (long x = 2; x < n + 2; ++x) {                                                           \
                        T along_x = (u[x - 2] + u[x + 2]) + (u[x - 1] + u[x + 1]);                               \
                        T along_y = (u[x - 2 * row] + u[x + 2 * row]) + (u[x - row] + u[x + row]);               \
                        T along_z = (u[x - 2 * plane] + u[x + 2 * plane]) + (u[x - plane] + u[x + plane]);       \
                        v[x] = ((u[x] + along_x) + (along_y + along_z)) * scale;                                 \
                    }                                                                                            \
                }                                                                                                \
        }                                                                                                        \
        return omp_get_wtime() - start;                                                                          \
    }

JACOBI(float, jacobi_f32)
JACOBI(double, jacobi_f64)
