/* The reference problem of ../src/problem.rs in C: three Mersenne Twisters with the seed 42; and the energy. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const float gravity = 6.67259e-11f, softening2 = 1e-3f, dt = 0.1f;

typedef struct {
    uint32_t state[624];
    int at;
} twister;

static void twister_seed(twister *t)
{
    t->state[0] = 42;
    for (uint32_t i = 1; i < 624; i++)
        t->state[i] = 1812433253u * (t->state[i - 1] ^ (t->state[i - 1] >> 30)) + i;
    t->at = 624;
}

/* A number between 0 and 1. */
static float twister_draw(twister *t)
{
    if (t->at == 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (t->state[i] & 0x80000000u) | (t->state[(i + 1) % 624] & 0x7fffffffu);
            t->state[i] = t->state[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->state[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    y ^= y >> 18;
    return (float)y / 4294967296.0f;
}

static void generate(uint64_t n, float *mass, float *pos, float *vel)
{
    twister positions, velocities, masses;
    twister_seed(&positions);
    twister_seed(&velocities);
    twister_seed(&masses);
    for (uint64_t i = 0; i < 3 * n; i++) {
        pos[i] = twister_draw(&positions);
        vel[i] = (2.0f * twister_draw(&velocities) - 1.0f) * 1e-3f;
        if (i % 3 == 0)
            mass[i / 3] = (float)n * twister_draw(&masses);
    }
}

/* The kinetic energy after a step, on a line with the step. */
static void report(int step, uint64_t n, const float *mass, const float *vel)
{
    double doubled = 0;
    for (uint64_t i = 0; i < 3 * n; i++)
        doubled += (double)mass[i / 3] * ((double)vel[i] * (double)vel[i]);
    printf("%d %.9g\n", step, 0.5 * doubled);
}
