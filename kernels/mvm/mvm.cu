/* The kernel of mod.rs in CUDA C++. FLASH_T is float or double. A warp has a row: element j is thread
 * j / PACK % 32's, for its sum j % PACK, whatever the alignment, so that no sum depends on where rows lie. */

/* Elements of 16 bytes. */
constexpr int PACK = 16 / sizeof(FLASH_T);
/* Packs of each factor that a thread reads before it uses one. */
constexpr int BATCH = 4;

struct alignas(16) Pack {
    FLASH_T v[PACK];
};

static bool is_aligned(const FLASH_T *at) {
    return (flash_u64)at % sizeof(Pack) == 0;
}

template <bool ALIGNED> static Pack load(const FLASH_T *from) {
    Pack pack;
    if constexpr (ALIGNED) {
        pack = *(const Pack *)from;
    } else {
        for (int k = 0; k < PACK; ++k)
            pack.v[k] = from[k];
    }
    return pack;
}

/* Adds the products of this thread's packs: pack `thread` of so many threads', and so on, whole ones below `end`.
 * Returns where the next one begins. Several are on their way at once. */
template <bool ALIGNED>
static flash_u64 add(const FLASH_T *left, const FLASH_T *right, const flash_u64 end, const int thread,
                     const int threads, FLASH_T (&sums)[PACK]) {
    const flash_u64 step = threads * PACK;
    flash_u64 j = thread * PACK;
    for (; j + (BATCH - 1) * step + PACK <= end; j += BATCH * step) {
        Pack by[BATCH], with[BATCH];
        for (int i = 0; i < BATCH; ++i) {
            by[i] = load<ALIGNED>(left + j + i * step);
            with[i] = load<ALIGNED>(right + j + i * step);
        }
        for (int i = 0; i < BATCH; ++i)
            for (int k = 0; k < PACK; ++k)
                sums[k] = fma(by[i].v[k], with[i].v[k], sums[k]);
    }
    for (; j + PACK <= end; j += step) {
        const Pack by = load<ALIGNED>(left + j), with = load<ALIGNED>(right + j);
        for (int k = 0; k < PACK; ++k)
            sums[k] = fma(by.v[k], with.v[k], sums[k]);
    }
    return j;
}

/* The sum over a warp, for its first thread. */
static FLASH_T over_warp(const FLASH_T (&sums)[PACK]) {
    FLASH_T total = sums[0];
    for (int k = 1; k < PACK; ++k)
        total += sums[k];
    for (int away = 16; away > 0; away /= 2)
        total += __shfl_down_sync(0xffffffffu, total, away);
    return total;
}

FLASH_KERNEL mvm(const flash_u64 n, const FLASH_T *a, const FLASH_T *x, FLASH_T *y, FLASH_ARGS) {
    const int lane = (int)FLASH_LANE();
    FLASH_FOR_ITEMS {
        const FLASH_T *row = &FLASH_AT(a, FLASH_OWN_INDEX(a)), *with = &FLASH_AT(x, 0);
        /* No further than the row and the vector go. */
        const flash_u64 end = min(n, min(FLASH_ROW_LEN(a), FLASH_LEN(x)));
        const bool aligned = is_aligned(row) && is_aligned(with);
        FLASH_T sums[PACK] = {};
        const flash_u64 j = aligned ? add<true>(row, with, end, lane, 32, sums)
                                    : add<false>(row, with, end, lane, 32, sums);
        for (int k = 0; k < PACK; ++k)
            if (j + k < end)
                sums[k] = fma(row[j + k], with[j + k], sums[k]);
        const FLASH_T total = over_warp(sums);
        if (lane == 0)
            FLASH_AT(y, FLASH_INDEX(0)) = total;
    }
}
