// What tasks cost with gcc's OpenMP: F(n) with `task` and `taskwait`, and the tasks of a Cholesky factorisation
// by tiles, empty, ordered by `depend`.

#include <omp.h>
#include <stdlib.h>

static long fib(long n) {
    if (n < 2)
        return n;
    long a, b;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b)
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

double omp_fib_ns(int threads, long n, long *result) {
    double start = omp_get_wtime();
#pragma omp parallel num_threads(threads)
#pragma omp single
    *result = fib(n);
    return (omp_get_wtime() - start) * 1e9;
}

double omp_cholesky_ns(int threads, long tiles) {
    char *a = calloc((size_t)(tiles * tiles), 1);
    double start = omp_get_wtime();
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (long k = 0; k < tiles; ++k) {
#pragma omp task depend(inout : a[k * tiles + k])
        {}
        for (long i = k + 1; i < tiles; ++i) {
#pragma omp task depend(in : a[k * tiles + k]) depend(inout : a[i * tiles + k])
            {}
        }
        for (long i = k + 1; i < tiles; ++i) {
#pragma omp task depend(in : a[i * tiles + k]) depend(inout : a[i * tiles + i])
            {}
            for (long j = k + 1; j < i; ++j) {
#pragma omp task depend(in : a[i * tiles + k], a[j * tiles + k]) depend(inout : a[i * tiles + j])
                {}
            }
        }
    }
    double ns = (omp_get_wtime() - start) * 1e9;
    free(a);
    return ns;
}
