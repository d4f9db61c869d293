FLASH_KERNEL life(const uint width, const uint height, FLASH_GLOBAL const uchar *was, FLASH_GLOBAL uchar *is,
                  FLASH_ARGS) {
    const flash_u64 w = width, h = height;
    FLASH_FOR_ITEMS {
        const flash_u64 x = FLASH_INDEX(0), y = FLASH_INDEX(1);
        uchar neighbours = 0;
        for (flash_u64 dy = 0; dy < 3; ++dy)
            for (flash_u64 dx = 0; dx < 3; ++dx)
                if (dx != 1 || dy != 1)
                    neighbours += FLASH_AT(was, (x + w + dx - 1) % w + (y + h + dy - 1) % h * w);
        const uchar alive = FLASH_AT(was, x + y * w);
        FLASH_AT(is, x + y * w) = neighbours == 3 || (alive == 1 && neighbours == 2);
    }
}
