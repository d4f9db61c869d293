/* The kernel of mod.rs in CUDA C++. FLASH_T is float or double.
 *
 * A block of threads computes neighbouring elements, from the signal and the filter in shared memory. A thread has
 * OWN of them, and a slice of each chunk of the filter: it reads a pack of OWN of either for OWN x OWN products. The
 * slices' sums are added in the end. Which products are in a sum depends on the filter's length alone. */

constexpr int THREADS = 256;
constexpr int OWN = 4;
constexpr int SLICES = OWN;
constexpr int COLUMNS = THREADS / SLICES;
/* Elements of the filter in shared memory. */
constexpr int CHUNK = 512;

struct alignas(16) Pack {
    FLASH_T v[OWN];
};

/* In shared memory: a chunk of the filter from its end, the signal's elements that it meets and a pack more; then
 * the sums. */
union alignas(16) Shared {
    struct {
        FLASH_T filter[CHUNK], signal[THREADS + CHUNK + OWN];
    };
    FLASH_T sums[SLICES][THREADS];
};

static Pack pack_of(const FLASH_T *at) {
    return *(const Pack *)at;
}

/* Elements of a chunk of the filter in a slice, but for the last: whole packs, so that they are aligned. */
static int share_of(const int chunk) {
    return (chunk + SLICES * OWN - 1) / (SLICES * OWN) * OWN;
}

static FLASH_T sum_of(const FLASH_T (&sums)[SLICES]) {
    FLASH_T sum = sums[0];
    for (int s = 1; s < SLICES; ++s)
        sum += sums[s];
    return sum;
}

/* Adds the products of filter elements `from` to `to` of the chunk; `signal` is the element that the first of the
 * chunk meets. */
static void add(const FLASH_T *filter, const FLASH_T *signal, int from, const int to, FLASH_T (&sums)[OWN]) {
    /* A slice behind the last element may begin anywhere. */
    if (from >= to)
        return;
    Pack now = pack_of(signal + from);
    for (; from + OWN <= to; from += OWN) {
        const Pack by = pack_of(filter + from), next = pack_of(signal + from + OWN);
#pragma unroll
        for (int j = 0; j < OWN; ++j)
            for (int o = 0; o < OWN; ++o)
                sums[o] = fma(by.v[j], o + j < OWN ? now.v[(o + j) % OWN] : next.v[(o + j) % OWN], sums[o]);
        now = next;
    }
    for (; from < to; ++from)
        for (int o = 0; o < OWN; ++o)
            sums[o] = fma(filter[from], signal[from + o], sums[o]);
}

FLASH_KERNEL __launch_bounds__(THREADS)
    conv1d(const FLASH_T *filter, const FLASH_T *signal, FLASH_T *out, FLASH_ARGS) {
    __shared__ Shared shared;
    if (blockDim.x != THREADS)
        __trap();
    const flash_u64 k = FLASH_LEN(filter), len = FLASH_END(signal);
    if (flash_run.axes[0].kind != FLASH_AXIS_LINE || flash_run.axes[0].step != 1) {
        /* Not neighbours: each by itself, in the same order, which no cut may change. */
        FLASH_FOR_ITEMS {
            const flash_u64 i = FLASH_INDEX(0);
            FLASH_T sums[SLICES] = {};
            for (flash_u64 done = 0; i + k <= len && done < k; done += CHUNK) {
                const int chunk = (int)min(k - done, (flash_u64)CHUNK), share = share_of(chunk);
                for (int s = 0; s < SLICES; ++s)
                    for (int j = s * share; j < min((s + 1) * share, chunk); ++j)
                        sums[s] = fma(FLASH_AT(filter, k - 1 - done - j), FLASH_AT(signal, i + done + j), sums[s]);
            }
            FLASH_AT(out, i) = sum_of(sums);
        }
        return;
    }
    const int thread = threadIdx.x, column = thread % COLUMNS, slice = thread / COLUMNS;
    const flash_u64 begin = FLASH_GROUP() * THREADS, count = min(FLASH_ITEMS() - begin, (flash_u64)THREADS);
    const flash_u64 first = flash_run.axes[0].start + flash_run.first + begin;
    /* Only as far as these elements need it, which is where it ends. */
    const flash_u64 end = min(first + count + k - 1, len);
    FLASH_T sums[OWN] = {};
    for (flash_u64 done = 0; done < k; done += CHUNK) {
        const int chunk = (int)min(k - done, (flash_u64)CHUNK);
        for (int j = thread; j < chunk; j += THREADS)
            shared.filter[j] = FLASH_AT(filter, k - 1 - done - j);
        for (int j = thread; j < THREADS + chunk + OWN; j += THREADS)
            shared.signal[j] = first + done + j < end ? FLASH_AT(signal, first + done + j) : 0;
        __syncthreads();
        const int share = share_of(chunk);
        add(shared.filter, shared.signal + column * OWN, min(slice * share, chunk), min((slice + 1) * share, chunk),
            sums);
        __syncthreads();
    }
    for (int o = 0; o < OWN; ++o)
        shared.sums[slice][column * OWN + o] = sums[o];
    __syncthreads();
    FLASH_T own[SLICES];
    for (int s = 0; s < SLICES; ++s)
        own[s] = shared.sums[s][thread];
    const FLASH_T sum = sum_of(own);
    if (thread < count)
        FLASH_AT(out, first + thread) = first + thread + k <= len ? sum : 0;
}
