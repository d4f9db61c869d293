#pragma OPENCL FP_CONTRACT OFF

FLASH_FUNCTION FLASH_T lennard_jones(const FLASH_T square) {
    const FLASH_T inverse = (FLASH_T)1 / square;
    const FLASH_T sixth = inverse * inverse * inverse;
    return (FLASH_T)24 * inverse * sixth * ((FLASH_T)2 * sixth - (FLASH_T)1);
}

FLASH_KERNEL forces(const FLASH_T cutoff, FLASH_GLOBAL const FLASH_T *position, FLASH_GLOBAL FLASH_T *force,
                    FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        const FLASH_T x = FLASH_AT(position, 3 * i), y = FLASH_AT(position, 3 * i + 1),
                      z = FLASH_AT(position, 3 * i + 2);
        FLASH_T sx = 0, sy = 0, sz = 0;
        for (flash_u64 j = 0; j < FLASH_LEN(position); ++j) {
            if (j == i)
                continue;
            const FLASH_T dx = x - FLASH_AT(position, 3 * j), dy = y - FLASH_AT(position, 3 * j + 1),
                          dz = z - FLASH_AT(position, 3 * j + 2);
            const FLASH_T square = dx * dx + dy * dy + dz * dz;
            if (square < cutoff * cutoff) {
                const FLASH_T factor = lennard_jones(square);
                sx += dx * factor;
                sy += dy * factor;
                sz += dz * factor;
            }
        }
        FLASH_AT(force, 3 * i) = sx;
        FLASH_AT(force, 3 * i + 1) = sy;
        FLASH_AT(force, 3 * i + 2) = sz;
    }
}
