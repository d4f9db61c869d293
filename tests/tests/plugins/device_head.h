/* FLASH: what a kernel in C sees, or one in Fortran through bind(C).
 *
 * Made from flash-core/src/abi by tests/tests/plugins/header.rs: do not edit. The layout is frozen.
 *
 *     #include "flash_device.h"
 *
 *     // y = a * x + y, for: a scalar, x read, y read and written
 *     int saxpy(FLASH_ARGS) {
 *         const float a = FLASH_SCALAR(float, 0);
 *         FLASH_FOR_ITEMS {
 *             uint64_t i = FLASH_INDEX(0);
 *             FLASH_AT(float, 2, i) += a * FLASH_AT(const float, 1, i);
 *         }
 *         return 0;
 *     }
 *
 * Compile it with `cc -O3 -shared -fPIC` and pass `Implementation::file("./libsaxpy.so", "saxpy")`.
 * The function is called by several threads at once, each with other work items. Anything but 0 is
 * an error of the launch, which says the number. It must not throw or longjmp out. */
