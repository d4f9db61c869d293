//! Slots in arenas, and slots of memory that something else allocated.
//!
//! A slot has a header before its bytes: the instance that has its lock, and how many copies it has received
//! and sent. Other instances write there, too, so nothing relies on what it says but waits and locks.

use super::Net;
use crate::Error;
use crate::slot::{LocalSlot, SlotMemory};
use crate::topology::Space;
use crate::words::Words;
use flash_net::{SharedMemory, Transport};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of a header. It begins a cache line, and the slot's first bytes are on it, too: a copy of a few
/// bytes, and the word that it was made, move one line between processors.
pub(super) const HEAD: u64 = 32;
/// Bytes of a cache line.
const LINE: u64 = 64;

/// The header of a slot.
#[derive(Clone, Copy)]
pub(super) struct Header<'a>(&'a [AtomicU64]);

impl<'a> Header<'a> {
    /// Of the slot whose bytes start here, behind at least a header.
    pub(super) fn at(words: Words<'a>, start: u64) -> Header<'a> {
        let end = start as usize / 8;
        Header(&words.0[end - HEAD as usize / 8..end])
    }

    /// 0, or 1 + the instance that has the lock.
    pub(super) fn lock(self) -> &'a AtomicU64 {
        &self.0[0]
    }

    /// Copies that were made to the slot.
    pub(super) fn received(self) -> &'a AtomicU64 {
        &self.0[1]
    }

    /// Copies that were made from it.
    pub(super) fn sent(self) -> &'a AtomicU64 {
        &self.0[2]
    }
}

/// All words of an instance's arena.
pub(super) fn arena_words(arena: &SharedMemory) -> Words<'_> {
    let words = arena.base().cast::<AtomicU64>();
    // SAFETY: mapped for as long as the arena's clone lives, on a page. All of this crate, which alone uses
    // the arenas of its worlds, accesses them as atomic words, as the allocator does. Another process is
    // bound by no rule of this one's; whatever it does, a load gives some value, and any value is valid.
    Words(unsafe { std::slice::from_raw_parts(words, (arena.bytes() / 8) as usize) })
}

/// A block of this instance's arena.
pub(crate) struct Block {
    pub(super) transport: Arc<Net>,
    arena: SharedMemory,
    space: Space,
    /// Where its bytes start, behind the header.
    pub(super) start: u64,
    bytes: u64,
}

impl Block {
    pub(super) fn new(transport: &Arc<Net>, space: Space, bytes: u64) -> Result<Block, Error> {
        let none = || Error::refused("a local slot", "this instance shares no memory with the others");
        let heap = transport.heap().ok_or_else(none)?;
        let whole = bytes.checked_next_multiple_of(8).and_then(|bytes| bytes.checked_add(HEAD));
        let size = whole.ok_or(flash_net::NetError::OutOfMemory {
            bytes,
            used: heap.used(),
            size: heap.memory().bytes(),
        })?;
        let block = heap.alloc(size, LINE)?;
        let arena = heap.memory().clone();
        Ok(Block { transport: transport.clone(), arena, space, start: block.offset + HEAD, bytes })
    }

    fn words(&self) -> Words<'_> {
        arena_words(&self.arena)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A block of this arena, freed once.
        let freed = self.transport.heap().map(|heap| heap.free(self.start - HEAD));
        debug_assert!(matches!(freed, Some(Ok(()))), "{freed:?}");
    }
}

impl SlotMemory for Block {
    fn space(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.words().read((self.start + offset) as usize, to);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.words().write((self.start + offset) as usize, from);
        Ok(())
    }
}

/// Memory that something else allocated. Other instances do not reach it.
pub(super) struct Registered {
    space: Space,
    words: *const AtomicU64,
    bytes: u64,
    header: [AtomicU64; HEAD as usize / 8],
}

// SAFETY: atomic words, which all threads may use, for as long as `register` was promised that they are
// there.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// # Safety
    /// As of [`register`](crate::MemoryManager::register).
    pub(super) unsafe fn new(space: Space, memory: *mut u8, bytes: u64) -> Result<Registered, Error> {
        if memory.is_null() || !memory.addr().is_multiple_of(8) || !bytes.is_multiple_of(8) {
            let why = format!(
                "expected an address and a size that are multiples of 8 and not NULL, found {memory:?} and {bytes} bytes"
            );
            return Err(Error::refused("registering memory", why));
        }
        Ok(Registered { space, words: memory.cast(), bytes, header: Default::default() })
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: `new` checked the alignment and the size, and was promised that the memory is there as long
        // as the slot, and that nothing else accesses it but atomically.
        Words(unsafe { std::slice::from_raw_parts(self.words, (self.bytes / 8) as usize) })
    }
}

impl SlotMemory for Registered {
    fn space(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.words().read(offset as usize, to);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.words().write(offset as usize, from);
        Ok(())
    }
}

/// The words of a slot, where its bytes start among them, and its header.
pub(super) fn source_of(slot: &LocalSlot) -> Result<(Words<'_>, usize, Header<'_>), Error> {
    if let Some(block) = slot.memory::<Block>() {
        let words = block.words();
        return Ok((words, block.start as usize, Header::at(words, block.start)));
    }
    if let Some(registered) = slot.memory::<Registered>() {
        return Ok((registered.words(), 0, Header(&registered.header)));
    }
    Err(Error::Unconnected {
        from: "memory of the host".to_owned(),
        to: slot.space().to_string(),
        why: "copy by the communication manager of the devices, between memories of that manager",
    })
}
