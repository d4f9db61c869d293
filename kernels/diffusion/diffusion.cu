/* The kernels of mod.rs for particles in CUDA C++. Counts are exact, so that sums and products must be rounded as
 * written: it is compiled with --fmad=false. */

#define OUTSIDE 0xffffffffu
/* Iterations that are read and written together; iterations of a work item of `count`, as in mod.rs. */
#define STRETCH 8

#ifdef FLASH_ENTRY_walk
/* floor(x + 1/2) as if added without rounding. */
static float nearest(const float x) {
    const float below = floorf(x);
    return x - below >= 0.5f ? below + 1.0f : below;
}

/* Moves a particle, and returns its new cell. */
static flash_u32 moved(const flash_u32 grid, const float reach, const float rx, const float ry, float &x, float &y) {
    x += rx;
    y += ry;
    const float cx = nearest(x), cy = nearest(y), side = (float)grid;
    const float dx = x - cx, dy = y - cy;
    const bool on_grid = cx >= 0 && cx < side && cy >= 0 && cy < side;
    return on_grid && dx * dx + dy * dy <= reach ? (flash_u32)cx + (flash_u32)cy * grid : OUTSIDE;
}

FLASH_KERNEL walk(const flash_u32 grid, const float reach, const flash_u64 iterations, const float *rx,
                  const float *ry, float *x, float *y, flash_u32 *cell, flash_u32 *track, FLASH_ARGS) {
    /* The particles that have moves of all iterations, and a track for them. */
    const bool fits = iterations > 0 && iterations < FLASH_ROW_LEN(track) && FLASH_LEN(rx) == FLASH_LEN(ry);
    const flash_u64 n = fits ? FLASH_LEN(rx) / iterations : 0;
    FLASH_FOR_ITEMS {
        const flash_u64 particle = FLASH_INDEX(0), moves = particle < n ? iterations : 0;
        if (FLASH_ROW_LEN(track) == 0)
            continue;
        const float *along_x = &FLASH_AT(rx, particle), *along_y = &FLASH_AT(ry, particle);
        flash_u32 *to = &FLASH_AT(track, FLASH_OWN_INDEX(track));
        float px = FLASH_AT(x, particle), py = FLASH_AT(y, particle);
        flash_u32 in = FLASH_AT(cell, particle);
        *to++ = in;
        flash_u64 i = 0;
        /* Moves are read before any of them is needed, and cells written next to each other. */
        for (; i + STRETCH <= moves; i += STRETCH) {
            float by_x[STRETCH], by_y[STRETCH];
            flash_u32 cells[STRETCH];
            for (int k = 0; k < STRETCH; ++k) {
                by_x[k] = along_x[(i + k) * n];
                by_y[k] = along_y[(i + k) * n];
            }
            for (int k = 0; k < STRETCH; ++k)
                cells[k] = moved(grid, reach, by_x[k], by_y[k], px, py);
            for (int k = 0; k < STRETCH; ++k)
                to[i + k] = cells[k];
            in = cells[STRETCH - 1];
        }
        for (; i < moves; ++i)
            to[i] = in = moved(grid, reach, along_x[i * n], along_y[i * n], px, py);
        FLASH_AT(x, particle) = px;
        FLASH_AT(y, particle) = py;
        FLASH_AT(cell, particle) = in;
    }
}
#endif

#ifdef FLASH_ENTRY_count
/* Counts that a block keeps in shared memory, 32 KiB. */
constexpr int SHARED = 8192;
/* Work items of a block whose counts, and their differences, are below 2^31. */
constexpr flash_u64 MOST = (1u << 31) / STRETCH - 1;

/* Calls `add(count, by)` for all changes that a work item's moves make in existing cells. */
template <class Add>
static void count_moves(const flash_u32 *track, const flash_u64 moves, const flash_u64 cells, const Add add) {
    flash_u32 from = track[0];
    for (flash_u64 i = 1; i <= moves; ++i) {
        const flash_u32 to = track[i];
        if (to < cells)
            add(to, 1);
        if (from != to) {
            if (from < cells)
                add(cells + from, -1);
            if (to < cells) {
                add(cells + to, 1);
                add(2 * cells + to, 1);
            }
        }
        from = to;
    }
}

/* A block of work items, shared by the threads of a block. Sums of whole numbers have no order. */
FLASH_KERNEL count(const flash_u64 iterations, const flash_u32 *track, flash_u64 *counts, FLASH_ARGS) {
    __shared__ int near[SHARED];
    const flash_u64 len = FLASH_LEN(counts), cells = min(len / 3, (flash_u64)OUTSIDE);
    /* Only as far as a track goes. */
    const flash_u64 entries = FLASH_ROW_LEN(track), all = min(iterations, entries ? entries - 1 : 0);
    const bool fits = len <= SHARED && flash_run.block <= MOST;
    for (flash_u64 at = FLASH_LOCAL_ID(); fits && at < len; at += FLASH_GROUP_SIZE())
        near[at] = 0;
    __syncthreads();
    FLASH_FOR_ITEMS {
        const flash_u64 begin = FLASH_INDEX(0) * STRETCH;
        if (begin >= all)
            continue;
        const flash_u64 moves = min(all - begin, (flash_u64)STRETCH);
        const flash_u32 *cell = &FLASH_AT(track, FLASH_OWN_INDEX(track) + begin);
        if (fits)
            count_moves(cell, moves, cells, [&](flash_u64 at, int by) { atomicAdd(&near[at], by); });
        else
            count_moves(cell, moves, cells, [&](flash_u64 at, int by) {
                atomicAdd(&FLASH_REDUCE(counts, at), (flash_u64)(flash_i64)by);
            });
    }
    __syncthreads();
    const flash_u64 flash_item = FLASH_GROUP() * flash_run.block;
    for (flash_u64 at = FLASH_LOCAL_ID(); fits && at < len; at += FLASH_GROUP_SIZE())
        FLASH_REDUCE(counts, at) += (flash_u64)(flash_i64)near[at];
}
#endif
