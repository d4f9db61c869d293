//! What all handles of one memory share.

use super::state::State;
use crate::kernel::Element;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of what we allocate ourselves: a cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// Data, shape and state of one memory.
pub(crate) struct Header {
    pub state: State,
    id: u64,
    data: *mut u8,
    len: usize,
    layout: Layout,
    /// Empty: no shape was given.
    shape: SmallVec<[u64; 4]>,
    /// Second buffer for phased arguments, made when first needed. Touched only by who holds the
    /// state as a writer.
    second: UnsafeCell<*mut u8>,
    second_layout: Layout,
}

// SAFETY: the data are plain old data of a Send + Sync type; who may touch them when is ruled by
// `state`.
unsafe impl Send for Header {}
// SAFETY: as above.
unsafe impl Sync for Header {}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Zeroed memory; dangling if the layout has no size.
fn allocate(layout: Layout) -> *mut u8 {
    if layout.size() == 0 {
        return std::ptr::without_provenance_mut(layout.align());
    }
    // SAFETY: the size is not 0.
    let data = unsafe { alloc_zeroed(layout) };
    if data.is_null() {
        handle_alloc_error(layout);
    }
    data
}

fn aligned<T>(len: usize) -> Layout {
    Layout::array::<T>(len).and_then(|l| l.align_to(ALIGNMENT)).unwrap_or_else(|_| {
        panic!("an array of {len} elements of {} bytes is larger than memory", size_of::<T>())
    })
}

impl Header {
    pub fn zeroed<T: Element>(len: usize, shape: SmallVec<[u64; 4]>) -> Header {
        let layout = aligned::<T>(len);
        Header {
            state: State::new(),
            id: next_id(),
            data: allocate(layout),
            len,
            layout,
            shape,
            second: UnsafeCell::new(std::ptr::null_mut()),
            second_layout: layout,
        }
    }

    pub fn of_vec<T: Element>(vec: Vec<T>) -> Header {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        let layout = Layout::array::<T>(vec.capacity()).expect("the vector has this layout");
        Header {
            state: State::new(),
            id: next_id(),
            data: vec.as_mut_ptr().cast(),
            len: vec.len(),
            layout,
            shape: SmallVec::new(),
            second: UnsafeCell::new(std::ptr::null_mut()),
            second_layout: aligned::<T>(vec.len()),
        }
    }

    /// An array of zeros whose elements have no type here: `element` is the layout of one.
    ///
    /// # Errors
    /// The length, if so many are more than memory has bytes.
    pub fn erased(len: usize, element: Layout, shape: SmallVec<[u64; 4]>) -> Result<Header, usize> {
        let layout = element
            .size()
            .checked_mul(len)
            .and_then(|bytes| Layout::from_size_align(bytes, element.align().max(ALIGNMENT)).ok());
        let layout = layout.ok_or(len)?;
        Ok(Header {
            state: State::new(),
            id: next_id(),
            data: allocate(layout),
            len,
            layout,
            shape,
            second: UnsafeCell::new(std::ptr::null_mut()),
            second_layout: layout,
        })
    }

    /// A number that no other memory has, nor this one before its shape was changed.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// First element.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    pub fn set_shape(&mut self, shape: SmallVec<[u64; 4]>) {
        self.shape = shape;
        self.id = next_id();
    }

    /// The second buffer.
    ///
    /// # Safety
    /// The caller holds the state as a writer.
    pub unsafe fn second(&self) -> *mut u8 {
        // SAFETY: only writers come here, one at a time.
        let second = unsafe { &mut *self.second.get() };
        if second.is_null() {
            *second = allocate(self.second_layout);
        }
        *second
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: allocated with this layout by `allocate` or by the vector.
            unsafe { dealloc(self.data, self.layout) };
        }
        let second = *self.second.get_mut();
        if !second.is_null() && self.second_layout.size() != 0 {
            // SAFETY: allocated with this layout by `allocate`.
            unsafe { dealloc(second, self.second_layout) };
        }
    }
}
