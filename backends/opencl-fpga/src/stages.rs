//! Pinned memory, by way of which a device is copied to and from whose memory lies apart from the host's: drivers
//! move it at full speed, and without the host.
//!
//! Two pieces take turns: while one is on its way, the host fills, or empties, the other. They are allocated at
//! the first copy, mapped once, and kept.

use crate::buffers::{Buffers, Ends};
use crate::counted::{Counted, Memory};
use crate::event::{enqueued, wait};
use flash_core::abi::CopyBox;
use flash_core::backend::Failure;
use flash_core::backend::host_memory::copy_addresses;
use opencl3::command_queue::enqueue_map_buffer;
use opencl3::context::Context;
use opencl3::event::Event;
use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, create_buffer};
use opencl3::types::{CL_TRUE, cl_mem};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

/// Bytes of a piece: a bus moves them in well over the time that a command takes to begin.
const BYTES: u64 = 4 << 20;

/// Both pieces, once they are needed. Who copies has them locked.
#[derive(Default)]
pub(crate) struct Stages(Mutex<Option<[Stage; 2]>>);

/// A piece of pinned memory.
struct Stage {
    /// As the host sees it: [`BYTES`] bytes.
    data: *mut u8,
    /// The command that reads or fills it.
    busy: Option<Counted<Event>>,
    /// Stays mapped as long as it lives.
    _memory: Counted<Memory>,
}

// SAFETY: mapped memory may be used from any thread; who has the lock is alone with it.
unsafe impl Send for Stage {}

impl Stage {
    fn new(buffers: &Buffers, context: &Context) -> Result<Stage, Failure> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: a live context, and no memory of the host's.
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

    /// Waits for the command that uses it.
    fn settle(&mut self) -> Result<(), Failure> {
        self.busy.take().map_or(Ok(()), |event| wait(event, "a copy by way of pinned memory"))
    }
}

impl Stages {
    /// Copies boxes between the host and the device; they are done on return.
    ///
    /// # Safety
    /// As [`Buffers::copy_box`]; one command can copy each box, and one of the ends is the host's.
    pub unsafe fn copy(
        &self,
        buffers: &Buffers,
        context: &Context,
        ends: Ends,
        boxes: &[CopyBox],
    ) -> Result<(), Failure> {
        let mut lock = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let stages = match &mut *lock {
            Some(stages) => stages,
            none => none.insert([Stage::new(buffers, context)?, Stage::new(buffers, context)?]),
        };
        let pieces = boxes.iter().flat_map(|all| pieces(all, BYTES));
        // SAFETY: pieces of the boxes, for which the caller vouches.
        let outcome = unsafe {
            match ends {
                Ends::Up(host, buffer) => up(buffers, stages, host, buffer, pieces),
                Ends::Down(buffer, host) => down(buffers, stages, buffer, host, pieces),
                Ends::Inside(..) => Ok(()),
            }
        };
        if outcome.is_err() {
            // Nobody else finds a piece in use.
            buffers.finish();
            stages.iter_mut().for_each(|stage| stage.busy = None);
        }
        outcome
    }
}

/// # Safety
/// As [`Stages::copy`].
unsafe fn up(
    buffers: &Buffers,
    stages: &mut [Stage; 2],
    host: *const u8,
    buffer: cl_mem,
    pieces: impl Iterator<Item = CopyBox>,
) -> Result<(), Failure> {
    for (number, piece) in pieces.enumerate() {
        let stage = &mut stages[number % 2];
        stage.settle()?;
        let load = CopyBox { destination_offset: 0, destination_stride: close(piece.extent), ..piece };
        let send = CopyBox { source_offset: 0, source_stride: close(piece.extent), ..piece };
        // SAFETY: the piece lies in the host's memory and in the device's buffer, and has room in the stage, which
        // nobody uses: its last command has ended. Nobody changes it until this one has.
        unsafe {
            copy_addresses(host.expose_provenance() as u64, stage.data.expose_provenance() as u64, &load);
            stage.busy = Some(buffers.enqueue(Ends::Up(stage.data, buffer), &send)?);
        }
        buffers.flush()?;
    }
    stages.iter_mut().try_for_each(Stage::settle)
}

/// # Safety
/// As [`Stages::copy`].
unsafe fn down(
    buffers: &Buffers,
    stages: &mut [Stage; 2],
    buffer: cl_mem,
    host: *mut u8,
    pieces: impl Iterator<Item = CopyBox>,
) -> Result<(), Failure> {
    let unload = |stage: &mut Stage, piece: CopyBox| {
        stage.settle()?;
        let unload = CopyBox { source_offset: 0, source_stride: close(piece.extent), ..piece };
        // SAFETY: the command that filled the stage with the piece has ended; the piece lies in the host's memory.
        unsafe {
            copy_addresses(stage.data.expose_provenance() as u64, host.expose_provenance() as u64, &unload)
        };
        Ok(())
    };
    let mut before = None;
    for (number, piece) in pieces.enumerate() {
        let fetch = CopyBox { destination_offset: 0, destination_stride: close(piece.extent), ..piece };
        // SAFETY: the piece lies in the device's buffer and has room in the stage, which was emptied.
        let event = unsafe { buffers.enqueue(Ends::Down(buffer, stages[number % 2].data), &fetch)? };
        stages[number % 2].busy = Some(event);
        buffers.flush()?;
        if let Some((number, piece)) = before.replace((number, piece)) {
            unload(&mut stages[number % 2], piece)?;
        }
    }
    before.map_or(Ok(()), |(number, piece)| unload(&mut stages[number % 2], piece))
}

/// The strides of a box without gaps.
fn close([bytes, rows, _]: [u64; 3]) -> [u64; 2] {
    [bytes, bytes * rows]
}

/// A box in pieces of up to so many bytes: planes as long as they fit, else rows, else parts of rows.
fn pieces(all: &CopyBox, most: u64) -> impl Iterator<Item = CopyBox> {
    let all = *all;
    let [bytes, rows, planes] = all.extent;
    let [x, y, z] = match () {
        () if bytes * rows <= most => [bytes, rows, most / (bytes * rows)],
        () if bytes <= most => [bytes, most / bytes, 1],
        () => [most, 1, 1],
    };
    let at = |step: u64, end: u64| {
        (0..end).step_by(step as usize).map(move |begin| (begin, step.min(end - begin)))
    };
    at(z, planes).flat_map(move |(plane, z)| {
        at(y, rows).flat_map(move |(row, y)| {
            at(x, bytes).map(move |(byte, x)| {
                let first =
                    |offset: u64, stride: [u64; 2]| offset + byte + row * stride[0] + plane * stride[1];
                CopyBox {
                    extent: [x, y, z],
                    source_offset: first(all.source_offset, all.source_stride),
                    destination_offset: first(all.destination_offset, all.destination_stride),
                    ..all
                }
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_small_enough_and_have_every_byte_once() {
        for extent in [[1, 1, 1], [7, 1, 1], [3, 2, 1], [3, 5, 4], [9, 3, 2], [8, 1, 3], [2, 2, 9]] {
            let stride = [extent[0] + 1, (extent[0] + 1) * extent[1] + 3];
            let all = CopyBox {
                extent,
                source_offset: 5,
                source_stride: stride,
                destination_offset: 2,
                destination_stride: close(extent),
            };
            let bytes = |all: &CopyBox| {
                let [x, y, z] = all.extent.map(|n| 0..n);
                let mut found = Vec::new();
                for (x, y, z) in z.flat_map(|z| {
                    let x = x.clone();
                    y.clone().flat_map(move |y| x.clone().map(move |x| (x, y, z)))
                }) {
                    let at = |offset: u64, stride: [u64; 2]| offset + x + y * stride[0] + z * stride[1];
                    found.push((
                        at(all.source_offset, all.source_stride),
                        at(all.destination_offset, all.destination_stride),
                    ));
                }
                found
            };
            for most in [1, 2, 5, 8, 24, 1000] {
                let cut: Vec<CopyBox> = pieces(&all, most).collect();
                assert!(cut.iter().all(|piece| piece.extent.iter().product::<u64>() <= most), "{cut:?}");
                let mut there: Vec<_> = cut.iter().flat_map(bytes).collect();
                let mut expected = bytes(&all);
                there.sort_unstable();
                expected.sort_unstable();
                assert_eq!(there, expected, "{extent:?} in pieces of {most}");
            }
        }
    }
}
