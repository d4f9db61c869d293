/* Attraction between bodies, of mod.rs, in OpenCL C, for CPUs. FLASH_T is float or double. */

/* Registers of bodies that share each one that attracts them. */
#ifndef REGISTERS
#define REGISTERS 2
#endif
#define WIDTH (REGISTERS * LANES)

/* Bodies whose attractions are summed by themselves before they go into the sum of all: the rounding of
 * thousands of additions in a row would show in the sixth digit. */
#define BLOCK 128

/* At a smaller square of their distance two bodies are in one place. */
#define SMALLEST_float 0x1p-126f
#define SMALLEST_double 0x1p-1022
#define SMALLEST JOIN(SMALLEST_, FLASH_T)
/* Distances times this have squares that are numbers, and so has their inverse over it. */
#define SCALE_float 0x1p-64f
#define SCALE_double 0x1p-512
#define SCALE JOIN(SCALE_, FLASH_T)

/* Adds the attraction of n bodies to WIDTH of them, without the factor g. A body at the place of one, such as itself,
 * does not attract it. */
static inline void attract(const FLASH_T at[3][WIDTH], const FLASH_T softening2, FLASH_GLOBAL const FLASH_T *pos,
                           FLASH_GLOBAL const FLASH_T *mass, const flash_u64 n, FLASH_T to[3][WIDTH]) {
    VECTOR x[3][REGISTERS], all[3][REGISTERS];
#pragma unroll
    for (int v = 0; v < REGISTERS; ++v)
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            x[k][v] = LOAD(v, at[k]);
            all[k][v] = 0;
        }
    for (flash_u64 first = 0; first < n; first += BLOCK) {
        const flash_u64 end = min(first + BLOCK, n);
        VECTOR a[3][REGISTERS];
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
#pragma unroll
            for (int k = 0; k < 3; ++k)
                a[k][v] = 0;
        for (flash_u64 j = first; j < end; ++j)
#pragma unroll
            for (int v = 0; v < REGISTERS; ++v) {
                const VECTOR dx = pos[3 * j] - x[0][v], dy = pos[3 * j + 1] - x[1][v], dz = pos[3 * j + 2] - x[2][v];
                const VECTOR d2 = mad(dx, dx, mad(dy, dy, mad(dz, dz, (VECTOR)softening2)));
                /* With the build options that allow it the CPU's estimate, and a step of Newton's method. */
                const VECTOR inverse = 1 / sqrt(d2);
                const VECTOR weight = d2 >= SMALLEST ? mass[j] * inverse * inverse * inverse : 0;
                a[0][v] = mad(dx, weight, a[0][v]);
                a[1][v] = mad(dy, weight, a[1][v]);
                a[2][v] = mad(dz, weight, a[2][v]);
            }
#pragma unroll
        for (int v = 0; v < REGISTERS; ++v)
#pragma unroll
            for (int k = 0; k < 3; ++k)
                all[k][v] += a[k][v];
    }
#pragma unroll
    for (int v = 0; v < REGISTERS; ++v)
#pragma unroll
        for (int k = 0; k < 3; ++k)
            STORE(all[k][v], v, to[k]);
}

/* The attraction of n bodies to one, where the square of a distance is too large a number. */
static inline void attract_far(const FLASH_T at[3], const FLASH_T softening2, FLASH_GLOBAL const FLASH_T *pos,
                               FLASH_GLOBAL const FLASH_T *mass, const flash_u64 n, FLASH_T to[3]) {
#ifdef __clang__
    /* The build options allow another order, in which a product is too large a number. */
#pragma clang fp reassociate(off)
#endif
    to[0] = to[1] = to[2] = 0;
    for (flash_u64 j = 0; j < n; ++j) {
        FLASH_T d[3], d2 = 0, scaled = softening2 * SCALE * SCALE;
        for (int k = 0; k < 3; ++k) {
            d[k] = pos[3 * j + k] - at[k];
            d2 += d[k] * d[k];
            scaled += d[k] * SCALE * (d[k] * SCALE);
        }
        if (d2 + softening2 < SMALLEST)
            continue;
        /* Of near bodies the scaled square is too small a number. */
        const int far = !(d2 + softening2 < 1);
        const FLASH_T inverse = far ? 1 / sqrt(scaled) * SCALE : 1 / sqrt(d2 + softening2);
        for (int k = 0; k < 3; ++k)
            to[k] += d[k] * inverse * (mass[j] * inverse * inverse);
    }
}

/* The accelerations of `count` bodies, of which `known` have a position. */
static inline void accelerations(const FLASH_T g, const FLASH_T softening2, FLASH_GLOBAL const FLASH_T *own,
                                 FLASH_GLOBAL const FLASH_T *pos, FLASH_GLOBAL const FLASH_T *mass, const flash_u64 n,
                                 FLASH_GLOBAL FLASH_T *acc, const flash_u64 known, const flash_u64 count) {
    for (flash_u64 first = 0; first < count; first += WIDTH) {
        const int width = min(count - first, (flash_u64)WIDTH);
        FLASH_T at[3][WIDTH] = {{0}}, a[3][WIDTH];
        for (int i = 0; i < width; ++i)
            for (int k = 0; k < 3; ++k)
                at[k][i] = first + i < known ? own[3 * (first + i) + k] : 0;
        attract(at, softening2, pos, mass, n, a);
        for (int i = 0; i < width; ++i)
            if (!(isfinite(a[0][i]) && isfinite(a[1][i]) && isfinite(a[2][i]))) {
                const FLASH_T one[3] = {at[0][i], at[1][i], at[2][i]};
                FLASH_T exact[3];
                attract_far(one, softening2, pos, mass, n, exact);
                for (int k = 0; k < 3; ++k)
                    a[k][i] = exact[k];
            }
        for (int i = 0; i < width; ++i)
            for (int k = 0; k < 3; ++k)
                acc[3 * (first + i) + k] = first + i < known ? g * a[k][i] : 0;
    }
}

/* Bodies that attract: those with a position and a mass. */
#define ATTRACTING min(FLASH_LEN(pos), FLASH_LEN(mass))
/* The bodies of a run that have a position. */
#define KNOWN(i) ((i) < FLASH_LEN(pos) ? min(FLASH_LEN(pos) - (i), FLASH_RUN()) : 0)
#define ACCELERATE(i)                                                                                                \
    accelerations(g, softening2, &FLASH_AT(pos, 3 * (i)), &FLASH_AT(pos, 0), &FLASH_AT(mass, 0), ATTRACTING,         \
                  &FLASH_AT(acc, 3 * (i)), KNOWN(i), FLASH_RUN())

#ifdef FLASH_ENTRY_accelerate
__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL accelerate(const FLASH_T g, const FLASH_T softening2, FLASH_GLOBAL const FLASH_T *pos,
                        FLASH_GLOBAL const FLASH_T *mass, FLASH_GLOBAL FLASH_T *acc, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        const flash_u64 i = FLASH_INDEX(0);
        ACCELERATE(i);
    }
}
#endif

#ifdef FLASH_ENTRY_simulate
__attribute__((reqd_work_group_size(1, 1, 1)))
FLASH_KERNEL simulate(const FLASH_T g, const FLASH_T softening2, const FLASH_T dt,
                      FLASH_GLOBAL const FLASH_T *mass, FLASH_GLOBAL FLASH_T *pos, FLASH_GLOBAL FLASH_T *vel,
                      FLASH_GLOBAL FLASH_T *acc, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        const flash_u64 i = FLASH_INDEX(0);
        if (FLASH_INDEX(1) == 0) {
            ACCELERATE(i);
            continue;
        }
        FLASH_GLOBAL FLASH_T *x = &FLASH_AT(pos, 3 * i), *v = &FLASH_AT(vel, 3 * i), *a = &FLASH_AT(acc, 3 * i);
        for (flash_u64 k = 0; k < 3 * FLASH_RUN(); ++k) {
            v[k] += a[k] * dt;
            x[k] += v[k] * dt;
        }
    }
}
#endif
