//! The OpenCL backends of FLASH: key `INTEL_FPGA` for the accelerators of platforms whose name says FPGA,
//! including the emulator, and key `OPENCL` for every other OpenCL device.
//!
//! The loader (`libOpenCL.so.1`) is opened when a program first needs a device. Without it, or without
//! devices, both backends are *unavailable*; the error says why.
//!
//! - A CPU, and any device that takes any host address, works in place: its buffers lie over the host's
//!   arrays (`places.rs`). Every other device has a memory of its own and two in-order queues: kernels, and
//!   copies. The dependencies of a launch are complete before it is enqueued, so nothing orders the two.
//! - Copies to and from a memory that is separate from the host's go through two pieces of pinned memory. A
//!   thread fills one while the other is copied. Other copies, and small ones, are commands with an event.
//! - A program is compiled from the definition's macros, `flash_device.h` and the source, for one kernel. It
//!   is kept by the device, and on disk ([`Programs`](flash_backend::offload::Programs)). Binaries, and
//!   programs on disk, are loaded in the background from the making of a runtime on.
//! - Phases, parameters and work-groups are decided by the [toolkit](flash_backend::offload) for kernel
//!   languages; `driver.rs` has what it asks of OpenCL.
//! - Source text that cooperates is compiled for launches of consecutive values (`FLASH_CONSECUTIVE`), which
//!   most are: compilers for CPUs then use whole vectors. The general program is compiled when another launch
//!   comes.
//! - Launches of a thread end in batches of up to 256, of which one event is kept (`queue.rs`).
//! - A cooperating kernel is enqueued once per phase. One that does not cooperate is enqueued over the index
//!   space itself, which must be whole, have one phase, and count in steps of 1.
//!
//! | environment variable | meaning | default |
//! |---|---|---|
//! | `FLASH_CACHE_DIR` | folder of compiled programs | `flash` in `XDG_CACHE_HOME`, or in `~/.cache` |
//! | `FLASH_CACHE_LIMIT` | bytes of all of them together; 0: none is kept | 512 MiB |
//! | `FLASH_OPENCL_COPY` | 1: devices have memories of their own; copies go through pinned memory | 0 |
//! | `OPENCL_DYLIB_PATH` | loaders to try first, separated by semicolons | none |

mod buffers;
mod counted;
mod device;
mod discover;
mod driver;
mod event;
mod failure;
mod kernel;
mod places;
mod program;
mod queue;
mod stages;
#[cfg(target_os = "linux")]
mod svml;
mod table;

pub use device::{IntelFpga, OpenCl, OpenClDevice};

flash_backend::register_backend!(OpenCl);
flash_backend::register_backend!(IntelFpga);
