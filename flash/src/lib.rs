//! FLASH: one host program, every accelerator of the machine.
//!
//! ```
//! use flash::prelude::*;
//! use flash::kernels::nbody::{Accelerate, Integrate};
//!
//! let rt = get_runtime("ALL_ACCEL")?;                    // the best devices that this machine has
//! let (mass, acc) = (FlashMemory::from(vec![1.0f32; 3]), FlashMemory::zeroed(3));
//! let pos = FlashMemory::from(vec![[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
//! let vel = FlashMemory::zeroed(3);
//! for _ in 0..10 {
//!     rt.submit(Accelerate::of(1.0, 1e-3, &pos, &mass, &acc)).defer([3])
//!       .submit(Integrate::of(0.01, &acc, &pos, &vel)).exec([3])?;
//! }
//! assert!(vel.read()?[0][0] > 0.0);                      // drawn to the others
//! # Ok::<(), flash::Error>(())
//! ```
//!
//! A host program names no device and no kernel language. Kernels are [definitions](mod@kernel) with any
//! number of implementations; backends are linked in or found as plugin libraries in the directories
//! of `FLASH_BACKEND_PATH`.
//!
//! | for | import |
//! |---|---|
//! | a host program | `use flash::prelude::*;`, and what else it needs from the crate's root |
//! | kernels and their definitions | `use flash::kernel::prelude::*;` |
//! | backends | the crate `flash-backend` |
//!
//! | feature | brings | default |
//! |---|---|---|
//! | `cpu` | the CPU backend | yes |
//! | `kernels` | the library of kernels, as [`kernels`] | yes |
//! | `definitions` | its definitions alone, for implementations from plugins; a part of `kernels` | yes |
//! | `vendor-libraries` | its implementations that call OpenBLAS, cuBLAS and cuSOLVER, where they are found at run time | yes |
//! | `recordings` | pipelines as data, in the module [`recording`] | yes |
//! | `conformance` | the suite that every backend passes, in the module `conformance` | no |
//!
//! Without default features nothing but the core is built.

// Devices and what they report: `rt.devices()`.
pub use flash_backend::DeviceInfo;
pub use flash_core::devices::DeviceHandle;
// Options of a submission or a runtime: `.options(..)`.
pub use flash_core::descriptor::{
    Attributes, Devices, Implementation, InFlight, MemoryBudget, OnCaller, Patience, Priority, Searchable,
    Subspaces, Timeout, group_by, only, sort_by, weights,
};
// How a launch is cut over devices, and which elements each part touches.
pub use flash_core::descriptor::{columns, csr_rows, matrix_product, part_by, rows, stencil, tiles};
// Index spaces: the dimensions of a launch.
pub use flash_core::index::{Dim, count_by, count_by_fn};
// Arrays, and access to them from the host.
pub use flash_core::memory::{FlashMemory, MemoryView, ReadGuard, Transfers, WriteGuard, set_host_budget};
// Contexts and their settings, runtimes, submissions and pipelines.
pub use flash_core::runtime::{
    Context, Event, Handle, HostArgs, HostTask, Later, LaunchProfile, Pipeline, Profile, RuntimeObj, Signal,
    SubmitObj, devices_where, get_runtime,
};
pub use flash_core::{Settings, workers};
// Errors.
pub use flash_core::{Code, Error, set_notices};
// Kernels: definitions, implementations, and plugins of them.
pub use flash_core::{KernelDefinition, export_plugin, kernel};

#[cfg(feature = "conformance")]
pub use flash_conformance as conformance;
#[cfg(feature = "recordings")]
pub use flash_core::recording;
#[cfg(feature = "definitions")]
pub use flash_kernels as kernels;

#[doc(hidden)]
pub use flash_core as __core;

#[cfg(feature = "cpu")]
#[doc(hidden)]
pub use flash_backend_cpu as __cpu;

#[cfg(feature = "ranks")]
#[doc(hidden)]
pub use flash_backend_ranks as __ranks;

/// What some errors say in detail.
pub mod error {
    pub use flash_core::{DeviceMemoryError, KeyError, LaunchError, NoImplementation, PartError};
}

/// What almost every program wants: `use flash::prelude::*;`.
pub mod prelude {
    // Only for the first line of `main`.
    pub use flash_core::agent_here;

    pub use crate::{
        Devices, FlashMemory, Handle, HostTask, Implementation, InFlight, KernelDefinition, MemoryBudget,
        Patience, Pipeline, Priority, Profile, RuntimeObj, Searchable, SubmitObj, Subspaces, Timeout,
        count_by, count_by_fn, devices_where, get_runtime, group_by, only, part_by, sort_by, weights,
    };
}
