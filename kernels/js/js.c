/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. */

FLASH_KERNEL js(const FLASH_T h2, const flash_u64 nx, const flash_u64 ny, FLASH_GLOBAL const FLASH_T *from,
                FLASH_GLOBAL const FLASH_T *f, FLASH_GLOBAL FLASH_T *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 plane = nx * ny, i = (FLASH_INDEX(2) * ny + FLASH_INDEX(1)) * nx + FLASH_INDEX(0);
        /* A point on the border has neighbours that are not there. */
        if (i >= plane && i + plane < FLASH_LEN(from)) {
            const FLASH_T around = (FLASH_AT(from, i - 1) + FLASH_AT(from, i + 1)) +
                                   (FLASH_AT(from, i - nx) + FLASH_AT(from, i + nx)) +
                                   (FLASH_AT(from, i - plane) + FLASH_AT(from, i + plane));
            FLASH_AT(to, i) = (around - h2 * FLASH_AT(f, i)) / 6;
        }
    }
}
