//! The toolkit for backends whose devices have a kernel language: text or binaries, compiled and launched by
//! a driver.
//!
//! A backend implements [`Driver`] for its device, and hands three functions of [`Device`] on:
//! [`prepare`](crate::Device::prepare) to [`Kernel::new`], `preload` to [`Kernel::preload`], and
//! `submit` to [`Kernel::submit`]. `docs/backends.md` has a whole one. What then happens is decided here,
//! once for all of them:
//!
//! | file | decides |
//! |---|---|
//! | `spec`, `include` | what an implementation's attributes say, and the text before its source |
//! | `parameters` | whether its parameters fit the definition |
//! | `programs`, `cache`, `once` | which programs are compiled, shared, dropped, and kept on disk |
//! | `kernel` | which program a launch takes: that for simple launches or that for all |
//! | `phases`, `launch` | which phases are launched, in which order, with which buffers |
//! | `launch_words`, `tables`, `bounds` | the words of a launch, its table, and the index that was outside |
//! | `groups` | sizes and numbers of groups, and whether a kernel that does not cooperate can run a launch |
//!
//! Beside that a backend may use [`Signature`], the comparison of a launch with the last one; copies through
//! memory that both sides reach ([`staging`]), and a thread for them ([`Worker`]); and kernels that are
//! functions of the host ([`queue_function`]).
//!
//! The kernel's side of it is `include/flash_device.h` ([`DEVICE_HEADER`]).
//!
//! [`Device`]: crate::Device

mod bounds;
mod cache;
mod driver;
mod facts;
mod function;
mod groups;
mod include;
mod kernel;
mod launch;
mod launch_words;
mod once;
mod parameters;
mod phases;
mod programs;
mod signature;
mod spec;
pub mod staging;
mod tables;
#[cfg(test)]
mod tests;
mod worker;

pub use bounds::FAULT_WORDS;
pub use cache::ProgramCache;
pub use driver::{ArgBuffer, Call, Driver, Function, GroupLimits, Limits, Phases, Range, Value};
pub use function::{call_queue_function, queue_function};
pub use kernel::Kernel;
use launch::{carried, numbers, two_buffers};
pub use launch_words::LaunchWords;
pub use once::Once;
pub use parameters::{Passing, ToldParameter};
pub use programs::Programs;
pub use signature::Signature;
pub use spec::{KernelSpec, Parameter, Payload};
pub use tables::Tables;
pub use worker::Worker;

/// The text of `flash_device.h`, which is put before every source.
pub const DEVICE_HEADER: &str = include_str!("../../include/flash_device.h");
