/* An accelerator for tests: in the host's memory, or with MEMORY in one of its own. */
#include "mpix_accel.h"

static char board[1 << 28];

static int is_there(MPIX_Call *call, const void *element)
{
#ifdef MEMORY
    const char *byte = element;
    if (byte < board || byte >= board + sizeof board)
        return !MPIX_Fail(call, "an array is not in the board's memory");
#else
    (void)call, (void)element;
#endif
    return 1;
}

/* n, a, b, c */
__attribute__((unused)) static int multiply(MPIX_Call *call)
{
    const float *a = MPIX_ARRAY(call, const float, 1), *b = MPIX_ARRAY(call, const float, 2);
    float *c = MPIX_ARRAY(call, float, 3);
    for (uint64_t i = call->begin[0]; i < call->end[0]; i++) {
        if (!is_there(call, &a[i]) || !is_there(call, &b[i]) || !is_there(call, &c[i]))
            return 1;
        c[i] = a[i] * b[i];
    }
    return 0;
}

/* by, table of x and y: each row times its own factor, and the sum of all factors is added */
static int scale(MPIX_Call *call)
{
    const double *by = MPIX_ARRAY(call, const double, 0);
    double *table = MPIX_ARRAY(call, double, 1), sum = 0;
    uint64_t rows = MPIX_COUNT(call, 0), width = MPIX_COUNT(call, 1) / rows;
    for (uint64_t y = 0; y < rows; y++)
        sum += by[y];
    for (uint64_t y = call->begin[1]; y < call->end[1]; y++)
        for (uint64_t x = call->begin[0]; x < call->end[0]; x++)
            table[x + y * width] = table[x + y * width] * by[y] + sum;
    return 0;
}

/* which, out */
static int fail(MPIX_Call *call)
{
    switch (MPIX_VALUE_OF(call, uint32_t, 0)) {
    case 0:
        MPIX_ARRAY(call, uint32_t, 1)[0] = 7;
        return 0;
    case 1:
        return MPIX_Fail(call, "the board is too hot: 99 degrees");
    default:
        return 42;
    }
}

static int allocations, fragments;

static void *take(uint64_t bytes)
{
    static size_t used;
    if (allocations == 0)
        used = 0;
    if (bytes > sizeof board - used - 64)
        return NULL;
    void *at = board + (64 - (uintptr_t)board % 64) % 64 + used;
    used += (bytes + 63) / 64 * 64;
    allocations++;
    return at;
}

static void give(void *memory)
{
    (void)memory;
    allocations--;
}

static int put(void *memory, uint64_t offset, const void *from, uint64_t bytes)
{
    fragments++;
    memcpy((char *)memory + offset, from, bytes);
    return 0;
}

static int get(void *to, const void *memory, uint64_t offset, uint64_t bytes)
{
    fragments++;
    memcpy(to, (const char *)memory + offset, bytes);
    return 0;
}

static double degrees(void)
{
    return 36.5;
}

static double broken(void)
{
    return 1e308 * 10;
}

static double copies(void)
{
    return fragments;
}

__attribute__((unused)) static const MPIX_Memory memory = { sizeof board / 2, take, give, put, get };

#ifndef TYPE
#define TYPE "f32"
#endif
#ifndef ALIAS
#define ALIAS "SCALE"
#endif
#ifndef AXES
#define AXES 1
#endif
#ifndef RUN
#define RUN multiply
#endif
#ifndef KEY
#define KEY "LAB"
#endif

static const MPIX_Parameter multiplied[] = {
    { "n", "u64", MPIX_VALUE, 0 }, { "a", "f32", MPIX_IN, 1 }, { "b", "f32", MPIX_IN, 1 }, { "c", TYPE, MPIX_OUT, AXES },
};
static const MPIX_Parameter scaled[] = { { "by", "f64", MPIX_IN, 0 }, { "table", "f64", MPIX_INOUT, 2 } };
static const MPIX_Parameter failing[] = { { "which", "u32", MPIX_VALUE, 0 }, { "out", "u32", MPIX_OUT, 1 } };
static const MPIX_Function functions[] = {
    { .kernel = "flash.ewmm", .sw_pid = "pipelined", .run = RUN, .parameters = multiplied, .parameter_count = 4 },
    { .kernel = "lab.scale", .alias = ALIAS, .sw_fid = "4711", .sw_clid = "tables", .run = scale, .parameters = scaled,
      .parameter_count = 2 },
    { .kernel = "lab.fail", .alias = "FAIL", .run = fail, .parameters = failing, .parameter_count = 2 },
};
static const MPIX_Metric metrics[] = { { "degrees", degrees }, { "broken", broken }, { "copies", copies } };
static const MPIX_Accelerator lab = {
    .ss_vid = KEY, .vid = "Our lab", .pid = "board 3", .sw_verid = "1.5", .functions = functions, .function_count = 3,
    .metrics = metrics, .metric_count = 3,
#ifdef MEMORY
    .memory = &memory,
#endif
};

MPIX_ACCELERATOR(lab)
