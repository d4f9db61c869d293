//! Host programs in C, C++ and Fortran: `flash.h` and `libflash.so`.
//!
//! Each function of the header is an `extern "C"` function of one of these modules, and the header is made of
//! them (`tests/header.rs`). They are thin: they check what C gives them, call `flash-core`, and turn errors
//! into a number and a text.
//!
//! - A **handle** (`handle.rs`) points to a slot that is never given back to the system. So a handle that is
//!   freed, or of another kind, is found out as long as its slot is not taken anew.
//! - An **entry** runs inside `error::call`: no panic leaves it, and each thread has the text of its last
//!   error.
//! - A **launch** (`kernel.rs`) borrows its memories; a pipeline (`pipeline.rs`) shares them.
//!
//! `unsafe` is what C requires: pointers that the caller vouches for, as the header says at each function.

pub mod agents;
mod error;
mod handle;
pub mod kernel;
pub mod memory;
pub mod pipeline;
pub mod runtime;
pub mod status;
mod text;
pub mod types;

pub use error::{flash_last_error, flash_status_name};

// Its devices and kernels come along.
use flash as _;
