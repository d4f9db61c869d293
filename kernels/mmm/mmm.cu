/* The kernel of mod.rs in CUDA C++. FLASH_T is float or double; without it factors are bf16, the upper
 * halves of floats.
 *
 * A block computes HIGH x WIDE elements of the product at a time, by slabs of DEPTH products from shared memory: one
 * slab is multiplied while the next is loaded. A thread has DOWN x ACROSS of the elements in registers: for each
 * product of the sums it reads as many packs of 16 bytes as it has down and across. Each element is a sum in the order
 * of its products, wherever it is. */

#ifdef FLASH_T
typedef FLASH_T factor;
static FLASH_T as_sum(const factor x) {
    return x;
}
#else
#define FLASH_T float
typedef unsigned short factor;
static float as_sum(const factor x) {
    return __uint_as_float((flash_u32)x << 16);
}
#endif

constexpr int THREADS = 256;
/* Threads along a side of the tile. */
constexpr int SIDE = 16;
constexpr int PACK = 16 / sizeof(FLASH_T);
constexpr int DOWN = sizeof(FLASH_T) == sizeof(float) ? 8 : 4, ACROSS = 4;
constexpr int HIGH = DOWN * SIDE, WIDE = ACROSS * SIDE;
constexpr int DEPTH = 16;

struct alignas(16) Pack {
    FLASH_T v[PACK];
};

/* A slab. The left factor's is by columns, which begin in different banks of the memory. */
struct alignas(16) Slab {
    FLASH_T left[DEPTH][HIGH + PACK];
    FLASH_T right[DEPTH][WIDE];
};

/* The number in a side of a thread's element `k`: packs of all threads lie next to each other. */
static int place_of(const int thread, const int k) {
    return (k / PACK * SIDE + thread) * PACK + k % PACK;
}

template <int COUNT> static void read(const FLASH_T *side, const int thread, FLASH_T (&to)[COUNT]) {
    for (int k = 0; k < COUNT; k += PACK) {
        const Pack pack = *(const Pack *)(side + place_of(thread, k));
        for (int v = 0; v < PACK; ++v)
            to[k + v] = pack.v[v];
    }
}

FLASH_KERNEL __launch_bounds__(THREADS, 2)
    mmm(const flash_u64 n, const flash_u64 k, const flash_u64 lda, const flash_u64 ldb, const flash_u64 ldc,
        const factor *a, const factor *b, FLASH_T *c, FLASH_ARGS) {
    __shared__ Slab slabs[2];
    /* Where the tile's rows begin in `a` and `c`. */
    __shared__ flash_u64 rows_a[HIGH], rows_c[HIGH];
    if (blockDim.x != THREADS)
        __trap();
    const int thread = threadIdx.x, down = thread / SIDE, across = thread % SIDE;
    const factor *left = &FLASH_AT(a, 0), *right = &FLASH_AT(b, 0);
    FLASH_T *product = &FLASH_AT(c, 0);
    /* Only as far as the rows go, and those of `b`. */
    const flash_u64 width = min(n, FLASH_ROW_LEN(c)), there = FLASH_LEN(b);
    const flash_u64 rows = there < width ? 0 : (there - width) / max(ldb, (flash_u64)1) + 1;
    const flash_u64 depth = min(k, min(FLASH_ROW_LEN(a), rows));
    const flash_u64 wide = (width + WIDE - 1) / WIDE, tiles = (FLASH_ITEMS() + HIGH - 1) / HIGH * wide;
    for (flash_u64 tile = FLASH_GROUP(); tile < tiles; tile += gridDim.x) {
        const flash_u64 first_row = tile / wide * HIGH, first_column = tile % wide * WIDE;
        /* Rows and columns beyond the last repeat the last, and are not written. */
        const flash_u64 high = min((flash_u64)HIGH, FLASH_ITEMS() - first_row);
        __syncthreads();
        if (thread < HIGH) {
            const flash_u64 flash_item = first_row + min((flash_u64)thread, high - 1);
            rows_a[thread] = FLASH_OWN_INDEX(a);
            rows_c[thread] = FLASH_OWN_INDEX(c);
        }
        __syncthreads();
        FLASH_T sums[DOWN][ACROSS] = {};
        /* This thread's elements of the next slab: one of every LEFT or RIGHT rows. */
        constexpr int LEFT = THREADS / DEPTH, RIGHT = THREADS / WIDE;
        FLASH_T next_left[HIGH / LEFT], next_right[DEPTH / RIGHT];
        const int left_row = thread / DEPTH, left_l = thread % DEPTH, right_l = thread / WIDE;
        const factor *right_column = right + right_l * ldb + min(first_column + thread % WIDE, width - 1);
        /* Products beyond the last are 0 times 0. */
        auto fetch = [&](const flash_u64 from) {
            const int rest = (int)min(depth - from, (flash_u64)DEPTH);
            for (int i = 0; i < HIGH / LEFT; ++i)
                next_left[i] = left_l < rest ? as_sum(left[rows_a[left_row + i * LEFT] + from + left_l]) : 0;
            for (int i = 0; i < DEPTH / RIGHT; ++i)
                next_right[i] = right_l + i * RIGHT < rest ? as_sum(right_column[(from + i * RIGHT) * ldb]) : 0;
        };
        auto put = [&](Slab &slab) {
            for (int i = 0; i < HIGH / LEFT; ++i)
                slab.left[left_l][left_row + i * LEFT] = next_left[i];
            for (int i = 0; i < DEPTH / RIGHT; ++i)
                slab.right[right_l + i * RIGHT][thread % WIDE] = next_right[i];
        };
        fetch(0);
        put(slabs[0]);
        __syncthreads();
        for (flash_u64 from = 0, number = 0; from < depth; from += DEPTH, number ^= 1) {
            const bool more = from + DEPTH < depth;
            if (more)
                fetch(from + DEPTH);
            const Slab &slab = slabs[number];
#pragma unroll
            for (int l = 0; l < DEPTH; ++l) {
                FLASH_T by[DOWN], with[ACROSS];
                read(slab.left[l], down, by);
                read(slab.right[l], across, with);
                for (int i = 0; i < DOWN; ++i)
                    for (int j = 0; j < ACROSS; ++j)
                        sums[i][j] = fma(by[i], with[j], sums[i][j]);
            }
            if (more)
                put(slabs[number ^ 1]);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            const int row = place_of(down, i);
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) {
                const flash_u64 at = first_column + place_of(across, j);
                if (row < high && at < width)
                    product[rows_c[row] + at] = sums[i][j];
            }
        }
    }
}
