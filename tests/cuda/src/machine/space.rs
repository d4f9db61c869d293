//! The address space: which owner has which addresses.
//!
//! A device's addresses are reserved in this process and cannot be read: host code that uses one as its own
//! crashes at once, as it does with a device. Their bytes lie elsewhere, at a fixed distance. Allocations are
//! never adjacent, and addresses are reused only when all were used. So an access outside an allocation, or
//! after its free, is found.

use super::Answer;
use super::handles::lock;
use super::settings::settings;
use cudarc::driver::sys::CUresult;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex};

/// The byte that fresh device memory is filled with.
pub(crate) const FRESH: u8 = 0xA5;
/// Allocations begin at multiples of it, with a gap of at least as much between them.
const GRAIN: u64 = 512;

/// Addresses that may be used, and their distance to the bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    pub start: u64,
    pub end: u64,
    shift: u64,
}

impl Range {
    #[inline]
    pub fn has(&self, at: u64, bytes: usize) -> bool {
        at >= self.start && at < self.end && bytes as u64 <= self.end - at
    }

    /// The host's address of the bytes.
    #[inline]
    pub fn host(&self, at: u64) -> u64 {
        at.wrapping_add(self.shift)
    }
}

/// The owner of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Device(usize),
    /// A module's variables on a device: not to be freed by address.
    Module(usize),
    /// Allocated by the driver, or the program's own that was registered.
    Pinned,
    Registered,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub range: Range,
    pub owner: Owner,
    /// The number of its pool, if it came from one.
    pub pool: Option<usize>,
    /// It is freed when the stream reaches the free.
    leaving: bool,
}

/// The addresses of one device.
struct Arena {
    start: u64,
    size: u64,
    shift: u64,
    next: u64,
    used: usize,
}

#[derive(Default)]
struct Space {
    arenas: Vec<Option<Arena>>,
    blocks: BTreeMap<u64, Block>,
}

static SPACE: LazyLock<Mutex<Space>> = LazyLock::new(Mutex::default);
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that changes when a block is removed.
pub(crate) fn generation() -> u64 {
    GENERATION.load(SeqCst)
}

/// The block that an address lies in.
pub(crate) fn find(address: u64) -> Option<Block> {
    let space = lock(&SPACE);
    let (_, block) = space.blocks.range(..=address).next_back()?;
    block.range.has(address, 1).then_some(*block)
}

/// True for an address of a device, live or not.
pub(crate) fn is_of_device(address: u64) -> bool {
    let space = lock(&SPACE);
    space.arenas.iter().flatten().any(|arena| address >= arena.start && address - arena.start < arena.size)
}

/// Bytes that are allocated on a device.
pub(crate) fn used(device: usize) -> usize {
    let space = lock(&SPACE);
    space.arenas.get(device).and_then(Option::as_ref).map_or(0, |arena| arena.used)
}

/// The address of new memory, filled with [`FRESH`].
pub(crate) fn allocate(owner: Owner, bytes: usize, pool: Option<usize>) -> Answer<u64> {
    let (Owner::Device(device) | Owner::Module(device)) = owner else {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    if bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let space = &mut *lock(&SPACE);
    if space.arenas.len() <= device {
        space.arenas.resize_with(device + 1, || None);
    }
    let arena = match &mut space.arenas[device] {
        Some(arena) => arena,
        none => none.insert(Arena::reserve()?),
    };
    if bytes > settings().memory - arena.used {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let room = (bytes as u64).next_multiple_of(GRAIN) + GRAIN;
    if arena.next + room > arena.start + arena.size {
        arena.next = arena.start;
    }
    // The first gap after that address that is large enough.
    let mut at = arena.next;
    for block in space.blocks.range(at..arena.start + arena.size).map(|(_, block)| block) {
        if block.range.start >= at + room {
            break;
        }
        at = block.range.end.next_multiple_of(GRAIN) + GRAIN;
    }
    if at + room > arena.start + arena.size {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    arena.next = at + room;
    arena.used += bytes;
    let range = Range { start: at, end: at + bytes as u64, shift: arena.shift };
    // SAFETY: the arena's bytes are mapped for ever, and this part of them has no owner yet.
    unsafe { std::ptr::write_bytes(range.host(at) as *mut u8, FRESH, bytes) };
    space.blocks.insert(at, Block { range, owner, pool, leaving: false });
    Ok(at)
}

/// Adds host memory, at its own addresses.
pub(crate) fn take_in(owner: Owner, start: u64, bytes: usize) -> Answer {
    let mut space = lock(&SPACE);
    let end = start.checked_add(bytes as u64).filter(|_| bytes > 0 && start > 0);
    let end = end.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let before = space.blocks.range(..end).next_back();
    if before.is_some_and(|(_, block)| block.range.end > start) {
        return Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    let range = Range { start, end, shift: 0 };
    space.blocks.insert(start, Block { range, owner, pool: None, leaving: false });
    Ok(())
}

/// Marks a block as about to be freed. A second free is refused from then on.
pub(crate) fn announce(address: u64) -> Answer<Block> {
    let mut space = lock(&SPACE);
    match space.blocks.get_mut(&address) {
        Some(block) if matches!(block.owner, Owner::Device(_)) && !block.leaving => {
            block.leaving = true;
            Ok(*block)
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// Removes the block that begins at this address.
pub(crate) fn remove(address: u64) -> Option<Block> {
    let mut space = lock(&SPACE);
    let block = space.blocks.remove(&address)?;
    let bytes = (block.range.end - block.range.start) as usize;
    if let Owner::Device(device) | Owner::Module(device) = block.owner
        && let Some(arena) = &mut space.arenas[device]
    {
        arena.used -= bytes;
        let first = block.range.host(address).next_multiple_of(4096);
        let last = block.range.host(block.range.end) / 4096 * 4096;
        if last > first {
            // SAFETY: whole pages of the arena's bytes, which belonged to this block only. They stay mapped.
            unsafe {
                libc::madvise(first as *mut libc::c_void, (last - first) as usize, libc::MADV_DONTNEED)
            };
        }
    }
    GENERATION.fetch_add(1, SeqCst);
    Some(block)
}

impl Arena {
    /// Reserves four times as many addresses as there is memory.
    fn reserve() -> Answer<Arena> {
        let size = (4 * settings().memory as u64).next_multiple_of(1 << 21);
        let map = |access: i32| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: new pages, where the system has room.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), size as usize, access, flags, -1, 0) };
            if at == libc::MAP_FAILED { Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) } else { Ok(at as u64) }
        };
        let (start, bytes) = (map(libc::PROT_NONE)?, map(libc::PROT_READ | libc::PROT_WRITE)?);
        Ok(Arena { start, size, shift: bytes.wrapping_sub(start), next: start, used: 0 })
    }
}
