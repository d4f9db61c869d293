/* The functions of cuBLAS and cuSOLVER that FLASH uses, as their documentation defines them, for the emulated CUDA
 * driver: on the host, with matrices that are stored column by column. What the documentation says is not read may be no
 * memory at all. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 7 };
enum { N = 0, T = 1 };

typedef struct {
    void *stream;
} handle;

/* A function of the driver. */
static void *driver(const char *name) {
    void *library = dlopen("libcuda.so", RTLD_LAZY);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "no %s in libcuda.so\n", name);
        abort();
    }
    return function;
}

static void must(const char *call, int status) {
    if (status) {
        fprintf(stderr, "%s: %d\n", call, status);
        abort();
    }
}

/* The elements of a matrix on the device, once all before in the stream is done. */
static void *fetch(handle *h, const void *at, int64_t rows, int64_t columns, int64_t leading, size_t size) {
    const size_t bytes = rows && columns ? (size_t)(leading * (columns - 1) + rows) * size : 0;
    void *copy = malloc(bytes + 1);
    int (*wait)(void *) = (int (*)(void *))driver("cuStreamSynchronize");
    int (*read)(void *, uint64_t, size_t) = (int (*)(void *, uint64_t, size_t))driver("cuMemcpyDtoH_v2");
    must("cuStreamSynchronize", wait(h->stream));
    if (bytes)
        must("cuMemcpyDtoH", read(copy, (uint64_t)(uintptr_t)at, bytes));
    return copy;
}

/* Puts them back. */
static void put(void *at, void *copy, int64_t rows, int64_t columns, int64_t leading, size_t size) {
    const size_t bytes = rows && columns ? (size_t)(leading * (columns - 1) + rows) * size : 0;
    int (*write)(uint64_t, const void *, size_t) = (int (*)(uint64_t, const void *, size_t))driver("cuMemcpyHtoD_v2");
    if (bytes)
        must("cuMemcpyHtoD", write((uint64_t)(uintptr_t)at, copy, bytes));
    free(copy);
}

int cublasCreate_v2(handle **to) {
    *to = calloc(1, sizeof(handle));
    return OK;
}

int cublasSetStream_v2(handle *h, void *stream) {
    h->stream = stream;
    return OK;
}

/* Element (i, j) of op(a). */
#define OP(op, a, lda, i, j) ((op) == T ? (a)[(j) + (i) * (lda)] : (a)[(i) + (j) * (lda)])

#define FUNCTIONS(R, GEMM, SYRK, TRSM, SCAL)                                                                           \
    int GEMM(handle *h, int of_a, int of_b, int64_t m, int64_t n, int64_t k, const R *alpha, const R *at_a,            \
             int64_t lda, const R *at_b, int64_t ldb, const R *beta, R *at_c, int64_t ldc) {                           \
        if (m < 0 || n < 0 || k < 0 || lda < (of_a == T ? k : m) || ldb < (of_b == T ? n : k) || ldc < m ||            \
            lda < 1 || ldb < 1 || ldc < 1)                                                                             \
            return INVALID;                                                                                            \
        R *a = fetch(h, at_a, of_a == T ? k : m, of_a == T ? m : k, lda, sizeof(R));                                   \
        R *b = fetch(h, at_b, of_b == T ? n : k, of_b == T ? k : n, ldb, sizeof(R));                                   \
        R *c = fetch(h, at_c, m, n, ldc, sizeof(R));                                                                   \
        for (int64_t j = 0; j < n; ++j)                                                                                \
            for (int64_t i = 0; i < m; ++i) {                                                                          \
                R sum = 0;                                                                                             \
                for (int64_t l = 0; l < k; ++l)                                                                        \
                    sum += OP(of_a, a, lda, i, l) * OP(of_b, b, ldb, l, j);                                            \
                c[i + j * ldc] = *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + j * ldc]);                             \
            }                                                                                                          \
        free(a);                                                                                                       \
        free(b);                                                                                                       \
        put(at_c, c, m, n, ldc, sizeof(R));                                                                            \
        return OK;                                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    int SYRK(handle *h, int upper, int of_a, int64_t n, int64_t k, const R *alpha, const R *at_a, int64_t lda,         \
             const R *beta, R *at_c, int64_t ldc) {                                                                    \
        if (n < 0 || k < 0 || lda < (of_a == T ? k : n) || ldc < n || lda < 1 || ldc < 1)                              \
            return INVALID;                                                                                            \
        R *a = fetch(h, at_a, of_a == T ? k : n, of_a == T ? n : k, lda, sizeof(R));                                   \
        R *c = fetch(h, at_c, n, n, ldc, sizeof(R));                                                                   \
        for (int64_t j = 0; j < n; ++j)                                                                                \
            for (int64_t i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) {                                            \
                R sum = 0;                                                                                             \
                for (int64_t l = 0; l < k; ++l)                                                                        \
                    sum += OP(of_a, a, lda, i, l) * OP(of_a, a, lda, j, l);                                            \
                c[i + j * ldc] = *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + j * ldc]);                             \
            }                                                                                                          \
        free(a);                                                                                                       \
        put(at_c, c, n, n, ldc, sizeof(R));                                                                            \
        return OK;                                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    int TRSM(handle *h, int right, int upper, int of_a, int unit, int64_t m, int64_t n, const R *alpha,                \
             const R *at_a, int64_t lda, R *at_b, int64_t ldb) {                                                       \
        const int64_t order = right ? n : m, systems = right ? m : n;                                                  \
        if (m < 0 || n < 0 || lda < order || ldb < m || lda < 1 || ldb < 1)                                            \
            return INVALID;                                                                                            \
        R *a = fetch(h, at_a, order, order, lda, sizeof(R)), *b = fetch(h, at_b, m, n, ldb, sizeof(R));                \
        /* op(a) x = alpha b is solved from the end if op(a) is an upper triangle; x op(a) = alpha b the other way. */ \
        const int back = right ? upper == (of_a == T) : upper == (of_a == N);                                          \
        for (int64_t s = 0; s < systems; ++s)                                                                          \
            for (int64_t step = 0; step < order; ++step) {                                                             \
                const int64_t e = back ? order - 1 - step : step;                                                      \
                R *x = right ? &b[s + e * ldb] : &b[e + s * ldb];                                                      \
                R rest = *alpha * *x;                                                                                  \
                for (int64_t p = back ? e + 1 : 0; p < (back ? order : e); ++p)                                        \
                    rest -= (right ? OP(of_a, a, lda, p, e) : OP(of_a, a, lda, e, p)) *                                \
                            (right ? b[s + p * ldb] : b[p + s * ldb]);                                                 \
                *x = unit ? rest : rest / a[e + e * lda];                                                              \
            }                                                                                                          \
        free(a);                                                                                                       \
        put(at_b, b, m, n, ldb, sizeof(R));                                                                            \
        return OK;                                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    int SCAL(handle *h, int64_t n, const R *alpha, R *at_x, int64_t apart) {                                           \
        if (n < 0 || apart != 1)                                                                                       \
            return INVALID;                                                                                            \
        R *x = fetch(h, at_x, n, 1, n, sizeof(R));                                                                     \
        for (int64_t i = 0; i < n; ++i)                                                                                \
            x[i] *= *alpha;                                                                                            \
        put(at_x, x, n, 1, n, sizeof(R));                                                                              \
        return OK;                                                                                                     \
    }

FUNCTIONS(float, cublasSgemm_v2_64, cublasSsyrk_v2_64, cublasStrsm_v2_64, cublasSscal_v2_64)
FUNCTIONS(double, cublasDgemm_v2_64, cublasDsyrk_v2_64, cublasDtrsm_v2_64, cublasDscal_v2_64)

/* cuSOLVER: its numbers of types, and those of its status. */
enum { R_32F = 0, R_64F = 1, INVALID_VALUE = 3, INVALID_WORKSPACE = 31 };

static const size_t HOST_BYTES = 24;

int cusolverDnCreate(handle **to) {
    return cublasCreate_v2(to);
}

int cusolverDnSetStream(handle *h, void *stream) {
    return cublasSetStream_v2(h, stream);
}

int cusolverDnCreateParams(void **to) {
    *to = malloc(1);
    return OK;
}

int cusolverDnXpotrf_bufferSize(handle *h, void *parameters, int upper, int64_t n, int type, const void *a, int64_t lda,
                                int compute, size_t *device, size_t *host) {
    if (!h || !parameters || (upper != 0 && upper != 1) || n < 0 || lda < 1 || lda < n || !a || type != compute ||
        (type != R_32F && type != R_64F))
        return INVALID_VALUE;
    *device = (size_t)(32 * n + 8);
    *host = HOST_BYTES;
    return OK;
}

/* What a failure leaves on the diagonal and behind it is not documented. Here it is, in single precision, the pivot, as
 * in LAPACK, and in double precision what was there before. */
#define POTRF(NAME, R, LEAVES_PIVOT)                                                                                   \
    static int NAME(R *a, int64_t n, int64_t lda, int upper) {                                                         \
        for (int64_t j = 0; j < n; ++j)                                                                                \
            for (int64_t i = 0; i <= j; ++i) {                                                                         \
                R *to = upper ? &a[i + j * lda] : &a[j + i * lda];                                                     \
                R rest = *to;                                                                                          \
                for (int64_t p = 0; p < i; ++p)                                                                        \
                    rest -= upper ? a[p + i * lda] * a[p + j * lda] : a[i + p * lda] * a[j + p * lda];                 \
                if (i == j && !(rest > 0)) {                                                                           \
                    *to = LEAVES_PIVOT ? rest : *to;                                                                   \
                    return (int)j + 1;                                                                                 \
                }                                                                                                      \
                *to = i == j ? (R)__builtin_sqrt(rest) : rest / a[i + i * lda];                                        \
            }                                                                                                          \
        return 0;                                                                                                      \
    }

POTRF(single_potrf, float, 1)
POTRF(double_potrf, double, 0)

int cusolverDnXpotrf(handle *h, void *parameters, int upper, int64_t n, int type, void *at_a, int64_t lda, int compute,
                     void *device, size_t device_bytes, void *host, size_t host_bytes, int *info) {
    size_t needed[2];
    const int wrong =
        cusolverDnXpotrf_bufferSize(h, parameters, upper, n, type, at_a, lda, compute, &needed[0], &needed[1]);
    if (wrong || !info)
        return INVALID_VALUE;
    if (!device || !host || device_bytes < needed[0] || host_bytes < needed[1])
        return INVALID_WORKSPACE;
    const size_t size = type == R_32F ? sizeof(float) : sizeof(double);
    void *a = fetch(h, at_a, n, n, lda, size);
    const int found = type == R_32F ? single_potrf(a, n, lda, upper) : double_potrf(a, n, lda, upper);
    put(at_a, a, n, n, lda, size);
    /* All of its memory is its own. */
    memset(host, 0xA5, host_bytes);
    void *used = malloc(device_bytes);
    memset(used, 0xA5, device_bytes);
    put(device, used, (int64_t)device_bytes, 1, (int64_t)device_bytes, 1);
    int *copy = malloc(sizeof(int));
    *copy = found;
    put(info, copy, 1, 1, 1, sizeof(int));
    return OK;
}
