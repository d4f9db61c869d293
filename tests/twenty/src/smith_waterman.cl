FLASH_KERNEL smith_waterman(const int gap, FLASH_GLOBAL const uchar *a, FLASH_GLOBAL const uchar *b,
                            FLASH_GLOBAL const int *once, FLASH_GLOBAL int *once_next,
                            FLASH_GLOBAL const int *twice, FLASH_GLOBAL int *twice_next, FLASH_GLOBAL int *best,
                            FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0), diagonal = FLASH_INDEX(1), j = diagonal - i;
        const int own = FLASH_AT(once, i);
        if (diagonal < i || j >= FLASH_LEN(b)) {
            FLASH_NEXT(once, i) = own;
            FLASH_NEXT(twice, i) = FLASH_AT(twice, i);
            continue;
        }
        int left = 0, corner = 0;
        if (i > 0) {
            left = FLASH_AT(once, i - 1);
            corner = FLASH_AT(twice, i - 1);
        }
        const int score = FLASH_AT(a, i) == FLASH_AT(b, j) ? 3 : -3;
        int value = max((j > 0 ? corner : 0) + score, left - gap);
        value = max(max(value, (j > 0 ? own : 0) - gap), 0);
        FLASH_NEXT(twice, i) = own;
        FLASH_NEXT(once, i) = value;
        if (value > FLASH_AT(best, i))
            FLASH_AT(best, i) = value;
    }
}
