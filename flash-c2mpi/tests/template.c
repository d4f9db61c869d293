/* The template of host programs of the HALO paper, for each kernel of its Table 1. */

#include "mpix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) \
    if ((call) != MPIX_SUCCESS) { \
        fprintf(stderr, "%s\n", MPIX_Last_error()); \
        return 1; \
    }

enum { M = 37, N = 29, K = 41, ALL = 3000 };

/* Numbers from 0.5 to 1.5, in no order. */
static float *numbers(int n, unsigned seed)
{
    float *all = malloc(sizeof(float) * (size_t)n);
    for (int i = 0; i < n; i++)
        all[i] = 0.5f + (float)(((unsigned)i * 37 + seed * 11 + (unsigned)i * (unsigned)i) % 61) / 64;
    return all;
}

static int scalar(MPIX_ComputeObj obj, uint64_t value) { return MPIX_ComputeObj_scalar(obj, &value, MPIX_UINT64_T); }

static int vector(MPIX_ComputeObj obj, float *data, uint64_t n) { return MPIX_ComputeObj_vector(obj, data, n, MPIX_FLOAT); }

static int matrix(MPIX_ComputeObj obj, float *data, uint64_t columns, uint64_t rows)
{
    uint64_t shape[] = {columns, rows};
    return MPIX_ComputeObj_array(obj, data, 2, shape, MPIX_FLOAT);
}

/* The arguments of a kernel, in the order of its definition. Returns where its results will be. */
static float *prepare(const char *alias, MPIX_ComputeObj obj, int *count)
{
    int failed = 0;
    float *result = NULL;
    if (!strcmp(alias, "MMM")) {
        result = numbers(*count = M * N, 9);
        failed = scalar(obj, N) | scalar(obj, K) | scalar(obj, K) | scalar(obj, N) | scalar(obj, N) |
                 matrix(obj, numbers(M * K, 1), K, M) | matrix(obj, numbers(K * N, 2), N, K) | matrix(obj, result, N, M);
    } else if (!strcmp(alias, "EWMM") || !strcmp(alias, "EWMD")) {
        result = numbers(*count = ALL, 9);
        failed = scalar(obj, ALL) | vector(obj, numbers(ALL, 1), ALL) | vector(obj, numbers(ALL, 2), ALL) |
                 vector(obj, result, ALL);
    } else if (!strcmp(alias, "SMMM")) {
        uint64_t *start = malloc(sizeof(uint64_t) * (M + 1));
        uint32_t *column = malloc(sizeof(uint32_t) * 3 * M);
        for (uint64_t row = 0; row <= M; row++)
            start[row] = 3 * row;
        for (uint32_t at = 0; at < 3 * M; at++)
            column[at] = (at / 3 + 13 * (at % 3)) % K;
        result = numbers(*count = M * N, 9);
        failed = scalar(obj, N) | scalar(obj, N) | MPIX_ComputeObj_vector(obj, start, M + 1, MPIX_UINT64_T) |
                 MPIX_ComputeObj_vector(obj, column, 3 * M, MPIX_UINT32_T) | vector(obj, numbers(3 * M, 1), 3 * M) |
                 vector(obj, numbers(K * N, 2), K * N) | matrix(obj, result, N, M);
    } else if (!strcmp(alias, "VDP")) {
        result = numbers(*count = 1, 9);
        failed = vector(obj, numbers(ALL, 1), ALL) | vector(obj, numbers(ALL, 2), ALL) | vector(obj, result, 1);
    } else if (!strcmp(alias, "JS")) {
        uint64_t shape[] = {8, 7, 6}, begin[] = {1, 1, 1}, end[] = {7, 6, 5};
        float h2 = 0.25f;
        result = numbers(*count = 8 * 7 * 6, 9);
        failed = MPIX_ComputeObj_scalar(obj, &h2, MPIX_FLOAT) | scalar(obj, 8) | scalar(obj, 7) |
                 MPIX_ComputeObj_array(obj, numbers(*count, 1), 3, shape, MPIX_FLOAT) |
                 MPIX_ComputeObj_array(obj, numbers(*count, 2), 3, shape, MPIX_FLOAT) |
                 MPIX_ComputeObj_array(obj, result, 3, shape, MPIX_FLOAT) | MPIX_ComputeObj_range(obj, 0, 3, begin, end);
    } else if (!strcmp(alias, "MVM") || !strcmp(alias, "FC")) {
        result = numbers(*count = M, 9);
        failed = scalar(obj, K) | matrix(obj, numbers(M * K, 1), K, M) | vector(obj, numbers(K, 2), K) |
                 vector(obj, result, M);
    } else if (!strcmp(alias, "1DCONV")) {
        result = numbers(*count = ALL - 6, 9);
        failed = vector(obj, numbers(7, 1), 7) | vector(obj, numbers(ALL, 2), ALL) | vector(obj, result, ALL - 6);
    }
    return failed ? NULL : result;
}

int main(int argc, char **argv)
{
    unsigned long child_rank = 0;
    const char *tag_alias = argv[1];
    MPIX_ComputeObj compObj;
    CHECK(MPIX_Initialize(&argc, &argv));
    CHECK(MPIX_Claim(tag_alias, NULL, NULL, &child_rank));
    CHECK(MPIX_ComputeObj_create(&compObj));
    int count = 0;
    float *result = prepare(tag_alias, compObj, &count);
    if (!result)
        return 2;
    CHECK(MPIX_Send(compObj, 1, MPIX_CompObj, (int)child_rank, 0, MPIX_COMM_WORLD));
    CHECK(MPIX_Recv(compObj, 1, MPIX_CompObj, (int)child_rank, 0, MPIX_COMM_WORLD, MPIX_STATUS_IGNORE));
    CHECK(MPIX_Finalize());
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &result[i], sizeof bits);
        printf("%08x\n", (unsigned)bits);
    }
    return 0;
}
