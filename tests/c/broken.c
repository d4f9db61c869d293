/* A plugin with one thing wrong: the test defines what. Without any -D it is in order. */
#include "flash_backend.h"

#ifndef KEY
#define KEY "GOOD"
#endif
#ifndef MAGIC
#define MAGIC FLASH_MAGIC
#endif
#ifndef MAJOR
#define MAJOR FLASH_ABI_MAJOR
#endif
#ifndef MINOR
#define MINOR FLASH_ABI_MINOR
#endif
#ifndef HEADER_SIZE
#define HEADER_SIZE sizeof(flash_plugin_header)
#endif
#ifndef API_SIZE
#define API_SIZE sizeof(flash_backend_api)
#endif
#ifndef IMPLEMENTATION_SIZE
#define IMPLEMENTATION_SIZE sizeof(flash_implementation)
#endif
#ifndef BACKENDS
#define BACKENDS backends, 1
#endif
#ifndef IMPLEMENTATIONS
#define IMPLEMENTATIONS implementations, 1
#endif
#ifndef API
#define API &api
#endif
#ifndef IMPLEMENTATION
#define IMPLEMENTATION &implementation
#endif
#ifndef PROBE
#define PROBE probe
#endif
#ifndef DEVICES
#define DEVICES devices
#endif
#ifndef DEVICE_INFO
#define DEVICE_INFO device_info
#endif
#ifndef PREPARE
#define PREPARE prepare
#endif
#ifndef RELEASE
#define RELEASE release
#endif
#ifndef SUBMIT
#define SUBMIT submit
#endif
#ifndef FLAGS
#define FLAGS FLASH_DEVICE_TEST | FLASH_DEVICE_HOST_MEMORY | FLASH_DEVICE_SYNCHRONOUS
#endif
#ifndef SPACES
#define SPACES spaces
#endif
#ifndef SPACE
#define SPACE 1
#endif
#ifndef SPACE_SIZE
#define SPACE_SIZE sizeof(flash_memory_space)
#endif
#ifndef ALLOC
#define ALLOC alloc
#endif
#ifndef COPY_BOX
#define COPY_BOX copy_box
#endif
#ifndef EVENT_WAIT
#define EVENT_WAIT event_wait
#endif
/* Where the buffers of a device are. */
#ifndef MEMORY
#define MEMORY device->memory
#endif
#ifndef COUNT
#define COUNT 1
#endif
#ifndef PROBE_ANSWER
#define PROBE_ANSWER NULL
#endif
#ifndef LIST
#define LIST all
#endif
#ifndef DEVICE
#define DEVICE &the_device
#endif
#ifndef QUERY
#define QUERY flash_plugin_query
#endif
#ifndef QUERY_BODY
#define QUERY_BODY
#endif
#ifndef ANSWER
#define ANSWER &header
#endif
#define UNUSED __attribute__((unused))

const flash_host_api *flash_host;
struct flash_device { unsigned char memory[1 << 16]; };
static UNUSED struct flash_device the_device, the_second;

UNUSED static flash_error *probe(void) { return PROBE_ANSWER; }
UNUSED static flash_error *devices(struct flash_device *const **list, size_t *count) {
    static UNUSED struct flash_device *const all[] = { DEVICE, &the_second };
    *list = LIST;
    *count = COUNT;
    return NULL;
}
UNUSED static flash_error *device_info(struct flash_device *device, flash_device_info *info) {
    (void)device;
    flash_str name = FLASH_STR("good");
    info->name = info->vendor = info->version = info->physical_id = name;
    info->flags = FLAGS;
    info->threads = 1;
    return NULL;
}
UNUSED static flash_error *prepare(struct flash_device *device, const flash_implementation *one, struct flash_kernel **kernel) {
    (void)device, (void)one, (void)kernel;
    return flash_fail(FLASH_ERROR_INVALID, "this device prepares nothing");
}
UNUSED static void release(struct flash_device *device, struct flash_kernel *kernel) { (void)device, (void)kernel; }
UNUSED static flash_error *submit(struct flash_device *device, const flash_submission *work) {
    (void)device, (void)work;
    return NULL;
}
UNUSED static flash_error *spaces(struct flash_device *device, const flash_memory_space **list, size_t *count) {
    static const flash_memory_space all[] = { { .struct_size = SPACE_SIZE, .id = SPACE, .numa_node = -1, .alignment = 64 } };
    (void)device;
    *list = all;
    *count = 1;
    return NULL;
}
/* The first buffer of a device is at the beginning of its memory, and there is no second. */
UNUSED static flash_error *alloc(struct flash_device *device, uint32_t space, uint64_t bytes, flash_buffer *buffer) {
    (void)device, (void)bytes;
    *buffer = (flash_buffer){ .space = space };
    return NULL;
}
UNUSED static flash_error *copy_box(struct flash_device *device, flash_buffer source,
                                    flash_buffer destination, const flash_copy_box *box,
                                    struct flash_event *const *waits, size_t wait_count, struct flash_event **signal) {
    (void)device, (void)waits, (void)wait_count;
    void *from = source.space ? (void *)MEMORY : (void *)(uintptr_t)source.handle;
    void *to = destination.space ? (void *)MEMORY : (void *)(uintptr_t)destination.handle;
    memmove(to, from, box->extent[0]);
    *signal = NULL;
    return NULL;
}
UNUSED static flash_error *event_wait(struct flash_event *event) {
    (void)event;
    return NULL;
}

UNUSED static const flash_backend_api api = {
    .struct_size = API_SIZE, .key = FLASH_STR(KEY), .probe = PROBE, .devices = DEVICES, .device_info = DEVICE_INFO,
    .prepare = PREPARE, .release = RELEASE, .submit = SUBMIT, .target = FLASH_STR("good"), .spaces = SPACES, .alloc = ALLOC,
    .copy_box = COPY_BOX, .event_wait = EVENT_WAIT,
};
UNUSED static int nothing(FLASH_ARGS) {
    (void)flash_run, (void)flash_args;
    return 0;
}
UNUSED static const flash_implementation implementation = {
    .struct_size = IMPLEMENTATION_SIZE, .kernel = FLASH_STR("good.kernel"), .name = FLASH_STR("good"), .target = FLASH_STR("good"),
    .span = nothing,
};
UNUSED static const flash_backend_api *const backends[] = { API };
UNUSED static const flash_implementation *const implementations[] = { IMPLEMENTATION };
UNUSED static const flash_plugin_header header = {
    MAGIC, HEADER_SIZE, MAJOR, MINOR, 0, FLASH_STR("broken"), FLASH_STR("1.0"), FLASH_STR("C"), BACKENDS, IMPLEMENTATIONS,
};

const flash_plugin_header *QUERY(uint32_t host_abi_major, const flash_host_api *host) {
    (void)host_abi_major;
    flash_host = host;
    QUERY_BODY;
    return ANSWER;
}
