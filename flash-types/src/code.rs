//! What kind of failure a backend reports.

use crate::abi;
use std::fmt;

/// Kinds of backend errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// No kind of its own.
    Other,
    /// The device cannot do it.
    Unsupported,
    /// No driver, no device, or too old.
    Unavailable,
    /// A kernel panicked or returned non-zero.
    Kernel,
    /// An allocation was refused.
    OutOfMemory,
    /// The device does not answer any more.
    DeviceLost,
    /// The call makes no sense.
    Invalid,
    /// A panic inside a plugin, outside a kernel.
    Panic,
    /// The launch was stopped because the host asked for that.
    Cancelled,
}

impl Code {
    /// Its number in the plugin interface.
    #[inline]
    pub fn raw(self) -> u32 {
        match self {
            Code::Other => abi::ERROR_OTHER,
            Code::Unsupported => abi::ERROR_UNSUPPORTED,
            Code::Unavailable => abi::ERROR_UNAVAILABLE,
            Code::Kernel => abi::ERROR_KERNEL,
            Code::OutOfMemory => abi::ERROR_OUT_OF_MEMORY,
            Code::DeviceLost => abi::ERROR_DEVICE_LOST,
            Code::Invalid => abi::ERROR_INVALID,
            Code::Panic => abi::ERROR_PANIC,
            Code::Cancelled => abi::ERROR_CANCELLED,
        }
    }

    /// The code of a number; [`Code::Other`] of one that is not known.
    #[inline]
    pub fn of(code: u32) -> Code {
        match code {
            abi::ERROR_UNSUPPORTED => Code::Unsupported,
            abi::ERROR_UNAVAILABLE => Code::Unavailable,
            abi::ERROR_KERNEL => Code::Kernel,
            abi::ERROR_OUT_OF_MEMORY => Code::OutOfMemory,
            abi::ERROR_DEVICE_LOST => Code::DeviceLost,
            abi::ERROR_INVALID => Code::Invalid,
            abi::ERROR_PANIC => Code::Panic,
            abi::ERROR_CANCELLED => Code::Cancelled,
            _ => Code::Other,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::Other => "error",
            Code::Unsupported => "unsupported",
            Code::Unavailable => "unavailable",
            Code::Kernel => "kernel error",
            Code::OutOfMemory => "out of memory",
            Code::DeviceLost => "device lost",
            Code::Invalid => "invalid call",
            Code::Panic => "panic",
            Code::Cancelled => "cancelled",
        })
    }
}
