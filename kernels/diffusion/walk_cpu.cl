/* The kernel `walk` of mod.rs in OpenCL C, for CPUs. Cells are exact, so that sums and products must be rounded as
 * written. */
#pragma OPENCL FP_CONTRACT OFF

#define OUTSIDE 0xffffffffu

/* Particles side by side, and their moves before cells go to the tracks, which lie particle by particle. */
#define LANES 16
#define MOVES 16

/* From here on every float is whole. */
#define WHOLE 8388608.0f

/* floor(x + 1/2) as if added without rounding. */
static inline float16 nearest(const float16 x) {
    const float16 truncated = convert_float16(convert_int16(x));
    const float16 floored = truncated > x ? truncated - 1.0f : truncated;
    const float16 below = fabs(x) < WHOLE ? floored : x;
    return x - below >= 0.5f ? below + 1.0f : below;
}

/* The cells that particles are in. */
static inline uint16 cells(const float16 x, const float16 y, const flash_u32 grid, const float reach) {
    const float16 side = (float)grid, none = 0, cx = nearest(x), cy = nearest(y), dx = x - cx, dy = y - cy;
    const int16 inside = cx >= none && cx < side && cy >= none && cy < side && dx * dx + dy * dy <= (float16)reach;
    /* Numbers of cells are whole below 2^24. */
    const uint16 cell = convert_uint16(inside ? cx + cy * side : none);
    return inside ? cell : (uint16)OUTSIDE;
}

/* The first `there` elements of an array, and 0 behind them. */
static inline float16 load(FLASH_GLOBAL const float *from, const int there) {
    if (there == LANES)
        return vload16(0, from);
    float lanes[LANES] = {0};
    for (int l = 0; l < there; ++l)
        lanes[l] = from[l];
    return vload16(0, lanes);
}

static inline void store(const float16 x, FLASH_GLOBAL float *to, const int there) {
    float lanes[LANES];
    vstore16(x, 0, lanes);
    for (int l = 0; l < there; ++l)
        to[l] = lanes[l];
}

__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL walk(const flash_u32 grid, const float reach, const flash_u64 iterations,
                  FLASH_GLOBAL const float *rx, FLASH_GLOBAL const float *ry, FLASH_GLOBAL float *x,
                  FLASH_GLOBAL float *y, FLASH_GLOBAL flash_u32 *cell, FLASH_GLOBAL flash_u32 *track,
                  FLASH_ARGS) {
    /* The particles that have moves of all iterations, and a track for them. */
    const int fits = iterations > 0 && iterations < FLASH_ROW_LEN(track) && FLASH_LEN(rx) == FLASH_LEN(ry);
    const flash_u64 n = fits ? FLASH_LEN(rx) / iterations : 0, apart = FLASH_STRIDE(track, 0);
    FLASH_FOR_RUNS {
        const flash_u64 particle = FLASH_INDEX(0), count = FLASH_ROW_LEN(track) ? FLASH_RUN() : 0;
        const flash_u64 moving = particle < n ? min(n - particle, count) : 0;
        FLASH_GLOBAL flash_u32 *tracks = &FLASH_AT(track, FLASH_OWN_INDEX(track)), *in = &FLASH_AT(cell, particle);
        FLASH_GLOBAL float *here = &FLASH_AT(x, particle), *there = &FLASH_AT(y, particle);
        for (flash_u64 at = 0; at < count; ++at)
            tracks[at * apart] = in[at];
        /* Where nothing moves, iterations may be any number. Some moves of all particles, then the next: so the arrays
         * of moves are read along their rows. */
        for (flash_u64 i = 0; moving > 0 && i < iterations; i += MOVES) {
            const int moves = min(iterations - i, (flash_u64)MOVES);
            for (flash_u64 at = 0; at < moving; at += LANES) {
                const int lanes = min(moving - at, (flash_u64)LANES);
                float16 px = load(here + at, lanes), py = load(there + at, lanes);
                flash_u32 seen[MOVES][LANES];
                for (int m = 0; m < moves; ++m) {
                    const flash_u64 from = (i + m) * n + particle + at;
                    px += load(&FLASH_AT(rx, from), lanes);
                    py += load(&FLASH_AT(ry, from), lanes);
                    vstore16(cells(px, py, grid, reach), 0, seen[m]);
                }
                store(px, here + at, lanes);
                store(py, there + at, lanes);
                for (int l = 0; l < lanes; ++l) {
                    FLASH_GLOBAL flash_u32 *to = tracks + (at + l) * apart + i + 1;
                    for (int m = 0; m < moves; ++m)
                        to[m] = seen[m][l];
                    in[at + l] = seen[moves - 1][l];
                }
            }
        }
    }
}
