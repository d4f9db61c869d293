#pragma OPENCL FP_CONTRACT OFF

/* Elements of a tile's edge, threads of a team, and rows between a thread's elements. */
#define EDGE 8
#define TEAM 32
#define ROWS (TEAM / EDGE)

__attribute__((reqd_work_group_size(TEAM, 1, 1)))
FLASH_KERNEL product(FLASH_GLOBAL const float *a, FLASH_GLOBAL const float *b, FLASH_GLOBAL float *c,
                     FLASH_ARGS) {
    FLASH_LOCAL float left[EDGE][EDGE], above[EDGE][EDGE];
    const flash_u64 inner = FLASH_PART_END(a, 0), rows = FLASH_PART_END(a, 1), columns = FLASH_PART_END(b, 0);
    const int lane = FLASH_LANE(), x = lane % EDGE, y = lane / EDGE;
    FLASH_FOR_ITEMS {
        const flash_u64 column = EDGE * FLASH_INDEX(0) + x, top = EDGE * FLASH_INDEX(1);
        float sums[EDGE / ROWS] = {0};
        for (flash_u64 begin = 0; begin < inner; begin += EDGE) {
            for (int part = 0; part < EDGE / ROWS; ++part) {
                const int at = y + part * ROWS;
                const flash_u64 row = top + at, i = begin + at;
                left[at][x] = row < rows && begin + x < inner ? FLASH_AT(a, row * inner + begin + x) : 0;
                above[at][x] = i < inner && column < columns ? FLASH_AT(b, i * columns + column) : 0;
            }
            FLASH_BARRIER();
            for (int part = 0; part < EDGE / ROWS; ++part)
                for (int j = 0; j < EDGE; ++j)
                    sums[part] += left[y + part * ROWS][j] * above[j][x];
            FLASH_BARRIER();
        }
        for (int part = 0; part < EDGE / ROWS; ++part) {
            const flash_u64 row = top + y + part * ROWS;
            if (row < rows && column < columns)
                FLASH_AT(c, row * columns + column) = sums[part];
        }
    }
}
