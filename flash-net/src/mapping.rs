//! Memory from the system: anonymous, or of a file that several processes map.

use crate::error::NetError;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The unit of the system's memory.
pub(crate) const PAGE: u64 = 4096;

/// A range of addresses, mapped for as long as this lives. Zeroed at first, and sparse: pages that were never
/// touched take no memory.
pub(crate) struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the range belongs to this value; what is in it is shared through atomics and raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory that this process has alone.
    pub(crate) fn anonymous(bytes: u64) -> Result<Mapping, NetError> {
        Mapping::map(bytes, libc::MAP_ANONYMOUS, -1)
    }

    /// The file's memory, all `bytes` of it.
    ///
    /// # Safety
    /// The file has at least this many bytes, and is sealed against shrinking.
    pub(crate) unsafe fn of(file: &File, bytes: u64) -> Result<Mapping, NetError> {
        Mapping::map(bytes, 0, file.as_raw_fd())
    }

    #[cfg(not(miri))]
    fn map(bytes: u64, flags: libc::c_int, file: libc::c_int) -> Result<Mapping, NetError> {
        let flags = flags | libc::MAP_SHARED | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = bytes as usize;
        // SAFETY: a new mapping at an address that the system chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, file, 0) };
        if base == libc::MAP_FAILED {
            return Err(NetError::last("mapping shared memory"));
        }
        // SAFETY: advice on the mapping just made: a core file leaves it out.
        unsafe { libc::madvise(base, bytes, libc::MADV_DONTDUMP) };
        Ok(Mapping { base: base.cast(), bytes })
    }

    /// Miri has no shared mappings.
    #[cfg(miri)]
    fn map(bytes: u64, _flags: libc::c_int, file: libc::c_int) -> Result<Mapping, NetError> {
        assert_eq!(file, -1, "no files under Miri");
        let bytes = bytes as usize;
        // SAFETY: the size is not 0.
        let base = unsafe { std::alloc::alloc_zeroed(Self::layout(bytes)) };
        Ok(Mapping { base, bytes })
    }

    #[cfg(miri)]
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, PAGE as usize).expect("a size")
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Says that a range, from a page on, is worth large pages, where the system has them.
    pub(crate) fn prefer_large_pages(&self, offset: u64, bytes: u64) {
        assert!(
            offset.is_multiple_of(PAGE)
                && offset.checked_add(bytes).is_some_and(|end| end <= self.bytes as u64)
        );
        #[cfg(not(miri))]
        // SAFETY: advice on a range of this mapping. That the system does not follow it is no error.
        unsafe {
            libc::madvise(self.base.add(offset as usize).cast(), bytes as usize, libc::MADV_HUGEPAGE);
        }
    }

    /// Gives the pages of a range back to the system; they are zero afterwards.
    ///
    /// # Safety
    /// The range is in the mapping, of whole pages, and in no use.
    pub(crate) unsafe fn clear_pages(&self, offset: u64, bytes: u64) {
        // SAFETY: in the mapping, by the contract.
        let start = unsafe { self.base.add(offset as usize) };
        #[cfg(not(miri))]
        // SAFETY: whole pages of this mapping, which nothing uses.
        let cleared = unsafe { libc::madvise(start.cast(), bytes as usize, libc::MADV_REMOVE) } == 0;
        #[cfg(miri)]
        let cleared = false;
        if !cleared {
            // SAFETY: as above, and a page consists of words.
            unsafe { zero_words(start, bytes) };
        }
    }
}

/// Zeroes words that a thread of this process may load or store atomically meanwhile: one that still has the
/// offset of a block that was freed.
///
/// # Safety
/// The words are in a mapping that lives through the call, and nothing refers to them but atomically.
pub(crate) unsafe fn zero_words(start: *mut u8, bytes: u64) {
    for word in 0..bytes as usize / size_of::<AtomicU64>() {
        // SAFETY: a word of those, aligned as a page or a block is.
        unsafe { AtomicU64::from_ptr(start.cast::<u64>().add(word)) }.store(0, Relaxed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(not(miri))]
        // SAFETY: the mapping that `map` made; nothing refers to it any more.
        unsafe {
            libc::munmap(self.base.cast(), self.bytes);
        }
        #[cfg(miri)]
        // SAFETY: the block that `map` made; nothing refers to it any more.
        unsafe {
            std::alloc::dealloc(self.base, Self::layout(self.bytes));
        }
    }
}
