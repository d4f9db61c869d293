//! Memory of the host: where an array begins, and on which pages it lies.
//!
//! A CPU that looks for the store that a load has to wait for compares addresses within a page. If two large
//! arrays begin at the same offset in their pages, as allocators place them, a load of one seems to depend on
//! a store to the other, and waits. So each large array begins at an offset of its own.
//!
//! Large pages take fewer faults when they are first used, and fewer misses of the TLB in accesses without
//! order. Linux gives them on request, where it is set to `madvise` (or `always`).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of our allocations: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// The largest alignment with which large memory comes zeroed from the system, and is not written to before
/// its first use.
const SYSTEM_ALIGNMENT: usize = 16;

/// Loads and stores are compared by their address within this many bytes.
pub const PAGE: usize = 4096;

/// Arrays of at least this many bytes begin at an offset of their own in a page, for which up to a page is
/// left free.
pub const PLACED: usize = 64 << 10;

/// Arrays of at least this many bytes are worth large pages, a mapping of their own, and being counted in the
/// host's budget.
pub const LARGE: usize = 4 << 20;

/// Memory of the allocator, freed on drop.
pub struct HostAllocation {
    base: *mut u8,
    /// The first byte of what is kept in it.
    data: *mut u8,
    /// How it was allocated.
    layout: Layout,
}

// SAFETY: an address; which thread may touch the memory there is not ruled by it.
unsafe impl Send for HostAllocation {}
// SAFETY: as above.
unsafe impl Sync for HostAllocation {}

impl HostAllocation {
    /// Zeroed memory for a layout that has a size; `None` if the system has too little.
    pub fn zeroed(layout: Layout) -> Option<HostAllocation> {
        assert!(layout.size() > 0, "there is nothing to allocate");
        let placed = is_placed(layout);
        let whole = Layout::from_size_align(room(layout, placed)?, SYSTEM_ALIGNMENT).ok()?;
        // SAFETY: the size is not 0.
        let base = unsafe { alloc_zeroed(whole) };
        if base.is_null() {
            return None;
        }
        ask(base, whole.size());
        let data = base.wrapping_add(in_front(base, layout, placed));
        Some(HostAllocation { base, data, layout: whole })
    }

    /// Memory that was allocated with this layout.
    ///
    /// # Safety
    /// It was, and nothing else frees it.
    #[inline]
    pub unsafe fn new(base: *mut u8, data: *mut u8, layout: Layout) -> HostAllocation {
        HostAllocation { base, data, layout }
    }

    /// True if this is the memory of a `Vec<T>`, from its first element on.
    pub fn is_of_vec<T>(&self) -> bool {
        let capacity = self.layout.size().checked_div(size_of::<T>()).unwrap_or(0);
        self.data == self.base && Layout::array::<T>(capacity).is_ok_and(|layout| layout == self.layout)
    }

    /// The vector whose memory [this is](Self::is_of_vec), with `len` elements.
    ///
    /// # Safety
    /// The first `len` elements are there and initialised, and nothing else refers to them.
    ///
    /// # Panics
    /// If it is the memory of no `Vec<T>`.
    pub unsafe fn into_vec<T>(self, len: usize) -> Vec<T> {
        assert!(self.is_of_vec::<T>(), "memory of a vector");
        let all = ManuallyDrop::new(self);
        // SAFETY: allocated with the layout of this capacity, and not freed here; the caller vouches for the
        // elements.
        unsafe { Vec::from_raw_parts(all.base.cast(), len, all.layout.size() / size_of::<T>()) }
    }

    /// The first byte of what is kept in it.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// Its beginning, before what is in front of the data, and its size in bytes.
    #[inline]
    pub fn all(&self) -> (*mut u8, usize) {
        (self.base, self.layout.size())
    }
}

impl Drop for HostAllocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, by `zeroed` or as the caller of `new` vouched.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// True if an array of this layout begins at an offset of its own.
#[inline]
pub fn is_placed(layout: Layout) -> bool {
    layout.size() >= PLACED && layout.align() <= ALIGNMENT
}

/// Bytes to allocate for a layout, so that it can begin where it should.
#[inline]
pub fn room(layout: Layout, placed: bool) -> Option<usize> {
    layout.size().checked_add(if placed { PAGE } else { layout.align() })
}

/// Bytes from what was allocated to where the data begin.
#[inline]
pub fn in_front(base: *mut u8, layout: Layout, placed: bool) -> usize {
    if placed { to_next_place(base) } else { base.align_offset(layout.align()) }
}

/// Bytes, less than a page, to where the next array begins: one of the 64 lines of a page, at least five
/// away, in either direction, from those of the nine arrays before it.
#[inline]
pub fn to_next_place(base: *mut u8) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let place = NEXT.fetch_add(19 * ALIGNMENT, Ordering::Relaxed);
    place.wrapping_sub(base.addr()) % PAGE
}

/// Asks for large pages for memory that was just allocated and has not been used. A refusal is no error.
pub fn ask(data: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= LARGE {
        /// A large page, or a part of one: a multiple of every other size of page.
        const LARGE_PAGE: usize = 2 << 20;
        let skipped = data.align_offset(LARGE_PAGE);
        let whole = bytes.saturating_sub(skipped) / LARGE_PAGE * LARGE_PAGE;
        // SAFETY: whole pages inside the allocation; the advice changes nothing that is in them.
        unsafe { libc::madvise(data.wrapping_add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (data, bytes);
}
