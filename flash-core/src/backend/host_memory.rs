//! Allocation and copies in host memory: for backends whose devices share it, and for those whose devices
//! have memories of their own that the host can reach by address.

use super::Failure;
use crate::abi::{Buffer, CopyBox, MemorySpace, SPACE_HOST};
use crate::error::Code;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::sync::Mutex;

/// A memory space that the host reaches by address: of `bytes` bytes, 0 if nobody knows.
pub fn space(id: u32, bytes: u64) -> MemorySpace {
    MemorySpace {
        struct_size: size_of::<MemorySpace>() as u32,
        id,
        kind: 0,
        numa_node: -1,
        size: bytes,
        host_visible: 1,
        alignment: 64,
    }
}

/// The buffers of one device in memory that the host can reach. Their handles are addresses.
#[derive(Default)]
pub struct HostBuffers {
    /// The memory space in which they are.
    space: u32,
    layouts: Mutex<HashMap<u64, Option<Layout>>>,
}

impl HostBuffers {
    /// Those of a memory space; [`SPACE_HOST`] is the default.
    pub fn of_space(space: u32) -> HostBuffers {
        HostBuffers { space, layouts: Mutex::default() }
    }

    /// The memory space in which they are.
    pub fn space(&self) -> u32 {
        self.space
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Option<Layout>>> {
        self.layouts.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Allocates zeroed memory, aligned to 64 bytes.
    pub fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        if space != self.space {
            let there = match self.space {
                SPACE_HOST => "only space 0, the host's".to_owned(),
                own => format!("only space {own}, the device's"),
            };
            return Err(Failure::new(Code::Invalid, format!("memory space {space}: there is {there}")));
        }
        let layout = usize::try_from(bytes.max(1)).ok().and_then(|n| Layout::from_size_align(n, 64).ok());
        // SAFETY: the size is at least 1.
        let data = layout.map_or(std::ptr::null_mut(), |layout| unsafe { alloc_zeroed(layout) });
        if data.is_null() {
            return Err(Failure::new(
                Code::OutOfMemory,
                format!("{bytes} bytes of host memory were refused"),
            ));
        }
        self.lock().insert(data as u64, layout);
        Ok(Buffer { space, reserved: 0, handle: data as u64 })
    }

    /// Bytes that were allocated for a buffer; 0 if it is none, or was registered.
    pub fn bytes(&self, buffer: Buffer) -> u64 {
        self.lock().get(&buffer.handle).copied().flatten().map_or(0, |layout| layout.size() as u64)
    }

    /// Takes host memory as a buffer.
    pub fn register(&self, pointer: *mut u8) -> Buffer {
        self.lock().entry(pointer as u64).or_insert(None);
        Buffer { space: SPACE_HOST, reserved: 0, handle: pointer as u64 }
    }

    /// Frees an allocated buffer, forgets a registered one.
    pub fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        match self.lock().remove(&buffer.handle) {
            Some(Some(layout)) => {
                // SAFETY: allocated by `alloc` with this layout, and out of the table now.
                unsafe { dealloc(buffer.handle as *mut u8, layout) };
                Ok(())
            }
            Some(None) => Ok(()),
            None => {
                Err(Failure::new(Code::Invalid, format!("{:#x} is no buffer of this device", buffer.handle)))
            }
        }
    }
}

/// Copies a box between two buffers in host memory.
///
/// # Safety
/// The boxes lie inside the buffers and nobody else touches them meanwhile.
pub unsafe fn copy_box(from: Buffer, to: Buffer, shape: &CopyBox) -> Result<(), Failure> {
    if from.space != SPACE_HOST || to.space != SPACE_HOST {
        return Err(Failure::new(
            Code::Invalid,
            "this device copies between host memory and host memory only",
        ));
    }
    // SAFETY: the caller vouches for the boxes; handles in the host's space are addresses.
    unsafe { copy_addresses(from.handle, to.handle, shape) };
    Ok(())
}

/// Copies a box between two buffers by their addresses, whatever their spaces.
///
/// # Safety
/// As [`copy_box`], and both handles are addresses.
pub unsafe fn copy_addresses(from: u64, to: u64, shape: &CopyBox) {
    let [bytes, rows, planes] = shape.extent;
    for plane in 0..planes {
        for row in 0..rows {
            let source =
                from + shape.source_offset + row * shape.source_stride[0] + plane * shape.source_stride[1];
            let destination = to
                + shape.destination_offset
                + row * shape.destination_stride[0]
                + plane * shape.destination_stride[1];
            // SAFETY: the caller vouches for the boxes; they may overlap.
            unsafe {
                std::ptr::copy(
                    std::ptr::with_exposed_provenance::<u8>(source as usize),
                    std::ptr::with_exposed_provenance_mut::<u8>(destination as usize),
                    bytes as usize,
                )
            };
        }
    }
}
