//! Kernels by name, and single launches of them.

use crate::error::call;
use crate::handle::{get, give, kind, take};
use crate::runtime::{Runtime, RuntimeHandle};
use crate::text;
use crate::types::{Dimension, Dimensions, Value, Values, list};
use flash_core::runtime::BoundKernel;
use std::ffi::c_char;

/// A kernel by name on a runtime. Any thread may use it, several at once.
pub struct NamedKernelHandle {
    _opaque: [u8; 0],
}

/// What its handle points to.
pub struct NamedKernel {
    kernel: BoundKernel,
}

kind!(NamedKernel, 3, "kernel");

impl NamedKernel {
    /// The kernel itself.
    pub fn bound(&self) -> &BoundKernel {
        &self.kernel
    }
}

/// Finds a kernel by its name, for launches on a runtime. To be freed with `flash_kernel_free`.
///
/// Errors: `KERNEL`, whose text lists all kernels; `TEXT`; `POINTER`.
///
/// # Safety
/// `runtime` is a handle; `name` ends with NUL; `kernel` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_kernel_find(
    runtime: *const RuntimeHandle,
    name: *const c_char,
    kernel: *mut *mut NamedKernelHandle,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let name = text::required(name, "the name of a kernel")?;
            let bound = get::<Runtime, _>(runtime)?.object().bind(name)?;
            give(NamedKernel { kernel: bound }, kernel)
        }
    })
}

/// Launches a kernel, and returns when all of its work items have finished.
///
/// `values` are its arguments in the order of its definition, as made by `flash_as_f32`, `flash_as_array` and
/// their like. `dimensions` is its index space, dimension 0 first, as made by `flash_count` and its like.
///
/// Errors: `ARGUMENT` names the argument, what was expected and what was found (its number, kind, type,
/// length); `SHAPE` and `RANGE` of memories; `DIMENSION`; `IMPLEMENTATION` if no device of the runtime runs
/// the kernel; then nothing ran. `FAILED` with the kernel's words, `TIMEOUT`, `DEVICE_LOST`, `BACKEND`: what
/// it should have written is poisoned. `BORROWED`, `POISONED`, `NESTED`, `OUT_OF_MEMORY`, `POINTER`.
///
/// # Safety
/// `kernel` and memories are handles; there are as many values and dimensions as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_kernel_launch(
    kernel: *const NamedKernelHandle,
    values: *const Value,
    value_count: usize,
    dimensions: *const Dimension,
    dimension_count: usize,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let kernel = &get::<NamedKernel, _>(kernel)?.kernel;
            let values = Values::new(values, value_count)?;
            let dimensions = Dimensions::new(list(dimensions, dimension_count, "dimensions")?)?;
            kernel.launch(&values, dimensions).map_err(|error| values.fault(error))?;
        }
        Ok(())
    })
}

/// Frees a kernel. NULL is allowed.
///
/// Errors: `POINTER` for what is no kernel, or freed already.
///
/// # Safety
/// `kernel` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_kernel_free(kernel: *mut NamedKernelHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        drop(unsafe { take::<NamedKernel, _>(kernel)? });
        Ok(())
    })
}
