//! Streams and events.

use super::context::current;
use super::graph::Captured;
use super::{Out, driver};
use crate::machine::Answer;
use crate::machine::handles::{Handles, lock};
use crate::machine::stream::{Job, Mark, Stream};
use crate::machine::work::{Call, Work};
use cudarc::driver::sys::{
    CUcontext, CUevent, CUevent_flags, CUhostFn, CUresult, CUstream, CUstream_flags, CUstreamCallback,
};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

static STREAMS: Handles<Stream> = Handles::new();
static EVENTS: Handles<Event> = Handles::new();

#[derive(Default)]
pub(super) struct Event {
    timed: bool,
    last: Mutex<Option<Arc<Mark>>>,
    /// Its place in a graph that is being captured.
    captured: Mutex<Option<Captured>>,
}

/// The stream of a handle, of the current context. NULL and 1 are the default one.
pub(super) fn stream_of(handle: CUstream) -> Answer<Arc<Stream>> {
    let context = current()?;
    if handle.addr() <= 1 {
        return Ok(context.default_stream());
    }
    let stream = STREAMS.get(handle)?;
    if stream.context.device != context.device {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    Ok(stream)
}

/// Puts work into a stream, or into the graph that it is captured into.
pub(super) fn submit(stream: &Arc<Stream>, work: Work) -> Answer {
    if let Some(capture) = &mut *lock(&stream.capture) {
        return capture.add(work);
    }
    stream.put(Job::Work(work));
    Ok(())
}

fn create(handle: &Out<CUstream>, flags: u32) -> Answer {
    let context = current()?;
    let blocking = match flags {
        x if x == CUstream_flags::CU_STREAM_DEFAULT as u32 => true,
        x if x == CUstream_flags::CU_STREAM_NON_BLOCKING as u32 => false,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    let stream = Stream::start(context, blocking);
    lock(&context.streams).push(Arc::downgrade(&stream));
    handle.put(STREAMS.add(stream))
}

fn record(event: CUevent, stream: CUstream) -> Answer {
    let (event, stream) = (EVENTS.get(event)?, stream_of(stream)?);
    if let Some(capture) = &*lock(&stream.capture) {
        *lock(&event.captured) = Some(capture.here());
        return Ok(());
    }
    let mark = Mark::new(&stream);
    *lock(&event.captured) = None;
    *lock(&event.last) = Some(mark.clone());
    stream.put(Job::Mark(mark));
    Ok(())
}

impl Event {
    /// Its last record; an event in a capture has none.
    fn mark(&self) -> Answer<Option<Arc<Mark>>> {
        if lock(&self.captured).is_some() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(lock(&self.last).clone())
    }
}

/// The arguments of a callback.
struct Callback {
    function: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    stream: CUstream,
    data: *mut c_void,
}

/// # Safety
///
/// The data is a [`Callback`] without another owner.
unsafe extern "C" fn call_back(data: *mut c_void) {
    // SAFETY: the caller's promise: it was made by `Box::into_raw`.
    let callback = unsafe { Box::from_raw(data.cast::<Callback>()) };
    // SAFETY: the caller that added the callback allows this call, once.
    unsafe { (callback.function)(callback.stream, CUresult::CUDA_SUCCESS, callback.data) };
}

driver! {
    fn cuStreamCreate(stream: Out<CUstream>, flags: u32) {
        create(&stream, flags)?;
    }

    fn cuStreamCreateWithPriority(stream: Out<CUstream>, flags: u32, _priority: i32) {
        create(&stream, flags)?;
    }

    fn cuStreamDestroy_v2(stream: CUstream) {
        current()?;
        STREAMS.remove(stream)?.close();
    }

    fn cuStreamSynchronize(stream: CUstream) {
        let stream = stream_of(stream)?;
        if stream.is_capturing() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        stream.synchronize()?;
    }

    fn cuStreamQuery(stream: CUstream) {
        let stream = stream_of(stream)?;
        if stream.is_capturing() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if !stream.is_done() {
            stream.hurry();
            return Err(CUresult::CUDA_ERROR_NOT_READY);
        }
        stream.context.check()?;
    }

    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: u32) {
        current()?;
        let event = EVENTS.get(event)?;
        // The stream may be of another context than the event, but must be of the current one.
        let stream = stream_of(stream)?;
        if let Some(captured) = &*lock(&event.captured) {
            return captured.join(&stream);
        }
        if stream.is_capturing() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if let Some(mark) = event.mark()? {
            stream.put(Job::Wait(mark));
        }
    }

    fn cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>) {
        let stream = stream_of(stream)?;
        context.put(std::ptr::from_ref(stream.context).cast_mut().cast())?;
    }

    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let stream = stream_of(stream)?;
        let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the driver's caller allows just this call.
        submit(&stream, Work::Call(unsafe { Call::new(function, data) }))?;
    }

    fn cuStreamAddCallback(stream: CUstream, callback: CUstreamCallback, data: *mut c_void, flags: u32) {
        let found = stream_of(stream)?;
        let function = callback.filter(|_| flags == 0).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if found.is_capturing() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        let callback = Box::into_raw(Box::new(Callback { function, stream, data }));
        // SAFETY: the function takes ownership of the box, once: a stream does its work once.
        submit(&found, Work::Call(unsafe { Call::new(call_back, callback.cast()) }))?;
    }

    fn cuEventCreate(event: Out<CUevent>, flags: u32) {
        current()?;
        let timed = flags & CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 == 0;
        event.put(EVENTS.add(Arc::new(Event { timed, ..Event::default() })))?;
    }

    fn cuEventDestroy_v2(event: CUevent) {
        current()?;
        EVENTS.remove(event)?;
    }

    fn cuEventRecord(event: CUevent, stream: CUstream) {
        record(event, stream)?;
    }

    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, _flags: u32) {
        record(event, stream)?;
    }

    fn cuEventQuery(event: CUevent) {
        current()?;
        if let Some(mark) = EVENTS.get(event)?.mark()? {
            if mark.reached().is_none() {
                mark.hurry();
                return Err(CUresult::CUDA_ERROR_NOT_READY);
            }
            mark.context().check()?;
        }
    }

    fn cuEventSynchronize(event: CUevent) {
        current()?;
        if let Some(mark) = EVENTS.get(event)?.mark()? {
            mark.wait();
            mark.context().check()?;
        }
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: CUevent, end: CUevent) {
        elapsed(&milliseconds, start, end)?;
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: CUevent, end: CUevent) {
        elapsed(&milliseconds, start, end)?;
    }
}

fn elapsed(milliseconds: &Out<f32>, start: CUevent, end: CUevent) -> Answer {
    let both = [EVENTS.get(start)?, EVENTS.get(end)?];
    let mut times = [None; 2];
    for (event, time) in both.iter().zip(&mut times) {
        let mark = event.mark()?.filter(|_| event.timed).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        *time = mark.reached();
    }
    let [Some(start), Some(end)] = times else { return Err(CUresult::CUDA_ERROR_NOT_READY) };
    let after = end.saturating_duration_since(start).as_secs_f32();
    milliseconds.put(1e3 * (after - start.saturating_duration_since(end).as_secs_f32()))
}
