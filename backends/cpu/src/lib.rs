//! The CPU backend of FLASH: a team of threads that runs work items, key `ALL_CPU`.
//!
//! | environment variable | meaning | default |
//! |---|---|---|
//! | `FLASH_CPU_THREADS` | threads in all | what affinity and cgroups allow |
//! | `FLASH_CPU_DEVICES` | devices that the threads are split into | 1 |
//! | `FLASH_CPU_LINGER_US` | how long a worker waits for the next launch before it parks, in microseconds | 200 |
//!
//! They are read when the backend is first used.

mod device;
mod job;
#[doc(hidden)]
pub mod team;

pub use device::{Cpu, CpuDevice};

flash_core::register_backend!(Cpu);
