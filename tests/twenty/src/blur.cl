FLASH_KERNEL blur(const flash_u64 width, FLASH_GLOBAL const float *from, FLASH_GLOBAL float *near,
                  FLASH_GLOBAL float *far, FLASH_ARGS) {
    const flash_i64 last = (flash_i64)width - 1;
    FLASH_FOR_ITEMS {
        const flash_i64 x = FLASH_INDEX(0), row = FLASH_INDEX(1) * width;
        float sum = 0;
        for (flash_i64 d = -1; d <= 1; ++d)
            sum += FLASH_AT(from, row + clamp(x + d, 0L, last));
        FLASH_AT(near, row + x) = sum / 3.0f;
        sum = 0;
        for (flash_i64 d = -3; d <= 3; ++d)
            sum += FLASH_AT(from, row + clamp(x + d, 0L, last));
        FLASH_AT(far, row + x) = sum / 7.0f;
    }
}
