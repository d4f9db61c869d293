FLASH_KERNEL transpose(const flash_u64 rows, FLASH_GLOBAL const FLASH_T *from, FLASH_GLOBAL FLASH_T *to,
                       FLASH_ARGS) {
    const flash_u64 columns = FLASH_STRIDE(to, 1);
    FLASH_FOR_ITEMS {
        const flash_u64 column = FLASH_INDEX(0), row = FLASH_INDEX(1);
        FLASH_AT(to, row * columns + column) = FLASH_AT(from, column * rows + row);
    }
}
