/* Diffusion in C: particles as one writes them, on one thread, and the kernels of the library for all threads, as fast
 * as this file's author could make them. No two arrays overlap. */

#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Moves n particles from the middle of the grid, and counts into three planes of grid * grid. The moves of an
 * iteration lie side by side, so that iterations are the outer loop. */
void diffusion_serial(long grid, float radius, long iterations, long n, const float *rx, const float *ry,
                      uint64_t *counts) {
    const long cells = grid * grid;
    float *x = malloc(sizeof(float) * n), *y = malloc(sizeof(float) * n);
    long *in = malloc(sizeof(long) * n);
    for (long p = 0; p < n; p++) {
        x[p] = y[p] = (float)(grid / 2);
        in[p] = -1;
    }
    for (long k = 0; k < iterations; k++) {
        for (long p = 0; p < n; p++) {
            x[p] += rx[k * n + p];
            y[p] += ry[k * n + p];
            const double cx = floor(x[p] + 0.5), cy = floor(y[p] + 0.5);
            const float dx = fabsf(x[p] - roundf(x[p])), dy = fabsf(y[p] - roundf(y[p]));
            long now = -1;
            if (cx >= 0 && cx < grid && cy >= 0 && cy < grid && sqrtf(dx * dx + dy * dy) <= radius) {
                now = (long)cx + (long)cy * grid;
                counts[now]++;
            }
            if (now != in[p]) {
                if (in[p] >= 0)
                    counts[cells + in[p]]--;
                if (now >= 0) {
                    counts[cells + now]++;
                    counts[2 * cells + now]++;
                }
                in[p] = now;
            }
        }
    }
    free(x);
    free(y);
    free(in);
}

#define OUTSIDE UINT32_MAX

static inline long least(long a, long b) { return a < b ? a : b; }

/* Particles in blocks, side by side in registers; cells of some iterations are kept, so that a block's tracks, each a
 * row, are written a cache line at a time. */
void walk(int threads, long grid, float reach, long iterations, long n, const float *restrict rx,
          const float *restrict ry, float *restrict x, float *restrict y, uint32_t *restrict cell, long row,
          uint32_t *restrict track) {
    enum { BLOCK = 256, TILE = 16 };
    const float side = (float)grid;
    const uint32_t width = (uint32_t)grid;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long first = 0; first < n; first += BLOCK) {
        const long count = least(BLOCK, n - first);
        for (long p = first; p < first + count; p++)
            track[p * row] = cell[p];
        uint32_t cells[TILE][BLOCK];
        for (long done = 0; done < iterations; done += TILE) {
            const long tile = least(TILE, iterations - done);
            for (long i = 0; i < tile; i++) {
                const float *mx = rx + (done + i) * n + first, *my = ry + (done + i) * n + first;
#pragma omp simd
                for (long p = 0; p < count; p++) {
                    const float px = x[first + p] + mx[p], py = y[first + p] + my[p];
                    const float below = floorf(px), left = floorf(py);
                    const float cx = px - below >= 0.5f ? below + 1 : below, cy = py - left >= 0.5f ? left + 1 : left;
                    const float dx = px - cx, dy = py - cy;
                    const int in = (cx >= 0) & (cx < side) & (cy >= 0) & (cy < side) & (dx * dx + dy * dy <= reach);
                    cells[i][p] = in ? (uint32_t)(int)cx + (uint32_t)(int)cy * width : OUTSIDE;
                    x[first + p] = px;
                    y[first + p] = py;
                }
            }
            for (long p = 0; p < count; p++) {
                uint32_t *to = track + (first + p) * row + done + 1;
                if (tile == TILE)
#pragma GCC unroll 16
                    for (long i = 0; i < TILE; i++)
                        to[i] = cells[i][p];
                else
                    for (long i = 0; i < tile; i++)
                        to[i] = cells[i][p];
            }
            memcpy(cell + first, cells[tile - 1], count * sizeof(uint32_t));
        }
    }
}

/* The first move from number i on that leads to another cell, or how many there are. */
static inline long change(const uint32_t *track, long i, long iterations) {
#ifdef __AVX512F__
    for (; i + 16 <= iterations; i += 16) {
        const __mmask16 other =
            _mm512_cmpneq_epu32_mask(_mm512_loadu_si512(track + i), _mm512_loadu_si512(track + i + 1));
        if (other)
            return i + __builtin_ctz(other);
    }
#endif
    while (i < iterations && track[i] == track[i + 1])
        i++;
    return i;
}

/* Each thread counts for itself; the sums are added to what is there. */
void count(int threads, long cells, long iterations, long n, long row, const uint32_t *restrict track,
           uint64_t *restrict counts) {
#pragma omp parallel num_threads(threads)
    {
        uint64_t *own = calloc(3 * cells, sizeof(uint64_t));
#pragma omp for schedule(static)
        for (long p = 0; p < n; p++) {
            const uint32_t *way = track + p * row;
            for (long i = 0, next; i < iterations; i = next + 1) {
                const uint32_t in = way[i];
                next = change(way, i, iterations);
                if (in != OUTSIDE)
                    own[in] += next - i;
                if (next == iterations)
                    break;
                const uint32_t to = way[next + 1];
                if (in != OUTSIDE)
                    own[cells + in]--;
                if (to != OUTSIDE) {
                    own[to]++;
                    own[cells + to]++;
                    own[2 * cells + to]++;
                }
            }
        }
#pragma omp critical
        for (long i = 0; i < 3 * cells; i++)
            counts[i] += own[i];
        free(own);
    }
}

/* One explicit step of the heat equation, with insulated borders. */
void heat(int threads, long width, long height, float rate, const float *restrict from, float *restrict to) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long y = 0; y < height; y++) {
        const float *here = from + y * width, *above = y ? here - width : here;
        const float *below = y + 1 < height ? here + width : here;
        float *restrict row = to + y * width;
        for (long x = 0; x < width; x += width > 1 ? width - 1 : 1) {
            const float west = here[x ? x - 1 : x], east = here[x + 1 < width ? x + 1 : x];
            row[x] = here[x] + rate * (((west + east) + (above[x] + below[x])) - 4 * here[x]);
        }
#pragma omp simd
        for (long x = 1; x < width - 1; x++)
            row[x] = here[x] + rate * (((here[x - 1] + here[x + 1]) + (above[x] + below[x])) - 4 * here[x]);
    }
}
