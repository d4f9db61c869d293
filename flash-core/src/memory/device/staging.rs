//! Copies between two devices of which neither reaches the other's memory: piece by piece through memory of
//! the host that both know, from one pool for all pairs. While one piece goes up to the one device, the next
//! comes down from the other.

use super::{CopyInFlight, DeviceMemory, pinned};
use crate::error::Error;
use crate::memory::block::HostBlock;
use flash_backend::offload::staging::{close, pieces};
use flash_types::abi::{Buffer, CopyBox, SPACE_HOST};
use smallvec::SmallVec;
use std::alloc::Layout;
use std::sync::Mutex;

/// Bytes of a stage: a bus takes well longer for them than a copy takes to begin.
const PIECE: u64 = 2 << 20;

/// Whole pages: what a device is told of.
const LAYOUT: Layout = match Layout::from_size_align(PIECE as usize, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// Fewer bytes are copied without the devices being told of the stages.
const LITTLE: u64 = 64 << 10;

/// At most this many pairs of stages are kept.
const KEPT: usize = 4;

/// Pairs that no copy uses.
static FREE: Mutex<Vec<[Stage; 2]>> = Mutex::new(Vec::new());

/// Memory of the host between two devices.
struct Stage {
    memory: HostBlock,
    /// The devices that were told of it, with their handles of it; `None`: the device does not want to know
    /// it.
    known: SmallVec<[(&'static DeviceMemory, Option<Buffer>); 2]>,
}

impl Stage {
    fn new() -> Stage {
        Stage { memory: HostBlock::zeroed_or_abort(LAYOUT), known: SmallVec::new() }
    }

    fn tell(&mut self, device: &'static DeviceMemory) {
        if !self.known.iter().any(|(known, _)| *known == device) {
            // It stays as long as its handles: they are freed when it is dropped.
            self.known.push((device, pinned::register(device, self.memory.data(), PIECE)));
        }
    }

    fn buffer(&self) -> Buffer {
        Buffer { space: SPACE_HOST, reserved: 0, handle: self.memory.data().expose_provenance() as u64 }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (device, buffer) in self.known.drain(..) {
            buffer.into_iter().for_each(|buffer| device.free(buffer));
        }
    }
}

/// A pair of stages; goes back to the pool when it is dropped.
struct Pair(Option<[Stage; 2]>);

impl Pair {
    fn take() -> Pair {
        let free = FREE.lock().unwrap_or_else(|e| e.into_inner()).pop();
        Pair(Some(free.unwrap_or_else(|| [Stage::new(), Stage::new()])))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(|e| e.into_inner());
        if free.len() < KEPT {
            free.extend(self.0.take());
        }
    }
}

/// Copies a box between the buffers of two devices; returns when it is done.
///
/// # Safety
/// The box lies inside both buffers, and nothing else touches it until the return.
pub(in crate::memory) unsafe fn copy(
    [a, b]: [&'static DeviceMemory; 2],
    from: Buffer,
    to: Buffer,
    shape: &CopyBox,
) -> Result<(), Error> {
    let mut pair = Pair::take();
    let Some(stages) = &mut pair.0 else { return Ok(()) };
    if shape.extent.iter().product::<u64>() > LITTLE {
        stages.iter_mut().for_each(|stage| [a, b].into_iter().for_each(|device| stage.tell(device)));
    }
    // Dropped, and so waited for, before the stages go back to the pool, whatever fails.
    let mut up: [Option<CopyInFlight>; 2] = [None, None];
    for (number, piece) in pieces(shape, PIECE).enumerate() {
        let stage = number % 2;
        up[stage].take().map_or(Ok(()), CopyInFlight::wait)?;
        let way = stages[stage].buffer();
        // Rows and planes lie close together on the way.
        let close = close(piece.extent);
        let down = CopyBox { destination_offset: 0, destination_stride: close, ..piece };
        // SAFETY: the piece lies in the box, for which the caller vouches, and has room in the stage, whose
        // last copy has ended.
        unsafe { a.copy_box(from, way, &down, &[])?.wait()? };
        let load = CopyBox { source_offset: 0, source_stride: close, ..piece };
        // SAFETY: as above; the stage is left alone until this was waited for.
        up[stage] = Some(unsafe { b.copy_box(way, to, &load, &[])? });
    }
    up.into_iter().flatten().try_for_each(CopyInFlight::wait)
}
