/* Warm launches as a host program in C makes them. The functions of libflash come as addresses, which is how
 * a program calls those of a shared library. */

#include "flash.h"

typedef int32_t (*launch_fn)(const flash_named_kernel *, const flash_value *, size_t, const flash_dimension *, size_t);
typedef int32_t (*exec_fn)(const flash_pipeline *);

/* The sum of all statuses: 0 if every launch was well. */
int32_t host_launches(launch_fn launch, const flash_named_kernel *kernel, flash_memory *const memories[3],
                      uint64_t items, long calls)
{
    int32_t failed = 0;
    for (long i = 0; i < calls; i++)
        failed += launch(kernel,
                         FLASH_VALUES(flash_as_f32(1), flash_as_array(memories[0]), flash_as_array(memories[1]),
                                      flash_as_array(memories[2])),
                         FLASH_DIMENSIONS(flash_count(items)));
    return failed;
}

int32_t host_runs(exec_fn exec, const flash_pipeline *pipeline, long calls)
{
    int32_t failed = 0;
    for (long i = 0; i < calls; i++)
        failed += exec(pipeline);
    return failed;
}
