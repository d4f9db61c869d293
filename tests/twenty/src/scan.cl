FLASH_KERNEL scan(FLASH_GLOBAL const uint *values, FLASH_GLOBAL uint *values_next, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0), distance = 1ul << FLASH_INDEX(1);
        const uint own = FLASH_AT(values, i);
        FLASH_NEXT(values, i) = i >= distance ? own + FLASH_AT(values, i - distance) : own;
    }
}
