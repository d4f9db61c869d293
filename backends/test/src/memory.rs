//! The memory spaces of the devices. A buffer's handle is its address in this process.

use flash_backend::Code;
use flash_backend::Failure;
use flash_backend::abi::{Buffer, CopyBox, SPACE_HOST};
use flash_backend::host_memory::HostBuffers;
use std::sync::{Mutex, PoisonError};

/// One memory space, of one or several devices.
pub(crate) struct Space {
    id: u32,
    /// Bytes; 0: no limit.
    size: u64,
    used: Mutex<u64>,
    buffers: HostBuffers,
}

impl Space {
    pub fn new(id: u32, size: u64) -> Space {
        Space { id, size, used: Mutex::new(0), buffers: HostBuffers::of_space(id) }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Allocates zeroed memory.
    pub fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let all = used.saturating_add(bytes.max(1));
        if self.size > 0 && all > self.size {
            return Err(Failure::new(
                Code::OutOfMemory,
                format!(
                    "{bytes} bytes, and memory space {} has {} of {} left",
                    self.id,
                    self.size - *used,
                    self.size
                ),
            ));
        }
        let buffer = self.buffers.alloc(space, bytes)?;
        *used = all;
        Ok(buffer)
    }

    /// Sets the bytes of an allocated buffer to 0.
    ///
    /// # Safety
    /// Nothing else uses it meanwhile.
    pub unsafe fn clear(&self, buffer: Buffer) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.clear(buffer) }
    }

    /// Frees an allocated buffer.
    pub fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.buffers.bytes(buffer);
        self.buffers.free(buffer)?;
        *used -= bytes;
        Ok(())
    }

    /// Fails unless all bytes of a copy that are on this side are in one of the buffers.
    pub fn check_copy(
        &self,
        buffer: Buffer,
        extent: [u64; 3],
        offset: u64,
        stride: [u64; 2],
    ) -> Result<(), Failure> {
        if self.id == SPACE_HOST || extent.contains(&0) {
            return Ok(());
        }
        let last = |axis: usize| (extent[axis + 1] - 1).saturating_mul(stride[axis]);
        let end = [offset, extent[0], last(0), last(1)].into_iter().fold(0, u64::saturating_add);
        let bytes = self.bytes(buffer)?;
        if end > bytes {
            return Err(Failure::new(
                Code::Invalid,
                format!(
                    "a copy of {extent:?} bytes from offset {offset} on ends at byte {end} of a buffer of {bytes} bytes in memory space {}",
                    self.id
                ),
            ));
        }
        Ok(())
    }

    /// Bytes of a live buffer.
    pub fn bytes(&self, buffer: Buffer) -> Result<u64, Failure> {
        match self.buffers.bytes(buffer) {
            0 => Err(Failure::new(
                Code::Invalid,
                format!("{:#x} is no buffer in memory space {}, or was freed", buffer.handle, self.id),
            )),
            bytes => Ok(bytes),
        }
    }
}

/// Where a copy reads and where it writes in a box, for [`Space::check_copy`].
pub(crate) fn ends(shape: &CopyBox) -> [(u64, [u64; 2]); 2] {
    [(shape.source_offset, shape.source_stride), (shape.destination_offset, shape.destination_stride)]
}
