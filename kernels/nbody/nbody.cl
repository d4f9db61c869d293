/* The N-body kernels of mod.rs in OpenCL C. FLASH_T is float or double. */

/* Bodies whose attractions are summed by themselves before they go into the sum of all: the rounding of
 * thousands of additions in a row would show in the sixth digit. */
#define BLOCK 128

#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
/* Squares of distances: at a smaller one two bodies are in one place, and a larger one is none. */
#define SMALLEST_float 0x1p-126f
#define SMALLEST_double 0x1p-1022
#define LARGEST_float 0x1.fffffep127f
#define LARGEST_double 0x1.fffffffffffffp1023
#define SMALLEST JOIN(SMALLEST_, FLASH_T)
#define LARGEST JOIN(LARGEST_, FLASH_T)

/* Bodies that attract: those with a position and a mass. */
#define ATTRACTING min(FLASH_LEN(pos), FLASH_LEN(mass))

/* 1 / sqrt(d), for a normal number d. */
static inline FLASH_T inverse_sqrt(const FLASH_T d) {
    if (sizeof(FLASH_T) == sizeof(float)) {
        /* The device's estimate, and one step of Newton's method, which squares its error. */
        const float near = native_rsqrt((float)d);
        return near * (1.5f - 0.5f * (float)d * near * near);
    }
    return rsqrt(d);
}

/* Adds the attraction of n bodies to body i, which has a position, without the factor g. A body at the same place,
 * such as itself, does not attract it; nor does one whose distance has no square. */
static inline void attract(const flash_u64 i, const FLASH_T softening2, FLASH_GLOBAL const FLASH_T *pos,
                           FLASH_GLOBAL const FLASH_T *mass, const flash_u64 n, FLASH_T *a) {
    const FLASH_T x = pos[3 * i], y = pos[3 * i + 1], z = pos[3 * i + 2];
    for (flash_u64 first = 0; first < n; first += BLOCK) {
        const flash_u64 end = min(first + BLOCK, n);
        FLASH_T ax = 0, ay = 0, az = 0;
        for (flash_u64 j = first; j < end; ++j) {
            const FLASH_T dx = pos[3 * j] - x, dy = pos[3 * j + 1] - y, dz = pos[3 * j + 2] - z;
            const FLASH_T d2 = dx * dx + dy * dy + dz * dz + softening2;
            const FLASH_T inverse = inverse_sqrt(fmin(d2, LARGEST));
            const FLASH_T weight = d2 >= SMALLEST ? mass[j] * inverse * inverse * inverse : 0;
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        a[0] += ax;
        a[1] += ay;
        a[2] += az;
    }
}

#ifdef FLASH_ENTRY_accelerate
FLASH_KERNEL accelerate(const FLASH_T g, const FLASH_T softening2, FLASH_GLOBAL const FLASH_T *pos,
                        FLASH_GLOBAL const FLASH_T *mass, FLASH_GLOBAL FLASH_T *acc, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_T a[3] = {0, 0, 0};
        if (i < FLASH_LEN(pos))
            attract(i, softening2, &FLASH_AT(pos, 0), &FLASH_AT(mass, 0), ATTRACTING, a);
        for (int k = 0; k < 3; ++k)
            FLASH_AT(acc, 3 * i + k) = g * a[k];
    }
}
#endif

#ifdef FLASH_ENTRY_integrate
FLASH_KERNEL integrate(const FLASH_T dt, FLASH_GLOBAL const FLASH_T *acc, FLASH_GLOBAL FLASH_T *pos,
                       FLASH_GLOBAL FLASH_T *vel, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        for (int k = 0; k < 3; ++k) {
            const FLASH_T v = FLASH_AT(vel, 3 * i + k) + FLASH_AT(acc, 3 * i + k) * dt;
            FLASH_AT(vel, 3 * i + k) = v;
            FLASH_AT(pos, 3 * i + k) += v * dt;
        }
    }
}
#endif

#ifdef FLASH_ENTRY_simulate
/* The stage of the phase's first work item, which is that of all. As it is asked for once, the compiler knows that
 * it is the same for all, and vectorises the loop over bodies across work items. */
static inline flash_u64 stage_of(FLASH_ARGS) {
    const flash_u64 flash_item = 0;
    return FLASH_INDEX(1);
}

FLASH_KERNEL simulate(const FLASH_T g, const FLASH_T softening2, const FLASH_T dt,
                      FLASH_GLOBAL const FLASH_T *mass, FLASH_GLOBAL FLASH_T *pos, FLASH_GLOBAL FLASH_T *vel,
                      FLASH_GLOBAL FLASH_T *acc, FLASH_ARGS) {
    const flash_u64 stage = stage_of(flash_run, flash_table);
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        if (stage == 0) {
            FLASH_T a[3] = {0, 0, 0};
            attract(i, softening2, &FLASH_AT(pos, 0), &FLASH_AT(mass, 0), ATTRACTING, a);
            for (int k = 0; k < 3; ++k)
                FLASH_AT(acc, 3 * i + k) = g * a[k];
        } else {
            for (int k = 0; k < 3; ++k) {
                const FLASH_T v = FLASH_AT(vel, 3 * i + k) + FLASH_AT(acc, 3 * i + k) * dt;
                FLASH_AT(vel, 3 * i + k) = v;
                FLASH_AT(pos, 3 * i + k) += v * dt;
            }
        }
    }
}
#endif
