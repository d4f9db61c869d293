/* The N-body kernels of mod.rs in CUDA C++. FLASH_T is float or double.
 *
 * A block of THREADS threads computes the accelerations of as many bodies, by tiles of TILE others in shared memory.
 * A thread has BODIES bodies in registers and attracts them by its slice of each tile, so that a body is read
 * from there once for BODIES interactions; the sums of the SLICES are added in the end. Sums of a tile are made by
 * themselves before they go into the sum of all: the rounding of thousands of additions in a row would show in the
 * sixth digit. No sum depends on where in a launch a body is.
 *
 * In single precision an interaction is 15 instructions (3 subtractions, 3 for the distance, the estimate of the
 * root, 5 for the weight, 3 for the sums) and a quarter of a load: with 20 flop counted per interaction, and two for
 * the instruction of which the device's peak is made, at most 20 / (2 * 15.25) = 0.66 of that peak. */

struct Vector {
    FLASH_T x, y, z;
};

__device__ __forceinline__ Vector load(const FLASH_T *from) {
    return {from[0], from[1], from[2]};
}

__device__ __forceinline__ void store(FLASH_T *to, const Vector v) {
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
}

#ifndef FLASH_ENTRY_integrate
constexpr int THREADS = 256;
constexpr int BODIES = sizeof(FLASH_T) == sizeof(float) ? 4 : 2;
constexpr int SLICES = BODIES;
constexpr int COLUMNS = THREADS / SLICES;
constexpr int TILE = sizeof(FLASH_T) == sizeof(float) ? 512 : 256;

/* Bodies that attract: those with a position and a mass. */
#define ATTRACTING min(FLASH_LEN(pos), FLASH_LEN(mass))

/* The smallest normal number. At a smaller square of their distance two bodies are in one place. */
constexpr FLASH_T SMALLEST = sizeof(FLASH_T) == sizeof(float) ? 1.17549435e-38 : 2.2250738585072014e-308;

struct alignas(16) Body {
    FLASH_T x, y, z, mass;
};

/* mass * d2^(-3/2), but for the factor WEIGHT. */
__device__ __forceinline__ float weight_of(const float mass, const float d2) {
    /* The device's estimate of the inverse root, 1 + e times too large. d2 * near^2 is 1 + 2e then, and one step of
     * Newton's method for the cube is a factor of 1 - 3e: of 2.5 - 1.5 * d2 * near^2, of which 1.5 is left to
     * WEIGHT. The square of e is beyond the last bit. */
    float near;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(d2));
    const float square = near * near;
    /* About 2/3; of an infinite d2 it is no number, which the saturated sum makes 0. */
    return mass * near * square * __saturatef(fmaf(-d2, square, 5.0f / 3.0f));
}

__device__ __forceinline__ double weight_of(const double mass, const double d2) {
    const double inverse = rsqrt(d2);
    return mass * inverse * (inverse * inverse);
}

constexpr FLASH_T WEIGHT = sizeof(FLASH_T) == sizeof(float) ? 1.5 : 1;

/* Adds the attraction of some bodies to the sums of others. With APART no two are closer than the softening length
 * makes them; else a body at the place of the other, such as itself, does not attract it. */
template <bool APART>
__device__ __forceinline__ void attract_by(const Body *bodies, const FLASH_T softening2, const Vector (&at)[BODIES],
                                           Vector (&sums)[BODIES]) {
    Vector of_tile[BODIES] = {};
#pragma unroll (sizeof(FLASH_T) == sizeof(float) ? 8 : 4)
    for (int j = 0; j < TILE / SLICES; ++j) {
        const Body by = bodies[j];
#pragma unroll
        for (int k = 0; k < BODIES; ++k) {
            const FLASH_T dx = by.x - at[k].x, dy = by.y - at[k].y, dz = by.z - at[k].z;
            const FLASH_T d2 = dx * dx + (dy * dy + (dz * dz + softening2));
            FLASH_T weight = weight_of(by.mass, d2);
            if (!APART)
                weight = d2 >= SMALLEST ? weight : 0;
            of_tile[k].x += dx * weight;
            of_tile[k].y += dy * weight;
            of_tile[k].z += dz * weight;
        }
    }
    for (int k = 0; k < BODIES; ++k) {
        sums[k].x += of_tile[k].x;
        sums[k].y += of_tile[k].y;
        sums[k].z += of_tile[k].z;
    }
}

/* Tiles, and the memory in which the threads of a block exchange values before and after. */
union Shared {
    Body tile[TILE];
    Vector sums[SLICES][THREADS];
};

/* Reads this thread's bodies of the tile that begins with body `first` of n. */
__device__ __forceinline__ void fetch(const FLASH_T *pos, const FLASH_T *mass, const flash_u64 first, const flash_u64 n,
                                      Body (&bodies)[TILE / THREADS]) {
    for (int k = 0; k < TILE / THREADS && first < n; ++k) {
        /* Beyond the last body it is repeated without mass. */
        const flash_u64 j = first + k * THREADS + threadIdx.x, body = j < n ? j : n - 1;
        bodies[k] = {pos[3 * body], pos[3 * body + 1], pos[3 * body + 2], j < n ? mass[body] : 0};
    }
}

/* The attraction of n bodies on this thread's, which is at `own`, without the factor g. */
template <bool APART>
__device__ __forceinline__ Vector attraction(Shared &shared, const Vector own, const FLASH_T softening2,
                                             const FLASH_T *pos, const FLASH_T *mass, const flash_u64 n) {
    const int thread = threadIdx.x, column = thread % COLUMNS, slice = thread / COLUMNS;
    Vector at[BODIES], sums[BODIES] = {};
    Body next[TILE / THREADS];
    fetch(pos, mass, 0, n, next);
    shared.sums[0][thread] = own;
    __syncthreads();
    for (int k = 0; k < BODIES; ++k)
        at[k] = shared.sums[0][column + k * COLUMNS];
    for (flash_u64 first = 0; first < n; first += TILE) {
        __syncthreads();
        for (int k = 0; k < TILE / THREADS; ++k)
            shared.tile[k * THREADS + thread] = next[k];
        __syncthreads();
        /* The next tile is loaded meanwhile. */
        fetch(pos, mass, first + TILE, n, next);
        attract_by<APART>(shared.tile + slice * (TILE / SLICES), softening2, at, sums);
    }
    __syncthreads();
    for (int k = 0; k < BODIES; ++k)
        shared.sums[slice][column + k * COLUMNS] = sums[k];
    __syncthreads();
    Vector all = shared.sums[0][thread];
    for (int s = 1; s < SLICES; ++s) {
        all.x += shared.sums[s][thread].x;
        all.y += shared.sums[s][thread].y;
        all.z += shared.sums[s][thread].z;
    }
    /* The next round writes there. */
    __syncthreads();
    return {WEIGHT * all.x, WEIGHT * all.y, WEIGHT * all.z};
}

/* The acceleration of this thread's body, at `own`. All threads of a block must call it. */
__device__ __forceinline__ Vector acceleration(const FLASH_T g, const FLASH_T softening2, const Vector own,
                                               const FLASH_T *pos, const FLASH_T *mass, const flash_u64 n) {
    __shared__ Shared shared;
    if (blockDim.x != THREADS)
        __trap();
    const Vector a = softening2 >= SMALLEST ? attraction<true>(shared, own, softening2, pos, mass, n)
                                            : attraction<false>(shared, own, softening2, pos, mass, n);
    return {g * a.x, g * a.y, g * a.z};
}
#endif

#ifndef FLASH_ENTRY_accelerate
/* Moves a body by one step. */
__device__ __forceinline__ void step(const FLASH_T dt, const Vector acc, FLASH_T *pos, FLASH_T *vel) {
    const Vector before = load(vel), x = load(pos);
    const Vector v = {before.x + acc.x * dt, before.y + acc.y * dt, before.z + acc.z * dt};
    store(vel, v);
    store(pos, {x.x + v.x * dt, x.y + v.y * dt, x.z + v.z * dt});
}
#endif

#ifdef FLASH_ENTRY_accelerate
FLASH_KERNEL __launch_bounds__(THREADS, 2)
    accelerate(const FLASH_T g, const FLASH_T softening2, const FLASH_T *pos, const FLASH_T *mass, FLASH_T *acc,
               FLASH_ARGS) {
    FLASH_FOR_GROUPS {
        const bool mine = flash_item < FLASH_ITEMS();
        const flash_u64 i = mine ? FLASH_INDEX(0) : 0;
        /* Without a position there is no acceleration, but the thread takes part in those of the others. */
        const bool there = i < FLASH_LEN(pos);
        const Vector own = there ? load(&FLASH_AT(pos, 3 * i)) : Vector{};
        const Vector a = acceleration(g, softening2, own, &FLASH_AT(pos, 0), &FLASH_AT(mass, 0), ATTRACTING);
        if (mine)
            store(&FLASH_AT(acc, 3 * i), there ? a : Vector{});
    }
}
#endif

#ifdef FLASH_ENTRY_integrate
FLASH_KERNEL integrate(const FLASH_T dt, const FLASH_T *acc, FLASH_T *pos, FLASH_T *vel, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = 3 * FLASH_INDEX(0);
        step(dt, load(&FLASH_AT(acc, i)), &FLASH_AT(pos, i), &FLASH_AT(vel, i));
    }
}
#endif

#ifdef FLASH_ENTRY_simulate
FLASH_KERNEL __launch_bounds__(THREADS, 2)
    simulate(const FLASH_T g, const FLASH_T softening2, const FLASH_T dt, const FLASH_T *mass, FLASH_T *pos,
             FLASH_T *vel, FLASH_T *acc, FLASH_ARGS) {
    FLASH_FOR_PHASES {
        /* The same for all work items of a phase. */
        const flash_u64 stage = flash_index_of(flash_run.axes[1], flash_run.first, flash_run.narrow, flash_table);
        FLASH_FOR_GROUPS {
            const bool mine = flash_item < FLASH_ITEMS();
            const flash_u64 i = mine ? FLASH_INDEX(0) : 0;
            if (stage == 0) {
                const Vector own = mine ? load(&FLASH_AT(pos, 3 * i)) : Vector{};
                const Vector a =
                    acceleration(g, softening2, own, &FLASH_AT(pos, 0), &FLASH_AT(mass, 0), ATTRACTING);
                if (mine)
                    store(&FLASH_AT(acc, 3 * i), a);
            } else if (mine) {
                step(dt, load(&FLASH_AT(acc, 3 * i)), &FLASH_AT(pos, 3 * i), &FLASH_AT(vel, 3 * i));
            }
        }
    }
}
#endif
