//! Copies through pinned memory, for devices whose memory is separate from the host's. The two pieces are
//! allocated at the first copy, mapped once, and kept. A thread fills or empties one while the other is
//! copied; the thread that begins a copy does not wait.

use crate::buffers::{Buffers, Ends};
use crate::counted::{Counted, Memory};
use crate::event::enqueued;
use flash_backend::Failure;
use flash_backend::abi::CopyBox;
use flash_backend::offload::Once;
use flash_backend::offload::{Worker, staging};
use opencl3::command_queue::enqueue_map_buffer;
use opencl3::context::Context;
use opencl3::event::Event;
use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, create_buffer};
use opencl3::types::{CL_TRUE, cl_mem};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

/// Bytes of a piece. The bus takes much longer to move them than a command takes to begin.
const BYTES: u64 = 4 << 20;

/// Both pieces, allocated at the first use, and the thread that uses them.
pub(crate) struct Stages {
    pieces: Once<Arc<Mutex<[Stage; 2]>>>,
    worker: Worker,
}

/// A piece of pinned memory.
struct Stage {
    /// The host's mapping: [`BYTES`] bytes.
    data: *mut u8,
    /// The command that reads or fills it.
    busy: Option<Counted<Event>>,
    /// Stays mapped while it lives.
    _memory: Counted<Memory>,
}

// SAFETY: mapped memory may be used from any thread; the holder of the lock is the only user.
unsafe impl Send for Stage {}

impl Stage {
    fn new(buffers: &Buffers, context: &Context) -> Result<Stage, Failure> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: a live context, and no host memory.
        let memory = unsafe { create_buffer(context.get(), flags, BYTES as usize, null_mut()) };
        let memory = Memory::created(memory)?;
        let (queue, flags) = (buffers.queue().get(), CL_MAP_READ | CL_MAP_WRITE);
        let mut data: cl_mem = null_mut();
        // SAFETY: all of the buffer, and the call returns when it is mapped.
        let mapped = unsafe {
            enqueue_map_buffer(queue, memory.get(), CL_TRUE, flags, 0, BYTES as usize, &mut data, 0, null())
        };
        drop(enqueued(mapped, "clEnqueueMapBuffer")?);
        Ok(Stage { data: data.cast(), busy: None, _memory: memory })
    }
}

impl staging::Stage for Stage {
    fn data(&self) -> *mut u8 {
        self.data
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let what = || "a copy by way of pinned memory: a command in the device's queue".to_owned();
        self.busy.take().map_or(Ok(()), |event| event.wait_for(what))
    }
}

impl Stages {
    pub fn new() -> Stages {
        Stages { pieces: Once::default(), worker: Worker::new("flash-opencl") }
    }

    /// Begins to copy a box between the host and the device.
    ///
    /// # Safety
    /// As [`Buffers::copy_box`]; one of the ends is the host's.
    pub unsafe fn begin(
        &self,
        buffers: &Arc<Buffers>,
        context: &Context,
        ends: Ends,
        shape: &CopyBox,
    ) -> Result<flash_backend::Event, Failure> {
        let make =
            || Ok(Arc::new(Mutex::new([Stage::new(buffers, context)?, Stage::new(buffers, context)?])));
        let (pieces, buffers) = (self.pieces.get_or_make(make)?.clone(), buffers.clone());
        let parts = staging::regular(shape);
        Ok(self.worker.begin(move || {
            let mut pieces = pieces.lock().unwrap_or_else(|e| e.into_inner());
            // SAFETY: the caller vouches for the box until then.
            unsafe { copy(&mut pieces, &buffers, ends, &parts) }
        }))
    }
}

/// Copies boxes between the host and the device; they are copied on return.
///
/// # Safety
/// As [`Stages::begin`], and one command can copy each box.
unsafe fn copy(
    stages: &mut [Stage; 2],
    buffers: &Buffers,
    ends: Ends,
    boxes: &[CopyBox],
) -> Result<(), Failure> {
    let outcome = boxes.iter().try_for_each(|all| {
        // Flushed at once: the host does other work meanwhile.
        let begin = |stage: &mut Stage, ends: Ends, piece: &CopyBox| {
            // SAFETY: the piece lies in the device's buffer, for which the caller vouches, and in the stage,
            // which is not used elsewhere until it is settled.
            stage.busy = Some(unsafe { buffers.enqueue(ends, piece)? });
            buffers.flush()
        };
        // SAFETY: the caller vouches for the boxes; the stages are this function's, and have `BYTES` bytes.
        unsafe {
            match ends {
                Ends::Up(host, buffer) => staging::up(stages, BYTES, host, all, |stage, piece| {
                    begin(stage, Ends::Up(stage.data, buffer), piece)
                }),
                Ends::Down(buffer, host) => staging::down(stages, BYTES, host, all, |stage, piece| {
                    begin(stage, Ends::Down(buffer, stage.data), piece)
                }),
                Ends::Inside(..) => Ok(()),
            }
        }
    });
    if outcome.is_err() {
        // No stage is in use when the lock is released.
        buffers.finish();
        stages.iter_mut().for_each(|stage| stage.busy = None);
    }
    outcome
}
