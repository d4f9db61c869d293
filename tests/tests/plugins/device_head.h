/* FLASH: the interface of kernels, in C (or in Fortran through bind(C)), in OpenCL C and in CUDA C++.
 *
 * Made from flash-types/src/abi and tests/tests/plugins by tests/tests/plugins/header.rs: do not edit. The
 * layouts are frozen.
 *
 * In C, a function that runs some work items:
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
 * The function is called by several threads at once, each with other work items. Any result but 0 is
 * an error of the launch, which has the number. It must not throw or longjmp out.
 *
 * In OpenCL C and CUDA C++, one text for both, a kernel that takes the definition's arguments in order, under
 * their names, and FLASH_ARGS last. Its implementation says `cooperating`. The backend puts this file, and
 * the definitions that it needs, before every source:
 *
 *     FLASH_KERNEL saxpy(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
 *         FLASH_FOR_ITEMS {
 *             flash_u64 i = FLASH_INDEX(0);
 *             FLASH_AT(y, i) += a * FLASH_AT(x, i);
 *         }
 *     } */
