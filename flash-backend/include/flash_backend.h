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

#ifndef FLASH_BACKEND_H
#define FLASH_BACKEND_H

#include "flash_device.h"
#include <stddef.h>
#include <string.h>

// `value = start + position * step` (see flash_space_dim.kind).
#define FLASH_DIM_AFFINE 0

// `value = values[position]` (see flash_space_dim.kind).
#define FLASH_DIM_VALUES 1

// Iteration `i` is position `i` (see flash_loop.kind).
#define FLASH_LOOP_FULL 0

// Iteration `i` is position `count - 1 - i`.
#define FLASH_LOOP_REVERSED 1

// Iteration `i` is position `order[i]`.
#define FLASH_LOOP_ORDERED 2

// Iteration `i` is the `i`-th group of positions of equal value,
// `order[starts[i] .. starts[i + 1]]`. A `MEMBER` loop of the same dimension follows inside.
#define FLASH_LOOP_GROUP 3

// Iteration `i` is position `order[starts[g] + i]`, `g` the current iteration of the loop
// `loops[group_loop]`. It has `starts[g + 1] - starts[g]` iterations.
#define FLASH_LOOP_MEMBER 4

// No step of the loop is a barrier (see flash_loop.barrier).
#define FLASH_BARRIER_NONE 0

// Every step of the loop is a barrier.
#define FLASH_BARRIER_ALL 1

// The steps from `i` to `i + 1` are barriers for each `i` in the list.
#define FLASH_BARRIER_LIST 2

// A different major version is refused. It stays 0 until device backends pass the conformance suite.
#define FLASH_ABI_MAJOR 0

// A higher minor version has more slots, all at the end.
#define FLASH_ABI_MINOR 15

// The oldest minor version whose plugins this host can use: 9 took slots out of flash_backend_api that no host
// used.
#define FLASH_ABI_MINOR_OLDEST 9

// Error code: anything that has no code of its own.
#define FLASH_ERROR_OTHER 1

// Error code: the slot exists, but this device cannot do it.
#define FLASH_ERROR_UNSUPPORTED 2

// Error code: no driver, no device, or too old.
#define FLASH_ERROR_UNAVAILABLE 3

// Error code: a kernel panicked or returned non-zero.
#define FLASH_ERROR_KERNEL 4

// Error code: an allocation was refused.
#define FLASH_ERROR_OUT_OF_MEMORY 5

// Error code: the device does not answer any more.
#define FLASH_ERROR_DEVICE_LOST 6

// Error code: an argument of the call makes no sense.
#define FLASH_ERROR_INVALID 7

// Error code: a panic inside the plugin, outside a kernel.
#define FLASH_ERROR_PANIC 8

// The launch was stopped because the host asked for that. Since minor version 9.
#define FLASH_ERROR_CANCELLED 9

// flash_implementation.door: one work item at a time, the loop is in the shim.
#define FLASH_DOOR_ITEM 1

// flash_implementation.door: a run of work items along dimension 0.
#define FLASH_DOOR_SPAN 2

// flash_implementation.door: once per subspace and phase. A launch is cut only if the implementation has the
// attribute `parts` with the value `true`. It is then called with the index space of a part. Of an
// FLASH_ARG_ITEM or FLASH_ARG_PHASED it touches only the elements of those index values, from the first element
// to the last.
#define FLASH_DOOR_WHOLE 3

// flash_implementation.kind: compiled into the program or plugin.
#define FLASH_KIND_INT_BIN 1

// flash_implementation.kind: a binary file given at run time.
#define FLASH_KIND_EXT_BIN 2

// flash_implementation.kind: source text.
#define FLASH_KIND_INT_SRC 3

// flash_implementation.kind: a source file.
#define FLASH_KIND_EXT_SRC 4

// flash_implementation.kind: `payload` is the address of a flash_queue_fn. Since minor version 5.
#define FLASH_KIND_QUEUE_FN 5

// Kind of a memory space that outlives its devices. Since minor version 9.
#define FLASH_SPACE_OF_PROCESS 4

// Device class: anything else.
#define FLASH_CLASS_OTHER 0

// Device class: the CPU.
#define FLASH_CLASS_CPU 1

// Device class: a GPU.
#define FLASH_CLASS_GPU 2

// Device class: an FPGA.
#define FLASH_CLASS_FPGA 3

// Device flag: an emulation; only an explicit key selects it.
#define FLASH_DEVICE_EMULATED 1

// Device flag: for tests; only an explicit key selects it.
#define FLASH_DEVICE_TEST 2

// Device flag: uses host memory in place, space FLASH_SPACE_HOST.
#define FLASH_DEVICE_HOST_MEMORY 4

// Device flag: it runs submissions in order. A device that lacks FLASH_DEVICE_SYNCHRONOUS must have it.
#define FLASH_DEVICE_IN_ORDER 8

// Device flag: work is done when `submit` returns, so a host gains nothing by running ahead of it. A backend
// with a device that lacks it needs the slots `event_on_ready`, `event_wait` and `event_release`. Since
// minor version 8.
#define FLASH_DEVICE_SYNCHRONOUS 16

// Device flag: runs functions of this process: an implementation's `share` or `span`, and functions of
// shared libraries. Since minor version 8.
#define FLASH_DEVICE_RUNS_FUNCTIONS 32

// Device flag: keeps what it makes of launches that are alike, see flash_submission. A host need not find out
// which are for others. Since minor version 12.
#define FLASH_DEVICE_KEEPS_LAUNCHES 64

// Device flag: its queues wait for its own events: `submit` and `copy_box` with such `waits`, and `signal`,
// return at once. A host gives it what comes after other work of it before that has ended. Since minor
// version 14.
#define FLASH_DEVICE_WAITS_IN_QUEUE 128

// Device flag: another process has it. If that ends, a new one may take its place, without the buffers: a
// host that reuses one finds out by `clear`. Since minor version 15.
#define FLASH_DEVICE_REMOTE 256

// flash_backend_api.has: a CPU feature, by the name that Rust has for it, such as `avx2`.
#define FLASH_HAS_FEATURE 1

// flash_backend_api.has: a shared library, by one of the names, with commas, that a loader knows it by.
#define FLASH_HAS_LIBRARY 2

// flash_submission.flags: fill in `nanoseconds`.
#define FLASH_SUBMIT_PROFILE 1

// flash_submission.flags: some argument is FLASH_ARG_PHASED.
#define FLASH_SUBMIT_PHASED 2

// flash_submission.flags: the space is a part of the launch's; other parts run elsewhere. Since minor version
// 3.
#define FLASH_SUBMIT_PART 4

// flash_submission.flags: the calling thread runs all of it, and no other thread of the host helps. A device
// that is not the host's processors pays no attention to it. Since minor version 9.
#define FLASH_SUBMIT_ON_CALLER 8

// flash_submission.flags: a thread of the host calls `event_wait` for the event before long, and no callback
// is asked for. A backend whose events take work of a thread may leave that work to it. Since minor version
// 11.
#define FLASH_SUBMIT_WAITED 16

// A device of a backend. Opaque, lives for ever.
typedef struct flash_device flash_device;

// An error, owned by the host. Opaque.
typedef struct flash_error flash_error;

// Completion of a submission or a copy. Opaque.
typedef struct flash_event flash_event;

// A kernel implementation made ready for one device. Opaque.
typedef struct flash_kernel flash_kernel;

// Work of a plugin for the worker threads of the process. Opaque.
typedef struct flash_work_source flash_work_source;

// The values of one dimension.
typedef struct flash_space_dim {
  // FLASH_DIM_AFFINE or FLASH_DIM_VALUES.
  uint32_t kind;
  // 0.
  uint32_t reserved;
  // First value, if affine.
  uint64_t start;
  // Difference of neighbouring values, if affine; arithmetic is modulo 2^64.
  int64_t step;
  // Number of positions.
  uint64_t count;
  // `count` values if the kind is FLASH_DIM_VALUES, else null.
  const uint64_t *values;
} flash_space_dim;

// One loop of the nest.
typedef struct flash_loop {
  // The dimension that it moves.
  uint32_t dim;
  // One of the `FLASH_LOOP_` constants.
  uint32_t kind;
  // One of the `FLASH_BARRIER_` constants.
  uint32_t barrier;
  // For FLASH_LOOP_MEMBER, the number of its group's loop; else 0.
  uint32_t group_loop;
  // Iterations; for FLASH_LOOP_MEMBER, positions of the dimension.
  uint64_t count;
  // `nbarriers` iterations, ascending, if `barrier` is FLASH_BARRIER_LIST, else null.
  const uint64_t *barriers;
  // Length of `barriers`.
  uint64_t nbarriers;
  // The dimension's positions, ascending by value and stably, for FLASH_LOOP_ORDERED,
  // FLASH_LOOP_GROUP and FLASH_LOOP_MEMBER, else null.
  const uint64_t *order;
  // The beginning of each group in `order`, and its length at the end, for FLASH_LOOP_GROUP and
  // FLASH_LOOP_MEMBER, else null.
  const uint64_t *starts;
} flash_loop;

// An index space in the order in which it is run.
typedef struct flash_space {
  // Size of this struct in bytes, as its maker knows it.
  uint32_t struct_size;
  // Number of dimensions, and length of `dims`.
  uint32_t ndims;
  // Work items, which is rows of the index table.
  uint64_t items;
  // Phases; 0 if and only if there are no items.
  uint64_t phases;
  // Rows of every phase if they all have the same number, else 0.
  uint64_t phase_items;
  // Length of `loops`.
  uint32_t nloops;
  // 0.
  uint32_t reserved;
  // The dimensions, `ndims` of them.
  const struct flash_space_dim *dims;
  // The loops, outermost first, `nloops` of them; dangling where there are none.
  const struct flash_loop *loops;
} flash_space;

// UTF-8 text, borrowed.
typedef struct flash_str {
  // First byte; may be dangling or NULL if `len` is 0.
  const uint8_t *ptr;
  // Number of bytes.
  size_t len;
} flash_str;

// An open-ended attribute.
typedef struct flash_attr {
  // Its name.
  struct flash_str key;
  // Its value as JSON text.
  struct flash_str value;
  // 1: a reader that does not know the key must refuse; 0: it may ignore it.
  uint32_t required;
  // 0.
  uint32_t reserved;
} flash_attr;

// The threads that a `whole` implementation may use. The functions may be called from any thread, and from
// inside `body`.
typedef struct flash_threads {
  // Size of this struct.
  uint32_t struct_size;
  // Number of threads.
  uint32_t count;
  // Passed to `install` and `each`.
  void *context;
  // Calls `body(data)` once, on a thread of the backend's pool; returns when that has returned.
  void (*install)(void *context, void (*body)(void*), void *data);
  // Calls `body(data, begin, end)` on all threads at the same time, for ranges that do not overlap and
  // together are `[0, count)`, none of them empty; returns when all calls have returned. One of `count`
  // takes about `ns` nanoseconds on one thread; 0: unknown.
  void (*each)(void *context, uint64_t count, float ns, void (*body)(void *data,
                                                                     uint64_t begin,
                                                                     uint64_t end), void *data);
} flash_threads;

// The work of one call of a flash_share_fn: rows `[begin, end)` of phase `phase`.
typedef struct flash_share {
  // Size of this struct on the side that made it.
  uint32_t struct_size;
  // Number of arguments.
  uint32_t arg_count;
  // For errors.
  const struct flash_host_api *host;
  // The index space.
  const struct flash_space *space;
  // The phase.
  uint64_t phase;
  // First table row.
  uint64_t begin;
  // One past the last table row.
  uint64_t end;
  // For `FLASH_DOOR_WHOLE`; otherwise NULL.
  const struct flash_threads *threads;
} flash_share;

// A CPU kernel whose loop over work items is inside: runs the rows of `share`. It catches its own
// panics. NULL is success.
typedef struct flash_error *(*flash_share_fn)(const struct flash_share *share, const flash_arg *args);

// One implementation of a kernel, for one kind of device.
typedef struct flash_implementation {
  // Size of this struct on the side that made it.
  uint32_t struct_size;
  // `FLASH_DOOR_*`.
  uint32_t door;
  // `FLASH_KIND_*`.
  uint32_t kind;
  // Higher wins among equally specific candidates. Default 0.
  int32_t priority;
  // Name of the kernel, such as `nbody.accelerate`.
  struct flash_str kernel;
  // Name of this implementation among the kernel's.
  struct flash_str name;
  // Kind of device that it is for: one of the device's targets, such as `cuda`.
  struct flash_str target;
  // What it takes: the kernel's signature, such as `[1](u32, Item<Write<u32>> along [0])` (the number of
  // dimensions, and the type of each argument, as messages show it), or its descriptor as JSON. It is
  // chosen for kernels that take just that. Empty: only a program that asks for it by its name gets
  // it, and vouches that it fits.
  struct flash_str descriptor;
  // CPU features that the device must have, separated by commas. Empty: none.
  struct flash_str cpu_features;
  // Selection attributes and others.
  const struct flash_attr *attributes;
  // Number of attributes.
  size_t attribute_count;
  // CPU: the function with the loop inside, or NULL.
  flash_share_fn share;
  // CPU: the function called per run, used if `share` is NULL.
  flash_span_fn span;
  // Binary or source text for other devices.
  const uint8_t *payload;
  // Its length in bytes.
  size_t payload_len;
  // The type of the definition that it was written for, with its path; empty: there is none. Two of one
  // image whose kernels have one name are told apart by it. Since minor version 9.
  struct flash_str definition;
} flash_implementation;

// What the host offers to plugins. Lives for ever; a plugin may keep the pointer.
typedef struct flash_host_api {
  // Size of this struct in the host.
  uint32_t struct_size;
  // FLASH_ABI_MAJOR of the host.
  uint32_t abi_major;
  // FLASH_ABI_MINOR of the host.
  uint32_t abi_minor;
  // 0.
  uint32_t reserved;
  // Makes an error of a code and a text, which is copied.
  struct flash_error *(*error_create)(uint32_t code, struct flash_str text);
  // The code of an error.
  uint32_t (*error_code)(const struct flash_error *error);
  // The text of an error, valid until it is freed.
  struct flash_str (*error_text)(const struct flash_error *error);
  // Frees an error; NULL is allowed.
  void (*error_free)(struct flash_error *error);
  // Tells the loader why the query that runs on this thread is about to return NULL.
  void (*query_failed)(struct flash_str text);
  // Table rows `[*begin, *end)` of phase `phase`.
  void (*phase_rows)(const struct flash_space *space, uint64_t phase, uint64_t *begin, uint64_t *end);
  // Runs table rows of one phase of a CPU implementation on the calling thread, whatever its door.
  struct flash_error *(*run_rows)(const struct flash_implementation *implementation,
                                  const struct flash_share *share,
                                  const flash_arg *args);
  // An interface by name and version; NULL if the host has none such.
  const void *(*get_extension)(struct flash_str name, uint32_t version);
  // Writes a line on the program's standard error, unless the program has turned such notices off. Never
  // fails. For what a person should know and what fails nothing; since interface version 0.7.
  void (*notice)(struct flash_str text);
} flash_host_api;

// Properties of a device.
typedef struct flash_device_info {
  // Size of this struct on the side that made it.
  uint32_t struct_size;
  // `FLASH_CLASS_*`.
  uint32_t device_class;
  // `FLASH_DEVICE_*` flags.
  uint32_t flags;
  // Work items that run at the same time, roughly; threads of a CPU.
  uint32_t threads;
  // Name for display.
  struct flash_str name;
  // Its manufacturer.
  struct flash_str vendor;
  // Version of driver or backend.
  struct flash_str version;
  // What it is, physically, as a path that begins with the host: `node7/0000:3b:00.0`, `node7/cpus:0-3,8`.
  // Devices with one id, with one that contains the other (`a/b` is in `a`), or with sets of CPUs that
  // share one, are never used together in a group.
  struct flash_str physical_id;
  // Rough single-precision rate in flop/s, to order devices by. 0: unknown.
  double rate_hint;
  // Memory in bytes. 0: unknown.
  uint64_t memory_bytes;
  // Architecture or instruction sets, separated by commas.
  struct flash_str features;
  // Target strings of implementations that `prepare` takes, separated by commas, the preferred one first.
  // Empty: the backend's target. Since minor version 8.
  struct flash_str targets;
  // What selects it in a runtime key, behind the backend's key and a colon. Empty: its number. Since minor
  // version 8.
  struct flash_str suffix;
} flash_device_info;

// One launch on one device.
typedef struct flash_submission {
  // Size of this struct in the host.
  uint32_t struct_size;
  // `FLASH_SUBMIT_*` flags.
  uint32_t flags;
  // From `prepare`.
  struct flash_kernel *kernel;
  // The index space with its order and phases.
  const struct flash_space *space;
  // Arguments.
  const flash_arg *args;
  // Number of arguments.
  uint32_t arg_count;
  // Number of events in `waits`.
  uint32_t wait_count;
  // Events that must have fired before the kernel runs. If one has fired with an error, the launch fails
  // with it. Where a queue of the device waits (FLASH_DEVICE_WAITS_IN_QUEUE), the kernel may run after work
  // that failed in the queue: the host looks at the outcome of both.
  struct flash_event *const *waits;
  // Where to put the completion event; NULL put there: already complete. NULL itself: return when
  // it is complete.
  struct flash_event **signal;
  // Where to put the kernel's time on the device, if already complete: with `FLASH_SUBMIT_PROFILE`, and
  // without it if the device knows it, and the time until the host has the answer says little of it.
  uint64_t *nanoseconds;
  // Options of the submission that the host does not know, or that are meant for backends.
  const struct flash_attr *attributes;
  // Number of attributes.
  size_t attribute_count;
  // The first phase to run.
  uint64_t phase_begin;
  // One past the last phase to run.
  uint64_t phase_end;
  // NULL, or a number that another thread sets to something else than 0 to ask the launch to stop: what
  // has not begun is left out, and the launch fails with FLASH_ERROR_CANCELLED. A backend that cannot stop a
  // launch does not look. It is read atomically, and lives until the launch is over. Since minor version
  // 9.
  const uint32_t *stop;
  // 0, or a number of the host's: all submissions to this device that have it are the same, but for
  // `waits`, `signal`, `nanoseconds`, `stop`, the flag FLASH_SUBMIT_WAITED, and what is in their arrays. A
  // backend may keep what it makes of the first one, as long as it likes. Since minor version 12.
  uint64_t like;
} flash_submission;

// A memory of a device.
typedef struct flash_memory_space {
  // Size of this struct on the side that made it.
  uint32_t struct_size;
  // Its id, unique in the backend; 0 is the host's.
  uint32_t id;
  // 0 main, 1 high bandwidth, 2 persistent, 3 shared with the host, 4 (FLASH_SPACE_OF_PROCESS) the host
  // process's own: a device that is lost leaves it as it is.
  uint32_t kind;
  // NUMA node, or -1.
  int32_t numa_node;
  // Bytes.
  uint64_t size;
  // 1 if host pointers into it are valid.
  uint32_t host_visible;
  // The least alignment of buffers that `alloc` returns.
  uint32_t alignment;
} flash_memory_space;

// A buffer: an id of a memory space and a handle in it. In FLASH_SPACE_HOST the handle is the
// address.
typedef struct flash_buffer {
  // Memory space.
  uint32_t space;
  // 0.
  uint32_t reserved;
  // Handle, given by `alloc`, `register_host` or `import`.
  uint64_t handle;
} flash_buffer;

// A strided box of up to three dimensions inside a buffer, in bytes; axis 0 is contiguous.
typedef struct flash_copy_box {
  // Bytes, rows, planes. A box of fewer dimensions has extent 1 in the others.
  uint64_t extent[3];
  // Offset of the first byte in the source.
  uint64_t source_offset;
  // Bytes from row to row and from plane to plane in the source.
  uint64_t source_stride[2];
  // Offset of the first byte in the destination.
  uint64_t destination_offset;
  // Bytes from row to row and from plane to plane in the destination.
  uint64_t destination_stride[2];
} flash_copy_box;

// A backend: its vtable. Required are `key`, `probe`, `devices`, `prepare`, `release` and
// `submit`; all others may be NULL. A function may answer with FLASH_ERROR_UNSUPPORTED.
typedef struct flash_backend_api {
  // Size of this struct in the plugin.
  uint32_t struct_size;
  // 0.
  uint32_t flags;
  // Runtime key, such as `ALL_CPU`.
  struct flash_str key;
  // Text for display.
  struct flash_str description;
  // Looks for the driver and its devices; called before `devices`, once. An error: unavailable.
  struct flash_error *(*probe)(void);
  // The devices that are there, as pointers that live for ever: one that has gone fails with
  // FLASH_ERROR_DEVICE_LOST. Called again when `generation` has changed. The list is valid until then.
  struct flash_error *(*devices)(struct flash_device *const **devices, size_t *count);
  // Properties of a device; `info.struct_size` is set by the host. Strings live for ever.
  struct flash_error *(*device_info)(struct flash_device *device, struct flash_device_info *info);
  // Prepares an implementation for a device. `implementation` lives as long as the kernel.
  struct flash_error *(*prepare)(struct flash_device *device,
                                 const struct flash_implementation *implementation,
                                 struct flash_kernel **kernel);
  // Releases a kernel.
  void (*release)(struct flash_device *device, struct flash_kernel *kernel);
  // Runs a kernel.
  struct flash_error *(*submit)(struct flash_device *device,
                                const struct flash_submission *submission);
  // The target string of implementations that `prepare` takes, such as `cuda`, of devices whose info lists
  // none.
  struct flash_str target;
  // An interface by name and version; NULL if there is none.
  const void *(*get_extension)(struct flash_str name, uint32_t version);
  // A property of an object as JSON text, made with `error_create`'s allocator: `*value` is an
  // error object whose text is the answer, to be freed by the caller.
  struct flash_error *(*query)(const void *object, struct flash_str key, struct flash_error **value);
  // Changes whenever devices come or go. Asked when a program makes a runtime, and never by a launch.
  uint64_t (*generation)(void);
  // Memories of a device.
  struct flash_error *(*spaces)(struct flash_device *device,
                                const struct flash_memory_space **spaces,
                                size_t *count);
  // Allocates zeroed memory.
  struct flash_error *(*alloc)(struct flash_device *device,
                               uint32_t space,
                               uint64_t bytes,
                               struct flash_buffer *buffer);
  // Frees a buffer of `alloc` or `register_host`.
  struct flash_error *(*free)(struct flash_device *device, struct flash_buffer buffer);
  // Registers host memory with the device (pinning).
  struct flash_error *(*register_host)(struct flash_device *device,
                                       void *pointer,
                                       uint64_t bytes,
                                       struct flash_buffer *buffer);
  // Copies a box between any two buffers. Waits and signal as in flash_submission.
  struct flash_error *(*copy_box)(struct flash_device *device,
                                  struct flash_buffer source,
                                  struct flash_buffer destination,
                                  const struct flash_copy_box *shape,
                                  struct flash_event *const *waits,
                                  size_t wait_count,
                                  struct flash_event **signal);
  // 1 if this device copies from the one space to the other; `*bytes_per_second` is a hint.
  uint32_t (*can_copy)(struct flash_device *device,
                       uint32_t source_space,
                       uint32_t destination_space,
                       double *bytes_per_second);
  // An event that the host signals.
  struct flash_error *(*event_create)(struct flash_device *device, struct flash_event **event);
  // Fires a user event, with an error or NULL. Takes the error.
  struct flash_error *(*event_signal)(struct flash_event *event, struct flash_error *error);
  // 1 if it has fired.
  uint32_t (*event_ready)(struct flash_event *event);
  // Waits until it has fired; the error of the work, if it failed. May be called again, with the same
  // answer.
  struct flash_error *(*event_wait)(struct flash_event *event);
  // Calls `callback(context)` exactly once after it has fired, on any thread; the callback may
  // submit and must not block.
  struct flash_error *(*event_on_ready)(struct flash_event *event,
                                        void (*callback)(void*),
                                        void *context);
  // Start and end on the device in nanoseconds.
  struct flash_error *(*event_times)(struct flash_event *event, uint64_t *start, uint64_t *end);
  // Releases an event.
  void (*event_release)(struct flash_event *event);
  // The vendor's own handle of a queue, buffer or context, by kind, for vendor libraries.
  struct flash_error *(*native_handle)(struct flash_device *device,
                                       struct flash_str kind,
                                       const void *object,
                                       uint64_t *handle);
  // For a kernel with a flash_share_fn in FLASH_SPACE_HOST: the number of work items up to which the host may
  // run a launch itself. The launch must have one phase and no flags and attributes; the host calls that
  // function on its own thread and does not tell the device. 0, or NULL: none. The host asks after each
  // launch that the device runs, which is at least one in 256 of those, since the time of an item may
  // change. Since minor version 3.
  uint64_t (*inline_items)(struct flash_device *device, struct flash_kernel *kernel);
  // An implementation may be prepared soon: loads its program if that needs no compiler, and returns when
  // it is loaded. The host calls it from a thread of its own. An error here recurs in `prepare`. Since
  // minor version 4.
  void (*preload)(struct flash_device *device, const struct flash_implementation *implementation);
  // Number of the image of a kernel, for a device that has one image loaded at a time and takes long to
  // load another; 0, or NULL: none. Submissions of one image are put together where their order allows.
  // Since minor version 4.
  uint64_t (*image)(struct flash_device *device, struct flash_kernel *kernel);
  // Memory in FLASH_SPACE_HOST may be freed from now on. A device releases what it keeps for arguments that
  // began in these bytes, once no launch in flight needs it. It is called on any thread, also for memory
  // that the device never saw, and calls no function of the host. NULL: it keeps nothing. Since minor
  // version 6.
  void (*forget_host)(struct flash_device *device, void *pointer, uint64_t bytes);
  // The devices under the settings of a context, in place of `probe` and `devices`. It is called when a
  // context first needs them, for one context at a time: keys are names of settings, values their texts,
  // which live for the call. A setting that is missing has its default. Where all settings that the
  // backend looks at are as in an earlier call, it gives the same devices, which live for ever. NULL: the
  // devices depend on no settings. Since minor version 7.
  struct flash_error *(*open)(const struct flash_attr *settings,
                              size_t setting_count,
                              struct flash_device *const **devices,
                              size_t *count);
  // The devices that a key selects, of `count` that are there: puts their indices into `selected`, in
  // order, and their number, which is at most `count`. `suffix` is what stands behind the backend's key
  // and a colon. FLASH_ERROR_UNSUPPORTED, or NULL: a number or a class selects. Since minor version 8.
  struct flash_error *(*resolve)(struct flash_str suffix,
                                 struct flash_device *const *devices,
                                 size_t count,
                                 size_t *selected,
                                 size_t *selected_count);
  // The implementation that the device has of a kernel, by its descriptor as JSON; it lives for ever. NULL
  // put there, or NULL: none but those that are registered in this process. Since minor version 8.
  struct flash_error *(*resolve_kernel)(struct flash_device *device,
                                        struct flash_str descriptor,
                                        const struct flash_implementation **implementation);
  // 1 if the machine of the device has what an implementation needs: a `FLASH_HAS_*` kind, and a name. NULL: it
  // is in the machine of this process, which is asked. Since minor version 8.
  uint32_t (*has)(struct flash_device *device, uint32_t kind, struct flash_str name);
  // Sets the `bytes` bytes of a buffer to 0, as many as `alloc` was asked for, and returns when that is
  // done. Nothing uses the buffer meanwhile. The host asks for it before another array gets the buffer.
  // FLASH_ERROR_UNSUPPORTED, or NULL: the host frees it and allocates another one. Since minor version 9.
  struct flash_error *(*clear)(struct flash_device *device,
                               struct flash_buffer buffer,
                               uint64_t bytes);
  // The file in memory that a buffer of `alloc` is in, as a descriptor, and where it begins there. Asked
  // of memories of kind FLASH_SPACE_OF_PROCESS. A buffer of at least 64 KiB begins on a page, and no other
  // buffer has a part of its last page. The host may map these bytes at other addresses, for as long as
  // it has the buffer; a child of `fork` maps the pages of any buffer for itself, where they are. The
  // descriptor stays the backend's, and open. FLASH_ERROR_UNSUPPORTED, or NULL: the buffer is in no file.
  // Since minor version 10.
  struct flash_error *(*shared_file)(struct flash_device *device,
                                     struct flash_buffer buffer,
                                     int32_t *file,
                                     uint64_t *offset);
  // 1 if queues of a device with FLASH_DEVICE_WAITS_IN_QUEUE wait for this event of it. 0: the host would
  // have to wait, for a copy by a thread, say. NULL: they wait for all of them. Since minor version 14.
  uint32_t (*event_in_queue)(struct flash_event *event);
} flash_backend_api;

// A device that the host knows.
typedef struct flash_registered_device {
  // Size of this struct in the host.
  uint32_t struct_size;
  // 0.
  uint32_t reserved;
  // Its id, such as `ALL_CPU:0`. It lives for ever.
  struct flash_str id;
  // The vtable of its backend, which lives for ever.
  const struct flash_backend_api *api;
  // The device, which lives for ever.
  struct flash_device *device;
} flash_registered_device;

// What the host's registry offers to plugins: extension `registry`, version 1, of
// flash_host_api.get_extension. It shows the default context of the program. Since minor version 7.
typedef struct flash_registry_api {
  // Size of this struct in the host.
  uint32_t struct_size;
  // 0.
  uint32_t reserved;
  // Calls `visit(argument, device)` for each device, and ends with its first error. Looks for devices that
  // nothing has needed so far. Not from within a plugin's query, `probe`, `devices` or `open`.
  struct flash_error *(*devices)(struct flash_error *(*visit)(void *argument,
                                                              const struct flash_registered_device *device),
                                 void *argument);
  // The same for each implementation.
  struct flash_error *(*implementations)(struct flash_error *(*visit)(void *argument,
                                                                      const struct flash_implementation *implementation),
                                         void *argument);
  // Adds implementations, which live for ever: all of them, or none and an error. Every context sees them
  // in what it plans from then on.
  struct flash_error *(*add)(const struct flash_implementation *const *implementations, size_t count);
  // As `devices`, with those that a runtime key selects; no other backend looks for its own. Since minor
  // version 9.
  struct flash_error *(*devices_of)(struct flash_str key,
                                    struct flash_error *(*visit)(void *argument,
                                                                 const struct flash_registered_device *device),
                                    void *argument);
} flash_registry_api;

// The contents of a plugin. Readable without touching a driver; lives for ever.
typedef struct flash_plugin_header {
  // MAGIC.
  uint64_t magic;
  // Size of this struct in the plugin.
  uint32_t struct_size;
  // FLASH_ABI_MAJOR the plugin was built against.
  uint32_t abi_major;
  // FLASH_ABI_MINOR the plugin was built against.
  uint32_t abi_minor;
  // 0.
  uint32_t reserved;
  // Name of the plugin.
  struct flash_str name;
  // Version of the plugin.
  struct flash_str version;
  // Compiler, profile, date: free text.
  struct flash_str build;
  // Backends.
  const struct flash_backend_api *const *backends;
  // Number of backends.
  size_t backend_count;
  // Kernel implementations.
  const struct flash_implementation *const *implementations;
  // Number of kernel implementations.
  size_t implementation_count;
} flash_plugin_header;

// Type of the exported symbol. Idempotent. NULL: this host is not supported
// (flash_host_api.query_failed says why).
typedef const struct flash_plugin_header *(*flash_query_fn)(uint32_t host_abi_major,
                                                            const struct flash_host_api *host);

// The work of one call of a flash_queue_fn. Since minor version 5.
typedef struct flash_queue_call {
  // Size of this struct on the side that made it.
  uint32_t struct_size;
  // Number of arguments.
  uint32_t arg_count;
  // The index space.
  const struct flash_space *space;
  // The phase to run.
  uint64_t phase;
  // Arguments.
  const flash_arg *args;
  // Passed to the two functions.
  void *context;
  // The vendor's own handle, by kind: of the queue, the context, the device, or of the flash_buffer that
  // `object` points to. 0 is success; otherwise it has called `fail`.
  int32_t (*native_handle)(void *context,
                           struct flash_str kind,
                           const struct flash_buffer *object,
                           uint64_t *handle);
  // Reports a failure: an `ERROR_*` code and a text.
  void (*fail)(void *context, uint32_t code, struct flash_str text);
} flash_queue_call;

// A function of the host that is a kernel of a device. It puts the work of one phase into the device's queue
// by the vendor's own means, such as a library, and returns before that is done. 0 is success; otherwise it
// has called `fail`. Since minor version 5.
typedef int32_t (*flash_queue_fn)(const struct flash_queue_call *call);

// The host as a worker thread sees it. Lives for ever. Since minor version 7.
typedef struct flash_worker_host {
  // Size of this struct in the host.
  uint32_t struct_size;
  // 0.
  uint32_t reserved;
  // A number that is read atomically and changes whenever there is new work. A thread that has made known
  // that it is about to sleep looks at it once more, with a full fence between the two.
  const uint32_t *news;
  // Runs all work there is on the calling thread. 1 if there was any. Only a thread of the backend that
  // runs nothing else calls it.
  uint32_t (*serve)(void);
  // Lets another thread run the work there is. Called by a thread that was woken and cannot take the work,
  // since it waits for something else.
  void (*pass_on)(void);
} flash_worker_host;

// The extension `workers`, version 1, of a backend: threads that run work of the host. Since minor version
// 7.
typedef struct flash_workers {
  // Size of this struct in the backend.
  uint32_t struct_size;
  // How many threads there are, started or not.
  uint32_t count;
  // Announces work for up to `count` threads. Threads that are awake with nothing to do count, and others
  // are woken for the rest. If `count` is greater than the number of threads, each of them looks, whatever
  // the others do. It is called from any thread, after flash_worker_host.news has changed, with the
  // same `host` every time, and neither blocks nor calls back. 1: enough threads look at the work, or all
  // do when they are done with what they run. 0: no thread can be had.
  uint32_t (*wake)(const struct flash_worker_host *host, uint32_t count);
} flash_workers;

// The worker threads of the process, for plugins: the extension `workers`, version 1, of
// flash_host_api.get_extension. All functions may be called from any thread.
// Since minor version 13.
typedef struct flash_work_sources_api {
  // Size of this struct in the host.
  uint32_t struct_size;
  // 0.
  uint32_t reserved;
  // Lets workers ask `run_one(context)` from now on, on any thread and on several at once, until `remove`.
  // It runs one piece of work on the calling thread, and answers 1; or 0 if there is none. A piece does
  // not wait for other work of workers, as all of them may be waiting. What waits for something other than
  // a processor belongs on a thread of the plugin's own. A worker asks when it has nothing else to do.
  struct flash_error *(*add)(uint32_t (*run_one)(void *context),
                             void *context,
                             struct flash_work_source **source);
  // No worker asks it any more when this returns: it waits for pieces that run. Not from within one of
  // them, which is an error. The source is not used afterwards, unless there was an error.
  struct flash_error *(*remove)(struct flash_work_source *source);
  // Announces work for up to `count` workers: those that are awake and idle look at once, and others are
  // woken for the rest. Call it after the work is there.
  void (*wake)(uint32_t count);
} flash_work_sources_api;

/* First field of flash_plugin_header: the bytes FLASHPLG. */
#define FLASH_MAGIC UINT64_C(0x474c504853414c46)

/* A text in an initialiser: `.key = FLASH_STR("MY_ACCEL")`. */
#define FLASH_STR(text) { (const uint8_t *)(text), sizeof(text) - 1 }

#if defined(_WIN32)
#define FLASH_EXPORT __declspec(dllexport)
#define FLASH_HIDDEN
#else
#define FLASH_EXPORT __attribute__((visibility("default")))
#define FLASH_HIDDEN __attribute__((visibility("hidden")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The host's interface. Defined by FLASH_PLUGIN or FLASH_KERNELS, set before anything else is called. */
extern FLASH_HIDDEN const flash_host_api *flash_host;

/* The exported symbol. */
FLASH_EXPORT const flash_plugin_header *flash_plugin_query(uint32_t host_abi_major, const flash_host_api *host);

/* A text in an expression. */
static inline flash_str flash_text(const char *text) {
    flash_str str = { (const uint8_t *)text, strlen(text) };
    return str;
}

/* 1 if `str` is `text`. */
static inline int flash_equal(flash_str str, const char *text) {
    return str.len == strlen(text) && (str.len == 0 || memcmp(str.ptr, text, str.len) == 0);
}

/* An error to return: `return flash_fail(FLASH_ERROR_UNSUPPORTED, "expected .., found ..");`. */
static inline flash_error *flash_fail(uint32_t code, const char *text) {
    return flash_host->error_create(code, flash_text(text));
}

/* A line for people on the program's standard error, unless the program has turned notices off; hosts before
 * interface version 0.7 have none. */
static inline void flash_notice(const char *text) {
    if (flash_host->struct_size > offsetof(flash_host_api, notice) && flash_host->notice)
        flash_host->notice(flash_text(text));
}

/* The plugin: a list of backends and one of kernel implementations, each of them may be NULL and 0. */
#define FLASH_PLUGIN_OF(plugin_name, plugin_version, the_backends, the_backend_count, the_kernels, the_kernel_count) \
    FLASH_HIDDEN const flash_host_api *flash_host; \
    FLASH_EXPORT const flash_plugin_header *flash_plugin_query(uint32_t host_abi_major, const flash_host_api *host) { \
        static const flash_plugin_header header = { \
            FLASH_MAGIC, sizeof(flash_plugin_header), FLASH_ABI_MAJOR, FLASH_ABI_MINOR, 0, FLASH_STR(plugin_name), \
            FLASH_STR(plugin_version), FLASH_STR("C, " __DATE__), (the_backends), (the_backend_count), \
            (the_kernels), (the_kernel_count) }; \
        if (!host) return NULL; \
        if (host_abi_major != FLASH_ABI_MAJOR) { \
            if (host->query_failed) \
                host->query_failed(flash_text("the plugin was built for another interface version: rebuild it")); \
            return NULL; \
        } \
        flash_host = host; \
        return &header; \
    }

/* A plugin of backends: `FLASH_PLUGIN("my-accel", "1.0", &api)`, or several `&api`. */
#define FLASH_PLUGIN(plugin_name, plugin_version, ...) \
    static const flash_backend_api *const flash_plugin_backends[] = { __VA_ARGS__ }; \
    FLASH_PLUGIN_OF(plugin_name, plugin_version, flash_plugin_backends, \
                    sizeof flash_plugin_backends / sizeof flash_plugin_backends[0], NULL, 0)

/* A plugin of kernels only: `FLASH_KERNELS("my-kernels", "1.0", &fast)`, or several. */
#define FLASH_KERNELS(plugin_name, plugin_version, ...) \
    static const flash_implementation *const flash_plugin_kernels[] = { __VA_ARGS__ }; \
    FLASH_PLUGIN_OF(plugin_name, plugin_version, NULL, 0, flash_plugin_kernels, \
                    sizeof flash_plugin_kernels / sizeof flash_plugin_kernels[0])

#ifdef __cplusplus
}
#endif

#endif /* FLASH_BACKEND_H */
