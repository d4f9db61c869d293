//! The runtime core of FLASH: kernel definitions, index spaces, memory, plugins and dispatch.
//!
//! Host programs use the facade crate `flash`; authors of kernels and backends use this crate. The modules
//! stand in the order in which a launch goes down through them: [`mod@kernel`] (types), [`descriptor`] (their
//! erased form), [`index`] (order and phases), [`recording`] (pipelines as data), [`memory`], [`runtime`]
//! (submissions and pipelines), [`backend`] (plugins), [`abi`] (the interface to them).

// The suite and the unit tests have kernels, and their macros write `::flash_core`.
#[cfg(any(test, feature = "conformance"))]
extern crate self as flash_core;

pub mod backend;
mod error;
mod features;
pub mod fork;
mod host_allocation;
pub mod kernel;
pub mod memory;
mod nested;
mod notice;
mod panics;
#[cfg(feature = "recordings")]
pub mod recording;
pub mod runtime;
mod settings;
mod threads;
pub mod workers;

pub use error::{DeviceMemoryError, Error, KeyError, LaunchError, NoImplementation, PartError};
pub use flash_macros::{KernelDefinition, export_plugin, kernel, register_backend};
pub use flash_types::index::{count_by, count_by_fn};
pub use flash_types::{Code, abi, descriptor, index};
pub use memory::FlashMemory;
pub use notice::{notice, set_notices};
pub use runtime::{Context, Event, Handle, Pipeline, Profile, RuntimeObj, SubmitObj, get_runtime};
pub use settings::{Settings, Variable, VariableState};

/// The page on backends, whose program depends on this crate.
#[cfg(doctest)]
#[doc = include_str!("../../docs/backends.md")]
mod backends {}

#[doc(hidden)]
pub mod __private {
    pub use bytemuck;
    pub use inventory;
    pub use serde_json;
}
