//! Allocation and copies in host memory: for backends whose devices share it, and for those whose devices
//! have memories of their own that the host can reach by address.

use crate::failure::Failure;
use crate::host_allocation::{ALIGNMENT, HostAllocation};
use flash_types::Code;
use flash_types::abi::{Buffer, CopyBox, MemorySpace, SPACE_HOST};
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::Mutex;

/// A memory space that the host reaches by address, of `bytes` bytes; 0: unknown.
pub fn space(id: u32, bytes: u64) -> MemorySpace {
    MemorySpace {
        struct_size: size_of::<MemorySpace>() as u32,
        id,
        kind: 0,
        numa_node: -1,
        size: bytes,
        host_visible: 1,
        alignment: ALIGNMENT as u32,
    }
}

/// A copy of bytes, such as those of a scalar, that begins where any type may.
pub struct AlignedBytes(Vec<Chunk>);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Chunk {
    _bytes: [u8; ALIGNMENT],
}

impl AlignedBytes {
    /// A copy.
    pub fn of(bytes: &[u8]) -> AlignedBytes {
        let mut chunks = vec![Chunk { _bytes: [0; ALIGNMENT] }; bytes.len().div_ceil(ALIGNMENT).max(1)];
        // SAFETY: the chunks have at least as many bytes, and are no part of the others.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunks.as_mut_ptr().cast(), bytes.len()) };
        AlignedBytes(chunks)
    }

    /// The first one. The address stays when this is moved.
    pub fn data(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The buffers of one device in memory that the host can reach. Their handles are addresses.
#[derive(Default)]
pub struct HostBuffers {
    /// Their memory space.
    space: u32,
    /// With their bytes; registered ones have none.
    blocks: Mutex<HashMap<u64, Option<(HostAllocation, u64)>>>,
}

impl HostBuffers {
    /// Buffers of a memory space; [`SPACE_HOST`] is the default.
    pub fn of_space(space: u32) -> HostBuffers {
        HostBuffers { space, blocks: Mutex::default() }
    }

    /// Their memory space.
    pub fn space(&self) -> u32 {
        self.space
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Option<(HostAllocation, u64)>>> {
        self.blocks.lock().unwrap_or_else(|e| e.into_inner())
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
        let size = bytes.max(1);
        let layout = usize::try_from(size).ok().and_then(|n| Layout::from_size_align(n, ALIGNMENT).ok());
        let Some(block) = layout.and_then(HostAllocation::zeroed) else {
            return Err(Failure::new(
                Code::OutOfMemory,
                format!("{bytes} bytes of host memory were refused"),
            ));
        };
        let handle = block.data() as u64;
        self.lock().insert(handle, Some((block, size)));
        Ok(Buffer { space, reserved: 0, handle })
    }

    /// Sets the bytes of an allocated buffer to 0.
    ///
    /// # Errors
    /// It is unknown, or registered.
    ///
    /// # Safety
    /// Nothing else uses it meanwhile.
    pub unsafe fn clear(&self, buffer: Buffer) -> Result<(), Failure> {
        let data_of = |block: &(HostAllocation, u64)| (block.0.data(), block.1 as usize);
        let found = self.lock().get(&buffer.handle).and_then(|block| block.as_ref().map(data_of));
        let Some((data, bytes)) = found else { return Err(unknown(buffer)) };
        // SAFETY: the block has that many bytes, and the caller vouches that it stays and has no other user.
        unsafe { std::ptr::write_bytes(data, 0, bytes) };
        Ok(())
    }

    /// Bytes that were allocated for a buffer; 0 if it is unknown, or registered.
    pub fn bytes(&self, buffer: Buffer) -> u64 {
        self.lock().get(&buffer.handle).and_then(Option::as_ref).map_or(0, |(_, bytes)| *bytes)
    }

    /// Registers host memory as a buffer.
    pub fn register(&self, pointer: *mut u8) -> Buffer {
        self.lock().entry(pointer as u64).or_insert(None);
        Buffer { space: SPACE_HOST, reserved: 0, handle: pointer as u64 }
    }

    /// Frees an allocated buffer, forgets a registered one.
    pub fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        // Dropped after the table is unlocked.
        let removed = self.lock().remove(&buffer.handle);
        removed.map(drop).ok_or_else(|| unknown(buffer))
    }
}

fn unknown(buffer: Buffer) -> Failure {
    Failure::new(Code::Invalid, format!("{:#x} is no buffer of this device", buffer.handle))
}

/// Copies a box between two buffers in host memory.
///
/// # Safety
/// The boxes lie inside the buffers and nothing else touches them meanwhile.
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
#[inline]
pub unsafe fn copy_addresses(from: u64, to: u64, shape: &CopyBox) {
    let [bytes, rows, planes] = shape.extent;
    // However many rows of none there are.
    if shape.extent.contains(&0) {
        return;
    }
    // Modulo 2^64: a buffer may be a part whose element 0 is before all addresses.
    let at = |base: u64, offset: u64, stride: [u64; 2], [row, plane]: [u64; 2]| {
        let inside = row.wrapping_mul(stride[0]).wrapping_add(plane.wrapping_mul(stride[1]));
        base.wrapping_add(offset).wrapping_add(inside)
    };
    for plane in 0..planes {
        for row in 0..rows {
            let source = at(from, shape.source_offset, shape.source_stride, [row, plane]);
            let destination = at(to, shape.destination_offset, shape.destination_stride, [row, plane]);
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
