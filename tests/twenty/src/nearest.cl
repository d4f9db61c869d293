#pragma OPENCL FP_CONTRACT OFF

FLASH_KERNEL nearest(FLASH_GLOBAL const float *centres, FLASH_GLOBAL const float *points,
                     FLASH_GLOBAL uint *nearest, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        const float x = FLASH_AT(points, 3 * i), y = FLASH_AT(points, 3 * i + 1), z = FLASH_AT(points, 3 * i + 2);
        uint best = 0;
        float least = FLT_MAX;
        for (flash_u64 c = 0; c < FLASH_LEN(centres); ++c) {
            const float dx = x - FLASH_AT(centres, 3 * c), dy = y - FLASH_AT(centres, 3 * c + 1),
                        dz = z - FLASH_AT(centres, 3 * c + 2);
            // From 0 on, as the kernel adds: without it there is an addition less.
            const float square = 0.0f + dx * dx + dy * dy + dz * dz;
            if (square < least) {
                least = square;
                best = c;
            }
        }
        FLASH_AT(nearest, i) = best;
    }
}
