//! Runtimes, submissions and pipelines.
//!
//! A submission runs in three steps. *Prepare* (`plan.rs`, `plans.rs`): once per definition, element types,
//! devices and the options that matter to it, strings are compared, an implementation is chosen and made
//! ready. *Write* (`submissions.rs`): arguments and dimensions become plain slots; order, bounds and overlaps
//! are proved. *Run* (`launch.rs`): the memories are held, every submission goes through the backend's
//! vtable, the memories are given back.

mod alike;
mod api;
mod arena;
mod asynchronous;
mod bound;
mod buffer;
mod check;
mod choose;
mod context;
mod copies;
mod device_launch;
pub(crate) mod distributed;
mod dynamic;
mod event;
mod facts;
mod failsafe;
mod footprint;
mod hold;
mod launch;
mod launch_cache;
mod left_to_device;
mod movement;
mod options;
pub(crate) mod partition;
mod plan;
mod plans;
mod preload;
mod profile;
mod proof;
pub(crate) mod rate;
mod reduce;
mod reorder;
#[cfg(feature = "recordings")]
mod replay;
mod resident;
mod small;
mod state;
mod submission;
mod submissions;
#[cfg(test)]
mod tests;
#[cfg(feature = "recordings")]
mod to_recording;
mod user_code;
mod widen;

pub use crate::kernel::views::Scalar;
pub use api::{Pipeline, RuntimeObj, SubmitObj, get_runtime};
pub use asynchronous::{Handle, HostTask, pipelines_wait};
pub use bound::{AnyArgument, AnyArguments, BoundArguments, BoundKernel, SharedArguments};
pub use context::Context;
pub use dynamic::{ByName, IntoArgument, Kernel, KernelArguments};
pub use event::{Event, Signal};
pub use failsafe::{HostArgs, Later};
pub use options::{DevicesWhere, Options, devices_where};
pub use preload::Definitions;
pub use profile::{LaunchProfile, Profile};
#[cfg(feature = "recordings")]
pub use replay::{Replayed, Steps};
pub use submission::Submission;
