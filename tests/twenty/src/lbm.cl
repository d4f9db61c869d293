#pragma OPENCL FP_CONTRACT OFF

#define FROM(direction) FLASH_GLOBAL const double *from_##direction
#define TO(direction) FLASH_GLOBAL double *to_##direction

/* Pulls a distribution, whose direction is (ex, ey). */
#define PULL(i, ex, ey) \
    f[i] = FLASH_AT(from_##i, (x - (ex) + w) % w + (y - (ey) + h) % h * w); \
    rho += f[i]; \
    mx += f[i] * (double)(ex); \
    my += f[i] * (double)(ey)

#define RELAX(i, ex, ey, weight) \
    { \
        const double eu = (double)(ex) * ux + (double)(ey) * uy; \
        const double still = \
            (weight) * rho * (1.0 + 3.0 * eu + 4.5 * eu * eu - 1.5 * (ux * ux + uy * uy)); \
        FLASH_AT(to_##i, x + y * w) = f[i] + omega * (still - f[i]); \
    }

FLASH_KERNEL lbm(const flash_u64 width, const flash_u64 height, const double omega, FROM(0), FROM(1), FROM(2),
                 FROM(3), FROM(4), FROM(5), FROM(6), FROM(7), FROM(8), TO(0), TO(1), TO(2), TO(3), TO(4), TO(5),
                 TO(6), TO(7), TO(8), FLASH_ARGS) {
    const flash_i64 w = width, h = height;
    FLASH_FOR_ITEMS {
        const flash_i64 x = FLASH_INDEX(0), y = FLASH_INDEX(1);
        double f[9], rho = 0, mx = 0, my = 0;
        PULL(0, 0, 0);
        PULL(1, 1, 0);
        PULL(2, 0, 1);
        PULL(3, -1, 0);
        PULL(4, 0, -1);
        PULL(5, 1, 1);
        PULL(6, -1, 1);
        PULL(7, -1, -1);
        PULL(8, 1, -1);
        const double ux = mx / rho, uy = my / rho;
        RELAX(0, 0, 0, 4.0 / 9.0)
        RELAX(1, 1, 0, 1.0 / 9.0)
        RELAX(2, 0, 1, 1.0 / 9.0)
        RELAX(3, -1, 0, 1.0 / 9.0)
        RELAX(4, 0, -1, 1.0 / 9.0)
        RELAX(5, 1, 1, 1.0 / 36.0)
        RELAX(6, -1, 1, 1.0 / 36.0)
        RELAX(7, -1, -1, 1.0 / 36.0)
        RELAX(8, 1, -1, 1.0 / 36.0)
    }
}
