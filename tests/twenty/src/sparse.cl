FLASH_KERNEL sparse(FLASH_GLOBAL const uint *start, FLASH_GLOBAL const uint *column,
                    FLASH_GLOBAL const double *value, FLASH_GLOBAL const double *x, FLASH_GLOBAL double *y,
                    FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 row = FLASH_INDEX(0);
        double sum = 0;
        for (uint i = FLASH_AT(start, row); i < FLASH_AT(start, row + 1); ++i)
            sum = fma(FLASH_AT(value, i), FLASH_AT(x, FLASH_AT(column, i)), sum);
        FLASH_AT(y, row) = sum;
    }
}
