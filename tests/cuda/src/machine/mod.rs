//! The machine that the driver drives: devices, their memory, streams and what goes through them.

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

/// What a call of the driver comes to.
pub(crate) type Answer<T = ()> = Result<T, CUresult>;
