//! The CPU backend of FLASH: a team of threads that runs work items, key `ALL_CPU`.
//!
//! | environment variable | meaning | default |
//! |---|---|---|
//! | `FLASH_CPU_THREADS` | threads in all | what affinity and cgroups allow |
//! | `FLASH_CPU_DEVICES` | devices that the threads are split into | 1 |
//! | `FLASH_CPU_COPY` | 1: each device has a memory of its own, for tests of what moves between memories | 0 |
//! | `FLASH_CPU_THROTTLE` | fraction of its speed at which each device runs, such as `1,0.5`; the rest of the time it waits busily. For tests | 1 |
//! | `FLASH_CPU_LINGER_US` | how long a worker waits for the next launch before it parks, in microseconds | 200 |
//!
//! They are read when the backend is first used.

mod device;
mod job;
#[doc(hidden)]
pub mod team;

pub use device::{Cpu, CpuDevice};

flash_core::register_backend!(Cpu);
