// Stencils in C, over gcc's OpenMP: the sums of the kernels in doors.rs, in their order.

#include <omp.h>

// A step of the heat equation on w * h points, whose border stays.
void heat(int threads, long w, long h, float rate, const float *from, float *to) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long y = 1; y < h - 1; ++y) {
        const float *u = from + y * w;
        float *restrict v = to + y * w;
        for (long x = 1; x < w - 1; ++x) {
            float around = u[x - 1] + u[x + 1] + u[x - w] + u[x + w];
            v[x] = u[x] + rate * (around - 4.0f * u[x]);
        }
    }
}

// The mean of six neighbours on n^3 points, whose border stays.
void jacobi(int threads, long n, const double *from, double *to) {
    const long plane = n * n;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long z = 1; z < n - 1; ++z)
        for (long y = 1; y < n - 1; ++y) {
            const double *u = from + z * plane + y * n;
            double *restrict v = to + z * plane + y * n;
            for (long x = 1; x < n - 1; ++x)
                v[x] = (u[x - 1] + u[x + 1] + u[x - n] + u[x + n] + u[x - plane] + u[x + plane]) / 6.0;
        }
}
