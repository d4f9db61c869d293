/* The suite's kernels for devices with a kernel language of their own: OpenCL C, or CUDA C++. */

/* Counts stay below 2^32, and not every device has atomics of 64 bits: the low half, which comes first. */
#ifdef __OPENCL_VERSION__
#define COUNT(address) atomic_inc((volatile FLASH_GLOBAL flash_u32 *)(address))
#else
#define COUNT(address) atomicAdd((flash_u32 *)(address), 1)
#endif

#ifdef FLASH_ENTRY_count
FLASH_KERNEL count(flash_u64 nx, flash_u64 ny, FLASH_GLOBAL flash_u32 *hits, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(hits, FLASH_INDEX(0) + nx * (FLASH_INDEX(1) + ny * FLASH_INDEX(2))) += 1;
    }
}
#endif

#ifdef FLASH_ENTRY_drain
FLASH_KERNEL drain(FLASH_GLOBAL flash_u64 *done, FLASH_GLOBAL flash_u64 *before, FLASH_GLOBAL flash_u64 *after,
                   FLASH_ARGS) {
    FLASH_FOR_PHASES {
        FLASH_FOR_ITEMS {
            flash_u64 step = FLASH_INDEX(1);
            FLASH_AT(before, FLASH_OWN_INDEX(before)) = step > 0 ? FLASH_AT(done, step - 1) : 0;
            FLASH_AT(after, FLASH_OWN_INDEX(after)) = step + 1 < FLASH_LEN(done) ? FLASH_AT(done, step + 1) : 0;
            COUNT(&FLASH_AT(done, step));
        }
    }
}
#endif

#ifdef FLASH_ENTRY_shift
FLASH_KERNEL shift(FLASH_GLOBAL const flash_u64 *values, FLASH_GLOBAL flash_u64 *values_next, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        flash_u32 x = FLASH_INDEX32(0);
        FLASH_NEXT(values, x) = FLASH_AT(values, (x + 1) % (flash_u32)FLASH_LEN(values)) + 1;
    }
}
#endif

#ifdef FLASH_ENTRY_stages
FLASH_KERNEL stages(FLASH_GLOBAL flash_u64 *values, FLASH_GLOBAL flash_u64 *sums, FLASH_ARGS) {
    FLASH_FOR_PHASES {
        FLASH_FOR_ITEMS {
            flash_u64 x = FLASH_INDEX(0);
            if (FLASH_INDEX(1) == 0) {
                flash_u64 sum = 0;
                for (flash_u64 i = 0; i < FLASH_LEN(values); ++i)
                    sum += FLASH_AT(values, i);
                FLASH_AT(sums, x) = sum;
            } else {
                FLASH_AT(values, x) = FLASH_AT(sums, x) + x;
            }
        }
    }
}
#endif

#ifdef FLASH_ENTRY_values
typedef struct {
    float v[3];
} three;
typedef struct {
    double a;
    unsigned short b[3];
    unsigned short c;
} mixed;

FLASH_KERNEL values(unsigned char a, short b, flash_u32 c, flash_u64 d, float e, double f, three g, mixed h,
                    FLASH_GLOBAL const mixed *table, FLASH_GLOBAL const unsigned short *rows,
                    FLASH_GLOBAL double *numbers, FLASH_GLOBAL flash_u64 *sums, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        flash_u64 x = FLASH_INDEX(0);
        double total = 0;
        for (flash_u64 i = 0; i < FLASH_LEN(table); ++i)
            total += FLASH_AT(table, i).a + FLASH_AT(table, i).c;
        FLASH_AT(numbers, 4 * x) = (double)a + (double)b + (double)c + (double)d;
        FLASH_AT(numbers, 4 * x + 1) = (double)e + f + (double)g.v[0] + (double)g.v[1] + (double)g.v[2];
        FLASH_AT(numbers, 4 * x + 2) = h.a + (double)h.b[2] + (double)h.c;
        FLASH_AT(numbers, 4 * x + 3) = total + (double)x;
        flash_u64 sum = 0, row = FLASH_OWN_INDEX(rows), own = FLASH_OWN_INDEX(sums);
        for (flash_u64 i = 0; i < FLASH_ROW_LEN(rows); ++i)
            sum += FLASH_AT(rows, row + i);
        FLASH_AT(sums, own) = sum;
        FLASH_AT(sums, own + 1) = FLASH_ROW_LEN(rows);
    }
}
#endif

#ifdef FLASH_ENTRY_tally
FLASH_KERNEL tally(FLASH_GLOBAL double *sum, FLASH_GLOBAL flash_u64 *largest, FLASH_GLOBAL flash_u32 *counts,
                   FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        flash_u64 x = FLASH_INDEX(0), step = FLASH_INDEX(1), value = x ^ 0x55;
        FLASH_REDUCE(sum, 0) += 1.0 / (double)(1 + x + 7 * step);
        if (FLASH_REDUCE(largest, 0) < value)
            FLASH_REDUCE(largest, 0) = value;
        FLASH_REDUCE(counts, x % FLASH_LEN(counts)) += 1;
    }
}
#endif

#ifdef FLASH_ENTRY_fail
/* This kernel cannot fail. */
FLASH_KERNEL fail(flash_u64 at, FLASH_GLOBAL flash_u32 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(out, FLASH_INDEX(0)) += 1;
    }
}
#endif
