/* Nothing, as the framework calls it, and as one calls it oneself; and what makes arrays move. */

#ifdef FLASH_ENTRY_touch
FLASH_KERNEL touch(float a, const float *x, float *y, float *z, FLASH_ARGS) {}
#elif defined FLASH_ENTRY_first
FLASH_KERNEL first(const float *x, float *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS { FLASH_AT(to, FLASH_INDEX(0)) = FLASH_AT(x, 0); }
}
#elif defined FLASH_ENTRY_fill
FLASH_KERNEL fill(float value, float *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS { FLASH_AT(to, FLASH_INDEX(0)) = value; }
}
#else
extern "C" __global__ void touch(float a, const float *x, float *y, float *z) {}
#endif
