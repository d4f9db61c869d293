/* FLASH: the plugin interface, for backends and kernels written in C.
 *
 * Made from flash-types/src/abi by tests/tests/plugins/header.rs: do not edit. Rules that hold for all of it:
 *
 * - A struct that may grow begins with `struct_size`. Fields are appended, never moved; a function
 *   exists if it lies inside `struct_size` and is not NULL.
 * - flash_arg, flash_span, flash_str, flash_attr and the structs of the index space are frozen.
 * - Text is UTF-8, pointer and length, borrowed for the call.
 * - Errors are made by flash_host->error_create; NULL is success.
 * - No exception and no longjmp crosses the boundary. Functions are called from any thread.
 *
 * A plugin is a shared library that ends with FLASH_PLUGIN(..) or FLASH_KERNELS(..):
 *
 *     static const flash_backend_api api = { .struct_size = sizeof api, .key = FLASH_STR("MY_ACCEL"), .. };
 *     FLASH_PLUGIN("my-accel", "1.0", &api)
 *
 * To install it, copy it into a directory of FLASH_BACKEND_PATH. `flash list` shows its state,
 * `flash conformance MY_ACCEL` reports what it does wrong. tests/c/backend.c is a whole backend. */
