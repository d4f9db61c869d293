/* The kernel of mod.rs for heat in OpenCL C and CUDA C++, where it is compiled with --fmad=false: a step is rounded
 * as written. */
#ifndef __CUDACC__
#pragma OPENCL FP_CONTRACT OFF
#endif

FLASH_KERNEL heat(const float rate, const flash_u64 width, const flash_u64 height,
                  FLASH_GLOBAL const float *from, FLASH_GLOBAL float *to, FLASH_ARGS) {
    /* If the width of `to` is this, an element's number is the same in both fields; `from` has no more elements. */
    const flash_u64 end =
        FLASH_STRIDE(to, 0) == 1 && FLASH_STRIDE(to, 1) == width ? min(width * height, FLASH_END(from)) : 0;
    FLASH_FOR_ITEMS {
        const flash_u64 x = FLASH_INDEX(0), y = FLASH_INDEX(1), i = y * width + x;
        if (i >= end)
            continue;
        /* At the border, reads are left out and not moved to other cells: reads of neighbours stay neighbours. */
        FLASH_GLOBAL const float *at = &FLASH_AT(from, i);
        const float here = at[0];
        const float west = x > 0 ? at[-1] : here, east = x + 1 < width && i + 1 < end ? at[1] : here;
        const float north = y > 0 ? at[-(flash_i64)width] : here, south = i + width < end ? at[width] : here;
        FLASH_AT(to, i) = here + rate * (((west + east) + (north + south)) - 4.0f * here);
    }
}
