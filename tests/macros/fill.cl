FLASH_KERNEL fill(const FLASH_T value, FLASH_GLOBAL FLASH_T *x, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(x, FLASH_INDEX(0)) = value;
    }
}
