//! What a backend of FLASH is written with.
//!
//! A backend implements [`Backend`] and [`Device`], and registers itself with [`register_backend!`]; a
//! library of its own says [`export_plugin!`]. Devices that share the host's memory, or have memories that
//! the host reaches by address, find help in [`host_memory`]; those with a kernel language in [`offload`].
//! `docs/backends.md` has whole ones.
//!
//! A backend is linked in or comes as a plugin. Either way the program reaches it through its vtable,
//! [`abi::BackendApi`], and it reaches the program through [`abi::HostApi`]. What the rest of FLASH has in
//! common with backends is here, too: settings, notices, `fork`, and what threads and panics need.
//!
//! It knows nothing of host programs: contexts, memories and launches are above, in `flash-core`.

// The unit tests have a backend, and the macro writes `::flash_backend`.
#[cfg(test)]
extern crate self as flash_backend;

mod backend;
pub mod cgroup;
mod event;
mod failure;
mod features;
mod float_state;
pub mod fork;
mod glue;
mod host;
#[doc(hidden)] // for the arrays of host programs
pub mod host_allocation;
pub mod host_memory;
mod host_settings;
mod implementation;
mod library;
mod notice;
pub mod offload;
mod panics;
mod physical;
mod plugin;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod threads;
mod workers;

pub use backend::{Backend, Changes, Class, Device, DeviceInfo, Launch, Upcoming, is_stopped};
pub use event::{Completion, Event};
pub use failure::{Failure, Unavailable};
pub use features::cpu_has;
pub use flash_macros::{export_plugin, register_backend};
pub use flash_types::{Code, abi, descriptor, index};
pub use float_state::keep_float_state;
pub use glue::{BackendEntry, BackendStatic, Instance, api};
pub use host::{host_extension, run_rows};
pub use host_settings::HostSettings;
pub use implementation::{ImplementationEntry, alignment};
pub use library::{has_library, signature};
pub use notice::{notice, set_notices};
pub use panics::caught;
pub use physical::{physical_cpus, physical_id};
pub use plugin::{PluginCrate, query};
pub use workers::{HostWork, WorkerThreads};

/// The page on backends.
#[cfg(doctest)]
#[doc = include_str!("../../docs/backends.md")]
mod backends {}

#[doc(hidden)] // for what macros write
pub mod __private {
    pub use inventory;
}

/// The program's side of all this, for the crates of FLASH that are above.
#[doc(hidden)]
pub mod __host {
    pub use crate::features::CPU_FEATURES;
    pub use crate::host::{HOST, HostExtension, take_failure, take_query_failure};
    pub use crate::implementation::{AXES, PARTS, STRIDES, rank, takes_axes, takes_parts, takes_strides};
    pub use crate::implementation::{LinkedImplementation, linked_implementations};
    pub use crate::panics::{discard, message};
    pub use crate::physical::overlap;
    pub use crate::plugin::linked_backends;
}
