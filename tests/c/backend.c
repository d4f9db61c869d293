/* A whole backend in plain C: one device, MY_ACCEL, that runs work items one after the other on the
 * calling thread. It is for tests: no group of devices takes it, only its own key. */
#include "flash_backend.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A device is whatever a backend likes. */
struct flash_device {
    flash_memory_space memory;
};

static struct flash_device the_device = {
    .memory = { .struct_size = sizeof(flash_memory_space), .id = FLASH_SPACE_HOST, .numa_node = -1,
                .host_visible = 1, .alignment = 64 },
};

struct flash_kernel {
    const flash_implementation *implementation;
};

/* A real one would dlopen its driver here, and return FLASH_ERROR_UNAVAILABLE with what to install. */
static flash_error *probe(void) {
#ifdef NOTICE
    flash_notice("MY_ACCEL " NOTICE);
#endif
    return NULL;
}

static flash_error *devices(struct flash_device *const **list, size_t *count) {
    static struct flash_device *const all[] = { &the_device };
    *list = all;
    *count = 1;
    return NULL;
}

static flash_error *device_info(struct flash_device *device, flash_device_info *info) {
    (void)device;
    flash_device_info known = {
        .device_class = FLASH_CLASS_OTHER, .flags = FLASH_DEVICE_TEST | FLASH_DEVICE_HOST_MEMORY | FLASH_DEVICE_IN_ORDER
            | FLASH_DEVICE_SYNCHRONOUS | FLASH_DEVICE_RUNS_FUNCTIONS,
        .threads = 1, .name = FLASH_STR("one thread, in C"), .vendor = FLASH_STR("FLASH"),
        .version = FLASH_STR("1.0"), .physical_id = FLASH_STR("my-accel/0"),
    };
    /* The host may know less than we do. */
    known.struct_size = info->struct_size < sizeof known ? info->struct_size : (uint32_t)sizeof known;
    memcpy(info, &known, known.struct_size);
    return NULL;
}

static flash_error *prepare(struct flash_device *device, const flash_implementation *implementation,
                            struct flash_kernel **kernel) {
    (void)device;
    if (!implementation->share && !implementation->span)
        return flash_fail(FLASH_ERROR_INVALID, "expected a function, found NULL in both `share` and `span`");
    *kernel = malloc(sizeof **kernel);
    if (!*kernel)
        return flash_fail(FLASH_ERROR_OUT_OF_MEMORY, "no memory for a kernel");
    (*kernel)->implementation = implementation;
    return NULL;
}

static void release(struct flash_device *device, struct flash_kernel *kernel) {
    (void)device;
    free(kernel);
}

/* Two buffers, one of which takes this phase's writes. */
static int is_double(const flash_arg *arg) {
    return arg->kind == FLASH_ARG_PHASED && !(arg->flags & FLASH_ARG_FLAG_STAGED);
}

static flash_error *run(const flash_submission *work, flash_arg *args) {
    flash_share share = { .struct_size = sizeof share, .arg_count = work->arg_count, .host = flash_host, .space = work->space };
    for (share.phase = work->phase_begin; share.phase < work->phase_end; ++share.phase) {
        /* Elements that no item owns keep what they have. */
        for (uint32_t i = 0; i < work->arg_count; ++i)
            if (is_double(&args[i]) && !(args[i].flags & FLASH_ARG_FLAG_COVERED))
                memcpy(args[i].next, args[i].data, args[i].len * args[i].element_size);
        flash_host->phase_rows(work->space, share.phase, &share.begin, &share.end);
        flash_error *error = flash_host->run_rows(work->kernel->implementation, &share, args);
        if (error)
            return error;
        for (uint32_t i = 0; i < work->arg_count; ++i)
            if (is_double(&args[i])) {
                void *data = args[i].data;
                args[i].data = args[i].next;
                args[i].next = data;
            }
    }
    /* The contents end in what was `data` at first, unless they are to stay. */
    for (uint32_t i = 0; i < work->arg_count; ++i)
        if (is_double(&args[i]) && !(args[i].flags & FLASH_ARG_FLAG_NEXT_STAYS) && args[i].data != work->args[i].data)
            memcpy(work->args[i].data, args[i].data, args[i].len * args[i].element_size);
    return NULL;
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static flash_error *submit(struct flash_device *device, const flash_submission *work) {
    (void)device;
    if (work->wait_count)
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "this backend has no events");
    for (size_t i = 0; i < work->attribute_count; ++i)
        if (work->attributes[i].required) {
            char text[200];
            snprintf(text, sizeof text, "the option `%.*s` is required and this backend knows none",
                     (int)work->attributes[i].key.len, (const char *)work->attributes[i].key.ptr);
            return flash_fail(FLASH_ERROR_UNSUPPORTED, text);
        }
    flash_arg few[16], *args = few;
    if (work->arg_count > 16 && !(args = malloc(work->arg_count * sizeof *args)))
        return flash_fail(FLASH_ERROR_OUT_OF_MEMORY, "no memory for the arguments");
    if (work->arg_count)
        memcpy(args, work->args, work->arg_count * sizeof *args);
    uint64_t begun = nanoseconds();
    flash_error *error = run(work, args);
    if (work->nanoseconds)
        *work->nanoseconds = nanoseconds() - begun;
    if (args != few)
        free(args);
    if (work->signal)
        *work->signal = NULL; /* already complete */
    return error;
}

static flash_error *spaces(struct flash_device *device, const flash_memory_space **list, size_t *count) {
    *list = &device->memory;
    *count = 1;
    return NULL;
}

static flash_error *alloc(struct flash_device *device, uint32_t space, uint64_t bytes, flash_buffer *buffer) {
    (void)device;
    uint64_t rounded = (bytes + 63) & ~UINT64_C(63);
    void *memory = space == FLASH_SPACE_HOST && rounded >= bytes ? aligned_alloc(64, rounded ? rounded : 64) : NULL;
    if (!memory)
        return flash_fail(FLASH_ERROR_OUT_OF_MEMORY, "the host's memory, space 0, refused the allocation");
    memset(memory, 0, bytes);
    *buffer = (flash_buffer){ .space = space, .handle = (uint64_t)(uintptr_t)memory };
    return NULL;
}

static flash_error *free_buffer(struct flash_device *device, flash_buffer buffer) {
    (void)device;
    free((void *)(uintptr_t)buffer.handle);
    return NULL;
}

static flash_error *copy_box(struct flash_device *device, flash_buffer source,
                             flash_buffer destination, const flash_copy_box *box, struct flash_event *const *waits,
                             size_t wait_count, struct flash_event **signal) {
    (void)device, (void)waits;
    if (wait_count)
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "this backend has no events");
    const char *from = (const char *)(uintptr_t)source.handle + box->source_offset;
    char *to = (char *)(uintptr_t)destination.handle + box->destination_offset;
    for (uint64_t z = 0; z < box->extent[2]; ++z)
        for (uint64_t y = 0; y < box->extent[1]; ++y)
            memmove(to + y * box->destination_stride[0] + z * box->destination_stride[1],
                    from + y * box->source_stride[0] + z * box->source_stride[1], box->extent[0]);
    if (signal)
        *signal = NULL;
    return NULL;
}

static const flash_backend_api api = {
    .struct_size = sizeof api, .key = FLASH_STR("MY_ACCEL"), .description = FLASH_STR("an example in C"),
    .target = FLASH_STR("cpu"), .probe = probe, .devices = devices, .device_info = device_info,
    .prepare = prepare, .release = release, .submit = submit, .spaces = spaces, .alloc = alloc,
    .free = free_buffer, .copy_box = copy_box,
};

FLASH_PLUGIN("my-accel", "1.0", &api)
