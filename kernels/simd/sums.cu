/* Sums of products in CUDA C++: the kernels of mvm and vdp. FLASH_T is float or double. Threads take turns with packs
 * of 16 bytes: element j belongs to thread j / PACK % THREADS, for its sum j % PACK, whatever the alignment, so that no
 * sum depends on where the elements lie. */

/* Threads that share a sum, and packs of each factor that one reads before it uses any. */
#ifdef FLASH_ENTRY_mvm
constexpr int THREADS = 32, BATCH = 4;
#else
constexpr int THREADS = 1024, BATCH = 2;
#endif
/* Elements of 16 bytes. */
constexpr int PACK = 16 / sizeof(FLASH_T);

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

/* Adds the products of this thread's packs: pack `thread` of all threads', and so on, whole ones below `end`.
 * Returns where the next one begins. Several are loaded at once. */
template <bool ALIGNED>
static flash_u64 add(const FLASH_T *left, const FLASH_T *right, const flash_u64 end, const int thread,
                     FLASH_T (&sums)[PACK]) {
    const flash_u64 step = THREADS * PACK;
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

#ifdef FLASH_ENTRY_mvm
/* A warp has a row. */
FLASH_KERNEL mvm(const flash_u64 n, const FLASH_T *a, const FLASH_T *x, FLASH_T *y, FLASH_ARGS) {
    const int lane = (int)FLASH_LANE();
    FLASH_FOR_ITEMS {
        const FLASH_T *row = &FLASH_AT(a, FLASH_OWN_INDEX(a)), *with = &FLASH_AT(x, 0);
        /* Only as far as the row and the vector go. */
        const flash_u64 end = min(n, min(FLASH_ROW_LEN(a), FLASH_LEN(x)));
        const bool aligned = is_aligned(row) && is_aligned(with);
        FLASH_T sums[PACK] = {};
        const flash_u64 j = aligned ? add<true>(row, with, end, lane, sums)
                                    : add<false>(row, with, end, lane, sums);
        for (int k = 0; k < PACK; ++k)
            if (j + k < end)
                sums[k] = fma(row[j + k], with[j + k], sums[k]);
        const FLASH_T total = over_warp(sums);
        if (lane == 0)
            FLASH_AT(y, FLASH_INDEX(0)) = total;
    }
}
#endif

#ifdef FLASH_ENTRY_vdp
/* A block of threads has one block of the vectors. */
FLASH_KERNEL __launch_bounds__(THREADS, 2)
    vdp(const FLASH_T *x, const FLASH_T *y, FLASH_T *sum, FLASH_ARGS) {
    __shared__ FLASH_T warps[THREADS / 32];
    if (blockDim.x != THREADS)
        __trap();
    const int thread = threadIdx.x;
    const flash_u64 begin = FLASH_GROUP() * flash_run.block, end = min(FLASH_ITEMS() - begin, flash_run.block);
    FLASH_T sums[PACK] = {};
    flash_u64 j = thread * PACK;
    /* True if the block's elements lie one after the other. */
    if (flash_run.axes[0].kind == FLASH_AXIS_LINE && flash_run.axes[0].step == 1) {
        const flash_u64 first = flash_run.axes[0].start + flash_run.first + begin;
        const FLASH_T *left = &FLASH_AT(x, first), *right = &FLASH_AT(y, first);
        j = is_aligned(left) && is_aligned(right) ? add<true>(left, right, end, thread, sums)
                                                  : add<false>(left, right, end, thread, sums);
    }
    for (; j < end; j += THREADS * PACK) {
        for (int k = 0; k < PACK; ++k) {
            if (j + k >= end)
                continue;
            const flash_u64 flash_item = begin + j + k, i = FLASH_INDEX(0);
            sums[k] = fma(FLASH_AT(x, i), FLASH_AT(y, i), sums[k]);
        }
    }
    FLASH_T total = over_warp(sums);
    if (thread % 32 == 0)
        warps[thread / 32] = total;
    __syncthreads();
    if (thread < 32) {
        const FLASH_T all[PACK] = {warps[thread]};
        total = over_warp(all);
    }
    if (thread == 0) {
        const flash_u64 flash_item = begin;
        FLASH_REDUCE(sum, 0) += total;
    }
}
#endif
