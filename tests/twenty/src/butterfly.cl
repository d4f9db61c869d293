#pragma OPENCL FP_CONTRACT OFF

FLASH_KERNEL butterfly(const uint apart, FLASH_GLOBAL const double *from, FLASH_GLOBAL double *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0), even = i & ~(flash_u64)apart, odd = i | apart;
        const double angle = -M_PI * (double)(i & (apart - 1)) / (double)apart;
        const double c = cos(angle), s = sin(angle);
        const double re = FLASH_AT(from, 2 * odd), im = FLASH_AT(from, 2 * odd + 1);
        const double sign = i & apart ? -1.0 : 1.0;
        FLASH_AT(to, 2 * i) = FLASH_AT(from, 2 * even) + sign * (re * c - im * s);
        FLASH_AT(to, 2 * i + 1) = FLASH_AT(from, 2 * even + 1) + sign * (re * s + im * c);
    }
}
