//! A device's buffers, and copies to and from them.
//!
//! A handle is OpenCL's own, so it may mean another buffer once one was freed. What keeps handles compares
//! [`Buffers::freed`] with what it was. `live` owns the buffers. It is locked to look one up, to add or to
//! remove one, and a buffer is taken out of it before it is released.
//!
//! Copies have an in-order queue of their own, beside that of kernels; on a device that is the CPU they have
//! that of kernels. The event of the last command is therefore the event of the whole copy. If a command
//! cannot be enqueued, those before it are waited for, since the caller may reuse both ends then. Larger
//! copies between the host and a device with separate memory go through [`Stages`].

use crate::counted::{Counted, Memory};
use crate::discover::Limits;
use crate::event::{Done, enqueued};
use crate::failure::Call;
use crate::stages::Stages;
use flash_backend::Code;
use flash_backend::Failure;
use flash_backend::abi::{Buffer, CopyBox, SPACE_HOST};
use flash_backend::offload::staging;
use opencl3::command_queue::{
    CommandQueue, enqueue_copy_buffer, enqueue_copy_buffer_rect, enqueue_fill_buffer, enqueue_read_buffer,
    enqueue_read_buffer_rect, enqueue_write_buffer, enqueue_write_buffer_rect,
};
use opencl3::context::Context;
use opencl3::event::Event;
use opencl3::memory::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_MEM_READ_WRITE, CL_MEM_SIZE, cl_buffer_region, create_buffer,
    create_sub_buffer, get_mem_object_info,
};
use opencl3::types::{CL_FALSE, CL_TRUE, cl_mem};
use std::collections::HashMap;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// The buffers of a device. Their handles are those of OpenCL.
pub(crate) struct Buffers {
    queue: CommandQueue,
    /// The most bytes of one buffer.
    most: u64,
    live: Mutex<HashMap<u64, Counted<Memory>>>,
    /// The number of buffers freed so far: a handle may mean another buffer since.
    freed: AtomicU64,
    /// For a device whose memory is separate from the host's.
    stages: Option<Stages>,
}

/// Source and destination of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Ends {
    Up(*const u8, cl_mem),
    Down(cl_mem, *mut u8),
    Inside(cl_mem, cl_mem),
}

// SAFETY: addresses and handles, which are valid on every thread.
unsafe impl Send for Ends {}

/// Copies of up to this many bytes are left to the driver: handing them to a thread takes longer.
const LITTLE: u64 = 64 << 10;

impl Buffers {
    pub fn new(queue: CommandQueue, limits: &Limits) -> Arc<Buffers> {
        let (most, stages) = (limits.buffer_bytes, limits.pinned.then(Stages::new));
        Arc::new(Buffers { queue, most, live: Mutex::default(), freed: AtomicU64::new(0), stages })
    }

    fn live(&self) -> MutexGuard<'_, HashMap<u64, Counted<Memory>>> {
        self.live.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The number of live buffers.
    pub fn count(&self) -> usize {
        self.live().len()
    }

    /// Changes whenever a handle may come to mean another buffer.
    pub fn freed(&self) -> u64 {
        self.freed.load(Relaxed)
    }

    /// A zeroed buffer.
    pub fn alloc(&self, context: &Context, bytes: u64) -> Result<cl_mem, Failure> {
        let bytes = bytes.max(1) as usize;
        // SAFETY: a live context, and no host memory.
        let buffer = unsafe { create_buffer(context.get(), CL_MEM_READ_WRITE, bytes, null_mut()) };
        let cut = |failure| self.too_large(failure, bytes, ": cut the launch");
        let buffer = Memory::created(buffer).map_err(cut)?;
        self.fill(buffer.get(), 0, bytes)?;
        let handle = buffer.get();
        self.live().insert(handle as usize as u64, buffer);
        Ok(handle)
    }

    /// The error for a buffer of `bytes` bytes that was refused, with advice if it is too large.
    pub fn too_large(&self, failure: Failure, bytes: usize, advice: &str) -> Failure {
        if bytes as u64 <= self.most {
            return failure;
        }
        let text = format!(
            "expected a buffer of up to {} bytes, the device's limit, found {bytes}: {}{advice}",
            self.most, failure.text
        );
        Failure::new(Code::OutOfMemory, text)
    }

    /// Sets the bytes of a live buffer, which nothing else uses, to 0.
    pub fn clear(&self, handle: u64, bytes: u64) -> Result<(), Failure> {
        let buffer = self.live().get(&handle).map(|memory| memory.get());
        self.fill(buffer.ok_or_else(|| unknown(handle))?, 0, bytes as usize)
    }

    /// Fills a buffer of `bytes` bytes, which nothing else uses, with one value.
    pub fn fill(&self, buffer: cl_mem, value: u8, bytes: usize) -> Result<(), Failure> {
        // SAFETY: the caller's buffer has that many bytes; the pattern is copied.
        let filled = unsafe {
            let pattern = (&raw const value).cast();
            enqueue_fill_buffer(self.queue.get(), buffer, pattern, 1, 0, bytes, 0, null())
        };
        enqueued(filled, "clEnqueueFillBuffer")?
            .wait_for(|| "clEnqueueFillBuffer: a command in the device's queue".to_owned())
    }

    /// The rest of a buffer, from a byte on, as a buffer.
    pub fn part(&self, buffer: cl_mem, begin: usize) -> Result<Counted<Memory>, Failure> {
        let bytes = get_mem_object_info(buffer, CL_MEM_SIZE).call("clGetMemObjectInfo")?.to_size();
        let region = cl_buffer_region { origin: begin, size: bytes.saturating_sub(begin) };
        // SAFETY: a live buffer, and a region as this kind of part needs.
        let part = unsafe {
            let region = (&raw const region).cast();
            create_sub_buffer(buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, region)
        };
        part.call("clCreateSubBuffer").map(Memory::taken)
    }

    /// Reads the beginning of a buffer.
    pub fn read(&self, buffer: cl_mem, words: &mut [u32]) -> Result<(), Failure> {
        let bytes = size_of_val(words);
        let to = words.as_mut_ptr().cast();
        // SAFETY: the caller's buffer has that many bytes, and so have the words; the call blocks until they
        // are read.
        let read = unsafe { enqueue_read_buffer(self.queue.get(), buffer, CL_TRUE, 0, bytes, to, 0, null()) };
        enqueued(read, "clEnqueueReadBuffer").map(drop)
    }

    /// Frees a buffer; commands that use it end first.
    pub fn free(&self, handle: u64) -> Result<(), Failure> {
        // Removed from the set before it is released: its handle may be reused at once.
        let buffer = self.live().remove(&handle);
        self.freed.fetch_add(1, Relaxed);
        match buffer {
            Some(_) => Ok(()),
            None => Err(unknown(handle)),
        }
    }

    /// Begins to copy a box. `None`: there is nothing to do.
    ///
    /// # Safety
    /// The boxes lie inside the buffers. One of these is on this device; the other is, too, or it is on the
    /// host. Nothing else touches the boxes until the copy is complete.
    pub unsafe fn copy_box(
        self: &Arc<Buffers>,
        context: &Context,
        from: Buffer,
        to: Buffer,
        shape: &CopyBox,
    ) -> Result<Option<flash_backend::Event>, Failure> {
        let [bytes, rows, planes] = shape.extent;
        if bytes == 0 || rows == 0 || planes == 0 {
            return Ok(None);
        }
        let ends = match (from.space, to.space) {
            (SPACE_HOST, _) => Ends::Up(
                std::ptr::with_exposed_provenance(from.handle as usize),
                to.handle as usize as cl_mem,
            ),
            (_, SPACE_HOST) => {
                let host = std::ptr::with_exposed_provenance_mut(to.handle as usize);
                Ends::Down(from.handle as usize as cl_mem, host)
            }
            _ => Ends::Inside(from.handle as usize as cl_mem, to.handle as usize as cl_mem),
        };
        if let (Some(stages), Ends::Up(..) | Ends::Down(..)) = (&self.stages, ends)
            && bytes * rows * planes > LITTLE
        {
            // SAFETY: the caller vouches.
            return unsafe { stages.begin(self, context, ends, shape) }.map(Some);
        }
        let mut last = None;
        for part in staging::regular(shape) {
            // SAFETY: a part of the box, for which the caller vouches until the last is complete, or until
            // what was enqueued has ended.
            match unsafe { self.enqueue(ends, &part) } {
                Ok(event) => last = Some(event),
                Err(failure) => {
                    let _ = self.queue.finish();
                    return Err(failure);
                }
            }
        }
        // The queue is in order.
        Ok(last.map(|event| flash_backend::Event::new(Done::new(event))))
    }

    /// Waits for everything that was enqueued.
    pub fn finish(&self) {
        let _ = self.queue.finish();
    }

    /// Sends what was enqueued to the device: the host does other work meanwhile.
    pub fn flush(&self) -> Result<(), Failure> {
        self.queue.flush().call("clFlush")
    }

    /// The queue of copies.
    pub fn queue(&self) -> &CommandQueue {
        &self.queue
    }

    /// Enqueues the copy of a box that one command can do. The event is that of all of it: the queue is in
    /// order.
    ///
    /// Some drivers refuse a box whose last row, or plane, has no room for its distance to a next one before
    /// the end of the buffer. It is copied by itself then; where they refuse the rest, too, all are.
    ///
    /// # Safety
    /// As [`copy_box`](Self::copy_box), and both ends stay unchanged until the event has fired.
    pub unsafe fn enqueue(&self, ends: Ends, shape: &CopyBox) -> Result<Counted<Event>, Failure> {
        // SAFETY: the caller vouches, for parts of the box, too.
        let whole = unsafe { self.enqueue_whole(ends, shape) };
        let axis = if shape.extent[2] > 1 { 2 } else { 1 };
        match whole {
            Err(failure) if failure.code == Code::Invalid && shape.extent[axis] > 1 => {}
            outcome => return outcome,
        }
        let part = |first: u64, count: u64| {
            let mut part = *shape;
            part.extent[axis] = count;
            part.source_offset += first * shape.source_stride[axis - 1];
            part.destination_offset += first * shape.destination_stride[axis - 1];
            part
        };
        let last = shape.extent[axis] - 1;
        // SAFETY: as above.
        unsafe {
            if self.enqueue_whole(ends, &part(0, last)).is_err() {
                for i in 0..last {
                    self.enqueue(ends, &part(i, 1))?;
                }
            }
            self.enqueue(ends, &part(last, 1))
        }
    }

    /// The same, by one command.
    ///
    /// # Safety
    /// As [`enqueue`](Self::enqueue).
    unsafe fn enqueue_whole(&self, ends: Ends, shape: &CopyBox) -> Result<Counted<Event>, Failure> {
        let queue = self.queue.get();
        let size = |bytes: u64| bytes as usize;
        let (source, destination) = (size(shape.source_offset), size(shape.destination_offset));
        let region = shape.extent.map(size);
        if region[1] == 1 && region[2] == 1 {
            let bytes = region[0];
            // SAFETY: the caller vouches for the ranges.
            return unsafe {
                match ends {
                    Ends::Up(host, buffer) => enqueued(
                        enqueue_write_buffer(
                            queue,
                            buffer,
                            CL_FALSE,
                            destination,
                            bytes,
                            host.add(source).cast(),
                            0,
                            null(),
                        ),
                        "clEnqueueWriteBuffer",
                    ),
                    Ends::Down(buffer, host) => enqueued(
                        enqueue_read_buffer(
                            queue,
                            buffer,
                            CL_FALSE,
                            source,
                            bytes,
                            host.add(destination).cast(),
                            0,
                            null(),
                        ),
                        "clEnqueueReadBuffer",
                    ),
                    Ends::Inside(from, to) => enqueued(
                        enqueue_copy_buffer(queue, from, to, source, destination, bytes, 0, null()),
                        "clEnqueueCopyBuffer",
                    ),
                }
            };
        }
        // Of the ends that are buffers: a driver may refuse a row, or a plane, that does not begin and end
        // within its pitch.
        let in_rows = |is_buffer: bool, offset: usize, stride: [u64; 2]| match is_buffer {
            true => in_rows(offset, stride.map(size), region),
            false => Some(([offset, 0, 0], stride.map(size))),
        };
        let from = in_rows(!matches!(ends, Ends::Up(..)), source, shape.source_stride);
        let to = in_rows(!matches!(ends, Ends::Down(..)), destination, shape.destination_stride);
        let (Some((from_origin, from_pitch)), Some((to_origin, to_pitch))) = (from, to) else {
            let text = "a row or a plane of a box that is not within one of its buffer's";
            return Err(Failure::new(Code::Invalid, text));
        };
        let (region, zero) = (region.as_ptr(), [0usize; 3]);
        // SAFETY: as above.
        unsafe {
            match ends {
                Ends::Up(host, buffer) => enqueued(
                    enqueue_write_buffer_rect(
                        queue,
                        buffer,
                        CL_FALSE,
                        to_origin.as_ptr(),
                        zero.as_ptr(),
                        region,
                        to_pitch[0],
                        to_pitch[1],
                        from_pitch[0],
                        from_pitch[1],
                        host.add(source).cast_mut().cast(),
                        0,
                        null(),
                    ),
                    "clEnqueueWriteBufferRect",
                ),
                Ends::Down(buffer, host) => enqueued(
                    enqueue_read_buffer_rect(
                        queue,
                        buffer,
                        CL_FALSE,
                        from_origin.as_ptr(),
                        zero.as_ptr(),
                        region,
                        from_pitch[0],
                        from_pitch[1],
                        to_pitch[0],
                        to_pitch[1],
                        host.add(destination).cast(),
                        0,
                        null(),
                    ),
                    "clEnqueueReadBufferRect",
                ),
                Ends::Inside(from, to) => enqueued(
                    enqueue_copy_buffer_rect(
                        queue,
                        from,
                        to,
                        from_origin.as_ptr(),
                        to_origin.as_ptr(),
                        region,
                        from_pitch[0],
                        from_pitch[1],
                        to_pitch[0],
                        to_pitch[1],
                        0,
                        null(),
                    ),
                    "clEnqueueCopyBufferRect",
                ),
            }
        }
    }
}

/// A box that begins at a byte of a buffer, in whole planes, rows and bytes of a row, and the pitches of rows
/// and planes. `None`: a row or a plane of it is not within one of the buffer's.
fn in_rows(
    offset: usize,
    [row, plane]: [usize; 2],
    [bytes, rows, planes]: [usize; 3],
) -> Option<([usize; 3], [usize; 2])> {
    let (z, rest) = if planes > 1 { (offset / plane, offset % plane) } else { (0, offset) };
    let (y, x) = (rest / row, rest % row);
    // Of one plane there is no distance to the next.
    let plane = if planes > 1 { plane } else { (y + rows) * row };
    (x + bytes <= row && (y + rows) * row <= plane).then_some(([x, y, z], [row, plane]))
}

fn unknown(handle: u64) -> Failure {
    Failure::new(Code::Invalid, format!("{handle:#x} is no buffer of this device"))
}

#[cfg(test)]
mod tests {
    use super::in_rows;

    #[test]
    fn a_box_begins_in_the_row_and_the_plane_that_its_offset_is_in() {
        let pitches = [10, 40];
        assert_eq!(in_rows(0, pitches, [10, 4, 2]), Some(([0, 0, 0], pitches)));
        assert_eq!(in_rows(92, pitches, [8, 3, 2]), Some(([2, 1, 2], pitches)));
        // A row that goes on in the next, and a plane.
        assert_eq!(in_rows(93, pitches, [8, 3, 2]), None);
        assert_eq!(in_rows(92, pitches, [8, 4, 2]), None);
        // A single plane is as high as it has to be.
        assert_eq!(in_rows(92, pitches, [8, 4, 1]), Some(([2, 9, 0], [10, 130])));
        // No two bytes change places.
        for offset in 0..80 {
            if let Some(([x, y, z], [row, plane])) = in_rows(offset, pitches, [7, 2, 2]) {
                assert_eq!(x + y * row + z * plane, offset);
            }
        }
    }
}
