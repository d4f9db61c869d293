/* A plugin that has work run by the worker threads of the program that loaded it. Its one device runs nothing; the test
 * talks to it through `query`. */
#define _GNU_SOURCE
#include "flash_backend.h"
#include <pthread.h>
#include <stdio.h>

struct flash_device { int nothing; };
static struct flash_device the_device;

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

static flash_error *query(const void *object, flash_str key, flash_error **value) {
    (void)object;
    if (key.len == 3) /* run */
        return run(value, 0);
    if (key.len == 6) /* within */
        return run(value, 1);
    if (key.len == 4) { /* left */
        char text[32];
        snprintf(text, sizeof text, "%d", work.left);
        *value = flash_fail(0, text);
        return NULL;
    }
    if (key.len == 4 + 4) /* add_null */
        return workers()->add(run_one, &work, NULL);
    if (key.len == 7 + 4) /* remove_null */
        return workers()->remove(NULL);
    return flash_fail(FLASH_ERROR_UNSUPPORTED, "no such property");
}

static flash_error *probe(void) {
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
    const flash_device_info known = {
        .struct_size = sizeof known, .device_class = FLASH_CLASS_OTHER, .flags = FLASH_DEVICE_TEST | FLASH_DEVICE_HOST_MEMORY
            | FLASH_DEVICE_SYNCHRONOUS,
        .threads = 1, .name = FLASH_STR("has work"), .vendor = FLASH_STR("FLASH"), .version = FLASH_STR("1"),
        .physical_id = FLASH_STR("workers/0"),
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

static flash_error *submit(struct flash_device *device, const flash_submission *submission) {
    (void)device, (void)submission;
    return flash_fail(FLASH_ERROR_UNSUPPORTED, "it runs nothing");
}

static const flash_backend_api api = {
    .struct_size = sizeof api, .key = FLASH_STR("WORKS"), .description = FLASH_STR("has work for the host's threads"),
    .target = FLASH_STR("none"), .probe = probe, .devices = devices, .device_info = device_info,
    .prepare = prepare, .release = release, .submit = submit, .query = query,
};

FLASH_PLUGIN("works", "1.0", &api)
