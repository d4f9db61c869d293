FLASH_KERNEL histogram(const float width, FLASH_GLOBAL const float *x, FLASH_GLOBAL uint *bins,
                       FLASH_GLOBAL float *largest, FLASH_ARGS) {
    const flash_u64 last = FLASH_LEN(bins) - 1;
    FLASH_FOR_ITEMS {
        const float value = FLASH_AT(x, FLASH_INDEX(0));
        const flash_u64 bin = value > 0 ? (flash_u64)(value / width) : 0;
        FLASH_REDUCE(bins, min(bin, last)) += 1;
        FLASH_REDUCE(largest, 0) = fmax(FLASH_REDUCE(largest, 0), value);
    }
}
