//! C2MPI, the compute-centric message passing interface of the HALO paper, in process.
//!
//! A program claims functions by alias as *child ranks*, sends them compute objects, and receives results.
//! The design is in this crate's README; `docs/halo.md` is for programs.
//!
//! - A **configuration** (`config`, `attributes.rs`) says which functions there are, and on which devices.
//! - A **world** (`world.rs`) has the parent ranks of a program and what they have claimed.
//! - A **child rank** (`child.rs`) is a kernel, or several, on one or more devices (`replicas.rs`), or a
//!   failsafe.
//! - A **compute object** (`object.rs`) is a list of arguments. Arrays of it may be memory that programs and
//!   devices share (`unified.rs`).
//! - A **message** (`message.rs`) is one run; **mailboxes** (`mailbox.rs`) hand it to its receiver, who may
//!   also be the one to run it (`deferred.rs`).
//! - A **communicator** (`collective.rs`) is several child ranks for one call.
//! - **Ordinary ranks** (`ranks.rs`) are the processes of a job of MPI, where there is one. Compute objects
//!   go there as frames (`frame.rs`), results that are forwarded when they are there (`forward.rs`).
//! - **Handles** (`table.rs`) are numbers: one that is freed, or of another kind, is an error.
//!
//! `c` is the face in C: `mpix.h` and `libmpix.so`.

pub mod attributes;
pub mod c;
mod child;
pub mod collective;
pub mod config;
mod deferred;
mod error;
mod forward;
mod frame;
pub mod functions;
mod mailbox;
mod message;
pub mod object;
mod ranks;
mod replicas;
pub mod table;
pub mod unified;
mod world;

pub use child::Failsafe;
pub use error::{Code, Error, Result};
pub use mailbox::{ANY_SOURCE, ANY_TAG, Wanted};
pub use object::ComputeObj;
pub use world::{Receive, Status, Target, World};

// Its devices and kernels come along.
use flash as _;
