/* A plugin that asks the program that loaded it: what devices and implementations there are, and adds a kernel. Its one
 * device runs nothing; the test talks to it through `query`. */
#include "flash_backend.h"
#include <stdio.h>
#include <stdlib.h>

struct flash_device { int nothing; };
static struct flash_device the_device;

static const flash_registry_api *registry(void) {
    return flash_host->get_extension(flash_text("registry"), 1);
}

/* Texts, one a line. */
struct lines { char text[1 << 16]; size_t used; };

static void add_line(struct lines *lines, flash_str text) {
    if (lines->used + text.len + 2 > sizeof lines->text)
        return;
    memcpy(lines->text + lines->used, text.ptr, text.len);
    lines->used += text.len;
    lines->text[lines->used++] = '\n';
    lines->text[lines->used] = 0;
}

static flash_error *see_device(void *argument, const flash_registered_device *device) {
    flash_device_info info = { .struct_size = sizeof info };
    flash_error *error = device->api->device_info(device->device, &info);
    if (error)
        return error;
    add_line(argument, device->id);
    add_line(argument, info.vendor);
    return NULL;
}

static flash_error *see_implementation(void *argument, const flash_implementation *implementation) {
    add_line(argument, implementation->name);
    return NULL;
}

static flash_error *refuse(void *argument, const flash_implementation *implementation) {
    (void)argument, (void)implementation;
    return flash_fail(FLASH_ERROR_INVALID, "seen enough");
}

static int fill(FLASH_ARGS) {
    const uint32_t value = FLASH_SCALAR(uint32_t, 0);
    FLASH_FOR_ITEMS {
        FLASH_AT(uint32_t, 1, FLASH_OWN_INDEX(1)) = value + 5000;
    }
    return 0;
}

static const flash_implementation added = {
    .struct_size = sizeof added, .door = FLASH_DOOR_SPAN, .kind = FLASH_KIND_INT_BIN, .priority = 20,
    .kernel = FLASH_STR("plugins.counted"), .name = FLASH_STR("added"), .target = FLASH_STR("cpu"),
    .descriptor = FLASH_STR("[1](u32, Item<Write<u32>> along [0])"), .span = fill,
};

/* A JSON string of the lines. */
static flash_error *answer(const struct lines *lines, flash_error **value) {
    static char text[1 << 17];
    size_t at = 0;
    text[at++] = '"';
    for (size_t i = 0; i < lines->used; ++i)
        if (lines->text[i] == '\n')
            text[at++] = '\\', text[at++] = 'n';
        else
            text[at++] = lines->text[i];
    text[at++] = '"';
    text[at] = 0;
    *value = flash_fail(0, text);
    return NULL;
}

static flash_error *query(const void *object, flash_str key, flash_error **value) {
    static struct lines lines;
    (void)object;
    lines.used = 0;
    flash_error *error = NULL;
    const int is_devices = key.len == 7, is_implementations = key.len == 15, is_add = key.len == 3;
    if (is_devices)
        error = registry()->devices(see_device, &lines);
    else if (is_implementations)
        error = registry()->implementations(see_implementation, &lines);
    else if (is_add) {
        const flash_implementation *list[] = { &added };
        error = registry()->add(list, 1);
    } else if (key.len == 8) { /* add_null */
        const flash_implementation *list[] = { &added, NULL };
        error = registry()->add(list, 2);
    } else if (key.len == 6) /* refuse */
        error = registry()->implementations(refuse, NULL);
    else
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "no such property");
    return error ? error : answer(&lines, value);
}

static flash_error *probe(void) {
#ifdef LISTS_IN_PROBE
    static struct lines lines;
    return registry()->devices(see_device, &lines);
#else
    return NULL;
#endif
}

static flash_error *devices(struct flash_device *const **list, size_t *count) {
    static struct flash_device *const all[] = { &the_device };
    *list = all;
    *count = 1;
    return NULL;
}

static flash_error *device_info(struct flash_device *device, flash_device_info *info) {
    (void)device;
    const flash_device_info known = {
        .struct_size = sizeof known, .device_class = FLASH_CLASS_OTHER, .flags = FLASH_DEVICE_TEST | FLASH_DEVICE_HOST_MEMORY
            | FLASH_DEVICE_SYNCHRONOUS,
        .threads = 1, .name = FLASH_STR("asks"), .vendor = FLASH_STR("FLASH"), .version = FLASH_STR("1"),
        .physical_id = FLASH_STR("registry/0"),
    };
    memcpy(info, &known, info->struct_size < sizeof known ? info->struct_size : sizeof known);
    return NULL;
}

static flash_error *prepare(struct flash_device *device, const flash_implementation *implementation,
                            struct flash_kernel **kernel) {
    (void)device, (void)implementation, (void)kernel;
    return flash_fail(FLASH_ERROR_UNSUPPORTED, "it runs nothing");
}

static void release(struct flash_device *device, struct flash_kernel *kernel) {
    (void)device, (void)kernel;
}

static flash_error *submit(struct flash_device *device, const flash_submission *work) {
    (void)device, (void)work;
    return flash_fail(FLASH_ERROR_UNSUPPORTED, "it runs nothing");
}

static const flash_backend_api api = {
    .struct_size = sizeof api, .key = FLASH_STR("REGISTRY"), .description = FLASH_STR("asks the host"),
    .target = FLASH_STR("none"), .probe = probe, .devices = devices, .device_info = device_info,
    .prepare = prepare, .release = release, .submit = submit, .query = query,
};

FLASH_PLUGIN("registry", "1.0", &api)
