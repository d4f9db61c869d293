/* Particle diffusion as one writes it in C: one thread, one move after the other, counts in place. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

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
