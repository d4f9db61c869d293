//! Shared parts of backends whose devices have a kernel language of their own: an implementation's attributes
//! ([`KernelSpec`]), the text before its source ([`KernelSpec::source`]), the comparison of its parameters
//! with the definition's ([`KernelSpec::check_told`]), the words of a launch for a kernel
//! ([`KernelSpec::tell`]), checked indices ([`KernelSpec::check_fault`]), the comparison of a launch with the
//! last one ([`Signature`]), compiled programs on disk ([`ProgramCache`]), copies through memory that both
//! sides reach ([`staging`]), a thread for them ([`Worker`]), and kernels that are functions of the host
//! ([`queue_function`]).
//!
//! The kernel's side of it is `include/flash_device.h` ([`DEVICE_HEADER`]).

mod bounds;
mod cache;
mod driver;
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
pub const DEVICE_HEADER: &str = include_str!("../../../include/flash_device.h");
