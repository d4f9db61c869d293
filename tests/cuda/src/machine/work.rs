//! The work of streams and graphs: kernels, copies, fills, calls of the host.

use super::context::Context;
use super::stream::code_of;
use super::{Answer, space};
use crate::run::{self, Launch};
use cudarc::driver::sys::CUresult;
use std::ffi::c_void;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) enum Work {
    Nothing,
    Kernel(Arc<Launch>),
    Copy(Copy),
    Set(Set),
    Call(Call),
}

/// Rows of bytes: one side of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    pub address: u64,
    /// Bytes from one row to the next, and from one plane to the next.
    pub pitch: u64,
    pub plane: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub to: Side,
    pub from: Side,
    /// Bytes of a row, rows, planes.
    pub extent: [u64; 3],
    /// The contents at the time of the call, if those count: consecutive rows.
    pub staged: Option<Arc<Vec<u8>>>,
}

/// Fills rows with an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub to: Side,
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// Bytes of a row, and rows.
    pub extent: [u64; 2],
}

/// A function of the host and its argument.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    function: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

// SAFETY: the caller that asks for a call allows it on another thread: that is the purpose of the driver's
// function.
unsafe impl Send for Call {}
// SAFETY: the pointer is passed on and not followed.
unsafe impl Sync for Call {}

impl Call {
    /// # Safety
    ///
    /// The function may be called with the data, on any thread, until the stream is done with it.
    pub unsafe fn new(function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Call {
        Call { function, data }
    }
}

impl Work {
    pub fn run(&self, context: &Context) -> Answer {
        match self {
            Work::Nothing => Ok(()),
            Work::Kernel(launch) => run::run(launch, context).map_err(code_of),
            Work::Copy(copy) => copy.run(),
            Work::Set(set) => set.run(),
            Work::Call(call) => {
                // SAFETY: `Call::new`'s caller promised just this.
                unsafe { (call.function)(call.data) };
                Ok(())
            }
        }
    }
}

/// The host's address of bytes: of a block that has all of them, or in the host's own memory.
fn bytes_at(address: u64, bytes: u64) -> Answer<u64> {
    match space::find(address) {
        Some(block) if block.range.has(address, bytes as usize) => Ok(block.range.host(address)),
        None if !space::is_of_device(address) => Ok(address),
        _ => {
            eprintln!("emulated CUDA device: {bytes} bytes at {address:#x} are not all there");
            Err(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
        }
    }
}

impl Side {
    pub fn row(&self, row: u64, plane: u64) -> u64 {
        self.address + row * self.pitch + plane * self.plane
    }

    /// True if it is host memory that is neither pinned nor registered.
    pub fn is_pageable(&self) -> bool {
        space::find(self.address).is_none() && !space::is_of_device(self.address)
    }

    /// Whether every row lies in one block, if any of it lies in one.
    pub fn check(&self, [width, rows, planes]: [u64; 3]) -> Answer {
        if width == 0 || rows == 0 || planes == 0 || self.is_pageable() {
            return Ok(());
        }
        let last = self.row(rows - 1, planes - 1) + width - self.address;
        match space::find(self.address) {
            Some(block) if block.range.has(self.address, last as usize) => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
}

impl Copy {
    pub fn line(to: u64, from: u64, bytes: usize) -> Copy {
        let side = |address| Side { address, pitch: 0, plane: 0 };
        Copy { to: side(to), from: side(from), extent: [bytes as u64, 1, 1], staged: None }
    }

    fn rows(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let [width, rows, planes] = self.extent;
        let planes = if width == 0 { 0 } else { planes };
        (0..planes).flat_map(move |plane| (0..rows).map(move |row| (row, plane)))
    }

    /// Reads the source of the copy now.
    pub fn stage(&mut self) -> Answer {
        let mut all = Vec::new();
        for (row, plane) in self.rows() {
            let from = bytes_at(self.from.row(row, plane), self.extent[0])?;
            // SAFETY: the caller that asks for the copy lets the driver read these bytes during the call.
            all.extend_from_slice(unsafe {
                std::slice::from_raw_parts(from as *const u8, self.extent[0] as usize)
            });
        }
        self.staged = Some(Arc::new(all));
        Ok(())
    }

    fn run(&self) -> Answer {
        let width = self.extent[0] as usize;
        for (number, (row, plane)) in self.rows().enumerate() {
            let to = bytes_at(self.to.row(row, plane), self.extent[0])?;
            let from = match &self.staged {
                Some(bytes) => bytes[number * width..].as_ptr() as u64,
                None => bytes_at(self.from.row(row, plane), self.extent[0])?,
            };
            // SAFETY: bytes of live blocks, of the staged copy, or of host memory that the copy's caller has
            // promised.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, width) };
        }
        Ok(())
    }
}

impl Set {
    fn run(&self) -> Answer {
        let [width, rows] = self.extent;
        let element = u64::from(self.element);
        for row in 0..if width == 0 { 0 } else { rows } {
            let to = bytes_at(self.to.row(row, 0), width)? as *mut u8;
            let value = self.value.to_le_bytes();
            for at in 0..width {
                // SAFETY: a byte of a live block.
                unsafe { to.add(at as usize).write(value[(at % element) as usize]) };
            }
        }
        Ok(())
    }
}
