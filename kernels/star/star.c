/* The kernel of mod.rs in OpenCL C and CUDA C++. FLASH_T is float or double. No product is added to anything: there is
 * nothing to fuse. */

#define IS_SHAPED(array) \
    (FLASH_STRIDE(array, 0) == 1 && FLASH_STRIDE(array, 1) == nx && FLASH_STRIDE(array, 2) == plane)
#define ALONG(step)                                                          \
    ((FLASH_AT(from, i - 2 * (step)) + FLASH_AT(from, i + 2 * (step))) + \
     (FLASH_AT(from, i - (step)) + FLASH_AT(from, i + (step))))

FLASH_KERNEL star(const FLASH_T scale, const flash_u64 nx, const flash_u64 ny, FLASH_GLOBAL const FLASH_T *from,
                  FLASH_GLOBAL FLASH_T *to, FLASH_ARGS) {
    const flash_u64 plane = nx * ny, len = FLASH_END(from);
    /* A point's number is the same in both arrays if these are the extents of `to`. */
    const flash_u64 fits = IS_SHAPED(to) && nx > 0 && nx <= plane;
    /* The points from the first that has two planes below to the last that has two above. */
    const flash_u64 inside = fits && len / 4 >= plane ? len - 4 * plane : 0;
    FLASH_FOR_ITEMS {
        const flash_u64 i = (FLASH_INDEX(2) * ny + FLASH_INDEX(1)) * nx + FLASH_INDEX(0);
        /* A point on the border lacks neighbours; below the first planes the difference wraps. */
        if (i - 2 * plane < inside)
            FLASH_AT(to, i) = ((FLASH_AT(from, i) + ALONG(1)) + (ALONG(nx) + ALONG(plane))) * scale;
    }
}
