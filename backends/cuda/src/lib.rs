//! The CUDA backend of FLASH: key `NVIDIA_GPU`.
//!
//! The driver (`libcuda.so.1`) is opened when a program first needs a device, the compiler (`libnvrtc.so`)
//! when a source is compiled. Without the first the backend is *unavailable*, without the second sources are;
//! the error says why. `docs/cuda.md` is for users.
//!
//! | file | contents |
//! |---|---|
//! | `discover` | the driver's version, the devices, their limits |
//! | `device` | the backend's functions |
//! | `context` | contexts, streams, events |
//! | `buffers`, `copies` | memory on the device, pinned memory, copies in streams of their own |
//! | `nvrtc`, `program` | compilation, modules |
//! | `driver` | what the [toolkit](flash_backend::offload) asks of CUDA: calls, blocks |
//! | `kernel` | functions, their limits, and what their launches read on the device |
//! | `queue`, `graph` | launches in order, in batches, which become graphs when they repeat |
//!
//! The dependencies of a launch are complete before it is submitted, so nothing orders the streams.
//!
//! Source text that cooperates, and may have threads in two or three dimensions, is compiled for launches of
//! boxes (`FLASH_GRID`), which most are. The general program is compiled when another launch comes.
//!
//! | environment variable | meaning | default |
//! |---|---|---|
//! | `FLASH_CACHE_DIR` | folder of compiled programs | `flash` in `XDG_CACHE_HOME`, or in `~/.cache` |
//! | `FLASH_CACHE_LIMIT` | bytes of all of them together; 0: none is kept | 512 MiB |
//! | `CUDA_VISIBLE_DEVICES` | the devices that the driver shows | all |

mod buffers;
mod context;
mod copies;
mod device;
mod discover;
mod driver;
mod failure;
mod graph;
mod kernel;
pub mod nvrtc;
mod program;
mod queue;

pub use device::{CudaDevice, NvidiaGpu};
pub use kernel::CudaKernel;

flash_backend::register_backend!(NvidiaGpu);
