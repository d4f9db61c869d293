/* The diffusion kernels of mod.rs in OpenCL C. Counts are exact, so that sums and products must be rounded as
 * written. */
#pragma OPENCL FP_CONTRACT OFF

#define OUTSIDE 0xffffffffu

#ifdef FLASH_ENTRY_walk
/* floor(x + 1/2) as if added without rounding. */
static inline float nearest(const float x) {
    const float below = floor(x);
    return x - below >= 0.5f ? below + 1.0f : below;
}

FLASH_KERNEL walk(const flash_u32 grid, const float reach, const flash_u64 iterations,
                  FLASH_GLOBAL const float *rx, FLASH_GLOBAL const float *ry, FLASH_GLOBAL float *x,
                  FLASH_GLOBAL float *y, FLASH_GLOBAL flash_u32 *cell, FLASH_GLOBAL flash_u32 *track,
                  FLASH_ARGS) {
    /* The particles that have moves of all iterations, and a track for them. */
    const int fits = iterations > 0 && iterations < FLASH_ROW_LEN(track) && FLASH_LEN(rx) == FLASH_LEN(ry);
    const flash_u64 n = fits ? FLASH_LEN(rx) / iterations : 0;
    const float side = (float)grid;
    FLASH_FOR_ITEMS {
        const flash_u64 particle = FLASH_INDEX(0), row = FLASH_OWN_INDEX(track);
        const flash_u64 moves = particle < n ? iterations : 0;
        if (FLASH_ROW_LEN(track) == 0)
            continue;
        float px = FLASH_AT(x, particle), py = FLASH_AT(y, particle);
        flash_u32 in = FLASH_AT(cell, particle);
        FLASH_AT(track, row) = in;
        for (flash_u64 i = 0; i < moves; ++i) {
            px += FLASH_AT(rx, i * n + particle);
            py += FLASH_AT(ry, i * n + particle);
            const float cx = nearest(px), cy = nearest(py);
            const float dx = px - cx, dy = py - cy;
            const int on_grid = cx >= 0 && cx < side && cy >= 0 && cy < side;
            in = on_grid && dx * dx + dy * dy <= reach ? (flash_u32)cx + (flash_u32)cy * grid : OUTSIDE;
            FLASH_AT(track, row + i + 1) = in;
        }
        FLASH_AT(x, particle) = px;
        FLASH_AT(y, particle) = py;
        FLASH_AT(cell, particle) = in;
    }
}
#endif

#ifdef FLASH_ENTRY_count
/* Iterations of a work item, as in mod.rs. */
#define STRETCH 8

FLASH_KERNEL count(const flash_u64 iterations, FLASH_GLOBAL const flash_u32 *track,
                   FLASH_GLOBAL flash_u64 *counts, FLASH_ARGS) {
    const flash_u64 cells = min(FLASH_LEN(counts) / 3, (flash_u64)OUTSIDE), entries = FLASH_ROW_LEN(track);
    /* Only as far as a track goes. */
    const flash_u64 moves = min(iterations, entries ? entries - 1 : 0);
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_OWN_INDEX(track), begin = FLASH_INDEX(0) * STRETCH;
        const flash_u64 end = min(begin + STRETCH, moves);
        for (flash_u64 i = begin; i < end; ++i) {
            const flash_u32 from = FLASH_AT(track, row + i), to = FLASH_AT(track, row + i + 1);
            /* The particle is in a cell that exists. */
            if (to < cells)
                FLASH_REDUCE(counts, to) += 1;
            if (from == to)
                continue;
            if (from < cells)
                FLASH_REDUCE(counts, cells + from) -= 1;
            if (to < cells) {
                FLASH_REDUCE(counts, cells + to) += 1;
                FLASH_REDUCE(counts, 2 * cells + to) += 1;
            }
        }
    }
}
#endif
