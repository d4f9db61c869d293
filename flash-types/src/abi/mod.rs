//! The plugin interface: plain C structs, read on both sides of a plugin boundary.
//!
//! Rust has no stable ABI and every plugin has its own copy of every static, so nothing else
//! crosses. Rules that hold for all of it:
//!
//! - A struct that may grow begins with `struct_size`. Slots are appended, never moved; a slot
//!   exists if it lies inside `struct_size` and is not NULL.
//! - [`Arg`], [`Str`], [`Attr`] and the structs of [`space`] are frozen: they are read in arrays
//!   and by kernels. They change only with [`ABI_MAJOR`].
//! - Strings are UTF-8, pointer and length, borrowed for the call.
//! - Errors are made by [`HostApi::error_create`], so that one allocator owns them. NULL is success.
//! - No unwinding crosses: each side catches its own panics.
//!
//! `include/flash_backend.h` is made from this module.

pub mod agent;
pub mod space;
pub mod workers;

use core::ffi::c_void;
use space::Space;

/// First field of [`PluginHeader`]: the bytes `FLASHPLG`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FLASHPLG");
/// A different major version is refused. It stays 0 until device backends pass the conformance suite.
pub const ABI_MAJOR: u32 = 0;
/// A higher minor version has more slots, all at the end.
pub const ABI_MINOR: u32 = 15;
/// The oldest minor version whose plugins this host can use: 9 took slots out of [`BackendApi`] that no host
/// used.
pub const ABI_MINOR_OLDEST: u32 = 9;
/// Name of the one symbol that a plugin exports, of type [`PluginQuery`].
pub const QUERY_SYMBOL: &str = "flash_plugin_query";

/// UTF-8 text, borrowed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Str {
    /// First byte; may be dangling or NULL if `len` is 0.
    pub ptr: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// An open-ended attribute.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attr {
    /// Its name.
    pub key: Str,
    /// Its value as JSON text.
    pub value: Str,
    /// 1: a reader that does not know the key must refuse; 0: it may ignore it.
    pub required: u32,
    /// 0.
    pub reserved: u32,
}

/// An error, owned by the host. Opaque.
#[repr(C)]
pub struct Error {
    _opaque: [u8; 0],
}

/// A device of a backend. Opaque, lives for ever.
#[repr(C)]
pub struct Device {
    _opaque: [u8; 0],
}

/// A kernel implementation made ready for one device. Opaque.
#[repr(C)]
pub struct Kernel {
    _opaque: [u8; 0],
}

/// Completion of a submission or a copy. Opaque.
#[repr(C)]
pub struct Event {
    _opaque: [u8; 0],
}

/// Error code: anything that has no code of its own.
pub const ERROR_OTHER: u32 = 1;
/// Error code: the slot exists, but this device cannot do it.
pub const ERROR_UNSUPPORTED: u32 = 2;
/// Error code: no driver, no device, or too old.
pub const ERROR_UNAVAILABLE: u32 = 3;
/// Error code: a kernel panicked or returned non-zero.
pub const ERROR_KERNEL: u32 = 4;
/// Error code: an allocation was refused.
pub const ERROR_OUT_OF_MEMORY: u32 = 5;
/// Error code: the device does not answer any more.
pub const ERROR_DEVICE_LOST: u32 = 6;
/// Error code: an argument of the call makes no sense.
pub const ERROR_INVALID: u32 = 7;
/// Error code: a panic inside the plugin, outside a kernel.
pub const ERROR_PANIC: u32 = 8;
/// The launch was stopped because the host asked for that. Since minor version 9.
pub const ERROR_CANCELLED: u32 = 9;

/// What the host offers to plugins. Lives for ever; a plugin may keep the pointer.
#[repr(C)]
pub struct HostApi {
    /// Size of this struct in the host.
    pub struct_size: u32,
    /// [`ABI_MAJOR`] of the host.
    pub abi_major: u32,
    /// [`ABI_MINOR`] of the host.
    pub abi_minor: u32,
    /// 0.
    pub reserved: u32,
    /// Makes an error of a code and a text, which is copied.
    pub error_create: Option<unsafe extern "C" fn(code: u32, text: Str) -> *mut Error>,
    /// The code of an error.
    pub error_code: Option<unsafe extern "C" fn(error: *const Error) -> u32>,
    /// The text of an error, valid until it is freed.
    pub error_text: Option<unsafe extern "C" fn(error: *const Error) -> Str>,
    /// Frees an error; NULL is allowed.
    pub error_free: Option<unsafe extern "C" fn(error: *mut Error)>,
    /// Tells the loader why the query that runs on this thread is about to return NULL.
    pub query_failed: Option<unsafe extern "C" fn(text: Str)>,
    /// Table rows `[*begin, *end)` of phase `phase`.
    pub phase_rows:
        Option<unsafe extern "C" fn(space: *const Space, phase: u64, begin: *mut u64, end: *mut u64)>,
    /// Runs table rows of one phase of a CPU implementation on the calling thread, whatever its door.
    pub run_rows: Option<
        unsafe extern "C" fn(
            implementation: *const Implementation,
            share: *const Share,
            args: *const Arg,
        ) -> *mut Error,
    >,
    /// An interface by name and version; NULL if the host has none such.
    pub get_extension: Option<unsafe extern "C" fn(name: Str, version: u32) -> *const c_void>,
    /// Writes a line on the program's standard error, unless the program has turned such notices off. Never
    /// fails. For what a person should know and what fails nothing; since interface version 0.7.
    pub notice: Option<unsafe extern "C" fn(text: Str)>,
}

/// A device that the host knows.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RegisteredDevice {
    /// Size of this struct in the host.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Its id, such as `ALL_CPU:0`. It lives for ever.
    pub id: Str,
    /// The vtable of its backend, which lives for ever.
    pub api: *const BackendApi,
    /// The device, which lives for ever.
    pub device: *mut Device,
}

/// What the host's registry offers to plugins: extension `registry`, version 1, of
/// [`HostApi::get_extension`]. It shows the default context of the program. Since minor version 7.
#[repr(C)]
pub struct RegistryApi {
    /// Size of this struct in the host.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Calls `visit(argument, device)` for each device, and ends with its first error. Looks for devices that
    /// nothing has needed so far. Not from within a plugin's query, `probe`, `devices` or `open`.
    pub devices: Option<
        unsafe extern "C" fn(
            visit: unsafe extern "C" fn(argument: *mut c_void, device: *const RegisteredDevice) -> *mut Error,
            argument: *mut c_void,
        ) -> *mut Error,
    >,
    /// The same for each implementation.
    pub implementations: Option<
        unsafe extern "C" fn(
            visit: unsafe extern "C" fn(
                argument: *mut c_void,
                implementation: *const Implementation,
            ) -> *mut Error,
            argument: *mut c_void,
        ) -> *mut Error,
    >,
    /// Adds implementations, which live for ever: all of them, or none and an error. Every context sees them
    /// in what it plans from then on.
    pub add: Option<
        unsafe extern "C" fn(implementations: *const *const Implementation, count: usize) -> *mut Error,
    >,
    /// As `devices`, with those that a runtime key selects; no other backend looks for its own. Since minor
    /// version 9.
    pub devices_of: Option<
        unsafe extern "C" fn(
            key: Str,
            visit: unsafe extern "C" fn(argument: *mut c_void, device: *const RegisteredDevice) -> *mut Error,
            argument: *mut c_void,
        ) -> *mut Error,
    >,
}

/// Type of the exported symbol. Idempotent. NULL: this host is not supported
/// ([`HostApi::query_failed`] says why).
pub type PluginQuery = unsafe extern "C" fn(host_abi_major: u32, host: *const HostApi) -> *const PluginHeader;

/// The contents of a plugin. Readable without touching a driver; lives for ever.
#[repr(C)]
pub struct PluginHeader {
    /// [`MAGIC`].
    pub magic: u64,
    /// Size of this struct in the plugin.
    pub struct_size: u32,
    /// [`ABI_MAJOR`] the plugin was built against.
    pub abi_major: u32,
    /// [`ABI_MINOR`] the plugin was built against.
    pub abi_minor: u32,
    /// 0.
    pub reserved: u32,
    /// Name of the plugin.
    pub name: Str,
    /// Version of the plugin.
    pub version: Str,
    /// Compiler, profile, date: free text.
    pub build: Str,
    /// Backends.
    pub backends: *const *const BackendApi,
    /// Number of backends.
    pub backend_count: usize,
    /// Kernel implementations.
    pub implementations: *const *const Implementation,
    /// Number of kernel implementations.
    pub implementation_count: usize,
}

/// [`Implementation::door`]: one work item at a time, the loop is in the shim.
pub const DOOR_ITEM: u32 = 1;
/// [`Implementation::door`]: a run of work items along dimension 0.
pub const DOOR_SPAN: u32 = 2;
/// [`Implementation::door`]: once per subspace and phase. A launch is cut only if the implementation has the
/// attribute `parts` with the value `true`. It is then called with the index space of a part. Of an
/// [`ARG_ITEM`] or [`ARG_PHASED`] it touches only the elements of those index values, from the first element
/// to the last.
pub const DOOR_WHOLE: u32 = 3;

/// [`Implementation::kind`]: compiled into the program or plugin.
pub const KIND_INT_BIN: u32 = 1;
/// [`Implementation::kind`]: a binary file given at run time.
pub const KIND_EXT_BIN: u32 = 2;
/// [`Implementation::kind`]: source text.
pub const KIND_INT_SRC: u32 = 3;
/// [`Implementation::kind`]: a source file.
pub const KIND_EXT_SRC: u32 = 4;
/// [`Implementation::kind`]: `payload` is the address of a [`QueueFn`]. Since minor version 5.
pub const KIND_QUEUE_FN: u32 = 5;

/// A CPU kernel whose loop over work items is inside: runs the rows of `share`. It catches its own
/// panics. NULL is success.
pub type ShareFn = unsafe extern "C" fn(share: *const Share, args: *const Arg) -> *mut Error;

/// A CPU kernel in C or Fortran: runs `span.count` work items. 0 is success.
pub type SpanFn = unsafe extern "C" fn(span: *const Span, args: *const Arg) -> i32;

/// A function of the host that is a kernel of a device. It puts the work of one phase into the device's queue
/// by the vendor's own means, such as a library, and returns before that is done. 0 is success; otherwise it
/// has called `fail`. Since minor version 5.
pub type QueueFn = unsafe extern "C" fn(call: *const QueueCall) -> i32;

/// The work of one call of a [`QueueFn`]. Since minor version 5.
#[repr(C)]
pub struct QueueCall {
    /// Size of this struct on the side that made it.
    pub struct_size: u32,
    /// Number of arguments.
    pub arg_count: u32,
    /// The index space.
    pub space: *const Space,
    /// The phase to run.
    pub phase: u64,
    /// Arguments.
    pub args: *const Arg,
    /// Passed to the two functions.
    pub context: *mut c_void,
    /// The vendor's own handle, by kind: of the queue, the context, the device, or of the [`Buffer`] that
    /// `object` points to. 0 is success; otherwise it has called `fail`.
    pub native_handle: Option<
        unsafe extern "C" fn(context: *mut c_void, kind: Str, object: *const Buffer, handle: *mut u64) -> i32,
    >,
    /// Reports a failure: an `ERROR_*` code and a text.
    pub fail: Option<unsafe extern "C" fn(context: *mut c_void, code: u32, text: Str)>,
}

/// One implementation of a kernel, for one kind of device.
#[repr(C)]
pub struct Implementation {
    /// Size of this struct on the side that made it.
    pub struct_size: u32,
    /// `DOOR_*`.
    pub door: u32,
    /// `KIND_*`.
    pub kind: u32,
    /// Higher wins among equally specific candidates. Default 0.
    pub priority: i32,
    /// Name of the kernel, such as `nbody.accelerate`.
    pub kernel: Str,
    /// Name of this implementation among the kernel's.
    pub name: Str,
    /// Kind of device that it is for: one of the device's targets, such as `cuda`.
    pub target: Str,
    /// What it takes: the kernel's signature, such as `[1](u32, Item<Write<u32>> along [0])` (the number of
    /// dimensions, and the type of each argument, as messages show it), or its descriptor as JSON. It is
    /// chosen for kernels that take just that. Empty: only a program that asks for it by its name gets
    /// it, and vouches that it fits.
    pub descriptor: Str,
    /// CPU features that the device must have, separated by commas. Empty: none.
    pub cpu_features: Str,
    /// Selection attributes and others.
    pub attributes: *const Attr,
    /// Number of attributes.
    pub attribute_count: usize,
    /// CPU: the function with the loop inside, or NULL.
    pub share: Option<ShareFn>,
    /// CPU: the function called per run, used if `share` is NULL.
    pub span: Option<SpanFn>,
    /// Binary or source text for other devices.
    pub payload: *const u8,
    /// Its length in bytes.
    pub payload_len: usize,
    /// The type of the definition that it was written for, with its path; empty: there is none. Two of one
    /// image whose kernels have one name are told apart by it. Since minor version 9.
    pub definition: Str,
}

/// [`Arg::kind`]: a value; `data` points to its bytes.
pub const ARG_SCALAR: u32 = 0;
/// [`Arg::kind`]: an element or a row per work item.
pub const ARG_ITEM: u32 = 1;
/// [`Arg::kind`]: the whole array, only read.
pub const ARG_WHOLE: u32 = 2;
/// [`Arg::kind`]: two buffers. In a phase, `data` is as the phase began and `next` takes the writes. The
/// backend swaps them between phases; elements that no item owns keep their value; after the last phase the
/// contents are in the buffer that was `data` at submission.
pub const ARG_PHASED: u32 = 3;
/// [`Arg::kind`]: atomic operations anywhere.
pub const ARG_SCATTER: u32 = 4;
/// [`Arg::kind`]: the box of an array that the partition map gives, only read.
pub const ARG_WINDOW: u32 = 5;
/// [`Arg::kind`]: an accumulator. `data` has one of `len` elements per block of `row_len` rows of the
/// phase, the first for the block of the phase's first row; the host has filled them with the
/// operation's identity and merges them. `row_len` is a power of two. No two shares may have rows of one
/// block. A [`SpanFn`] gets rows of one block only, and `data` is that block's accumulator. The host
/// submits the phases of such a launch one by one.
pub const ARG_REDUCE: u32 = 6;

/// [`Arg::flags`] of a phased argument: in every phase every element is some item's own, so that
/// nothing need be copied from `data` to `next` before it.
pub const ARG_FLAG_COVERED: u64 = 1;
/// [`Arg::flags`] of a phased argument: its use is declared per stage; `data` and `next` are the same.
pub const ARG_FLAG_STAGED: u64 = 2;
/// [`Arg::flags`] of a phased argument: nothing is copied back after the (only) phase of this submission,
/// its writes stay in `next`.
pub const ARG_FLAG_NEXT_STAYS: u64 = 4;

/// [`Arg::access`]: only read.
pub const ACCESS_READ: u32 = 1;
/// [`Arg::access`]: read and written.
pub const ACCESS_READ_WRITE: u32 = 2;
/// [`Arg::access`]: every element of the launch's range is written, none is read.
pub const ACCESS_WRITE: u32 = 3;

/// Memory space id of plain host memory: addresses are pointers of this process.
pub const SPACE_HOST: u32 = 0;
/// Kind of a memory space that outlives its devices. Since minor version 9.
pub const SPACE_OF_PROCESS: u32 = 4;

/// The box of an array's elements that a submission may touch. The array is seen with up to three axes, axis
/// 0 contiguous; element `(x, y, z)` is number `x + y * stride[0] + z * stride[1]`. An item argument whose
/// elements along axis 0 are not adjacent is seen as one axis, from its first element to its last. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First element along each axis.
    pub begin: [u64; 3],
    /// One past the last along each axis. Axes that the array does not have: 0 to 1.
    pub end: [u64; 3],
    /// Elements from neighbour to neighbour along axes 1 and 2.
    pub stride: [u64; 2],
    /// Number of the element with which the buffer begins, for buffers with handles. In the host's space
    /// `data` is where element 0 would be.
    pub origin: u64,
    /// The same of the second buffer of a phased argument. Since minor version 3.
    pub next_origin: u64,
}

/// One argument of a launch. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// `ARG_*`.
    pub kind: u32,
    /// `ACCESS_*`.
    pub access: u32,
    /// Memory space in which `data` and `next` are addresses. Scalars are always in the host's.
    pub space: u32,
    /// Size of one element (of one scalar) in bytes.
    pub element_size: u32,
    /// Address of element 0. With a `part` it may lie outside the buffer; only the part's elements may be
    /// touched.
    pub data: *mut c_void,
    /// Second buffer of a phased array. In spaces that have handles it is the handle of the buffer itself,
    /// which begins with the part's `next_origin`. Of a scatter argument in the host's memory whose stores
    /// are checked, a 32-bit number per element, for the kernel's code alone. Otherwise NULL.
    pub next: *mut c_void,
    /// Handle of the device buffer in spaces that have handles; 0 in the host's, and where the `part` has no
    /// elements.
    pub buffer: u64,
    /// Number of elements from the first to the last: those between an item's elements are counted.
    pub len: u64,
    /// Elements in a row; 1 without rows.
    pub row_len: u64,
    /// `ARG_FLAG_*`.
    pub flags: u64,
    /// For every dimension of the index space, the number of elements between neighbours of
    /// consecutive index value; 0 for a dimension that does not index this array. NULL for scalars
    /// and whole arrays.
    pub strides: *const u64,
    /// The elements that are present; NULL: all.
    pub part: *const Part,
}

/// The threads that a `whole` implementation may use. The functions may be called from any thread, and from
/// inside `body`.
#[repr(C)]
pub struct Threads {
    /// Size of this struct.
    pub struct_size: u32,
    /// Number of threads.
    pub count: u32,
    /// Passed to `install` and `each`.
    pub context: *mut c_void,
    /// Calls `body(data)` once, on a thread of the backend's pool; returns when that has returned.
    pub install: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            body: unsafe extern "C" fn(*mut c_void),
            data: *mut c_void,
        ),
    >,
    /// Calls `body(data, begin, end)` on all threads at the same time, for ranges that do not overlap and
    /// together are `[0, count)`, none of them empty; returns when all calls have returned. One of `count`
    /// takes about `ns` nanoseconds on one thread; 0: unknown.
    pub each: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            count: u64,
            ns: f32,
            body: unsafe extern "C" fn(data: *mut c_void, begin: u64, end: u64),
            data: *mut c_void,
        ),
    >,
}

/// The work of one call of a [`ShareFn`]: rows `[begin, end)` of phase `phase`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Share {
    /// Size of this struct on the side that made it.
    pub struct_size: u32,
    /// Number of arguments.
    pub arg_count: u32,
    /// For errors.
    pub host: *const HostApi,
    /// The index space.
    pub space: *const Space,
    /// The phase.
    pub phase: u64,
    /// First table row.
    pub begin: u64,
    /// One past the last table row.
    pub end: u64,
    /// For `DOOR_WHOLE`; otherwise NULL.
    pub threads: *const Threads,
}

/// The work of one call of a [`SpanFn`]: `count` work items. The index of item `i` is `index`, with `i *
/// step` added along `dimension`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    /// Size of this struct on the side that made it.
    pub struct_size: u32,
    /// Number of dimensions.
    pub dimensions: u32,
    /// Index values of the first item.
    pub index: *const u64,
    /// Number of items.
    pub count: u64,
    /// Distance of the index value from one item to the next.
    pub step: i64,
    /// The dimension along which the items lie.
    pub dimension: u32,
    /// Number of arguments.
    pub arg_count: u32,
    /// The phase.
    pub phase: u64,
}

/// Device class: anything else.
pub const CLASS_OTHER: u32 = 0;
/// Device class: the CPU.
pub const CLASS_CPU: u32 = 1;
/// Device class: a GPU.
pub const CLASS_GPU: u32 = 2;
/// Device class: an FPGA.
pub const CLASS_FPGA: u32 = 3;

/// Device flag: an emulation; only an explicit key selects it.
pub const DEVICE_EMULATED: u32 = 1;
/// Device flag: for tests; only an explicit key selects it.
pub const DEVICE_TEST: u32 = 2;
/// Device flag: uses host memory in place, space [`SPACE_HOST`].
pub const DEVICE_HOST_MEMORY: u32 = 4;
/// Device flag: it runs submissions in order. A device that lacks [`DEVICE_SYNCHRONOUS`] must have it.
pub const DEVICE_IN_ORDER: u32 = 8;
/// Device flag: work is done when `submit` returns, so a host gains nothing by running ahead of it. A backend
/// with a device that lacks it needs the slots `event_on_ready`, `event_wait` and `event_release`. Since
/// minor version 8.
pub const DEVICE_SYNCHRONOUS: u32 = 16;
/// Device flag: runs functions of this process: an implementation's `share` or `span`, and functions of
/// shared libraries. Since minor version 8.
pub const DEVICE_RUNS_FUNCTIONS: u32 = 32;
/// Device flag: keeps what it makes of launches that are alike, see [`Submission`]. A host need not find out
/// which are for others. Since minor version 12.
pub const DEVICE_KEEPS_LAUNCHES: u32 = 64;
/// Device flag: its queues wait for its own events: `submit` and `copy_box` with such `waits`, and `signal`,
/// return at once. A host gives it what comes after other work of it before that has ended. Since minor
/// version 14.
pub const DEVICE_WAITS_IN_QUEUE: u32 = 128;
/// Device flag: another process has it. If that ends, a new one may take its place, without the buffers: a
/// host that reuses one finds out by `clear`. Since minor version 15.
pub const DEVICE_REMOTE: u32 = 256;

/// [`BackendApi::has`]: a CPU feature, by the name that Rust has for it, such as `avx2`.
pub const HAS_FEATURE: u32 = 1;
/// [`BackendApi::has`]: a shared library, by one of the names, with commas, that a loader knows it by.
pub const HAS_LIBRARY: u32 = 2;

/// Properties of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceInfo {
    /// Size of this struct on the side that made it.
    pub struct_size: u32,
    /// `CLASS_*`.
    pub class: u32,
    /// `DEVICE_*` flags.
    pub flags: u32,
    /// Work items that run at the same time, roughly; threads of a CPU.
    pub threads: u32,
    /// Name for display.
    pub name: Str,
    /// Its manufacturer.
    pub vendor: Str,
    /// Version of driver or backend.
    pub version: Str,
    /// What it is, physically, as a path that begins with the host: `node7/0000:3b:00.0`, `node7/cpus:0-3,8`.
    /// Devices with one id, with one that contains the other (`a/b` is in `a`), or with sets of CPUs that
    /// share one, are never used together in a group.
    pub physical_id: Str,
    /// Rough single-precision rate in flop/s, to order devices by. 0: unknown.
    pub rate_hint: f64,
    /// Memory in bytes. 0: unknown.
    pub memory_bytes: u64,
    /// Architecture or instruction sets, separated by commas.
    pub features: Str,
    /// Target strings of implementations that `prepare` takes, separated by commas, the preferred one first.
    /// Empty: the backend's [`target`](BackendApi::target). Since minor version 8.
    pub targets: Str,
    /// What selects it in a runtime key, behind the backend's key and a colon. Empty: its number. Since minor
    /// version 8.
    pub suffix: Str,
}

/// A memory of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemorySpace {
    /// Size of this struct on the side that made it.
    pub struct_size: u32,
    /// Its id, unique in the backend; 0 is the host's.
    pub id: u32,
    /// 0 main, 1 high bandwidth, 2 persistent, 3 shared with the host, 4 ([`SPACE_OF_PROCESS`]) the host
    /// process's own: a device that is lost leaves it as it is.
    pub kind: u32,
    /// NUMA node, or -1.
    pub numa_node: i32,
    /// Bytes.
    pub size: u64,
    /// 1 if host pointers into it are valid.
    pub host_visible: u32,
    /// The least alignment of buffers that `alloc` returns.
    pub alignment: u32,
}

/// A buffer: an id of a memory space and a handle in it. In [`SPACE_HOST`] the handle is the
/// address.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Memory space.
    pub space: u32,
    /// 0.
    pub reserved: u32,
    /// Handle, given by `alloc`, `register_host` or `import`.
    pub handle: u64,
}

/// A strided box of up to three dimensions inside a buffer, in bytes; axis 0 is contiguous.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyBox {
    /// Bytes, rows, planes. A box of fewer dimensions has extent 1 in the others.
    pub extent: [u64; 3],
    /// Offset of the first byte in the source.
    pub source_offset: u64,
    /// Bytes from row to row and from plane to plane in the source.
    pub source_stride: [u64; 2],
    /// Offset of the first byte in the destination.
    pub destination_offset: u64,
    /// Bytes from row to row and from plane to plane in the destination.
    pub destination_stride: [u64; 2],
}

/// [`Submission::flags`]: fill in `nanoseconds`.
pub const SUBMIT_PROFILE: u32 = 1;

/// [`Submission::flags`]: some argument is [`ARG_PHASED`].
pub const SUBMIT_PHASED: u32 = 2;

/// [`Submission::flags`]: the space is a part of the launch's; other parts run elsewhere. Since minor version
/// 3.
pub const SUBMIT_PART: u32 = 4;

/// [`Submission::flags`]: the calling thread runs all of it, and no other thread of the host helps. A device
/// that is not the host's processors pays no attention to it. Since minor version 9.
pub const SUBMIT_ON_CALLER: u32 = 8;

/// [`Submission::flags`]: a thread of the host calls `event_wait` for the event before long, and no callback
/// is asked for. A backend whose events take work of a thread may leave that work to it. Since minor version
/// 11.
pub const SUBMIT_WAITED: u32 = 16;

/// One launch on one device.
#[repr(C)]
pub struct Submission {
    /// Size of this struct in the host.
    pub struct_size: u32,
    /// `SUBMIT_*` flags.
    pub flags: u32,
    /// From `prepare`.
    pub kernel: *mut Kernel,
    /// The index space with its order and phases.
    pub space: *const Space,
    /// Arguments.
    pub args: *const Arg,
    /// Number of arguments.
    pub arg_count: u32,
    /// Number of events in `waits`.
    pub wait_count: u32,
    /// Events that must have fired before the kernel runs. If one has fired with an error, the launch fails
    /// with it. Where a queue of the device waits ([`DEVICE_WAITS_IN_QUEUE`]), the kernel may run after work
    /// that failed in the queue: the host looks at the outcome of both.
    pub waits: *const *mut Event,
    /// Where to put the completion event; NULL put there: already complete. NULL itself: return when
    /// it is complete.
    pub signal: *mut *mut Event,
    /// Where to put the kernel's time on the device, if already complete: with `SUBMIT_PROFILE`, and
    /// without it if the device knows it, and the time until the host has the answer says little of it.
    pub nanoseconds: *mut u64,
    /// Options of the submission that the host does not know, or that are meant for backends.
    pub attributes: *const Attr,
    /// Number of attributes.
    pub attribute_count: usize,
    /// The first phase to run.
    pub phase_begin: u64,
    /// One past the last phase to run.
    pub phase_end: u64,
    /// NULL, or a number that another thread sets to something else than 0 to ask the launch to stop: what
    /// has not begun is left out, and the launch fails with [`ERROR_CANCELLED`]. A backend that cannot stop a
    /// launch does not look. It is read atomically, and lives until the launch is over. Since minor version
    /// 9.
    pub stop: *const u32,
    /// 0, or a number of the host's: all submissions to this device that have it are the same, but for
    /// `waits`, `signal`, `nanoseconds`, `stop`, the flag [`SUBMIT_WAITED`], and what is in their arrays. A
    /// backend may keep what it makes of the first one, as long as it likes. Since minor version 12.
    pub like: u64,
}

/// A backend: its vtable. Required are `key`, `probe`, `devices`, `prepare`, `release` and
/// `submit`; all others may be NULL. A function may answer with [`ERROR_UNSUPPORTED`].
#[repr(C)]
pub struct BackendApi {
    /// Size of this struct in the plugin.
    pub struct_size: u32,
    /// 0.
    pub flags: u32,
    /// Runtime key, such as `ALL_CPU`.
    pub key: Str,
    /// Text for display.
    pub description: Str,
    /// Looks for the driver and its devices; called before `devices`, once. An error: unavailable.
    pub probe: Option<unsafe extern "C" fn() -> *mut Error>,
    /// The devices that are there, as pointers that live for ever: one that has gone fails with
    /// [`ERROR_DEVICE_LOST`]. Called again when `generation` has changed. The list is valid until then.
    pub devices:
        Option<unsafe extern "C" fn(devices: *mut *const *mut Device, count: *mut usize) -> *mut Error>,
    /// Properties of a device; `info.struct_size` is set by the host. Strings live for ever.
    pub device_info: Option<unsafe extern "C" fn(device: *mut Device, info: *mut DeviceInfo) -> *mut Error>,
    /// Prepares an implementation for a device. `implementation` lives as long as the kernel.
    pub prepare: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            implementation: *const Implementation,
            kernel: *mut *mut Kernel,
        ) -> *mut Error,
    >,
    /// Releases a kernel.
    pub release: Option<unsafe extern "C" fn(device: *mut Device, kernel: *mut Kernel)>,
    /// Runs a kernel.
    pub submit:
        Option<unsafe extern "C" fn(device: *mut Device, submission: *const Submission) -> *mut Error>,
    /// The target string of implementations that `prepare` takes, such as `cuda`, of devices whose info lists
    /// none.
    pub target: Str,
    /// An interface by name and version; NULL if there is none.
    pub get_extension: Option<unsafe extern "C" fn(name: Str, version: u32) -> *const c_void>,
    /// A property of an object as JSON text, made with `error_create`'s allocator: `*value` is an
    /// error object whose text is the answer, to be freed by the caller.
    pub query:
        Option<unsafe extern "C" fn(object: *const c_void, key: Str, value: *mut *mut Error) -> *mut Error>,
    /// Changes whenever devices come or go. Asked when a program makes a runtime, and never by a launch.
    pub generation: Option<unsafe extern "C" fn() -> u64>,
    /// Memories of a device.
    pub spaces: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            spaces: *mut *const MemorySpace,
            count: *mut usize,
        ) -> *mut Error,
    >,
    /// Allocates zeroed memory.
    pub alloc: Option<
        unsafe extern "C" fn(device: *mut Device, space: u32, bytes: u64, buffer: *mut Buffer) -> *mut Error,
    >,
    /// Frees a buffer of `alloc` or `register_host`.
    pub free: Option<unsafe extern "C" fn(device: *mut Device, buffer: Buffer) -> *mut Error>,
    /// Registers host memory with the device (pinning).
    pub register_host: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            pointer: *mut c_void,
            bytes: u64,
            buffer: *mut Buffer,
        ) -> *mut Error,
    >,
    /// Copies a box between any two buffers. Waits and signal as in [`Submission`].
    pub copy_box: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            source: Buffer,
            destination: Buffer,
            shape: *const CopyBox,
            waits: *const *mut Event,
            wait_count: usize,
            signal: *mut *mut Event,
        ) -> *mut Error,
    >,
    /// 1 if this device copies from the one space to the other; `*bytes_per_second` is a hint.
    pub can_copy: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            source_space: u32,
            destination_space: u32,
            bytes_per_second: *mut f64,
        ) -> u32,
    >,
    /// An event that the host signals.
    pub event_create: Option<unsafe extern "C" fn(device: *mut Device, event: *mut *mut Event) -> *mut Error>,
    /// Fires a user event, with an error or NULL. Takes the error.
    pub event_signal: Option<unsafe extern "C" fn(event: *mut Event, error: *mut Error) -> *mut Error>,
    /// 1 if it has fired.
    pub event_ready: Option<unsafe extern "C" fn(event: *mut Event) -> u32>,
    /// Waits until it has fired; the error of the work, if it failed. May be called again, with the same
    /// answer.
    pub event_wait: Option<unsafe extern "C" fn(event: *mut Event) -> *mut Error>,
    /// Calls `callback(context)` exactly once after it has fired, on any thread; the callback may
    /// submit and must not block.
    pub event_on_ready: Option<
        unsafe extern "C" fn(
            event: *mut Event,
            callback: unsafe extern "C" fn(*mut c_void),
            context: *mut c_void,
        ) -> *mut Error,
    >,
    /// Start and end on the device in nanoseconds.
    pub event_times:
        Option<unsafe extern "C" fn(event: *mut Event, start: *mut u64, end: *mut u64) -> *mut Error>,
    /// Releases an event.
    pub event_release: Option<unsafe extern "C" fn(event: *mut Event)>,
    /// The vendor's own handle of a queue, buffer or context, by kind, for vendor libraries.
    pub native_handle: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            kind: Str,
            object: *const c_void,
            handle: *mut u64,
        ) -> *mut Error,
    >,
    /// For a kernel with a [`ShareFn`] in [`SPACE_HOST`]: the number of work items up to which the host may
    /// run a launch itself. The launch must have one phase and no flags and attributes; the host calls that
    /// function on its own thread and does not tell the device. 0, or NULL: none. The host asks after each
    /// launch that the device runs, which is at least one in 256 of those, since the time of an item may
    /// change. Since minor version 3.
    pub inline_items: Option<unsafe extern "C" fn(device: *mut Device, kernel: *mut Kernel) -> u64>,
    /// An implementation may be prepared soon: loads its program if that needs no compiler, and returns when
    /// it is loaded. The host calls it from a thread of its own. An error here recurs in `prepare`. Since
    /// minor version 4.
    pub preload: Option<unsafe extern "C" fn(device: *mut Device, implementation: *const Implementation)>,
    /// Number of the image of a kernel, for a device that has one image loaded at a time and takes long to
    /// load another; 0, or NULL: none. Submissions of one image are put together where their order allows.
    /// Since minor version 4.
    pub image: Option<unsafe extern "C" fn(device: *mut Device, kernel: *mut Kernel) -> u64>,
    /// Memory in [`SPACE_HOST`] may be freed from now on. A device releases what it keeps for arguments that
    /// began in these bytes, once no launch in flight needs it. It is called on any thread, also for memory
    /// that the device never saw, and calls no function of the host. NULL: it keeps nothing. Since minor
    /// version 6.
    pub forget_host: Option<unsafe extern "C" fn(device: *mut Device, pointer: *mut c_void, bytes: u64)>,
    /// The devices under the settings of a context, in place of `probe` and `devices`. It is called when a
    /// context first needs them, for one context at a time: keys are names of settings, values their texts,
    /// which live for the call. A setting that is missing has its default. Where all settings that the
    /// backend looks at are as in an earlier call, it gives the same devices, which live for ever. NULL: the
    /// devices depend on no settings. Since minor version 7.
    pub open: Option<
        unsafe extern "C" fn(
            settings: *const Attr,
            setting_count: usize,
            devices: *mut *const *mut Device,
            count: *mut usize,
        ) -> *mut Error,
    >,
    /// The devices that a key selects, of `count` that are there: puts their indices into `selected`, in
    /// order, and their number, which is at most `count`. `suffix` is what stands behind the backend's key
    /// and a colon. [`ERROR_UNSUPPORTED`], or NULL: a number or a class selects. Since minor version 8.
    pub resolve: Option<
        unsafe extern "C" fn(
            suffix: Str,
            devices: *const *mut Device,
            count: usize,
            selected: *mut usize,
            selected_count: *mut usize,
        ) -> *mut Error,
    >,
    /// The implementation that the device has of a kernel, by its descriptor as JSON; it lives for ever. NULL
    /// put there, or NULL: none but those that are registered in this process. Since minor version 8.
    pub resolve_kernel: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            descriptor: Str,
            implementation: *mut *const Implementation,
        ) -> *mut Error,
    >,
    /// 1 if the machine of the device has what an implementation needs: a `HAS_*` kind, and a name. NULL: it
    /// is in the machine of this process, which is asked. Since minor version 8.
    pub has: Option<unsafe extern "C" fn(device: *mut Device, kind: u32, name: Str) -> u32>,
    /// Sets the `bytes` bytes of a buffer to 0, as many as `alloc` was asked for, and returns when that is
    /// done. Nothing uses the buffer meanwhile. The host asks for it before another array gets the buffer.
    /// [`ERROR_UNSUPPORTED`], or NULL: the host frees it and allocates another one. Since minor version 9.
    pub clear: Option<unsafe extern "C" fn(device: *mut Device, buffer: Buffer, bytes: u64) -> *mut Error>,
    /// The file in memory that a buffer of `alloc` is in, as a descriptor, and where it begins there. Asked
    /// of memories of kind [`SPACE_OF_PROCESS`]. A buffer of at least 64 KiB begins on a page, and no other
    /// buffer has a part of its last page. The host may map these bytes at other addresses, for as long as
    /// it has the buffer; a child of `fork` maps the pages of any buffer for itself, where they are. The
    /// descriptor stays the backend's, and open. [`ERROR_UNSUPPORTED`], or NULL: the buffer is in no file.
    /// Since minor version 10.
    pub shared_file: Option<
        unsafe extern "C" fn(
            device: *mut Device,
            buffer: Buffer,
            file: *mut i32,
            offset: *mut u64,
        ) -> *mut Error,
    >,
    /// 1 if queues of a device with [`DEVICE_WAITS_IN_QUEUE`] wait for this event of it. 0: the host would
    /// have to wait, for a copy by a thread, say. NULL: they wait for all of them. Since minor version 14.
    pub event_in_queue: Option<unsafe extern "C" fn(event: *mut Event) -> u32>,
}

impl Str {
    /// The text of `text`, which must outlive every use.
    #[inline]
    pub const fn new(text: &str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() }
    }

    /// The text; empty if it is not UTF-8.
    ///
    /// # Safety
    /// `ptr` and `len` describe bytes that are readable during `'a`, or `len` is 0.
    #[inline]
    pub unsafe fn as_str<'a>(&self) -> &'a str {
        if self.len == 0 || self.ptr.is_null() {
            return "";
        }
        // SAFETY: the caller vouches for the range.
        let bytes = unsafe { core::slice::from_raw_parts(self.ptr, self.len) };
        core::str::from_utf8(bytes).unwrap_or("")
    }

    /// The text; bytes that are not UTF-8 are replaced.
    ///
    /// # Safety
    /// `ptr` and `len` describe readable bytes, or `len` is 0.
    pub unsafe fn text(&self) -> String {
        if self.len == 0 || self.ptr.is_null() {
            return String::new();
        }
        // SAFETY: the caller vouches for the range.
        let bytes = unsafe { core::slice::from_raw_parts(self.ptr, self.len) };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

// SAFETY: these are shared as parts of statics that are never written; what they point to is
// immutable and lives for ever (vtables, headers) or for the call (Share, Submission).
unsafe impl Sync for Str {}
// SAFETY: as above.
unsafe impl Send for Str {}
// SAFETY: as above.
unsafe impl Sync for Attr {}
// SAFETY: as above.
unsafe impl Send for Attr {}
// SAFETY: as above.
unsafe impl Sync for HostApi {}
// SAFETY: as above.
unsafe impl Send for HostApi {}
// SAFETY: as above.
unsafe impl Sync for PluginHeader {}
// SAFETY: as above.
unsafe impl Send for PluginHeader {}
// SAFETY: as above.
unsafe impl Sync for Implementation {}
// SAFETY: as above.
unsafe impl Send for Implementation {}
// SAFETY: as above.
unsafe impl Sync for BackendApi {}
// SAFETY: as above.
unsafe impl Send for BackendApi {}
// SAFETY: an argument is a description; code that dereferences its addresses argues for it.
unsafe impl Sync for Arg {}
// SAFETY: as above.
unsafe impl Send for Arg {}
// SAFETY: as above.
unsafe impl Sync for Share {}
// SAFETY: as above.
unsafe impl Send for Share {}
