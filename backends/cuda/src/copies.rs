//! Copies between a device, the host and other devices.
//!
//! Each direction has a stream. Pinned host memory is copied by the device alone. Other memory goes through
//! two pieces of pinned memory ([`staging`]), which a thread fills or empties; small copies go through the
//! driver's own.

use crate::buffers::Buffers;
use crate::context::{Context, Current, Event, Stream};
use crate::failure::Call;
use cudarc::driver::sys::{
    CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype, cuCtxEnablePeerAccess, cuMemFreeHost, cuMemHostAlloc,
    cuMemcpy3DAsync_v2, cuMemcpyDtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuMemcpyPeerAsync,
};
use flash_backend::abi::CopyBox;
use flash_backend::offload::{Worker, staging};
use flash_backend::{Completion, Failure};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// Bytes of a piece of pinned memory. The bus takes much longer to move them than a copy takes to begin.
const PIECE: usize = 4 << 20;

/// Unpinned copies of up to this many bytes are left to the driver, which takes them at once into memory of
/// its own.
const LITTLE: u64 = 64 << 10;

/// `CU_DEVICE_ATTRIBUTE_MAX_PITCH`, of every device: the most bytes from row to row in one command.
pub(crate) const PITCH: u64 = (1 << 31) - 1;

/// Source and destination of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Ends {
    Up(*const u8, CUdeviceptr),
    Down(CUdeviceptr, *mut u8),
    Inside(CUdeviceptr, CUdeviceptr),
    /// From a buffer of another device.
    Peer(Context, CUdeviceptr, CUdeviceptr),
}

// SAFETY: addresses and handles, which are valid on every thread.
unsafe impl Send for Ends {}

/// The copies of a device.
pub(crate) struct Copies {
    context: Context,
    pub up: Direction,
    down: Direction,
    /// Waits for copies and calls their callbacks.
    waiter: Worker,
    /// The devices that were copied from.
    peers: Mutex<Vec<Context>>,
}

/// One direction.
pub(crate) struct Direction {
    pub stream: Stream,
    /// Allocated at their first use.
    stages: Mutex<Option<[Stage; 2]>>,
    /// Fills or empties the stages.
    worker: Worker,
}

/// A piece of pinned memory, for ever.
struct Stage {
    data: *mut u8,
    /// After the copy that uses it.
    busy: Option<Event>,
}

// SAFETY: pinned memory may be used from any thread; the holder of the lock is the only user.
unsafe impl Send for Stage {}

/// Fires when a copy is complete.
pub(crate) struct Copied {
    pub event: Arc<Event>,
    waiter: &'static Worker,
}

impl Copies {
    pub fn new(current: &Current, context: Context) -> Result<Copies, Failure> {
        let direction = |name| {
            let stream = Stream::new(current)?;
            Ok(Direction { stream, stages: Mutex::default(), worker: Worker::new(name) })
        };
        let (up, down) = (direction("flash-cuda-up")?, direction("flash-cuda-down")?);
        Ok(Copies { context, up, down, waiter: Worker::new("flash-cuda"), peers: Mutex::default() })
    }

    /// The stream of copies from or to the host, or to this device.
    pub fn stream(&self, to_host: bool) -> Stream {
        if to_host { self.down.stream } else { self.up.stream }
    }

    /// Begins to copy a box. `None`: it is already copied.
    ///
    /// # Safety
    /// The boxes lie inside the buffers, and nothing else touches them until the copy is complete.
    pub unsafe fn copy(
        &'static self,
        ends: Ends,
        shape: &CopyBox,
    ) -> Result<Option<flash_backend::Event>, Failure> {
        if shape.extent.contains(&0) {
            return Ok(None);
        }
        let direction = if matches!(ends, Ends::Down(..)) { &self.down } else { &self.up };
        let is_free = match ends {
            Ends::Up(host, _) => is_free(host, shape.source_offset, shape.source_stride, shape),
            Ends::Down(_, host) => is_free(host, shape.destination_offset, shape.destination_stride, shape),
            Ends::Inside(..) | Ends::Peer(..) => true,
        };
        if !is_free {
            let (ends, shape) = (ends, *shape);
            // SAFETY: the caller vouches for the box until then.
            let work = move || unsafe { self.by_stages(direction, ends, &shape) };
            return Ok(Some(direction.worker.begin(work)));
        }
        let current = self.context.enter()?;
        if let Ends::Peer(peer, ..) = ends {
            self.meet(&current, peer);
        }
        for part in staging::regular(shape) {
            // SAFETY: parts of the box, for which the caller vouches; what was begun before an error is
            // waited for.
            if let Err(failure) = unsafe { enqueue(direction.stream, ends, &part) } {
                let _ = direction.stream.finish();
                return Err(failure);
            }
        }
        let event = Arc::new(Event::record(&current, self.context, direction.stream, false)?);
        Ok(Some(flash_backend::Event::new(Copied { event, waiter: &self.waiter })))
    }

    /// Enables access to another device's memory, at the first copy from there. Where that fails, the driver
    /// copies through the host.
    fn meet(&self, _: &Current, peer: Context) {
        let mut peers = self.peers.lock().unwrap_or_else(|e| e.into_inner());
        if !peers.contains(&peer) {
            // SAFETY: contexts that are never released. Access may be enabled already, by other code in this
            // process.
            let _ = unsafe { cuCtxEnablePeerAccess(peer.get(), 0) };
            peers.push(peer);
        }
    }

    /// Copies a box through pinned memory; it is copied on return.
    ///
    /// # Safety
    /// As [`copy`](Self::copy); one of the ends is the host's.
    unsafe fn by_stages(&self, direction: &Direction, ends: Ends, shape: &CopyBox) -> Result<(), Failure> {
        let current = &self.context.enter()?;
        let stream = direction.stream;
        let mut lock = direction.stages.lock().unwrap_or_else(|e| e.into_inner());
        let stages = match &mut *lock {
            Some(stages) => stages,
            none => none.insert([Stage::new(current)?, Stage::new(current)?]),
        };
        let begin = |stage: &mut Stage, ends: Ends, piece: &CopyBox| {
            // SAFETY: the piece lies in the device's buffer, for which the caller vouches, and in the stage,
            // which is not used elsewhere until it is settled.
            unsafe { enqueue(stream, ends, piece)? };
            stage.busy = Some(Event::record(current, self.context, stream, false)?);
            Ok(())
        };
        // SAFETY: the caller vouches for the box; the lock is held, and the stages have `PIECE` bytes.
        let outcome = staging::regular(shape).iter().try_for_each(|all| unsafe {
            match ends {
                Ends::Up(host, buffer) => staging::up(stages, PIECE as u64, host, all, |stage, piece| {
                    begin(stage, Ends::Up(stage.data, buffer), piece)
                }),
                Ends::Down(buffer, host) => staging::down(stages, PIECE as u64, host, all, |stage, piece| {
                    begin(stage, Ends::Down(buffer, stage.data), piece)
                }),
                Ends::Inside(..) | Ends::Peer(..) => enqueue(stream, ends, all),
            }
        });
        if outcome.is_err() {
            // No stage is in use when the lock is released.
            let _ = stream.finish();
            stages.iter_mut().for_each(|stage| stage.busy = None);
        }
        outcome
    }
}

/// True if the driver copies a box of host memory without a stage: it is pinned, or small.
fn is_free(host: *const u8, offset: u64, stride: [u64; 2], shape: &CopyBox) -> bool {
    let [bytes, rows, planes] = shape.extent;
    if bytes * rows * planes <= LITTLE {
        return true;
    }
    let span = (planes - 1) * stride[1] + (rows - 1) * stride[0] + bytes;
    Buffers::is_pinned(host.addr() + offset as usize, span as usize)
}

/// Puts the copy of a regular box into a stream.
///
/// # Safety
/// As [`Copies::copy`].
unsafe fn enqueue(stream: Stream, ends: Ends, shape: &CopyBox) -> Result<(), Failure> {
    let [bytes, rows, planes] = shape.extent;
    let (source, destination) = (shape.source_offset, shape.destination_offset);
    if rows == 1 && planes == 1 {
        // SAFETY: the caller vouches for the ranges.
        return unsafe { enqueue_row(stream, ends, source, destination, bytes as usize) };
    }
    let strides = [shape.source_stride, shape.destination_stride];
    if let Ends::Peer(..) = ends {
        // A command for whole boxes is slower than rows where the devices are no peers, and no faster where
        // they are.
        return rows_of(shape).try_for_each(|(from, to)| {
            // SAFETY: as above.
            unsafe { enqueue_row(stream, ends, from, to, bytes as usize) }
        });
    }
    // The distance of planes is not limited, only that it is a whole number of rows.
    if strides.iter().any(|stride| stride[0] > PITCH) {
        return rows_of(shape).try_for_each(|(from, to)| {
            // SAFETY: as above.
            unsafe { enqueue_row(stream, ends, from, to, bytes as usize) }
        });
    }
    let size = |bytes: u64| bytes as usize;
    let (mut from, mut to) = (End::default(), End::default());
    match ends {
        Ends::Up(host, buffer) => {
            (from.host, to.device) = (host.cast_mut().wrapping_add(size(source)), buffer + destination);
        }
        Ends::Down(buffer, host) => {
            (from.device, to.host) = (buffer + source, host.wrapping_add(size(destination)));
        }
        Ends::Inside(a, b) | Ends::Peer(_, a, b) => (from.device, to.device) = (a + source, b + destination),
    }
    let height = |stride: [u64; 2]| if planes == 1 { rows } else { stride[1] / stride[0] };
    let copy = CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from.kind(),
        srcHost: from.host.cast_const().cast(),
        srcDevice: from.device,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: size(strides[0][0]),
        srcHeight: size(height(strides[0])),
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to.kind(),
        dstHost: to.host.cast(),
        dstDevice: to.device,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: size(strides[1][0]),
        dstHeight: size(height(strides[1])),
        WidthInBytes: size(bytes),
        Height: size(rows),
        Depth: size(planes),
    };
    // SAFETY: the caller vouches for the boxes, and they are regular.
    unsafe { cuMemcpy3DAsync_v2(&copy, stream.get()) }.call("cuMemcpy3DAsync")
}

/// One end of a copy: an address of the host or of the device.
struct End {
    host: *mut u8,
    device: CUdeviceptr,
}

impl Default for End {
    fn default() -> End {
        End { host: null_mut(), device: 0 }
    }
}

impl End {
    fn kind(&self) -> CUmemorytype {
        match self.host.is_null() {
            true => CUmemorytype::CU_MEMORYTYPE_DEVICE,
            false => CUmemorytype::CU_MEMORYTYPE_HOST,
        }
    }
}

/// The offsets of the rows of a box, at the source and at the destination.
fn rows_of(shape: &CopyBox) -> impl Iterator<Item = (u64, u64)> {
    let shape = *shape;
    let [_, rows, planes] = shape.extent;
    (0..planes).flat_map(move |z| {
        (0..rows).map(move |y| {
            let at = |offset: u64, stride: [u64; 2]| offset + y * stride[0] + z * stride[1];
            (
                at(shape.source_offset, shape.source_stride),
                at(shape.destination_offset, shape.destination_stride),
            )
        })
    })
}

/// # Safety
/// As [`Copies::copy`].
unsafe fn enqueue_row(
    stream: Stream,
    ends: Ends,
    source: u64,
    destination: u64,
    bytes: usize,
) -> Result<(), Failure> {
    let queue = stream.get();
    // SAFETY: the caller vouches for the ranges.
    unsafe {
        match ends {
            Ends::Up(host, buffer) => {
                let from = host.add(source as usize).cast();
                cuMemcpyHtoDAsync_v2(buffer + destination, from, bytes, queue).call("cuMemcpyHtoDAsync")
            }
            Ends::Down(buffer, host) => {
                let to = host.add(destination as usize).cast();
                cuMemcpyDtoHAsync_v2(to, buffer + source, bytes, queue).call("cuMemcpyDtoHAsync")
            }
            Ends::Inside(from, to) => {
                cuMemcpyDtoDAsync_v2(to + destination, from + source, bytes, queue).call("cuMemcpyDtoDAsync")
            }
            Ends::Peer(peer, from, to) => {
                let mut own = null_mut();
                cudarc::driver::sys::cuCtxGetCurrent(&mut own).call("cuCtxGetCurrent")?;
                cuMemcpyPeerAsync(to + destination, own, from + source, peer.get(), bytes, queue)
                    .call("cuMemcpyPeerAsync")
            }
        }
    }
}

impl Stage {
    fn new(_: &Current) -> Result<Stage, Failure> {
        let mut data = null_mut();
        // SAFETY: a local variable; the context is current.
        unsafe { cuMemHostAlloc(&mut data, PIECE, 1) }.call("cuMemHostAlloc")?;
        Ok(Stage { data: data.cast(), busy: None })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`. It is dropped only unused: when the second stage could not be
        // allocated.
        let _ = unsafe { cuMemFreeHost(self.data.cast()) };
    }
}

impl staging::Stage for Stage {
    fn data(&self) -> *mut u8 {
        self.data
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.busy.take().map_or(Ok(()), |event| event.wait())
    }
}

impl Completion for Copied {
    fn ready(&self) -> bool {
        self.event.reached().unwrap_or(true)
    }

    fn wait(&self) -> Result<(), Failure> {
        self.event.wait()
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        let event = self.event.clone();
        self.waiter.run(Box::new(move || {
            // The callback asks for the outcome.
            let _ = event.wait();
            callback();
        }));
    }
}
