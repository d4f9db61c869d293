//! A device's context, its streams, and events.

use crate::failure::{Call, failed};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags, cuCtxPopCurrent_v2,
    cuCtxPushCurrent_v2, cuDevicePrimaryCtxRetain, cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime_v2,
    cuEventQuery, cuEventRecord, cuEventSynchronize, cuStreamCreate, cuStreamQuery, cuStreamSynchronize,
    cuStreamWaitEvent,
};
use flash_backend::Failure;
use std::ptr::null_mut;

/// The primary context of a device, which other users of CUDA in the process share. It is never released:
/// devices live for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context(CUcontext);

// SAFETY: a context may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Makes a context this thread's current one while it lives; then the one before is current again.
pub(crate) struct Current(());

impl Context {
    pub fn retain(device: CUdevice) -> Result<Context, Failure> {
        let mut context = null_mut();
        // SAFETY: a device that the driver gave, and a local variable.
        unsafe { cuDevicePrimaryCtxRetain(&mut context, device) }.call("cuDevicePrimaryCtxRetain")?;
        Ok(Context(context))
    }

    /// Makes it current.
    #[inline]
    pub fn enter(self) -> Result<Current, Failure> {
        // SAFETY: a context that is never released.
        unsafe { cuCtxPushCurrent_v2(self.0) }.call("cuCtxPushCurrent")?;
        Ok(Current(()))
    }

    pub fn get(self) -> CUcontext {
        self.0
    }
}

impl Drop for Current {
    #[inline]
    fn drop(&mut self) {
        let mut popped = null_mut();
        // SAFETY: `enter` has pushed one on this thread.
        let _ = unsafe { cuCtxPopCurrent_v2(&mut popped) };
    }
}

/// A stream that does not wait for the default one. It is never destroyed.
#[derive(Clone, Copy)]
pub(crate) struct Stream(CUstream);

// SAFETY: a stream may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream of the current context.
    pub fn new(_: &Current) -> Result<Stream, Failure> {
        let mut stream = null_mut();
        // SAFETY: a local variable.
        unsafe { cuStreamCreate(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }
            .call("cuStreamCreate")?;
        Ok(Stream(stream))
    }

    pub fn get(self) -> CUstream {
        self.0
    }

    /// Whether all that was put into it is complete.
    pub fn is_done(self) -> Result<bool, Failure> {
        // SAFETY: a stream that is never destroyed.
        match unsafe { cuStreamQuery(self.0) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => Err(failed("cuStreamQuery", result)),
        }
    }

    /// Waits for all that was put into it.
    pub fn finish(self) -> Result<(), Failure> {
        // SAFETY: a stream that is never destroyed.
        unsafe { cuStreamSynchronize(self.0) }.call("cuStreamSynchronize")
    }
}

/// A point in a stream.
pub(crate) struct Event {
    event: CUevent,
    context: Context,
}

// SAFETY: an event may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event after all that is in a stream now. `timed`: it stores the time when it is reached.
    pub fn record(_: &Current, context: Context, stream: Stream, timed: bool) -> Result<Event, Failure> {
        let flags = match timed {
            true => CUevent_flags::CU_EVENT_DEFAULT,
            false => CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let mut event = null_mut();
        // SAFETY: a local variable.
        unsafe { cuEventCreate(&mut event, flags as u32) }.call("cuEventCreate")?;
        let event = Event { event, context };
        // SAFETY: event and stream are of the current context.
        unsafe { cuEventRecord(event.event, stream.get()) }.call("cuEventRecord")?;
        Ok(event)
    }

    /// Lets what a stream gets from now on run after it.
    pub fn before(&self, _: &Current, stream: Stream) -> Result<(), Failure> {
        // SAFETY: a live event, and a live stream.
        unsafe { cuStreamWaitEvent(stream.get(), self.event, 0) }.call("cuStreamWaitEvent")
    }

    /// Whether it has been reached.
    pub fn reached(&self) -> Result<bool, Failure> {
        // The caller may be on any thread.
        let _current = self.context.enter()?;
        // SAFETY: a live event.
        match unsafe { cuEventQuery(self.event) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => Err(failed("cuEventQuery", result)),
        }
    }

    /// Waits until it is.
    pub fn wait(&self) -> Result<(), Failure> {
        let _current = self.context.enter()?;
        // SAFETY: a live event.
        unsafe { cuEventSynchronize(self.event) }.call("cuEventSynchronize")
    }

    /// Nanoseconds from one reached event to another.
    pub fn since(&self, start: &Event) -> Option<u64> {
        let _current = self.context.enter().ok()?;
        let mut milliseconds = 0.0;
        // SAFETY: live events, and a local variable.
        let result = unsafe { cuEventElapsedTime_v2(&mut milliseconds, start.event, self.event) };
        (result == CUresult::CUDA_SUCCESS).then_some((f64::from(milliseconds) * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made by `record`; the driver keeps it until it is reached.
            let _ = unsafe { cuEventDestroy_v2(self.event) };
        }
    }
}
