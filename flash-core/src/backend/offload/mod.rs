//! What backends share whose devices have a kernel language of their own: an implementation's attributes
//! ([`KernelSpec`]), the text before its source ([`KernelSpec::source`]), what a kernel is told of its launch
//! ([`KernelSpec::tell`]), whether that is the last one once more ([`Signature`]), compiled programs on disk
//! ([`ProgramCache`]), copies by way of memory that both sides reach ([`staging`]), a thread that does so ([`Worker`]), and
//! kernels that are functions of the host's ([`queue_function`]).
//!
//! The kernel's side of it is `include/flash_device.h` ([`DEVICE_HEADER`]).

mod cache;
mod function;
mod launch;
mod launch_words;
mod signature;
mod spec;
pub mod staging;
mod worker;

pub use cache::ProgramCache;
pub use function::{call_queue_function, queue_function};
pub use launch::{carried, numbers, offset, two_buffers};
pub use launch_words::LaunchWords;
pub use signature::Signature;
pub use spec::{KernelSpec, Parameter, Payload};
pub use worker::Worker;

/// The text of `flash_device.h`, which is put before every source.
pub const DEVICE_HEADER: &str = include_str!("../../../include/flash_device.h");
