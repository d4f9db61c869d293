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

#ifndef FLASH_H
#define FLASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// It is done.
#define FLASH_STATUS_OK 0

// A pointer that must not be NULL; a handle that is freed or of another kind; a pointer that is no
// mapping of this thread.
#define FLASH_STATUS_POINTER 1

// A text that is not UTF-8, or is not the JSON that is expected.
#define FLASH_STATUS_TEXT 2

// A runtime key without a backend or device.
#define FLASH_STATUS_KEY 3

// A setting that is none, or a value that does not fit.
#define FLASH_STATUS_SETTING 4

// An option that is none, or a value that does not fit.
#define FLASH_STATUS_OPTION 5

// An unknown kernel name.
#define FLASH_STATUS_KERNEL 6

// No device of the runtime has an implementation of the kernel.
#define FLASH_STATUS_IMPLEMENTATION 7

// Arguments that do not fit the kernel: their number, kinds, types or lengths.
#define FLASH_STATUS_ARGUMENT 8

// A shape or type that cannot be.
#define FLASH_STATUS_SHAPE 9

// A range that leaves its memory, or an index that is not there.
#define FLASH_STATUS_RANGE 10

// Dimensions that do not fit the kernel.
#define FLASH_STATUS_DIMENSION 11

// A mapping is in the way: of this thread, or longer of another than `Patience` allows.
#define FLASH_STATUS_BORROWED 12

// The launch that should have written the memory failed.
#define FLASH_STATUS_POISONED 13

// A kernel launches, maps or waits.
#define FLASH_STATUS_NESTED 14

// A launch that cannot be cut as requested.
#define FLASH_STATUS_PARTITION 15

// A submission took longer than its `Timeout`.
#define FLASH_STATUS_TIMEOUT 16

// The pipeline was cancelled.
#define FLASH_STATUS_CANCELLED 17

// The host or a device has too little memory.
#define FLASH_STATUS_OUT_OF_MEMORY 18

// A device does not answer any more.
#define FLASH_STATUS_DEVICE_LOST 19

// A kernel panicked or said that it failed.
#define FLASH_STATUS_FAILED 20

// A library of kernels, or a plugin, cannot be used.
#define FLASH_STATUS_LIBRARY 21

// The handle is in use by another thread.
#define FLASH_STATUS_BUSY 22

// A backend or device failed in another way.
#define FLASH_STATUS_BACKEND 23

// A fault of FLASH: an entry panicked.
#define FLASH_STATUS_PANIC 24

// Anything else; the text says what.
#define FLASH_STATUS_OTHER 25

// `flash_value.kind`: a number of C's type `int8_t`.
#define FLASH_VALUE_I8 0

// `flash_value.kind`: a number of C's type `int16_t`.
#define FLASH_VALUE_I16 1

// `flash_value.kind`: a number of C's type `int32_t`.
#define FLASH_VALUE_I32 2

// `flash_value.kind`: a number of C's type `int64_t`.
#define FLASH_VALUE_I64 3

// `flash_value.kind`: a number of C's type `uint8_t`.
#define FLASH_VALUE_U8 4

// `flash_value.kind`: a number of C's type `uint16_t`.
#define FLASH_VALUE_U16 5

// `flash_value.kind`: a number of C's type `uint32_t`.
#define FLASH_VALUE_U32 6

// `flash_value.kind`: a number of C's type `uint64_t`.
#define FLASH_VALUE_U64 7

// `flash_value.kind`: a number of C's type `size_t`.
#define FLASH_VALUE_USIZE 8

// `flash_value.kind`: a number of C's type `float`.
#define FLASH_VALUE_F32 9

// `flash_value.kind`: a number of C's type `double`.
#define FLASH_VALUE_F64 10

// `flash_value.kind`: a value of any type, by its name and bytes.
#define FLASH_VALUE_BYTES 16

// `flash_value.kind`: all of a memory.
#define FLASH_VALUE_MEMORY 17

// `flash_value.kind`: a range of a memory's elements, which has no shape.
#define FLASH_VALUE_RANGE 18

// The agents of `flash serve` as they were when the list was made. Any thread may use it, several at once.
typedef struct flash_agents flash_agents;

// An array that launches read and write. Any thread may use it, several at once.
typedef struct flash_memory flash_memory;

// A kernel by name on a runtime. Any thread may use it, several at once.
typedef struct flash_named_kernel flash_named_kernel;

// Submissions that run in order as far as they depend on each other. Several threads may run it at once; one
// that changes it must be the only one that uses it.
typedef struct flash_pipeline flash_pipeline;

// A runtime: some devices, and what is prepared for them. Any thread may use it, several at once.
typedef struct flash_runtime flash_runtime;

// A pipeline on its way. Any thread may use it, several at once.
typedef struct flash_handle flash_handle;

// A device of a runtime. Its texts are valid until the runtime is closed.
typedef struct flash_device_report {
  // Its id, such as `ALL_CPU:0`: a runtime key that selects just this device.
  const char *id;
  // Its name, for people.
  const char *name;
  // Its manufacturer.
  const char *vendor;
  // The version of its driver or backend.
  const char *version;
  // `cpu`, `gpu`, `fpga` or `other`.
  const char *kind;
  // Bytes of its memory; 0: unknown.
  uint64_t memory_bytes;
  // Work items that run at the same time, roughly; threads of a CPU.
  uint32_t threads;
  // 1: it works in the host's memory; 0: it has a memory of its own.
  uint32_t host_memory;
} flash_device_report;

// What a memory is. Its pointers are valid until the memory is freed.
typedef struct flash_memory_report {
  // The name of the type of its elements.
  const char *type_name;
  // Bytes of one element.
  size_t element_size;
  // Number of elements.
  uint64_t len;
  // Number of axes, at least 1.
  size_t axes;
  // Extent per axis, axis 0 first, which is the fastest.
  const uint64_t *shape;
} flash_memory_report;

// An argument of a kernel. Made by `flash_as_f32(..)`, `flash_as_array(..)` and their like.
typedef struct flash_value {
  // `VALUE_*`: what it is.
  uint32_t kind;
  // 0.
  uint32_t reserved;
  // Of a number: its bits, the least significant ones of these. Of a memory or a range of it: the address
  // that is its handle. Of `VALUE_BYTES`: the address of as many bytes as the type has.
  uint64_t bits;
  // Of `VALUE_RANGE`: the first element. Of `VALUE_BYTES`: the address of the type's name, as in
  // `flash_memory_create`.
  uint64_t begin;
  // Of `VALUE_RANGE`: one past the last element.
  uint64_t end;
} flash_value;

// A dimension of a launch. Made by `flash_count(..)`, `flash_range(..)` and `flash_list(..)`.
typedef struct flash_dimension {
  // The first index value.
  uint64_t start;
  // Difference of neighbouring values, not 0.
  int64_t step;
  // Number of values.
  uint64_t count;
  // The values themselves, `count` of them; NULL: as `start` and `step` say.
  const uint64_t *values;
} flash_dimension;

// An agent that listens. Its texts are valid until the list is freed.
typedef struct flash_agent_report {
  // The name that it listens under.
  const char *name;
  // The key of its backend: programs use it as `KEY@NAME`.
  const char *key;
  // Seconds since it began.
  double uptime_s;
  // Its process.
  uint32_t pid;
  // Number of programs that use it.
  uint32_t clients;
} flash_agent_report;

// A program that uses an agent. Its text is valid until the list is freed.
typedef struct flash_client_report {
  // The ids of its devices, with commas between them; empty before it has any.
  const char *devices;
  // Seconds since it is served.
  double uptime_s;
  // Launches so far.
  uint64_t launches;
  // Bytes of the buffers that it has on these devices.
  uint64_t bytes;
  // The program's process.
  uint32_t pid;
  // The process that serves it.
  uint32_t agent;
} flash_client_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last error of this thread: what was expected, what was found, where, and what to do.
//
// Empty if there was none. It is valid until a function of FLASH fails in this thread again, or the thread
// ends. A function that succeeds leaves it as it is.
const char *flash_last_error(void);

// The name of a status, such as `KEY`, or `unknown`; valid as long as the process.
const char *flash_status_name(int32_t status);

// Defines the type of a struct, for arrays and values of it: the name by which its kernels know it
// (`crate::Type`, or the one in `#[element(name = "..")]`), its size and its alignment in bytes.
//
// Defining it again is allowed if it is the same. A kernel whose type of that name has another size or
// alignment refuses the argument.
//
// Errors: `POINTER` for NULL, `TEXT`, `SHAPE` for a size and alignment that no type has, or for a name that
// has another size or alignment, or means something already.
//
// The caller's duty: The name ends with NUL.
int32_t flash_type_define(const char *name,
                          size_t size,
                          size_t alignment);

// Says that this program may be started again as an agent of its own, for keys such as `OPENCL@agent`: a
// driver that crashes there is an error of a launch. In a process that was started for that, it does not
// return. It stands at the beginning of `main`: an agent runs what comes before it.
int32_t flash_agent_here(void);

// Opens the runtime of a key: a group (`ALL_ACCEL`, or `ALL`: the best of everything; `ALL_CPU`), a backend
// (`NVIDIA_GPU`), a device (`NVIDIA_GPU:1`), or a list with commas. To be closed with `flash_runtime_close`.
//
// `settings` is NULL, for those of the environment, or an object in JSON with settings of this runtime, as
// in `{"plugin_path": "/opt/plugins", "cpu.devices": 2}`. `docs/c.md` lists them. Plugins are looked for in
// `plugin_path`, else in the environment's `FLASH_BACKEND_PATH`, else in the folder `flash-backends` beside
// `libflash.so`.
//
// Errors: `KEY`, whose text lists the available keys and, for each plugin found but not usable, the reason;
// `SETTING`; `TEXT`; `POINTER` if `key` or `runtime` is NULL.
//
// The caller's duty: Texts end with NUL; `runtime` is a place for a handle.
int32_t flash_runtime_open(const char *key,
                           const char *settings,
                           struct flash_runtime **runtime);

// The same devices with options for everything that is submitted to the result, in `with`: a runtime of its
// own, to be closed by itself.
//
// `options` is an object in JSON, as in `{"Timeout": {"secs": 5, "nanos": 0}, "Devices": "ALL_CPU:0"}`.
// `docs/c.md` lists them. NULL: none.
//
// Errors: `OPTION` for a value that does not fit; `TEXT`; `POINTER`. A name that is no option is refused by
// the first launch.
//
// The caller's duty: `runtime` is a handle; `options` ends with NUL; `with` is a place for a handle.
int32_t flash_runtime_with(const struct flash_runtime *runtime,
                           const char *options,
                           struct flash_runtime **with);

// The number of devices of a runtime, at least 1.
//
// Errors: `POINTER`.
//
// The caller's duty: `runtime` is a handle; `count` is a place for the number.
int32_t flash_runtime_device_count(const struct flash_runtime *runtime, size_t *count);

// Device `index` of a runtime, from 0: the best first.
//
// Errors: `RANGE` if there is none of that index; `POINTER`.
//
// The caller's duty: `runtime` is a handle; `report` is a place for the report.
int32_t flash_runtime_device(const struct flash_runtime *runtime,
                             size_t index,
                             struct flash_device_report *report);

// Closes a runtime. NULL is allowed. Kernels, pipelines and memories of it go on living.
//
// Errors: `POINTER` for what is no runtime, or closed already.
//
// The caller's duty: `runtime` is NULL or a handle that no other thread uses.
int32_t flash_runtime_close(struct flash_runtime *runtime);

// Everything that was found, as JSON: a list of plugins and of what is linked in, each with its `key`,
// `plugin` (the file, or `embedded`), `outcome` with the reason why one cannot be used, `devices`, and
// `implementations` with the kernels' names. `settings` are those of `flash_runtime_open`. The text is to be
// freed with `flash_text_free`.
//
// Errors: `SETTING`; `TEXT`; `POINTER`.
//
// The caller's duty: `settings` is NULL or ends with NUL; `json` is a place for a text.
int32_t flash_found(const char *settings,
                    char **json);

// Frees a text of `flash_found`. NULL is allowed.
//
// The caller's duty: The text is NULL, or of `flash_found` and not freed yet.
void flash_text_free(char *text);

// Creates an array, to be freed with `flash_memory_free`.
//
// `type_name` is the type of its elements: `i8` to `i64`, `u8` to `u64`, `usize`, `f32`, `f64`,
// `f16`, `bf16`; an array of these such as `[f32; 3]`; or what `flash_type_define` has defined. `shape` has
// the extents of `axes` axes, axis 0 first, which is the fastest (a matrix of C with rows and columns has
// the shape columns, rows; one of Fortran its own). `data` is copied: as many elements as the shape has,
// without gaps. NULL: the array is zeros.
//
// Errors: `SHAPE` for an unknown type, no axis, or an array larger than memory can be; `OUT_OF_MEMORY`;
// `TEXT`; `POINTER`.
//
// The caller's duty: `type_name` ends with NUL; `shape` has `axes` extents; `data` is NULL or has that many bytes; `memory` is
// a place for a handle.
int32_t flash_memory_create(const char *type_name,
                            size_t axes,
                            const uint64_t *shape,
                            const void *data,
                            struct flash_memory **memory);

// What a memory is: type, length and shape.
//
// Errors: `POINTER`.
//
// The caller's duty: `memory` is a handle; `report` is a place for the report.
int32_t flash_memory_describe(const struct flash_memory *memory,
                              struct flash_memory_report *report);

// Maps the elements from `begin` to before `end` for reading: `data` gets their address. Waits for launches
// that write them, and brings to the host what is on a device.
//
// The mapping belongs to this thread, which ends it with `flash_memory_unmap`. Until then the elements stay
// as they are: a launch that writes some of them waits, or fails with `BORROWED`. Several may be mapped.
// While a thread has a mapping it waits for no mapping of another thread.
//
// Errors: `BORROWED` if it is mapped for writing; `POISONED`; `RANGE`; `NESTED` in a kernel;
// `OUT_OF_MEMORY`; what a device says; `POINTER`.
//
// The caller's duty: `memory` is a handle; `data` is a place for a pointer. Nothing is written through that pointer, nor read
// after the mapping's end.
int32_t flash_memory_map_read(const struct flash_memory *memory,
                              uint64_t begin,
                              uint64_t end,
                              const void **data);

// Maps all of a memory for reading and writing: `data` gets its address. Waits for launches that use it. It
// heals a memory that is poisoned; all of it should be written then.
//
// The mapping belongs to this thread, which ends it with `flash_memory_unmap`. Until then a launch that uses
// the memory waits, or fails with `BORROWED`.
//
// Errors: `BORROWED` if it is mapped; `NESTED` in a kernel; `OUT_OF_MEMORY`; what a device says; `POINTER`.
//
// The caller's duty: `memory` is a handle; `data` is a place for a pointer, which is not used after the mapping's end.
int32_t flash_memory_map_write(const struct flash_memory *memory,
                               void **data);

// Ends a mapping, by the address that it gave. A memory that was mapped several times at one address is
// unmapped as often. What was mapped stays valid until then, even if the memory is freed before.
//
// Errors: `POINTER` if this thread has no mapping of that memory at that address: it was unmapped already,
// or another thread has mapped it, which must end it itself.
//
// The caller's duty: None: `memory` and `data` are only compared.
int32_t flash_memory_unmap(const struct flash_memory *memory,
                           const void *data);

// Frees a memory. NULL is allowed. Pipelines that use it, and mappings, keep what they need.
//
// Errors: `POINTER` for what is no memory, or freed already.
//
// The caller's duty: `memory` is NULL or a handle that no other thread uses.
int32_t flash_memory_free(struct flash_memory *memory);

// Finds a kernel by its name, for launches on a runtime. To be freed with `flash_kernel_free`.
//
// Errors: `KERNEL`, whose text lists all kernels; `TEXT`; `POINTER`.
//
// The caller's duty: `runtime` is a handle; `name` ends with NUL; `kernel` is a place for a handle.
int32_t flash_kernel_find(const struct flash_runtime *runtime,
                          const char *name,
                          struct flash_named_kernel **kernel);

// Launches a kernel, and returns when all of its work items have finished.
//
// `values` are its arguments in the order of its definition, as made by `flash_as_f32`, `flash_as_array` and
// their like. `dimensions` is its index space, dimension 0 first, as made by `flash_count` and its like.
//
// Errors: `ARGUMENT` names the argument, what was expected and what was found (its number, kind, type,
// length); `SHAPE` and `RANGE` of memories; `DIMENSION`; `IMPLEMENTATION` if no device of the runtime runs
// the kernel; then nothing ran. `FAILED` with the kernel's words, `TIMEOUT`, `DEVICE_LOST`, `BACKEND`: what
// it should have written is poisoned. `BORROWED`, `POISONED`, `NESTED`, `OUT_OF_MEMORY`, `POINTER`.
//
// The caller's duty: `kernel` and memories are handles; there are as many values and dimensions as it says.
int32_t flash_kernel_launch(const struct flash_named_kernel *kernel,
                            const struct flash_value *values,
                            size_t value_count,
                            const struct flash_dimension *dimensions,
                            size_t dimension_count);

// Frees a kernel. NULL is allowed.
//
// Errors: `POINTER` for what is no kernel, or freed already.
//
// The caller's duty: `kernel` is NULL or a handle that no other thread uses.
int32_t flash_kernel_free(struct flash_named_kernel *kernel);

// An empty pipeline on a runtime, to be freed with `flash_pipeline_free`.
//
// Errors: `POINTER`.
//
// The caller's duty: `runtime` is a handle; `pipeline` is a place for a handle.
int32_t flash_pipeline_create(const struct flash_runtime *runtime,
                              struct flash_pipeline **pipeline);

// Adds a submission: a kernel, its arguments and its index space as in `flash_kernel_launch`, and options as
// in `flash_runtime_with`, or NULL. It shares the memories, so that their handles may be freed; numbers are
// copied.
//
// A kernel of another runtime is found on the pipeline's.
//
// Errors: `ARGUMENT` for the number, kinds and types of arguments, `RANGE`, `OPTION`, `TEXT`, `POINTER`:
// nothing is added then. What depends on the dimensions is reported when the pipeline runs. `BUSY` if
// another thread uses the pipeline.
//
// The caller's duty: `pipeline`, `kernel` and memories are handles; there are as many values and dimensions as it says;
// `options` is NULL or ends with NUL.
int32_t flash_pipeline_submit(struct flash_pipeline *pipeline,
                              const struct flash_named_kernel *kernel,
                              const struct flash_value *values,
                              size_t value_count,
                              const struct flash_dimension *dimensions,
                              size_t dimension_count,
                              const char *options);

// The number of submissions of a pipeline.
//
// Errors: `POINTER`; `BUSY` if another thread changes it.
//
// The caller's duty: `pipeline` is a handle; `count` is a place for the number.
int32_t flash_pipeline_len(const struct flash_pipeline *pipeline, size_t *count);

// Runs a pipeline, and returns when all of it has finished. It may be run again, which is cheaper than to
// build it again.
//
// Errors: as those of `flash_kernel_launch`, of any submission: what can be found before anything runs, else
// the first failure in order; `BUSY` if another thread changes the pipeline.
//
// The caller's duty: `pipeline` is a handle.
int32_t flash_pipeline_exec(const struct flash_pipeline *pipeline);

// Starts a pipeline and returns: it runs when what it depends on has finished, on threads of the library. A
// launch or mapping that comes later comes after it on memories that it touches. `handle` is to be freed
// with `flash_handle_free`. The pipeline is empty afterwards, and may be filled again.
//
// Errors: `POINTER`, and `BUSY` if another thread uses the pipeline. All errors of its submissions come out
// of the handle.
//
// The caller's duty: `pipeline` is a handle; `handle` is a place for a handle.
int32_t flash_pipeline_start(struct flash_pipeline *pipeline,
                             struct flash_handle **handle);

// Frees a pipeline. NULL is allowed. One that was started goes on.
//
// Errors: `POINTER` for what is no pipeline, or freed already.
//
// The caller's duty: `pipeline` is NULL or a handle that no other thread uses.
int32_t flash_pipeline_free(struct flash_pipeline *pipeline);

// Waits until all of it has finished; this thread helps to run it. It may be called again, with the same
// result.
//
// Errors: those of the pipeline, as of `flash_pipeline_exec`; `CANCELLED`; `BORROWED`; `NESTED` in a kernel.
//
// The caller's duty: `handle` is a handle.
int32_t flash_handle_wait(const struct flash_handle *handle);

// Waits at most this many nanoseconds, 0: not at all, and runs nothing. `done` becomes 1 if it has finished
// and 0 if not; in the latter case the result is `OK`.
//
// Errors: those of the pipeline, if it has finished; then `done` is 1.
//
// The caller's duty: `handle` is a handle; `done` is a place for the answer.
int32_t flash_handle_test(const struct flash_handle *handle,
                          uint64_t nanoseconds,
                          int32_t *done);

// Stops what has not begun yet, and kernels that can be stopped. Waiting then gives `CANCELLED`, unless it
// had finished before; what the rest should have written is poisoned.
//
// Errors: `POINTER`.
//
// The caller's duty: `handle` is a handle.
int32_t flash_handle_cancel(const struct flash_handle *handle);

// Frees a handle. NULL is allowed. The pipeline goes on; its errors are then only seen in its memories.
//
// Errors: `POINTER` for what is no such handle, or freed already.
//
// The caller's duty: `handle` is NULL or a handle that no other thread uses.
int32_t flash_handle_free(struct flash_handle *handle);

// Lists the agents of this user that listen, `flash serve` has started them: what `flash agents` shows. The
// list does not change; a later one says what has become of them. To be freed with `flash_agents_free`.
//
// Errors: `OTHER` for an agent of another version; `POINTER`.
//
// The caller's duty: `agents` is a place for a handle.
int32_t flash_agents_list(struct flash_agents **agents);

// The number of agents in a list.
//
// Errors: `POINTER`.
//
// The caller's duty: `agents` is a handle; `count` is a place for the number.
int32_t flash_agents_count(const struct flash_agents *agents, size_t *count);

// Agent `index` of a list, from 0, by their names.
//
// Errors: `RANGE` if there is none of that index; `POINTER`.
//
// The caller's duty: `agents` is a handle; `report` is a place for the report.
int32_t flash_agents_agent(const struct flash_agents *agents,
                           size_t index,
                           struct flash_agent_report *report);

// Program `client`, from 0, of those that use agent `index`.
//
// Errors: `RANGE` if there is none of that index; `POINTER`.
//
// The caller's duty: `agents` is a handle; `report` is a place for the report.
int32_t flash_agents_client(const struct flash_agents *agents,
                            size_t index,
                            size_t client,
                            struct flash_client_report *report);

// Frees a list of agents. NULL is allowed.
//
// Errors: `POINTER` for what is no list, or freed already.
//
// The caller's duty: `agents` is NULL or a handle that no other thread uses.
int32_t flash_agents_free(struct flash_agents *agents);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#ifdef __cplusplus
extern "C" {
#endif

// Arguments: numbers, all or a range of a memory, and values of any type. `type_name` and `bytes` are
// read when the value is used: until then they stay.

#define FLASH_DEFINE_(name, type, KIND)                          \
    static inline flash_value flash_as_##name(type x)            \
    {                                                            \
        flash_value value = {KIND, 0, (uint64_t)x, 0, 0};        \
        return value;                                            \
    }
FLASH_DEFINE_(i8, int8_t, FLASH_VALUE_I8)
FLASH_DEFINE_(i16, int16_t, FLASH_VALUE_I16)
FLASH_DEFINE_(i32, int32_t, FLASH_VALUE_I32)
FLASH_DEFINE_(i64, int64_t, FLASH_VALUE_I64)
FLASH_DEFINE_(u8, uint8_t, FLASH_VALUE_U8)
FLASH_DEFINE_(u16, uint16_t, FLASH_VALUE_U16)
FLASH_DEFINE_(u32, uint32_t, FLASH_VALUE_U32)
FLASH_DEFINE_(u64, uint64_t, FLASH_VALUE_U64)
FLASH_DEFINE_(usize, size_t, FLASH_VALUE_USIZE)
#undef FLASH_DEFINE_

static inline flash_value flash_as_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    flash_value value = {FLASH_VALUE_F32, 0, bits, 0, 0};
    return value;
}

static inline flash_value flash_as_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    flash_value value = {FLASH_VALUE_F64, 0, bits, 0, 0};
    return value;
}

// All of a memory.
static inline flash_value flash_as_array(const flash_memory *memory)
{
    flash_value value = {FLASH_VALUE_MEMORY, 0, (uint64_t)(uintptr_t)memory, 0, 0};
    return value;
}

// The elements from `begin` to before `end`.
static inline flash_value flash_as_range(const flash_memory *memory, uint64_t begin, uint64_t end)
{
    flash_value value = {FLASH_VALUE_RANGE, 0, (uint64_t)(uintptr_t)memory, begin, end};
    return value;
}

// A value of the type of this name, as many bytes as that has.
static inline flash_value flash_as_value(const char *type_name, const void *bytes)
{
    flash_value value = {FLASH_VALUE_BYTES, 0, (uint64_t)(uintptr_t)bytes, (uint64_t)(uintptr_t)type_name, 0};
    return value;
}

// Dimensions: `count` values from 0.
static inline flash_dimension flash_count(uint64_t count)
{
    flash_dimension dimension;
    dimension.start = 0;
    dimension.step = 1;
    dimension.count = count;
    dimension.values = NULL;
    return dimension;
}

// `count` values from `start`, `step` apart.
static inline flash_dimension flash_range(uint64_t start, int64_t step, uint64_t count)
{
    flash_dimension dimension = flash_count(count);
    dimension.start = start;
    dimension.step = step;
    return dimension;
}

// These values, in this order. They are read when the dimension is used.
static inline flash_dimension flash_list(const uint64_t *values, uint64_t count)
{
    flash_dimension dimension = flash_count(count);
    dimension.values = values;
    return dimension;
}

#ifdef __cplusplus
} // extern "C"
#else
// Two arguments of a call each: a list, and its length.
#define FLASH_VALUES(...) \
    (const flash_value[]){__VA_ARGS__}, sizeof((const flash_value[]){__VA_ARGS__}) / sizeof(flash_value)
#define FLASH_DIMENSIONS(...)                 \
    (const flash_dimension[]){__VA_ARGS__},   \
        sizeof((const flash_dimension[]){__VA_ARGS__}) / sizeof(flash_dimension)
#endif

#endif /* FLASH_H */
