#pragma OPENCL FP_CONTRACT OFF

FLASH_KERNEL mandelbrot(const double step, const uint most, FLASH_GLOBAL uint *count, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const double cx = FLASH_INDEX(0) * step - 2.0, cy = FLASH_INDEX(1) * step - 1.0;
        double x = 0, y = 0;
        uint n = 0;
        while (n < most && x * x + y * y <= 4.0) {
            const double next = x * x - y * y + cx;
            y = 2.0 * x * y + cy;
            x = next;
            ++n;
        }
        FLASH_AT(count, FLASH_OWN_INDEX(count)) = n;
    }
}
