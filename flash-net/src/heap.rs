//! The allocator of this process's arena.
//!
//! Its books are in private memory: what another process writes to the arena never misleads it. Large blocks
//! are whole pages, given back to the system when they are freed. Small ones share slabs; a slab without a
//! block is freed as a large block.
//!
//! A block is zeroed when it is handed out, as far as no other process writes to it.

use crate::error::NetError;
use crate::mapping::{PAGE, zero_words};
use crate::memory::SharedMemory;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks of at least this many bytes are whole pages.
const LARGE: u64 = 64 << 10;
/// What small blocks are cut from, and its alignment.
const SLAB: u64 = 1 << 20;
/// Unit and least alignment of small blocks: processes do not share a cache line by chance.
const GRAIN: u64 = 64;

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it starts in the arena.
    pub offset: u64,
    /// Its size, at least what was asked for.
    pub bytes: u64,
}

/// The allocator. All methods may be called by several threads.
pub struct SharedHeap {
    memory: SharedMemory,
    books: Mutex<Books>,
}

struct Books {
    pages: Extents,
    small: Extents,
    /// Bytes in use of each slab.
    slabs: HashMap<u64, u64>,
    /// Blocks in use: offset and bytes.
    blocks: HashMap<u64, u64>,
    used: u64,
}

impl SharedHeap {
    pub(crate) fn new(memory: SharedMemory) -> SharedHeap {
        let mut pages = Extents::default();
        pages.put(0, memory.bytes() / PAGE * PAGE, u64::MAX);
        let books = Books {
            pages,
            small: Extents::default(),
            slabs: HashMap::new(),
            blocks: HashMap::new(),
            used: 0,
        };
        SharedHeap { memory, books: Mutex::new(books) }
    }

    /// A new block of zeroed bytes. Its alignment is at least 64, and that of a page from 64 KiB on.
    ///
    /// # Errors
    /// If the alignment is not a power of two of at most 4096, or the arena has no room.
    pub fn alloc(&self, bytes: u64, align: u64) -> Result<Block, NetError> {
        if !align.is_power_of_two() || align > PAGE {
            return Err(NetError::Alignment { found: align });
        }
        let mut books = self.books();
        let full = NetError::OutOfMemory { bytes, used: books.used, size: self.memory.bytes() };
        let block = if bytes >= LARGE { books.large(bytes) } else { books.small(bytes, align.max(GRAIN)) };
        let Some(block) = block else { return Err(full) };
        books.blocks.insert(block.offset, block.bytes);
        books.used += block.bytes;
        drop(books);
        if bytes < LARGE {
            let start = self.memory.base().wrapping_add(block.offset as usize);
            // SAFETY: the block is in the arena, which is mapped, consists of words, and is this caller's
            // alone.
            unsafe { zero_words(start, block.bytes) };
        }
        Ok(block)
    }

    /// Frees the block that starts at `offset`.
    ///
    /// # Errors
    /// If none in use does.
    pub fn free(&self, offset: u64) -> Result<(), NetError> {
        let mut books = self.books();
        let bytes = books.blocks.remove(&offset).ok_or(NetError::NotABlock { offset })?;
        books.used -= bytes;
        let pages = if bytes >= LARGE { Some((offset, bytes)) } else { books.free_small(offset, bytes) };
        drop(books);
        if let Some((offset, bytes)) = pages {
            // SAFETY: whole pages of the arena, which are in no block and not yet free for one.
            unsafe { self.memory.mapping().clear_pages(self.memory.start() + offset, bytes) };
            self.books().pages.put(offset, bytes, u64::MAX);
        }
        Ok(())
    }

    /// Bytes of blocks in use.
    pub fn used(&self) -> u64 {
        self.books().used
    }

    /// The arena: addresses of offsets, and offsets of addresses.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn large(&mut self, bytes: u64) -> Option<Block> {
        let bytes = bytes.checked_next_multiple_of(PAGE)?;
        Some(Block { offset: self.pages.take(bytes, PAGE)?, bytes })
    }

    fn small(&mut self, bytes: u64, align: u64) -> Option<Block> {
        let bytes = bytes.max(1).next_multiple_of(GRAIN);
        let offset = match self.small.take(bytes, align) {
            Some(offset) => offset,
            None => {
                let slab = self.pages.take(SLAB, SLAB)?;
                self.slabs.insert(slab, 0);
                self.small.put(slab, SLAB, SLAB);
                self.small.take(bytes, align)?
            }
        };
        *self.slabs.get_mut(&(offset / SLAB * SLAB))? += bytes;
        Some(Block { offset, bytes })
    }

    /// Frees a small block; gives its slab when that is empty now and another has room.
    fn free_small(&mut self, offset: u64, bytes: u64) -> Option<(u64, u64)> {
        self.small.put(offset, bytes, SLAB);
        let slab = offset / SLAB * SLAB;
        let used = self.slabs.get_mut(&slab)?;
        *used -= bytes;
        // The last one is kept: a program that has one small block at a time does not ask the system each
        // time.
        if *used > 0 || self.slabs.len() == 1 {
            return None;
        }
        self.slabs.remove(&slab);
        self.small.remove(slab);
        Some((slab, SLAB))
    }
}

/// Free ranges, no two of which touch unless a border lies between them.
#[derive(Default)]
struct Extents {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// The smallest range that has room, the first one of those.
    fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let fits = |&(size, offset): &(u64, u64)| {
            let start = offset.next_multiple_of(align);
            (start + bytes <= offset + size).then_some((offset, size, start))
        };
        let (offset, size, start) = self.by_size.range((bytes, 0)..).find_map(fits)?;
        self.remove(offset);
        self.insert(offset, start - offset);
        self.insert(start + bytes, offset + size - (start + bytes));
        Some(start)
    }

    /// Adds a range, and joins it with those that touch it; not across multiples of `border`.
    fn put(&mut self, offset: u64, bytes: u64, border: u64) {
        let (mut start, mut end) = (offset, offset + bytes);
        let before = self.by_offset.range(..offset).next_back().map(|(&offset, &bytes)| (offset, bytes));
        let touches = |(before, size): &(u64, u64)| before + size == offset && !offset.is_multiple_of(border);
        if let Some((before, size)) = before.filter(touches) {
            self.remove(before);
            start -= size;
        }
        if !end.is_multiple_of(border) {
            end += self.remove(end).unwrap_or(0);
        }
        self.insert(start, end - start);
    }

    fn insert(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.by_offset.insert(offset, bytes);
            self.by_size.insert((bytes, offset));
        }
    }

    fn remove(&mut self, offset: u64) -> Option<u64> {
        let bytes = self.by_offset.remove(&offset)?;
        self.by_size.remove(&(bytes, offset));
        Some(bytes)
    }
}
