#pragma OPENCL FP_CONTRACT OFF

FLASH_KERNEL gravity(const float softening, FLASH_GLOBAL const float *position, FLASH_GLOBAL const float *mass,
                     FLASH_GLOBAL float *acceleration, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        const float x = FLASH_AT(position, 3 * i), y = FLASH_AT(position, 3 * i + 1),
                    z = FLASH_AT(position, 3 * i + 2);
        float sx = 0, sy = 0, sz = 0;
        for (flash_u64 j = 0; j < FLASH_LEN(mass); ++j) {
            const float dx = FLASH_AT(position, 3 * j) - x, dy = FLASH_AT(position, 3 * j + 1) - y,
                        dz = FLASH_AT(position, 3 * j + 2) - z;
            const float square = dx * dx + dy * dy + dz * dz + softening;
            const float weight = FLASH_AT(mass, j) / (square * sqrt(square));
            sx += dx * weight;
            sy += dy * weight;
            sz += dz * weight;
        }
        FLASH_AT(acceleration, 3 * i) = sx;
        FLASH_AT(acceleration, 3 * i + 1) = sy;
        FLASH_AT(acceleration, 3 * i + 2) = sz;
    }
}
