//! The numbers that functions return.

/// What a function returns: 0, or the kind of what went wrong.
pub type Status = i32;

/// It is done.
pub const STATUS_OK: i32 = 0;
/// A pointer that must not be NULL; a handle that is freed or of another kind; a pointer that is no
/// mapping of this thread.
pub const STATUS_POINTER: i32 = 1;
/// A text that is not UTF-8, or is not the JSON that is expected.
pub const STATUS_TEXT: i32 = 2;
/// A runtime key without a backend or device.
pub const STATUS_KEY: i32 = 3;
/// A setting that is none, or a value that does not fit.
pub const STATUS_SETTING: i32 = 4;
/// An option that is none, or a value that does not fit.
pub const STATUS_OPTION: i32 = 5;
/// An unknown kernel name.
pub const STATUS_KERNEL: i32 = 6;
/// No device of the runtime has an implementation of the kernel.
pub const STATUS_IMPLEMENTATION: i32 = 7;
/// Arguments that do not fit the kernel: their number, kinds, types or lengths.
pub const STATUS_ARGUMENT: i32 = 8;
/// A shape or type that cannot be.
pub const STATUS_SHAPE: i32 = 9;
/// A range that leaves its memory, or an index that is not there.
pub const STATUS_RANGE: i32 = 10;
/// Dimensions that do not fit the kernel.
pub const STATUS_DIMENSION: i32 = 11;
/// A mapping is in the way: of this thread, or longer of another than `Patience` allows.
pub const STATUS_BORROWED: i32 = 12;
/// The launch that should have written the memory failed.
pub const STATUS_POISONED: i32 = 13;
/// A kernel launches, maps or waits.
pub const STATUS_NESTED: i32 = 14;
/// A launch that cannot be cut as requested.
pub const STATUS_PARTITION: i32 = 15;
/// A submission took longer than its `Timeout`.
pub const STATUS_TIMEOUT: i32 = 16;
/// The pipeline was cancelled.
pub const STATUS_CANCELLED: i32 = 17;
/// The host or a device has too little memory.
pub const STATUS_OUT_OF_MEMORY: i32 = 18;
/// A device does not answer any more.
pub const STATUS_DEVICE_LOST: i32 = 19;
/// A kernel panicked or said that it failed.
pub const STATUS_FAILED: i32 = 20;
/// A library of kernels, or a plugin, cannot be used.
pub const STATUS_LIBRARY: i32 = 21;
/// The handle is in use by another thread.
pub const STATUS_BUSY: i32 = 22;
/// A backend or device failed in another way.
pub const STATUS_BACKEND: i32 = 23;
/// A fault of FLASH: an entry panicked.
pub const STATUS_PANIC: i32 = 24;
/// Anything else; the text says what.
pub const STATUS_OTHER: i32 = 25;

macro_rules! names {
    ($($name:ident)*) => {
        /// Number and name of each.
        pub(crate) const NAMES: &[(Status, &str)] = &[$(($name, concat!(stringify!($name), "\0"))),*];
    };
}
names! {
    STATUS_OK STATUS_POINTER STATUS_TEXT STATUS_KEY
    STATUS_SETTING STATUS_OPTION STATUS_KERNEL STATUS_IMPLEMENTATION
    STATUS_ARGUMENT STATUS_SHAPE STATUS_RANGE STATUS_DIMENSION
    STATUS_BORROWED STATUS_POISONED STATUS_NESTED STATUS_PARTITION
    STATUS_TIMEOUT STATUS_CANCELLED STATUS_OUT_OF_MEMORY STATUS_DEVICE_LOST
    STATUS_FAILED STATUS_LIBRARY STATUS_BUSY STATUS_BACKEND
    STATUS_PANIC STATUS_OTHER
}
