/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. */

#define IS_SHAPED(array) \
    (FLASH_STRIDE(array, 0) == 1 && FLASH_STRIDE(array, 1) == nx && FLASH_STRIDE(array, 2) == plane)

FLASH_KERNEL js(const FLASH_T h2, const flash_u64 nx, const flash_u64 ny, FLASH_GLOBAL const FLASH_T *from,
                FLASH_GLOBAL const FLASH_T *f, FLASH_GLOBAL FLASH_T *to, FLASH_ARGS) {
    const flash_u64 plane = nx * ny, len = FLASH_END(from);
    /* A point's number is the same in all arrays if these are the extents of `f` and `to`. */
    const flash_u64 fits = IS_SHAPED(f) && IS_SHAPED(to) && nx > 0 && nx <= plane;
    /* The points from the first that has a plane below to the last that has one above. */
    const flash_u64 inside = fits && len > plane && len - plane > plane ? len - plane - plane : 0;
    FLASH_FOR_ITEMS {
        const flash_u64 i = (FLASH_INDEX(2) * ny + FLASH_INDEX(1)) * nx + FLASH_INDEX(0);
        /* A point on the border lacks neighbours; below the first plane the difference wraps. */
        if (i - plane < inside) {
            const FLASH_T around = (FLASH_AT(from, i - 1) + FLASH_AT(from, i + 1)) +
                                   (FLASH_AT(from, i - nx) + FLASH_AT(from, i + nx)) +
                                   (FLASH_AT(from, i - plane) + FLASH_AT(from, i + plane));
            FLASH_AT(to, i) = (around - h2 * FLASH_AT(f, i)) / 6;
        }
    }
}
