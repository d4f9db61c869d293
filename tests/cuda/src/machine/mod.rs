//! The machine under the driver: devices, their memory, streams and their work.

pub(crate) mod context;
pub(crate) mod handles;
pub(crate) mod settings;
pub(crate) mod space;
pub(crate) mod stream;
pub(crate) mod work;

pub(crate) use space::Range;

use cudarc::driver::sys::CUresult;

/// Multiprocessors of a device.
pub(crate) const MULTIPROCESSORS: u32 = 4;

/// The result of a driver call.
pub(crate) type Answer<T = ()> = Result<T, CUresult>;
