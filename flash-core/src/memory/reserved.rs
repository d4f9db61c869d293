//! A reservation: address space of the host for an array that the host may never touch.
//!
//! A reservation reads as zeros and takes no memory: neither pages nor, where the system counts what it has
//! promised (strict overcommit), a promise. [`commit`](Reserved::commit) makes a part writable, until
//! [`give_back`](Reserved::give_back). The addresses never change.
//!
//! One with [shared pages](super::shared_pages) is committed as a whole, and never given back: devices may
//! have the same pages.
//!
//! The caller of these two holds the array ([`state`](super::state)). Meanwhile, other threads may read
//! committed parts and parts that were never written: neither call changes those.

#[cfg(all(test, target_os = "linux", not(miri)))]
pub(super) mod tests;

use super::shared_pages::SharedPages;
use std::ops::Range;
use std::sync::Arc;

/// Commits are rounded to multiples of this: a large page, so that an array written here and there is few
/// mappings.
const STEP: usize = 2 << 20;

/// A mapping of its own; unmapped on drop.
pub(super) struct Reserved {
    base: *mut u8,
    bytes: usize,
    shared: Option<Arc<SharedPages>>,
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Reserved {
    /// Address space for at least `bytes` bytes; `None` if the system has no more.
    pub fn new(bytes: usize) -> Option<Reserved> {
        let bytes = bytes.checked_next_multiple_of(page())?;
        Reserved::map(bytes, None)
    }

    /// The same for pages that devices have, too; `None` also if there are none.
    pub fn with_shared_pages(bytes: usize) -> Option<Reserved> {
        let bytes = bytes.checked_next_multiple_of(page())?;
        Reserved::map(bytes, Some(Arc::new(SharedPages::take(bytes)?)))
    }

    /// `bytes`: of whole pages.
    fn map(bytes: usize, shared: Option<Arc<SharedPages>>) -> Option<Reserved> {
        // SAFETY: a new mapping, where the system likes.
        let base = unsafe { map(std::ptr::null_mut(), bytes, 0) }?;
        Some(Reserved { base, bytes, shared })
    }

    /// Makes the bytes `range` writable, and some around them. Returns how many, or `None` if the system has
    /// no memory for them.
    pub fn commit(&self, range: Range<usize>) -> Option<usize> {
        let (mut begin, mut end) = (range.start, range.end.min(self.bytes));
        if begin >= end {
            return Some(0);
        }
        if let Some(shared) = &self.shared {
            // SAFETY: this mapping, which is zeros, or the same pages if another thread was faster; `drop`
            // unmaps it.
            return unsafe { shared.map(self.base) }.then_some(self.bytes);
        }
        let first = self.base.addr();
        begin = ((first + begin) / STEP * STEP).saturating_sub(first);
        end = ((first + end).next_multiple_of(STEP) - first).min(self.bytes);
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: whole pages of this mapping; what is in them stays.
        let outcome = unsafe { libc::mprotect(self.base.add(begin).cast(), end - begin, writable) };
        (outcome == 0).then_some(end - begin)
    }

    /// Gives back the whole pages inside the bytes `range`, which read as zeros again. Returns how many bytes
    /// that are. If the system refuses, they stay as they are.
    ///
    /// # Safety
    /// Nothing refers to these bytes, and nothing that is in them is needed.
    pub unsafe fn give_back(&self, range: Range<usize>) -> usize {
        let begin = range.start.next_multiple_of(page());
        let end = range.end / page() * page();
        if begin >= end {
            return 0;
        }
        // SAFETY: whole pages of this mapping, for which the caller vouches; they are replaced in one step.
        let again = unsafe { map(self.base.add(begin), end - begin, libc::MAP_FIXED) };
        again.map_or(0, |_| end - begin)
    }
}

/// Maps private memory that can only be read. The system does not count such a mapping as promised.
///
/// # Safety
/// As `mmap`: with `MAP_FIXED`, nothing of what was in the range is needed any more.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn map(at: *mut u8, bytes: usize, flags: libc::c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: the caller vouches.
    let base = unsafe { libc::mmap(at.cast(), bytes, libc::PROT_READ, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Bytes of a page of the system.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn page() -> usize {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn page() -> usize {
    4096
}

/// The reservation of other systems, which does not exist: there, arrays are allocated when they are made.
#[cfg(not(all(target_os = "linux", not(miri))))]
impl Reserved {
    pub fn new(_bytes: usize) -> Option<Reserved> {
        None
    }

    pub fn with_shared_pages(bytes: usize) -> Option<Reserved> {
        SharedPages::take(bytes).and(None)
    }

    pub fn commit(&self, range: Range<usize>) -> Option<usize> {
        let _ = STEP;
        Some(range.len())
    }

    pub unsafe fn give_back(&self, _range: Range<usize>) -> usize {
        0
    }
}

impl Reserved {
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pages that devices have, too.
    pub fn shared(&self) -> Option<&Arc<SharedPages>> {
        self.shared.as_ref()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.unmap(self.base);
        }
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: this mapping, which nothing refers to any more.
        unsafe {
            libc::munmap(self.base.cast(), self.bytes);
        }
    }
}
