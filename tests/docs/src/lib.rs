//! The programs of README.md and `docs/`: each is a test of a crate that depends on `flash` alone, those of
//! `docs/graphs.md`, `docs/tasks.md` and `docs/hicr.md` also on the crate of that page and on `flash-trace`.
//! `docs/backends.md` is tested in the crate `flash-backend`. `xtask` checks that no page and no program is
//! left out.
//!
//! One program may hold all of them, so that their kernels have different names. One that names a file is a
//! program of its own (`standalone_crate`), and finds the file beside the page's copy, where `build.rs` puts
//! it.

#[doc = include_str!(concat!(env!("OUT_DIR"), "/README.md"))]
mod readme {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/start.md"))]
mod start {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/devices.md"))]
mod devices {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/kernels-once.md"))]
mod kernels_once {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/tasks.md"))]
mod tasks {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/graphs.md"))]
mod graphs {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/ranks.md"))]
mod ranks {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/hicr.md"))]
mod hicr {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/opencl.md"))]
mod opencl {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/cuda.md"))]
mod cuda {}
