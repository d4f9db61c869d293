//! Memory that the processes of a host share: one arena per peer.

use crate::error::NetError;
use crate::mapping::Mapping;
use std::sync::Arc;

/// An arena, as this process sees it. The mapping lives as long as a clone of this.
#[derive(Clone)]
pub struct SharedMemory {
    mapping: Arc<Mapping>,
    start: u64,
    bytes: u64,
}

impl SharedMemory {
    /// A range of the mapping, which the caller has checked.
    pub(crate) fn new(mapping: Arc<Mapping>, start: u64, bytes: u64) -> SharedMemory {
        SharedMemory { mapping, start, bytes }
    }

    /// The first byte, in this process. On a page.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base().wrapping_add(self.start as usize)
    }

    /// Its size. Pages that were never touched take no memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address of a range, which may come from another process.
    ///
    /// Other processes may write it at any time: read it through the pointer, never through a reference, and
    /// check what was read after copying it.
    ///
    /// # Errors
    /// If the range is not in the arena.
    pub fn pointer(&self, offset: u64, bytes: u64) -> Result<*mut u8, NetError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.base().wrapping_add(offset as usize)),
            _ => Err(NetError::Range { offset, bytes, size: self.bytes }),
        }
    }

    /// The offset of a range of this process's memory, if all of it is in the arena.
    pub fn find(&self, pointer: *const u8, bytes: u64) -> Option<u64> {
        let offset = (pointer.addr() as u64).checked_sub(self.base().addr() as u64)?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(offset)
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Where the arena begins in the file of its world: on a page.
    pub fn start(&self) -> u64 {
        self.start
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedMemory({:?}, {} bytes)", self.base(), self.bytes)
    }
}
