/* A plugin of kernels only: a faster `plugins.fill`, which says that it was here. */
#include "flash_backend.h"

#ifndef SIGNATURE
#define SIGNATURE "[1](u32, Item<Write<u32>> along [0])"
#endif
#ifndef FUNCTION
#define FUNCTION fill
#endif
#ifdef TEXT
#define CODE .payload = (const uint8_t *)TEXT, .payload_len = sizeof TEXT - 1,
#else
#define CODE
#endif
#ifndef KERNEL
#define KERNEL "plugins.fill"
#endif
#ifndef TARGET
#define TARGET "cpu"
#endif
#ifndef FEATURES
#define FEATURES ""
#endif

__attribute__((unused)) static int fill(FLASH_ARGS) {
    const uint32_t value = FLASH_SCALAR(uint32_t, 0);
    FLASH_FOR_ITEMS {
        FLASH_AT(uint32_t, 1, FLASH_OWN_INDEX(1)) = value + 1000;
    }
    return 0;
}

static const flash_implementation fast = {
    .struct_size = sizeof fast, .door = FLASH_DOOR_SPAN, .kind = FLASH_KIND_INT_BIN, .priority = 10,
    .kernel = FLASH_STR(KERNEL), .name = FLASH_STR("fast"), .target = FLASH_STR(TARGET),
    .descriptor = FLASH_STR(SIGNATURE), .cpu_features = FLASH_STR(FEATURES), .span = FUNCTION, CODE
};

FLASH_KERNELS("my-kernels", "2.1", &fast)
