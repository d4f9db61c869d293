//! The CPU backend of FLASH: a team of threads that runs work items, key `ALL_CPU`.
//!
//! Its settings are `threads`, `stack_size`, and those of `Settings` that begin with
//! `cpu.`.

mod device;
mod job;
#[doc(hidden)]
pub mod team;

pub use device::{Cpu, CpuDevice};

flash_backend::register_backend!(Cpu);
