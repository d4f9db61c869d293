//! Where arguments are: in the device's own buffers, or in the host's memory, for devices that work in it.
//!
//! A kernel's parameter is a buffer of OpenCL's in both cases. Over memory of the host's it is one that has that
//! memory as its own (`CL_MEM_USE_HOST_PTR`). An address could be given as it is, where a device takes any (SVM),
//! but that costs 2.3 us for each argument that changes on Intel's runtimes, and 0.9 us per launch for those that do
//! not; a buffer costs no more than any other. To make one costs 5 us, so they are kept until the host says that
//! the memory goes.
//!
//! | what | invariant |
//! |---|---|
//! | a buffer over host memory | has the device's and the host's reads and writes at the same addresses: tried when the device is opened |
//! | a part of a buffer | of the device's own, for a kernel that is not told where a buffer begins: it is a sub-buffer, for one launch |
//! | a launch | has the queue, and so the table, to itself from the first parameter to the enqueue: no buffer goes meanwhile. OpenCL keeps those of commands that were enqueued |
//! | `gone` | grows whenever a handle may come to mean another buffer: a kernel's parameters are then set anew |

use crate::buffers::Buffers;
use crate::counted::{Counted, Memory};
use flash_core::abi::{self, Arg};
use flash_core::backend::Failure;
use opencl3::context::Context;
use opencl3::memory::{CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, create_buffer};
use opencl3::types::cl_mem;
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::null_mut;

/// Buffers over host memory that are kept at most: of more, somebody uses ever new parts of a memory.
const MOST: usize = 4096;

/// The buffers over host memory of a device that works in it.
#[derive(Default)]
pub(crate) struct Overlays {
    /// By address and number of bytes.
    live: BTreeMap<(usize, usize), Counted<Memory>>,
    gone: u64,
}

/// The places of a launch's arguments, until it is enqueued.
pub(crate) enum Places<'d> {
    /// And parts of buffers, for this launch.
    Device(&'d Buffers, Vec<Counted<Memory>>),
    Host(&'d Context, &'d Buffers),
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// An address in host memory, a buffer in the device's.
    at: usize,
    /// So many from there on, in host memory.
    bytes: usize,
    /// Bytes of the buffer that are before it.
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

    /// Gives back the buffers that begin in these bytes.
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

/// A buffer over memory of the host's.
pub(crate) fn over(context: &Context, address: usize, bytes: usize) -> Result<Counted<Memory>, Failure> {
    let data = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: a live context; the host's memory stays until it is forgotten, and OpenCL only notes where it is.
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
    /// A buffer of the device's, from a byte on.
    pub fn device(handle: usize, begin: usize) -> Place {
        Place { at: handle, bytes: 0, begin }
    }

    /// What an argument has in host memory, of which `first` is where it begins, in a launch of so many items.
    pub fn host(first: usize, arg: &Arg, items: u64) -> Place {
        // SAFETY: a launch's parts live for the call.
        let elements = match unsafe { arg.part.as_ref() } {
            // One accumulator per block.
            _ if arg.kind == abi::ARG_REDUCE => arg.len.saturating_mul(items.div_ceil(arg.row_len.max(1))),
            None => arg.len,
            // Up to the last element of the box; nothing if one of its sides is.
            Some(part) if (0..3).any(|axis| part.begin[axis] >= part.end[axis]) => 0,
            Some(part) => {
                let last = part.end.map(|end| end - 1);
                last[0] + last[1] * part.stride[0] + last[2] * part.stride[1] + 1
            }
        };
        let bytes = elements.saturating_mul(u64::from(arg.element_size));
        Place { at: first, bytes: usize::try_from(bytes).unwrap_or(usize::MAX), begin: 0 }
    }

    /// True if its handle is good for this launch alone.
    pub fn is_passing(self) -> bool {
        self.begin != 0
    }
}
