/*
 * flash.h: host programs in C and C++ with FLASH. Made from the crate flash-c; link with -lflash.
 *
 *     flash_runtime *rt;
 *     flash_named_kernel *saxpy;
 *     flash_memory *x, *y;
 *     uint64_t n = 1000;
 *     if (flash_runtime_open("ALL_ACCEL", NULL, &rt) || flash_kernel_find(rt, "my.saxpy", &saxpy)
 *         || flash_memory_create("f32", 1, &n, data, &x) || flash_memory_create("f32", 1, &n, NULL, &y)
 *         || flash_kernel_launch(saxpy, FLASH_VALUES(flash_as_f32(2), flash_as_array(x), flash_as_array(y)),
 *                                FLASH_DIMENSIONS(flash_count(n))))
 *         fprintf(stderr, "%s\n", flash_last_error());
 *
 * Errors. A function returns FLASH_STATUS_OK, which is 0, or another FLASH_STATUS_*; below, `KEY` stands for
 * FLASH_STATUS_KEY. What was expected, what was found and what to do is in flash_last_error, per thread. A
 * function that fails changes nothing of what it was given, and sets no result. No panic, exception or signal
 * of FLASH leaves a function.
 *
 * Ownership. The program frees a handle that it creates, opens or finds, each by its function; the order does
 * not matter, since what needs another thing keeps it. Arguments of a call are read during the call only, and
 * arrays are copied, unless it says otherwise.
 *
 * Threads. Every function may be called from any thread. A handle may be used by several threads at once,
 * but for a pipeline that is changed; that is found out (BUSY).
 *
 * What is checked: NULL, misaligned pointers, handles of another kind, and handles that were freed, until
 * about a thousand more of their kind are freed (POINTER); texts, numbers of arguments and dimensions, types,
 * ranges, shapes. What is the caller's duty: a pointer that is neither NULL nor a handle is an address of
 * what the function says, as long as it says; and no thread frees a handle while another one uses it.
 */
