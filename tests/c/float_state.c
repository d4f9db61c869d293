/* A library whose initialiser changes how the thread that loads it computes, as `-Ofast` makes some do. */
#include "flash_device.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

__attribute__((constructor)) static void flush_and_round_down(void) {
    _mm_setcsr(_mm_getcsr() | 0x8040 | _MM_ROUND_DOWN);
}
#elif defined(__aarch64__)
__attribute__((constructor)) static void flush_and_round_down(void) {
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    __asm__ volatile("msr fpcr, %0" : : "r"(state | 1 << 24 | 2 << 22));
}
#endif

/* value, out */
int set(FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(uint32_t, 1, FLASH_INDEX(0)) = FLASH_SCALAR(uint32_t, 0);
    }
    return 0;
}
