/* C2MPI, the accelerator's side: a thin layer over flash_backend.h. An accelerator is a shared library with a device
 * and its functions, which programs claim by alias or number (MPIX_Claim of mpix.h), on this machine or through agents.
 *
 *     static int multiply(MPIX_Call *call) { .. }
 *
 *     static const MPIX_Parameter parameters[] = { { "n", "u64", MPIX_VALUE, 0 }, { "a", "f32", MPIX_IN, 1 }, .. };
 *     static const MPIX_Function functions[] = {
 *         { .kernel = "lab.multiply", .alias = "MULTIPLY", .sw_fid = "4711", .run = multiply,
 *           .parameters = parameters, .parameter_count = 4 },
 *     };
 *     static const MPIX_Accelerator lab = {
 *         .ss_vid = "LAB", .vid = "Our lab", .pid = "board 3", .sw_verid = "1.0",
 *         .functions = functions, .function_count = 1,
 *     };
 *     MPIX_ACCELERATOR(lab)
 *
 * One file of the library includes this. It is compiled as C11 by `cc -O3 -shared -fPIC` and put into a directory of
 * FLASH_BACKEND_PATH; `flash list` says what is wrong with it. docs/halo.md has a whole one.
 *
 * What the accelerator gives lives for ever. Its functions, and those of its memory, are called from any thread, and
 * never two at the same time; metrics are read at any time. */

#ifndef MPIX_ACCEL_H
#define MPIX_ACCEL_H

#include "flash_backend.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Parameters of a function at most. */
#define MPIX_MAX_PARAMETERS 32
/* Room for the text of a failure, with its NUL. */
#define MPIX_MAX_FAILURE 256

/* A call of a function: a message of a program, or what a launch of its kernel has. */
typedef struct MPIX_Call {
    /* The range for which results are wanted: [begin, end) along each axis, axis 0 first. Elements of `MPIX_OUT` and
     * `MPIX_INOUT` outside are left alone. Axes that the function does not have: 0 to 1. */
    uint64_t begin[3];
    uint64_t end[3];
    /* See MPIX_VALUE_OF and MPIX_ARRAY. */
    void *data[MPIX_MAX_PARAMETERS];
    /* See MPIX_COUNT. */
    uint64_t count[MPIX_MAX_PARAMETERS];
    /* See MPIX_Fail. */
    char failure[MPIX_MAX_FAILURE];
} MPIX_Call;

/* A number: `MPIX_VALUE_OF(call, uint64_t, 0)`. Parameters count from 0. */
#define MPIX_VALUE_OF(call, type, parameter) (*(const type *)(call)->data[parameter])

/* The elements of an array, from its first: in the accelerator's memory, or the host's if it has none. */
#define MPIX_ARRAY(call, type, parameter) ((type *)(call)->data[parameter])

/* The number of an array's elements. */
#define MPIX_COUNT(call, parameter) ((call)->count[parameter])

/* `return MPIX_Fail(call, "the board is too hot");`: the error that the program gets when it receives. The text is cut
 * to MPIX_MAX_FAILURE bytes. */
static inline int MPIX_Fail(MPIX_Call *call, const char *text) {
    snprintf(call->failure, sizeof call->failure, "%s", text);
    return 1;
}

/* What a function does with a parameter. */
typedef enum MPIX_Use {
    /* A number. */
    MPIX_VALUE,
    /* Reads an array. */
    MPIX_IN,
    /* Writes each element of the range, and reads none. */
    MPIX_OUT,
    /* Reads and writes elements of the range. */
    MPIX_INOUT
} MPIX_Use;

/* A parameter of a function. */
typedef struct MPIX_Parameter {
    /* Its name, in messages. */
    const char *name;
    /* i8, i16, i32, i64, u8, u16, u32, u64, f32 or f64. */
    const char *type;
    MPIX_Use use;
    /* Of an array: its number of axes, 1 to 3, if it has an element for each point of the range. 0: it is read whole,
     * whatever the range is. A function has as many axes as the parameter with the most, and at least 1. */
    int axes;
} MPIX_Parameter;

/* A function. Texts that are NULL are not there. */
typedef struct MPIX_Function {
    /* Its kernel, such as `lab.multiply`; what is before the dot is its `sw_vid`. With the name and the parameters of a
     * kernel of FLASH's, such as `flash.ewmm`, it is one more implementation of that. */
    const char *kernel;
    /* By which programs claim it; a kernel of FLASH's has its own. */
    const char *alias;
    const char *sw_fid;
    const char *sw_clid;
    /* The name of this implementation; NULL: `accelerator`. */
    const char *sw_pid;
    /* Runs it. 0 is success; see MPIX_Fail. */
    int (*run)(MPIX_Call *call);
    const MPIX_Parameter *parameters;
    size_t parameter_count;
} MPIX_Function;

/* A number that the accelerator tells of itself: `flash list --json` shows it. */
typedef struct MPIX_Metric {
    /* Such as `watts`. */
    const char *name;
    double (*read)(void);
} MPIX_Metric;

/* The accelerator's own memory. Functions of an accelerator that has none work in the host's. */
typedef struct MPIX_Memory {
    /* Bytes that there are. */
    uint64_t bytes;
    /* The address of as many bytes, aligned to 64; NULL: there are not as many. */
    void *(*alloc)(uint64_t bytes);
    void (*free)(void *memory);
    /* Copy from and to the host, from byte `offset` on. 0 is success. */
    int (*write)(void *memory, uint64_t offset, const void *from, uint64_t bytes);
    int (*read)(void *to, const void *memory, uint64_t offset, uint64_t bytes);
} MPIX_Memory;

/* An accelerator. */
typedef struct MPIX_Accelerator {
    /* Its runtime key, such as `LAB`; the device is `LAB:0`, its `ss_pid`. */
    const char *ss_vid;
    /* Manufacturer and name of the device. */
    const char *vid;
    const char *pid;
    /* The version of its functions. */
    const char *sw_verid;
    const MPIX_Function *functions;
    size_t function_count;
    const MPIX_Metric *metrics;
    size_t metric_count;
    /* NULL: it works in the host's memory. */
    const MPIX_Memory *memory;
} MPIX_Accelerator;

/* The library's last line: the accelerator that it is. */
#define MPIX_ACCELERATOR(accelerator) \
    FLASH_HIDDEN const flash_host_api *flash_host; \
    __attribute__((constructor)) static void mpix_load(void) { mpix_build(&(accelerator)); } \
    FLASH_EXPORT const flash_plugin_header *flash_plugin_query(uint32_t host_abi_major, const flash_host_api *host) { \
        return mpix_query(host_abi_major, host); \
    }

/* ---- What makes a plugin of it ---- */

struct flash_device {
    flash_memory_space space;
};

struct flash_kernel {
    const MPIX_Function *function;
};

/* Written when the library is loaded, and only read from then on, but for the counts. */
static struct {
    const MPIX_Accelerator *accelerator;
    struct flash_device device;
    struct flash_kernel *kernels;
    flash_implementation *implementations;
    const flash_implementation **list;
    char host_and_key[160];
    /* Why it is no plugin. */
    char fault[512];
    flash_plugin_header header;
    flash_backend_api api;
    const flash_backend_api *backends[1];
    /* Held while the accelerator's own functions run. */
    pthread_mutex_t lock;
    uint64_t calls;
    uint64_t failed;
} mpix = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A text that grows. */
struct mpix_text {
    char *text;
    size_t len;
    int is_short;
};

__attribute__((format(printf, 2, 3))) static inline void mpix_add(struct mpix_text *to, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int len = vsnprintf(NULL, 0, format, values);
    va_end(values);
    char *text = to->is_short || len < 0 ? NULL : realloc(to->text, to->len + (size_t)len + 1);
    if (!text) {
        to->is_short = 1;
        return;
    }
    va_start(values, format);
    vsnprintf(text + to->len, (size_t)len + 1, format, values);
    va_end(values);
    to->text = text;
    to->len += (size_t)len;
}

/* The library is no plugin, for the first reason. */
__attribute__((format(printf, 1, 2))) static inline void mpix_refuse(const char *format, ...) {
    if (mpix.fault[0])
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(mpix.fault, sizeof mpix.fault, format, values);
    va_end(values);
}

/* The length of a text, at most `bytes`: for `%.*s`. */
static inline int mpix_at_most(flash_str text, size_t bytes) {
    return (int)(text.len < bytes ? text.len : bytes);
}

/* A text that may stand in JSON as it is; `of` says of what it is the `field`. */
static inline flash_str mpix_word(const char *of, const char *field, const char *word) {
    if (!word || !word[0])
        mpix_refuse("%s: expected a text in `%s`, found none", of, field);
    for (const char *c = word ? word : ""; *c; ++c)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < 32)
            mpix_refuse("%s: expected a text without quotes, `\\` and control characters in `%s`", of, field);
    return flash_text(word ? word : "");
}

/* The bytes of a number; 0: there is none of that name. */
static inline unsigned mpix_bytes_of(const char *type) {
    static const struct { const char *name; unsigned bytes; } known[] = {
        { "i8", 1 }, { "u8", 1 }, { "i16", 2 }, { "u16", 2 }, { "i32", 4 }, { "u32", 4 }, { "f32", 4 },
        { "i64", 8 }, { "u64", 8 }, { "f64", 8 },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i)
        if (type && strcmp(type, known[i].name) == 0)
            return known[i].bytes;
    return 0;
}

/* The descriptor of a function's kernel, as JSON. */
static inline flash_str mpix_descriptor(const MPIX_Function *function) {
    static const char *const views[] = { "scalar", "item", "item", "item" };
    static const char *const accesses[] = { "read", "read", "write", "read_write" };
    static const char *const dimensions[] = { "\"x\"", "\"x\",\"y\"", "\"x\",\"y\",\"z\"" };
    static const char *const along[] = { "", ",\"along\":[0]", ",\"along\":[0,1]", ",\"along\":[0,1,2]" };
    const char *kernel = function->kernel ? function->kernel : "a function";
    struct mpix_text text = { NULL, 0, 0 };
    int axes = 1;
    if (function->parameter_count > MPIX_MAX_PARAMETERS)
        mpix_refuse("%s: expected at most %d parameters, found %zu", kernel, MPIX_MAX_PARAMETERS, function->parameter_count);
    for (size_t i = 0; !mpix.fault[0] && i < function->parameter_count; ++i) {
        const MPIX_Parameter *of = &function->parameters[i];
        const int is_array = of->use != MPIX_VALUE, is_written = of->use == MPIX_OUT || of->use == MPIX_INOUT;
        mpix_word(kernel, "name", of->name);
        if ((unsigned)of->use > MPIX_INOUT)
            mpix_refuse("%s: expected a use of parameter `%s`, found %d", kernel, of->name, (int)of->use);
        else if (!mpix_bytes_of(of->type))
            mpix_refuse("%s: expected i8 to i64, u8 to u64, f32 or f64 for parameter `%s`, found `%s`", kernel, of->name,
                        of->type ? of->type : "NULL");
        else if (of->axes < is_written || of->axes > 3 * is_array)
            mpix_refuse("%s: expected %d to %d axes of parameter `%s`, found %d", kernel, is_written, 3 * is_array, of->name,
                        of->axes);
        else {
            const unsigned bytes = mpix_bytes_of(of->type);
            mpix_add(&text, "%s{\"name\":\"%s\",\"view\":\"%s\",\"access\":\"%s\",\"element\":{\"name\":\"%s\",\"size\":%u,"
                     "\"align\":%u}%s}", i ? "," : "", of->name, is_array && !of->axes ? "whole" : views[of->use],
                     accesses[of->use], of->type, bytes, bytes, along[of->axes]);
            axes = of->axes > axes ? of->axes : axes;
        }
    }
    struct mpix_text all = { NULL, 0, text.is_short };
    mpix_add(&all, "{\"name\":\"%s\",\"dimensions\":[%s],\"arguments\":[%s]}", kernel, dimensions[axes - 1],
             text.text ? text.text : "");
    free(text.text);
    if (all.is_short)
        mpix_refuse("no memory");
    return flash_text(all.text ? all.text : "");
}

/* The attributes of a function, each value as JSON. */
static inline void mpix_attributes(flash_implementation *to, const MPIX_Function *function) {
    const char *const words[][2] = {
        { "alias", function->alias }, { "sw_fid", function->sw_fid }, { "sw_clid", function->sw_clid },
        { "sw_verid", mpix.accelerator->sw_verid },
    };
    flash_attr *attributes = calloc(sizeof words / sizeof words[0], sizeof *attributes);
    for (size_t i = 0; attributes && i < sizeof words / sizeof words[0]; ++i) {
        if (!words[i][1])
            continue;
        mpix_word(function->kernel, words[i][0], words[i][1]);
        struct mpix_text value = { NULL, 0, 0 };
        mpix_add(&value, "\"%s\"", words[i][1]);
        attributes[to->attribute_count++] =
            (flash_attr){ .key = flash_text(words[i][0]), .value = flash_text(value.text ? value.text : "null") };
    }
    if (!attributes)
        mpix_refuse("no memory");
    to->attributes = attributes;
}

/* The accelerator's lock is not the host's: only its own `submit` runs its functions. */
static inline flash_error *mpix_share(const flash_share *share, const flash_arg *args) {
    (void)share, (void)args;
    return flash_fail(FLASH_ERROR_UNSUPPORTED, "this function is run by its accelerator alone");
}

static inline flash_error *mpix_probe(void) {
    return NULL;
}

static inline flash_error *mpix_devices(struct flash_device *const **list, size_t *count) {
    static struct flash_device *const all[] = { &mpix.device };
    *list = all;
    *count = 1;
    return NULL;
}

static inline flash_error *mpix_device_info(struct flash_device *device, flash_device_info *info) {
    const MPIX_Accelerator *of = mpix.accelerator;
    flash_device_info known = {
        .device_class = FLASH_CLASS_OTHER, .flags = FLASH_DEVICE_IN_ORDER | FLASH_DEVICE_SYNCHRONOUS, .threads = 1,
        .name = flash_text(of->pid), .vendor = flash_text(of->vid), .version = flash_text(of->sw_verid),
        .physical_id = flash_text(mpix.host_and_key),
    };
    if (device->space.id == FLASH_SPACE_HOST)
        known.flags |= FLASH_DEVICE_HOST_MEMORY;
    known.memory_bytes = device->space.size;
    /* The host may know less than this. */
    known.struct_size = info->struct_size < sizeof known ? info->struct_size : (uint32_t)sizeof known;
    memcpy(info, &known, known.struct_size);
    return NULL;
}

static inline int mpix_same(flash_str a, flash_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline flash_error *mpix_prepare(struct flash_device *device, const flash_implementation *implementation,
                                        struct flash_kernel **kernel) {
    (void)device;
    for (size_t i = 0; i < mpix.accelerator->function_count; ++i) {
        const flash_implementation *own = &mpix.implementations[i];
        if (mpix_same(own->kernel, implementation->kernel) && mpix_same(own->name, implementation->name)
            && mpix_same(own->descriptor, implementation->descriptor)) {
            *kernel = &mpix.kernels[i];
            return NULL;
        }
    }
    return flash_fail(FLASH_ERROR_UNSUPPORTED, "the accelerator runs its own functions alone");
}

static inline void mpix_release(struct flash_device *device, struct flash_kernel *kernel) {
    (void)device, (void)kernel;
}

/* The range of a launch: a box of points, in any order. */
static inline flash_error *mpix_range(MPIX_Call *call, const flash_submission *work) {
    const flash_space *space = work->space;
    if (space->ndims > 3 || space->phases > 1 || work->phase_end - work->phase_begin > 1)
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "expected a launch of one phase, with at most 3 dimensions");
    for (uint32_t i = 0; i < 3; ++i) {
        call->begin[i] = 0;
        call->end[i] = 1;
        if (i >= space->ndims)
            continue;
        const flash_space_dim *of = &space->dims[i];
        if (of->kind != FLASH_DIM_AFFINE || (of->step != 1 && of->count > 1))
            return flash_fail(FLASH_ERROR_UNSUPPORTED, "expected a range of neighbours, found other steps or a list");
        call->begin[i] = of->start;
        call->end[i] = of->start + of->count;
    }
    return NULL;
}

static inline flash_error *mpix_submit(struct flash_device *device, const flash_submission *work) {
    const MPIX_Function *function = work->kernel->function;
    MPIX_Call call;
    (void)device;
    if (work->wait_count)
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "the accelerator has no events");
    for (size_t i = 0; i < work->attribute_count; ++i)
        if (work->attributes[i].required) {
            char text[200];
            snprintf(text, sizeof text, "the option `%.*s` is required, and the accelerator knows none",
                     mpix_at_most(work->attributes[i].key, 100), (const char *)work->attributes[i].key.ptr);
            return flash_fail(FLASH_ERROR_UNSUPPORTED, text);
        }
    if (work->arg_count != function->parameter_count)
        return flash_fail(FLASH_ERROR_INVALID, "expected the function's parameters, found another number");
    flash_error *error = mpix_range(&call, work);
    if (error)
        return error;
    for (uint32_t i = 0; i < work->arg_count; ++i) {
        const flash_arg *arg = &work->args[i];
        const uint64_t origin = arg->part ? arg->part->origin : 0;
        call.data[i] = arg->space == FLASH_SPACE_HOST ? arg->data
                                                      : (void *)(uintptr_t)(arg->buffer - origin * arg->element_size);
        call.count[i] = arg->len;
    }
    call.failure[0] = 0;
    pthread_mutex_lock(&mpix.lock);
    const int result = function->run(&call);
    pthread_mutex_unlock(&mpix.lock);
    __atomic_fetch_add(&mpix.calls, 1, __ATOMIC_RELAXED);
    if (work->signal)
        *work->signal = NULL; /* complete */
    if (!result)
        return NULL;
    __atomic_fetch_add(&mpix.failed, 1, __ATOMIC_RELAXED);
    char text[MPIX_MAX_FAILURE + 100];
    if (call.failure[0])
        snprintf(text, sizeof text, "%.90s: %s", function->kernel, call.failure);
    else
        snprintf(text, sizeof text, "%.90s: it failed with %d", function->kernel, result);
    return flash_fail(FLASH_ERROR_KERNEL, text);
}

static inline flash_error *mpix_spaces(struct flash_device *device, const flash_memory_space **list, size_t *count) {
    *list = &device->space;
    *count = 1;
    return NULL;
}

/* Copies between the host's memory and the accelerator's, or inside one of them. 0 is success. */
static inline int mpix_move(flash_buffer to, uint64_t to_at, flash_buffer from, uint64_t from_at, uint64_t bytes) {
    const MPIX_Memory *memory = mpix.accelerator->memory;
    char *into = (char *)(uintptr_t)to.handle;
    const char *out_of = (const char *)(uintptr_t)from.handle;
    if (to.space == FLASH_SPACE_HOST && from.space == FLASH_SPACE_HOST)
        return memmove(into + to_at, out_of + from_at, bytes) == NULL;
    if (from.space == FLASH_SPACE_HOST)
        return memory->write(into, to_at, out_of + from_at, bytes);
    if (to.space == FLASH_SPACE_HOST)
        return memory->read(into + to_at, out_of, from_at, bytes);
    char *between = malloc(bytes);
    const int failed = !between || memory->read(between, out_of, from_at, bytes) || memory->write(into, to_at, between, bytes);
    free(between);
    return failed;
}

static inline flash_error *mpix_free(struct flash_device *device, flash_buffer buffer) {
    (void)device;
    pthread_mutex_lock(&mpix.lock);
    mpix.accelerator->memory->free((void *)(uintptr_t)buffer.handle);
    pthread_mutex_unlock(&mpix.lock);
    return NULL;
}

static inline flash_error *mpix_alloc(struct flash_device *device, uint32_t space, uint64_t bytes, flash_buffer *buffer) {
    static const char zeros[4096];
    (void)device;
    pthread_mutex_lock(&mpix.lock);
    const MPIX_Memory *of = mpix.accelerator->memory;
    void *memory = space == mpix.device.space.id && bytes <= of->bytes ? of->alloc(bytes ? bytes : 1) : NULL;
    int failed = 0;
    *buffer = (flash_buffer){ .space = space, .handle = (uint64_t)(uintptr_t)memory };
    for (uint64_t at = 0; memory && !failed && at < bytes; at += sizeof zeros)
        failed = of->write(memory, at, zeros, bytes - at < sizeof zeros ? bytes - at : sizeof zeros);
    if (memory && failed)
        of->free(memory);
    pthread_mutex_unlock(&mpix.lock);
    if (!memory)
        return flash_fail(FLASH_ERROR_OUT_OF_MEMORY, "the accelerator's memory refused the allocation");
    return failed ? flash_fail(FLASH_ERROR_OTHER, "the accelerator failed to write its memory") : NULL;
}

static inline flash_error *mpix_copy_box(struct flash_device *device, flash_buffer source, flash_buffer destination,
                                         const flash_copy_box *box, struct flash_event *const *waits, size_t wait_count,
                                         struct flash_event **signal) {
    const uint32_t own = mpix.device.space.id;
    (void)device, (void)waits;
    if (wait_count)
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "the accelerator has no events");
    if ((source.space != FLASH_SPACE_HOST && source.space != own)
        || (destination.space != FLASH_SPACE_HOST && destination.space != own))
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "the accelerator copies to and from the host alone");
    uint64_t extent[3] = { box->extent[0], box->extent[1], box->extent[2] };
    const uint64_t *from = box->source_stride, *to = box->destination_stride;
    /* Rows that lie one behind the other are one. */
    const int rows = from[0] == extent[0] && to[0] == extent[0];
    if (rows && (extent[2] == 1 || (from[1] == extent[0] * extent[1] && to[1] == extent[0] * extent[1]))) {
        extent[0] *= extent[1] * extent[2];
        extent[1] = extent[2] = 1;
    }
    int failed = 0;
    pthread_mutex_lock(&mpix.lock);
    for (uint64_t z = 0; !failed && extent[0] && z < extent[2]; ++z)
        for (uint64_t y = 0; !failed && y < extent[1]; ++y)
            failed = mpix_move(destination, box->destination_offset + y * to[0] + z * to[1], source,
                               box->source_offset + y * from[0] + z * from[1], extent[0]);
    pthread_mutex_unlock(&mpix.lock);
    if (signal)
        *signal = NULL; /* complete */
    return failed ? flash_fail(FLASH_ERROR_OTHER, "the accelerator failed to copy to or from its memory") : NULL;
}

/* All is complete when it returns, so that there are no events; the host wants to be able to wait for one of a device
 * that has a memory of its own. */
static inline flash_error *mpix_event_wait(struct flash_event *event) {
    (void)event;
    return NULL;
}

static inline void mpix_event_release(struct flash_event *event) {
    (void)event;
}

/* The metrics, as a JSON object. */
static inline flash_error *mpix_query_device(const void *object, flash_str key, flash_error **value) {
    const MPIX_Accelerator *of = mpix.accelerator;
    (void)object;
    if (!flash_equal(key, "metrics"))
        return flash_fail(FLASH_ERROR_UNSUPPORTED, "the accelerator has `metrics`, and no other property");
    struct mpix_text text = { NULL, 0, 0 };
    mpix_add(&text, "{\"calls\":%llu,\"failed\":%llu", (unsigned long long)__atomic_load_n(&mpix.calls, __ATOMIC_RELAXED),
             (unsigned long long)__atomic_load_n(&mpix.failed, __ATOMIC_RELAXED));
    for (size_t i = 0; i < of->metric_count; ++i) {
        char number[40];
        const double metric = of->metrics[i].read();
        snprintf(number, sizeof number, "%.17g", metric);
        /* Some languages write a comma. */
        for (char *c = number; *c; ++c)
            *c = *c == ',' ? '.' : *c;
        mpix_add(&text, ",\"%s\":%s", of->metrics[i].name, metric - metric == 0 ? number : "null");
    }
    mpix_add(&text, "}");
    if (text.is_short) {
        free(text.text);
        return flash_fail(FLASH_ERROR_OUT_OF_MEMORY, "no memory");
    }
    *value = flash_fail(0, text.text);
    free(text.text);
    return NULL;
}

/* Where the accelerator is: no two devices of a machine are the same. */
static inline void mpix_locate(flash_str key) {
    char host[65] = "";
    FILE *file = fopen("/proc/sys/kernel/hostname", "r");
    if (file) {
        if (fscanf(file, "%64s", host) != 1)
            host[0] = 0;
        fclose(file);
    }
    snprintf(mpix.host_and_key, sizeof mpix.host_and_key, "%s/%.*s", host, mpix_at_most(key, 80), (const char *)key.ptr);
}

/* Runs when the library is loaded, before anything asks for the plugin. */
static inline void mpix_build(const MPIX_Accelerator *of) {
    const flash_str key = mpix_word("the accelerator", "ss_vid", of->ss_vid);
    const flash_str version = mpix_word("the accelerator", "sw_verid", of->sw_verid);
    mpix_word("the accelerator", "vid", of->vid);
    mpix_word("the accelerator", "pid", of->pid);
    mpix.accelerator = of;
    mpix.kernels = calloc(of->function_count + 1, sizeof *mpix.kernels);
    mpix.implementations = calloc(of->function_count + 1, sizeof *mpix.implementations);
    mpix.list = calloc(of->function_count + 1, sizeof *mpix.list);
    if (!mpix.kernels || !mpix.implementations || !mpix.list)
        mpix_refuse("no memory");
    for (size_t i = 0; i < of->metric_count; ++i) {
        mpix_word("a metric", "name", of->metrics[i].name);
        if (!of->metrics[i].read)
            mpix_refuse("metric `%s`: expected a function in `read`, found NULL", of->metrics[i].name);
    }
    for (size_t i = 0; !mpix.fault[0] && i < of->function_count; ++i) {
        const MPIX_Function *function = &of->functions[i];
        flash_implementation *to = &mpix.implementations[i];
        *to = (flash_implementation){
            .struct_size = sizeof *to, .door = FLASH_DOOR_WHOLE, .kind = FLASH_KIND_INT_BIN,
            .kernel = mpix_word("a function", "kernel", function->kernel),
            .name = flash_text(function->sw_pid ? function->sw_pid : "accelerator"), .target = key, .share = mpix_share,
        };
        if (!function->run)
            mpix_refuse("%s: expected a function in `run`, found NULL", function->kernel ? function->kernel : "a function");
        if (!mpix.fault[0]) {
            to->descriptor = mpix_descriptor(function);
            mpix_attributes(to, function);
        }
        mpix.kernels[i].function = function;
        mpix.list[i] = to;
    }
    mpix.device.space = (flash_memory_space){
        .struct_size = sizeof(flash_memory_space), .id = FLASH_SPACE_HOST, .numa_node = -1, .host_visible = 1, .alignment = 64,
    };
    mpix.api = (flash_backend_api){
        .struct_size = sizeof mpix.api, .key = key, .description = FLASH_STR("an accelerator of C2MPI"), .target = key,
        .probe = mpix_probe, .devices = mpix_devices, .device_info = mpix_device_info, .prepare = mpix_prepare,
        .release = mpix_release, .submit = mpix_submit, .query = mpix_query_device,
    };
    if (of->memory) {
        const MPIX_Memory *memory = of->memory;
        if (!memory->alloc || !memory->free || !memory->write || !memory->read)
            mpix_refuse("the memory: expected `alloc`, `free`, `write` and `read`, found NULL");
        mpix.device.space.id = 1;
        mpix.device.space.host_visible = 0;
        mpix.device.space.size = memory->bytes;
        mpix.api.spaces = mpix_spaces;
        mpix.api.alloc = mpix_alloc;
        mpix.api.free = mpix_free;
        mpix.api.copy_box = mpix_copy_box;
        mpix.api.event_wait = mpix_event_wait;
        mpix.api.event_release = mpix_event_release;
    }
    mpix.backends[0] = &mpix.api;
    mpix.header = (flash_plugin_header){
        .magic = FLASH_MAGIC, .struct_size = sizeof mpix.header, .abi_major = FLASH_ABI_MAJOR, .abi_minor = FLASH_ABI_MINOR,
        .name = key, .version = version, .build = FLASH_STR("C, " __DATE__), .backends = mpix.backends, .backend_count = 1,
        .implementations = mpix.list, .implementation_count = of->function_count,
    };
    if (!mpix.fault[0])
        mpix_locate(key);
}

static inline const flash_plugin_header *mpix_query(uint32_t host_abi_major, const flash_host_api *host) {
    if (!host)
        return NULL;
    if (host_abi_major != FLASH_ABI_MAJOR)
        mpix_refuse("the accelerator was built for another interface version: rebuild it");
    if (mpix.fault[0]) {
        if (host->query_failed)
            host->query_failed(flash_text(mpix.fault));
        return NULL;
    }
    flash_host = host;
    return &mpix.header;
}

#endif /* MPIX_ACCEL_H */
