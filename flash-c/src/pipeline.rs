//! Pipelines: several submissions that run as a whole, at once or later.

use crate::error::{Failure, call};
use crate::handle::{Kind, get, give, kind, place, take};
use crate::kernel::{NamedKernel, NamedKernelHandle};
use crate::runtime::{Runtime, RuntimeHandle};
use crate::status::*;
use crate::text;
use crate::types::{Dimension, Dimensions, Value, Values, list};
use flash_core::{Pipeline as CorePipeline, RuntimeObj};
use std::ffi::c_char;
use std::sync::{RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

/// Submissions that run in order as far as they depend on each other. Several threads may run it at once; one
/// that changes it must be the only one that uses it.
pub struct PipelineHandle {
    _opaque: [u8; 0],
}

/// A pipeline on its way. Any thread may use it, several at once.
pub struct StartedHandle {
    _opaque: [u8; 0],
}

/// What its handle points to.
pub struct Pipeline {
    runtime: RuntimeObj,
    /// Only tried: what is in use is an error.
    pipeline: RwLock<CorePipeline<'static>>,
}

/// What its handle points to.
pub struct Started {
    handle: flash_core::Handle,
}

kind!(Pipeline, 4, "pipeline");
kind!(Started, 5, "pipeline on its way");

#[cold]
fn busy() -> Failure {
    let text = "expected a pipeline that no other thread uses, found one in use: a pipeline that runs cannot be changed, and one that is changed cannot run";
    Failure::new(STATUS_BUSY, text)
}

impl Pipeline {
    /// Looks at the pipeline.
    fn read(&self) -> Result<RwLockReadGuard<'_, CorePipeline<'static>>, Failure> {
        match self.pipeline.try_read() {
            Ok(pipeline) => Ok(pipeline),
            Err(TryLockError::WouldBlock) => Err(busy()),
            // A panic left an empty one.
            Err(TryLockError::Poisoned(left)) => Ok(left.into_inner()),
        }
    }

    /// Changes the pipeline.
    fn change<R>(
        &self,
        change: impl FnOnce(&mut CorePipeline<'static>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut pipeline = match self.pipeline.try_write() {
            Ok(pipeline) => pipeline,
            Err(TryLockError::WouldBlock) => return Err(busy()),
            // A panic left an empty one.
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
        };
        change(&mut pipeline)
    }

    /// The pipeline, which is empty afterwards.
    fn take(&self) -> Result<CorePipeline<'static>, Failure> {
        self.change(|pipeline| Ok(std::mem::replace(pipeline, self.runtime.pipeline())))
    }
}

/// An empty pipeline on a runtime, to be freed with `flash_pipeline_free`.
///
/// Errors: `POINTER`.
///
/// # Safety
/// `runtime` is a handle; `pipeline` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_pipeline_create(
    runtime: *const RuntimeHandle,
    pipeline: *mut *mut PipelineHandle,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let runtime = get::<Runtime, _>(runtime)?.object().clone();
            let empty = RwLock::new(runtime.pipeline());
            give(Pipeline { runtime, pipeline: empty }, pipeline)
        }
    })
}

/// Adds a submission: a kernel, its arguments and its index space as in `flash_kernel_launch`, and options as
/// in `flash_runtime_with`, or NULL. It shares the memories, so that their handles may be freed; numbers are
/// copied.
///
/// A kernel of another runtime is found on the pipeline's.
///
/// Errors: `ARGUMENT` for the number, kinds and types of arguments, `RANGE`, `OPTION`, `TEXT`, `POINTER`:
/// nothing is added then. What depends on the dimensions is reported when the pipeline runs. `BUSY` if
/// another thread uses the pipeline.
///
/// # Safety
/// `pipeline`, `kernel` and memories are handles; there are as many values and dimensions as it says;
/// `options` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_pipeline_submit(
    pipeline: *mut PipelineHandle,
    kernel: *const NamedKernelHandle,
    values: *const Value,
    value_count: usize,
    dimensions: *const Dimension,
    dimension_count: usize,
    options: *const c_char,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (of, kernel, values, dimensions, options) = unsafe {
            (
                get::<Pipeline, _>(pipeline)?,
                get::<NamedKernel, _>(kernel)?.bound(),
                Values::new(values, value_count)?,
                Dimensions::new(list(dimensions, dimension_count, "dimensions")?)?,
                text::options(options)?,
            )
        };
        let submission = values.of(kernel)?.shared();
        of.change(|pipeline| {
            let submitted = std::mem::replace(pipeline, of.runtime.pipeline()).submit(submission);
            let submitted = if options.is_empty() { submitted } else { submitted.options(options) };
            *pipeline = submitted.defer(dimensions);
            Ok(())
        })
    })
}

/// The number of submissions of a pipeline.
///
/// Errors: `POINTER`; `BUSY` if another thread changes it.
///
/// # Safety
/// `pipeline` is a handle; `count` is a place for the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_pipeline_len(pipeline: *const PipelineHandle, count: *mut usize) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (of, count) = unsafe { (get::<Pipeline, _>(pipeline)?, place(count, "number of submissions")?) };
        *count = of.read()?.len();
        Ok(())
    })
}

/// Runs a pipeline, and returns when all of it has finished. It may be run again, which is cheaper than to
/// build it again.
///
/// Errors: as those of `flash_kernel_launch`, of any submission: what can be found before anything runs, else
/// the first failure in order; `BUSY` if another thread changes the pipeline.
///
/// # Safety
/// `pipeline` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_pipeline_exec(pipeline: *const PipelineHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let of = unsafe { get::<Pipeline, _>(pipeline)? };
        Ok(of.read()?.exec()?)
    })
}

/// Starts a pipeline and returns: it runs when what it depends on has finished, on threads of the library. A
/// launch or mapping that comes later comes after it on memories that it touches. `handle` is to be freed
/// with `flash_handle_free`. The pipeline is empty afterwards, and may be filled again.
///
/// Errors: `POINTER`, and `BUSY` if another thread uses the pipeline. All errors of its submissions come out
/// of the handle.
///
/// # Safety
/// `pipeline` is a handle; `handle` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_pipeline_start(
    pipeline: *mut PipelineHandle,
    handle: *mut *mut StartedHandle,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            // Before anything starts that has no handle.
            place(handle, Started::NAME)?;
            let started = get::<Pipeline, _>(pipeline)?.take()?.exec_async();
            give(Started { handle: started }, handle)
        }
    })
}

/// Frees a pipeline. NULL is allowed. One that was started goes on.
///
/// Errors: `POINTER` for what is no pipeline, or freed already.
///
/// # Safety
/// `pipeline` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_pipeline_free(pipeline: *mut PipelineHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        drop(unsafe { take::<Pipeline, _>(pipeline)? });
        Ok(())
    })
}

/// Waits until all of it has finished; this thread helps to run it. It may be called again, with the same
/// result.
///
/// Errors: those of the pipeline, as of `flash_pipeline_exec`; `CANCELLED`; `BORROWED`; `NESTED` in a kernel.
///
/// # Safety
/// `handle` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_handle_wait(handle: *const StartedHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        Ok(unsafe { get::<Started, _>(handle)? }.handle.wait()?)
    })
}

/// Waits at most this many nanoseconds, 0: not at all, and runs nothing. `done` becomes 1 if it has finished
/// and 0 if not; in the latter case the result is `OK`.
///
/// Errors: those of the pipeline, if it has finished; then `done` is 1.
///
/// # Safety
/// `handle` is a handle; `done` is a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_handle_test(
    handle: *const StartedHandle,
    nanoseconds: u64,
    done: *mut i32,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (of, done) = unsafe { (get::<Started, _>(handle)?, place(done, "answer")?) };
        let outcome = match nanoseconds {
            0 => of.handle.try_wait(),
            limit => of.handle.wait_timeout(Duration::from_nanos(limit)),
        };
        *done = i32::from(outcome.is_some());
        Ok(outcome.unwrap_or(Ok(()))?)
    })
}

/// Stops what has not begun yet, and kernels that can be stopped. Waiting then gives `CANCELLED`, unless it
/// had finished before; what the rest should have written is poisoned.
///
/// Errors: `POINTER`.
///
/// # Safety
/// `handle` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_handle_cancel(handle: *const StartedHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe { get::<Started, _>(handle)? }.handle.cancel();
        Ok(())
    })
}

/// Frees a handle. NULL is allowed. The pipeline goes on; its errors are then only seen in its memories.
///
/// Errors: `POINTER` for what is no such handle, or freed already.
///
/// # Safety
/// `handle` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_handle_free(handle: *mut StartedHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        drop(unsafe { take::<Started, _>(handle)? });
        Ok(())
    })
}
