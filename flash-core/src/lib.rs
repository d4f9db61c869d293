//! The runtime core of FLASH: kernel definitions, index spaces, memory, plugins and dispatch.
//!
//! Host programs use the facade crate `flash`, authors of kernels this crate, and authors of backends the
//! crate `flash-backend`. The modules stand in the order in which a launch goes down through them:
//! [`mod@kernel`] (types), [`descriptor`] (their erased form), [`index`] (order and phases), [`recording`]
//! (pipelines as data), [`memory`], [`runtime`] (submissions and pipelines), [`devices`] (backends and
//! plugins), [`abi`] (the interface to them).

// The unit tests have kernels, and their macros write `::flash_core`.
#[cfg(test)]
extern crate self as flash_core;

pub mod devices;
mod error;
pub mod kernel;
pub mod memory;
mod nested;
#[cfg(feature = "recordings")]
pub mod recording;
pub mod runtime;
mod settings;
pub mod workers;

pub use devices::agent::agent_here;
pub use error::{DeviceMemoryError, Error, KeyError, LaunchError, NoImplementation, PartError};
pub use flash_backend::settings::{Variable, VariableState};
pub use flash_backend::{fork, set_notices};
pub use flash_macros::{KernelDefinition, export_plugin, kernel};
pub use flash_types::index::{count_by, count_by_fn};
pub use flash_types::{Code, abi, descriptor, index};
pub use memory::FlashMemory;
pub use runtime::{Context, Event, Handle, Pipeline, Profile, RuntimeObj, SubmitObj, get_runtime};
pub use settings::Settings;

/// For what macros write, and for the suite of backends.
#[doc(hidden)]
pub mod __private {
    pub use crate::devices::host_handles::forget;
    pub use crate::devices::take_error;
    pub use bytemuck;
    pub use flash_backend;
    pub use inventory;
    pub use serde_json;
}
