/* A plugin that asks the program that loaded it: what devices and implementations there are, and adds a kernel; and that
 * has the program's worker threads run work. Its one device runs nothing; the test talks to it through `query`. */
#define _GNU_SOURCE
#include "flash_backend.h"
#include <pthread.h>
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

static const flash_work_sources_api *workers(void) {
    return flash_host->get_extension(flash_text("workers"), 1);
}

enum { PIECES = 1000 };

/* What is left, and what was done by which threads. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int left, done, removes_itself;
    char threads[4096];
    flash_work_source *source;
    char refused[256];
} work = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static uint32_t run_one(void *context) {
    pthread_mutex_lock(&work.lock);
    if (context != &work || work.left == 0) {
        pthread_mutex_unlock(&work.lock);
        return 0;
    }
    --work.left;
    char name[32] = " ";
    pthread_getname_np(pthread_self(), name + 1, sizeof name - 1);
    if (!strstr(work.threads, name) && strlen(work.threads) + sizeof name < sizeof work.threads)
        strcat(work.threads, name);
    if (work.removes_itself) {
        work.removes_itself = 0;
        flash_error *error = workers()->remove(work.source);
        flash_str text = error ? flash_host->error_text(error) : flash_text("no error");
        snprintf(work.refused, sizeof work.refused, "%.*s", (int)text.len, text.ptr);
        if (error)
            flash_host->error_free(error);
    }
    ++work.done;
    pthread_cond_broadcast(&work.changed);
    pthread_mutex_unlock(&work.lock);
    return 1;
}

/* Has all pieces run, and answers how many were and by whom. */
static flash_error *run(flash_error **value, int removes_itself) {
    pthread_mutex_lock(&work.lock);
    work.left = PIECES, work.done = 0, work.threads[0] = 0, work.removes_itself = removes_itself;
    flash_error *error = workers()->add(run_one, &work, &work.source);
    pthread_mutex_unlock(&work.lock);
    if (error)
        return error;
    workers()->wake(2);
    pthread_mutex_lock(&work.lock);
    while (work.done < PIECES)
        pthread_cond_wait(&work.changed, &work.lock);
    pthread_mutex_unlock(&work.lock);
    if ((error = workers()->remove(work.source)))
        return error;
    /* Nothing asks any more: what is there now stays. */
    work.left = 1;
    workers()->wake(2);
    static char text[8192];
    snprintf(text, sizeof text, "\"%d pieces by%s; %s\"", work.done, work.threads, work.refused);
    *value = flash_fail(0, text);
    return NULL;
}

static int is(flash_str key, const char *name) {
    return key.len == strlen(name) && memcmp(key.ptr, name, key.len) == 0;
}

static flash_error *query(const void *object, flash_str key, flash_error **value) {
    static struct lines lines;
    (void)object;
    lines.used = 0;
    flash_error *error = NULL;
    if (is(key, "devices"))
        error = registry()->devices(see_device, &lines);
    else if (is(key, "implementations"))
        error = registry()->implementations(see_implementation, &lines);
    else if (is(key, "refuse"))
        error = registry()->implementations(refuse, NULL);
    else if (is(key, "add")) {
        const flash_implementation *list[] = { &added };
        error = registry()->add(list, 1);
    } else if (is(key, "add a NULL")) {
        const flash_implementation *list[] = { &added, NULL };
        error = registry()->add(list, 2);
    } else if (is(key, "run work") || is(key, "remove work within it"))
        return run(value, !is(key, "run work"));
    else if (is(key, "work left")) {
        char text[32];
        snprintf(text, sizeof text, "%d", work.left);
        *value = flash_fail(0, text);
        return NULL;
    } else if (is(key, "add work to NULL"))
        return workers()->add(run_one, &work, NULL);
    else if (is(key, "remove NULL"))
        return workers()->remove(NULL);
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
        .physical_id = FLASH_STR("asks/0"),
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
    .struct_size = sizeof api, .key = FLASH_STR("ASKS"), .description = FLASH_STR("asks the host"),
    .target = FLASH_STR("none"), .probe = probe, .devices = devices, .device_info = device_info,
    .prepare = prepare, .release = release, .submit = submit, .query = query,
};

FLASH_PLUGIN("asks", "1.0", &api)
