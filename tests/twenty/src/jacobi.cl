FLASH_KERNEL jacobi(FLASH_GLOBAL const double *from, FLASH_GLOBAL double *to, FLASH_ARGS) {
    const flash_u64 row = FLASH_STRIDE(to, 1), plane = FLASH_STRIDE(to, 2);
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(2) * plane + FLASH_INDEX(1) * row + FLASH_INDEX(0);
        double sum = FLASH_AT(from, i - 1);
        sum += FLASH_AT(from, i - row);
        sum += FLASH_AT(from, i - plane);
        sum += FLASH_AT(from, i + 1);
        sum += FLASH_AT(from, i + row);
        sum += FLASH_AT(from, i + plane);
        FLASH_AT(to, i) = sum / 6.0;
    }
}
