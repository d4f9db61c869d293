//! The places of arguments: the device's own buffers, or host memory, for devices that work in it.
//!
//! A kernel's parameter is an OpenCL buffer in both cases. Over host memory it is one that uses that memory
//! (`CL_MEM_USE_HOST_PTR`). An address could be passed directly, where a device takes any (SVM), but that
//! costs 2.3 us for each argument that changes on Intel's runtimes, and 0.9 us per launch for those that do
//! not; a buffer costs no more than any other. Making one costs 5 us, so they are kept until the host frees
//! the memory.
//!
//! - A buffer over host memory has the device's and the host's reads and writes at the same addresses: this
//!   is tested when the device is opened.
//! - A part of a buffer is a sub-buffer of one of the device's, for one launch of a kernel that does not get
//!   the offset.
//! - A launch holds the queue, and so the table, from the first parameter to the enqueue: no buffer is freed
//!   meanwhile. OpenCL keeps those of enqueued commands.
//! - `gone` grows whenever a handle may come to mean another buffer: a kernel's parameters are then set anew.

use crate::buffers::Buffers;
use crate::counted::{Counted, Memory};
use flash_backend::Failure;
use flash_backend::abi::{self, Arg};
use opencl3::context::Context;
use opencl3::memory::{CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, create_buffer};
use opencl3::types::cl_mem;
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::null_mut;

/// Most buffers over host memory that are kept. More than this come only from ever new parts of a memory.
const MOST: usize = 4096;

/// The buffers over host memory of a device that works in it.
#[derive(Default)]
pub(crate) struct Overlays {
    /// Keyed by address and number of bytes.
    live: BTreeMap<(usize, usize), Counted<Memory>>,
    gone: u64,
}

/// The places of a launch's arguments, until it is enqueued.
pub(crate) enum Places<'d> {
    /// The device's buffers, and sub-buffers for this launch.
    Device(&'d Buffers, Vec<Counted<Memory>>),
    Host(&'d Context, &'d Buffers),
}

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// An address in host memory, a buffer in the device's.
    at: usize,
    /// Bytes from there on, in host memory.
    bytes: usize,
    /// Bytes of the buffer before it.
    begin: usize,
}

impl Overlays {
    /// Makes room, before a launch.
    pub fn limit(&mut self) {
        if self.live.len() >= MOST {
            self.live.clear();
            self.gone += 1;
        }
    }

    /// Releases the buffers that begin in these bytes.
    pub fn forget(&mut self, bytes: Range<usize>) {
        let range = (bytes.start, 0)..(bytes.end, 0);
        let before = self.live.len();
        self.live.extract_if(range, |_, _| true).for_each(drop);
        self.gone += u64::from(self.live.len() != before);
    }

    fn buffer(&mut self, context: &Context, buffers: &Buffers, place: Place) -> Result<cl_mem, Failure> {
        if let Some(buffer) = self.live.get(&(place.at, place.bytes)) {
            return Ok(buffer.get());
        }
        let buffer = over(context, place.at, place.bytes);
        let buffer = buffer.map_err(|failure| buffers.too_large(failure, place.bytes, ""))?;
        let handle = buffer.get();
        self.live.insert((place.at, place.bytes), buffer);
        Ok(handle)
    }
}

/// A buffer over host memory.
pub(crate) fn over(context: &Context, address: usize, bytes: usize) -> Result<Counted<Memory>, Failure> {
    let data = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: a live context; the host's memory stays until it is forgotten, and OpenCL only stores its
    // address.
    Memory::created(unsafe {
        create_buffer(context.get(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, data)
    })
}

impl Places<'_> {
    /// Changes whenever a handle may come to mean another buffer.
    pub fn gone(&self, overlays: &Overlays) -> u64 {
        match self {
            Places::Device(buffers, _) => buffers.freed(),
            Places::Host(..) => overlays.gone,
        }
    }

    /// The buffer of a place; NULL for one without bytes.
    pub fn buffer(&mut self, overlays: &mut Overlays, place: Place) -> Result<cl_mem, Failure> {
        match self {
            Places::Device(..) if place.begin == 0 => Ok(place.at as cl_mem),
            Places::Device(buffers, parts) => {
                parts.push(buffers.part(place.at as cl_mem, place.begin)?);
                Ok(parts.last().map_or(null_mut(), |part| part.get()))
            }
            Places::Host(..) if place.bytes == 0 => Ok(null_mut()),
            Places::Host(context, buffers) => overlays.buffer(context, buffers, place),
        }
    }
}

impl Place {
    /// A buffer on the device, from a byte on.
    pub fn device(handle: usize, begin: usize) -> Place {
        Place { at: handle, bytes: 0, begin }
    }

    /// The host memory of an argument that begins at `first`, in a launch of `items` items.
    pub fn host(first: usize, arg: &Arg, items: u64) -> Place {
        // SAFETY: a launch's parts live for the call.
        let elements = match unsafe { arg.part.as_ref() } {
            // One accumulator per block.
            _ if arg.kind == abi::ARG_REDUCE => arg.len.saturating_mul(items.div_ceil(arg.row_len.max(1))),
            None => arg.len,
            // Up to the last element of the box; empty if one of its sides is.
            Some(part) if (0..3).any(|axis| part.begin[axis] >= part.end[axis]) => 0,
            Some(part) => {
                let last = part.end.map(|end| end - 1);
                last[0] + last[1] * part.stride[0] + last[2] * part.stride[1] + 1
            }
        };
        let bytes = elements.saturating_mul(u64::from(arg.element_size));
        Place { at: first, bytes: usize::try_from(bytes).unwrap_or(usize::MAX), begin: 0 }
    }

    /// True if its handle is valid for this launch only.
    pub fn is_passing(self) -> bool {
        self.begin != 0
    }
}
