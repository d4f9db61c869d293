/* An OpenCL loader whose calls fail when they are told to: everything else is the system's. The file that
 * FLASH_TEST_FAULT names says which call gives which code how often: "clFinish -5 1". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the file says of this call: the code, and how often; 0: nothing. */
static int read_of(const char *call, int *times) {
    const char *path = getenv("FLASH_TEST_FAULT");
    char name[64] = "";
    int code = 0;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return 0;
    int found = fscanf(file, "%63s %d %d", name, &code, times);
    fclose(file);
    return found == 3 && strcmp(name, call) == 0 ? code : 0;
}

/* True if the call is going to fail. */
static int told(const char *call) {
    int times = 0;
    return read_of(call, &times) != 0;
}

/* The code with which this call fails now; 0: it does not. */
static int code_of(const char *call) {
    const char *path = getenv("FLASH_TEST_FAULT");
    int times = 0, code = read_of(call, &times);
    FILE *file = NULL;
    if (code && times > 1 && (file = fopen(path, "w"))) {
        fprintf(file, "%s %d %d", call, code, times - 1);
        fclose(file);
    } else if (code) {
        remove(path);
    }
    return code;
}

/* Objects are pointers, and so is what a function gives that makes one. */
typedef void *object;

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, #name))

int clFinish(object queue);
int clFinish(object queue) {
    int code = code_of("clFinish");
    return code ? code : NEXT(int (*)(object), clFinish)(queue);
}

object clCreateContext(const long *properties, unsigned count, const object *devices, object notify, void *data, int *status);
object clCreateContext(const long *properties, unsigned count, const object *devices, object notify, void *data, int *status) {
    int code = code_of("clCreateContext");
    if (code) {
        *status = code;
        return NULL;
    }
    return NEXT(object (*)(const long *, unsigned, const object *, object, void *, int *), clCreateContext)(
        properties, count, devices, notify, data, status);
}

int clBuildProgram(object program, unsigned count, const object *devices, const char *options, object notify, void *data);
int clBuildProgram(object program, unsigned count, const object *devices, const char *options, object notify, void *data) {
    int code = code_of("clBuildProgram");
    return code ? code
                : NEXT(int (*)(object, unsigned, const object *, const char *, object, void *), clBuildProgram)(
                      program, count, devices, options, notify, data);
}

object clCreateBuffer(object context, unsigned long flags, size_t bytes, void *host, int *status);
object clCreateBuffer(object context, unsigned long flags, size_t bytes, void *host, int *status) {
    int code = code_of("clCreateBuffer");
    if (code) {
        *status = code;
        return NULL;
    }
    return NEXT(object (*)(object, unsigned long, size_t, void *, int *), clCreateBuffer)(context, flags, bytes, host, status);
}

int clEnqueueNDRangeKernel(object queue, object kernel, unsigned dimensions, const size_t *offset, const size_t *global,
    const size_t *local, unsigned waits, const object *events, object *event);
int clEnqueueNDRangeKernel(object queue, object kernel, unsigned dimensions, const size_t *offset, const size_t *global,
    const size_t *local, unsigned waits, const object *events, object *event) {
    int code = code_of("clEnqueueNDRangeKernel");
    if (code)
        return code;
    return NEXT(int (*)(object, object, unsigned, const size_t *, const size_t *, const size_t *, unsigned, const object *, object *),
        clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits, events, event);
}

int clEnqueueMarkerWithWaitList(object queue, unsigned waits, const object *events, object *event);
int clEnqueueMarkerWithWaitList(object queue, unsigned waits, const object *events, object *event) {
    int code = code_of("clEnqueueMarkerWithWaitList");
    if (code)
        return code;
    return NEXT(int (*)(object, unsigned, const object *, object *), clEnqueueMarkerWithWaitList)(queue, waits, events, event);
}

int clEnqueueWriteBuffer(object queue, object buffer, unsigned blocking, size_t offset, size_t bytes, const void *host,
    unsigned waits, const object *events, object *event);
int clEnqueueWriteBuffer(object queue, object buffer, unsigned blocking, size_t offset, size_t bytes, const void *host,
    unsigned waits, const object *events, object *event) {
    int code = code_of("clEnqueueWriteBuffer");
    if (code)
        return code;
    return NEXT(int (*)(object, object, unsigned, size_t, size_t, const void *, unsigned, const object *, object *),
        clEnqueueWriteBuffer)(queue, buffer, blocking, offset, bytes, host, waits, events, event);
}

int clEnqueueReadBuffer(object queue, object buffer, unsigned blocking, size_t offset, size_t bytes, void *host,
    unsigned waits, const object *events, object *event);
int clEnqueueReadBuffer(object queue, object buffer, unsigned blocking, size_t offset, size_t bytes, void *host,
    unsigned waits, const object *events, object *event) {
    int code = code_of("clEnqueueReadBuffer");
    if (code)
        return code;
    return NEXT(int (*)(object, object, unsigned, size_t, size_t, void *, unsigned, const object *, object *),
        clEnqueueReadBuffer)(queue, buffer, blocking, offset, bytes, host, waits, events, event);
}

/* A command that ends badly: it is in flight until it is waited for, and then has the code for a status. */
static int ended;

int clGetEventInfo(object event, unsigned what, size_t bytes, void *value, size_t *size);
int clGetEventInfo(object event, unsigned what, size_t bytes, void *value, size_t *size) {
    const unsigned status = 0x11D3, submitted = 2;
    int outcome = NEXT(int (*)(object, unsigned, size_t, void *, size_t *), clGetEventInfo)(event, what, bytes, value, size);
    if (what == status && value && told("clWaitForEvents")) {
        *(int *)value = submitted;
    } else if (what == status && value && ended) {
        *(int *)value = ended;
        ended = 0;
    }
    return outcome;
}

int clWaitForEvents(unsigned count, const object *events);
int clWaitForEvents(unsigned count, const object *events) {
    const int one_has_failed = -14;
    int outcome = NEXT(int (*)(unsigned, const object *), clWaitForEvents)(count, events);
    int code = code_of("clWaitForEvents");
    if (!code)
        return outcome;
    ended = code;
    return one_has_failed;
}
