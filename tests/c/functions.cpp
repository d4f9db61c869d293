// Functions that programs name at run time, by the names that they have in C++.
#include "flash_device.h"

namespace ns {
int fill(FLASH_ARGS) {
    FLASH_FOR_ITEMS FLASH_AT(uint32_t, 1, FLASH_INDEX(0)) = FLASH_SCALAR(uint32_t, 0) + 7;
    return 0;
}

int twice(FLASH_ARGS) {
    FLASH_FOR_ITEMS FLASH_AT(uint32_t, 1, FLASH_INDEX(0)) = 2 * FLASH_SCALAR(uint32_t, 0);
    return 0;
}
int twice(int) { return 1; }
}

extern "C" int plain(FLASH_ARGS) {
    return ns::fill(flash_run, flash_args);
}
