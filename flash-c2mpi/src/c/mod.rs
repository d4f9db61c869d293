//! The face in C: each function of `mpix.h` is an `extern "C"` function of one of these modules, and the
//! header is made of them (`tests/header.rs`).
//!
//! They check what C gives them, call the world of the process, and turn errors into a number and a text.
//! Every handle is a number (`table.rs`), also those that C sees as pointers, which nothing follows.

#![allow(non_snake_case, non_camel_case_types)] // the names of MPI's kind

pub mod calls;
pub mod collective;
pub mod info;
pub mod messages;
pub mod object;
pub mod status;
pub mod types;

use crate::error::{Code, Error, Result};
use crate::object::ComputeObj;
use crate::table::{Kind, Table};
use crate::world::World;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, PoisonError, RwLock};

static OBJECTS: Table<ComputeObj> = Table::new(Kind::Object);

/// The program, between `MPIX_Initialize` and `MPIX_Finalize`.
static WORLD: RwLock<Option<Arc<World>>> = RwLock::new(None);

#[inline]
fn world() -> Result<Arc<World>> {
    let world = WORLD.read().unwrap_or_else(PoisonError::into_inner);
    world.clone().ok_or_else(|| {
        Error::new(Code::Init, "expected a call between MPIX_Initialize and MPIX_Finalize, found one outside")
    })
}

/// The number that a handle is.
#[inline]
fn id_of<T>(handle: *mut T) -> c_int {
    c_int::try_from(handle.addr()).unwrap_or(-1)
}

#[inline]
fn object(obj: types::MPIX_ComputeObj) -> Result<Arc<ComputeObj>> {
    OBJECTS.get(id_of(obj))
}

#[cold]
fn null(what: &str) -> Error {
    Error::new(Code::Argument, format!("expected a pointer to a place for the {what}, found NULL"))
}

/// The place that a caller's pointer to a result names.
///
/// # Safety
/// The pointer is NULL, or points to a place for a `T` that nothing else uses during the call.
unsafe fn place<'a, T>(to: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: the caller vouches.
    unsafe { to.as_mut() }.ok_or_else(|| null(what))
}

/// A list that the caller has.
///
/// # Safety
/// The pointer is NULL, or to `count` values that do not change during the call.
unsafe fn list<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Error::new(Code::Argument, format!("expected {count} {what}, found them at {first:p}")));
    }
    // SAFETY: the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// A text that must be there.
///
/// # Safety
/// The pointer is NULL, or to a text that ends with NUL and does not change during the call.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::new(Code::Argument, format!("expected {what}, found NULL")));
    }
    // SAFETY: the caller vouches.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|error| {
        Error::new(Code::Argument, format!("expected {what} in UTF-8, found other bytes: {error}"))
    })
}
