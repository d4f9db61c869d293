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

#[cfg(feature = "recordings")]
pub use flash_core::recording;
pub use flash_core::{
    Code, Context, DeviceMemoryError, Error, FlashMemory, Handle, KernelDefinition, KeyError, LaunchError,
    NoImplementation, PartError, Pipeline, Profile, RuntimeObj, Settings, SubmitObj, count_by, count_by_fn,
    get_runtime, set_notices,
};
pub use flash_core::{abi, backend, descriptor, index, memory, runtime, workers};
pub use flash_core::{export_plugin, kernel, register_backend};
#[cfg(feature = "kernels")]
pub use flash_kernels as kernels;

#[doc(hidden)]
pub use flash_core as __core;

#[cfg(feature = "cpu")]
#[doc(hidden)]
pub use flash_backend_cpu as __cpu;

/// The programs of the page on many devices.
#[cfg(doctest)]
#[doc = include_str!("../../docs/devices.md")]
mod many_devices {}

/// What almost every program wants: `use flash::prelude::*;`.
pub mod prelude {
    pub use flash_core::descriptor::{
        Devices, Implementation, InFlight, MemoryBudget, Priority, Searchable, Subspaces, Timeout, group_by,
        only, part_by, sort_by, weights,
    };
    pub use flash_core::runtime::{HostTask, devices_where};
    pub use flash_core::{
        FlashMemory, Handle, KernelDefinition, Pipeline, Profile, RuntimeObj, SubmitObj, count_by,
        count_by_fn, get_runtime,
    };
}
