/* Functions that programs name at run time. */
#include "flash_device.h"

/* a, x, y */
int saxpy(FLASH_ARGS) {
    const float a = FLASH_SCALAR(float, 0);
    FLASH_FOR_ITEMS {
        uint64_t i = FLASH_INDEX(0);
        FLASH_AT(float, 2, i) += a * FLASH_AT(const float, 1, i);
    }
    return 0;
}

/* value, out: fails at one work item */
int fail_at_100(FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        if (FLASH_INDEX(0) == 100)
            return 42;
        FLASH_AT(uint32_t, 1, FLASH_INDEX(0)) = FLASH_SCALAR(uint32_t, 0);
    }
    return 0;
}

/* values, sum, counts: a sum that is rounded, and how often each remainder comes */
int tally(FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        uint64_t i = FLASH_INDEX(0);
        FLASH_REDUCE(double, 1, 0) += FLASH_AT(const double, 0, i);
        FLASH_REDUCE(uint32_t, 2, i % FLASH_LEN(2)) += 1;
    }
    return 0;
}

/* Fourteen arguments: scalars a to f, arrays g to m, out */
int many(FLASH_ARGS) {
    if (flash_run->arg_count != 14)
        return -14;
    FLASH_FOR_ITEMS {
        uint64_t i = FLASH_INDEX(0);
        double sum = 0;
        for (int k = 0; k < 6; ++k)
            sum += FLASH_SCALAR(double, k);
        for (int k = 6; k < 13; ++k)
            sum += FLASH_AT(const double, k, i);
        FLASH_AT(double, 13, i) = sum;
    }
    return 0;
}

/* from, to: the sum of the elements of each column of a window of two axes */
int columns(FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        uint64_t x = FLASH_INDEX(0), width = FLASH_PART_END(0, 0), sum = 0;
        if (x < FLASH_PART_BEGIN(0, 0) || FLASH_PART_END(0, 2) != 1)
            return 1;
        if (FLASH_END(0) != FLASH_PART_END(0, 1) * width)
            return 1;
        for (uint64_t y = FLASH_PART_BEGIN(0, 1); y < FLASH_PART_END(0, 1); ++y)
            sum += FLASH_AT(const uint64_t, 0, x + y * width);
        FLASH_AT(uint64_t, 1, x) = sum;
    }
    return 0;
}

/* rows, table, out: dimensions x and y, of which rows has both and out only y */
int places(FLASH_ARGS) {
    if (flash_run->dimensions != 2 || FLASH_ROW_LEN(0) != 3 || FLASH_LEN(1) != 2)
        return 1;
    FLASH_FOR_ITEMS {
        const uint32_t *row = &FLASH_AT(const uint32_t, 0, FLASH_OWN_INDEX(0));
        uint32_t *out = &FLASH_AT(uint32_t, 2, FLASH_OWN_INDEX(2));
        *out = row[0] + row[1] + row[2] + FLASH_AT(const uint32_t, 1, 1)
             + (uint32_t)(1000 * FLASH_INDEX(0) + 100000 * FLASH_INDEX(1));
    }
    return 0;
}

/* values: each takes its right neighbour's, as it was, plus the number of the phase */
int shift(FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        uint64_t right = (FLASH_INDEX(0) + 1) % FLASH_LEN(0);
        FLASH_NEXT(uint64_t, 0, FLASH_OWN_INDEX(0)) = FLASH_AT(const uint64_t, 0, right) + FLASH_PHASE();
    }
    return 0;
}

int not_a_function = 3;
