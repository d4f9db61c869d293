//! [`Ragged`](super::Ragged): a work item's own row, of rows of different lengths.
//!
//! Before the launch it was proved (`runtime/proof.rs`) that the offsets never decrease, end inside the array
//! and are written by nothing, that each work item has a row, and, where the array is written, that no two of
//! a phase have the same. So rows of different work items have no element in common. A row is compared with
//! what a launch has of the array all the same, once per row: in a process that works for another one, the
//! offsets are what that one has sent.

use super::part::{outside, span};
use super::{FIXED, Read, ReadWrite};
use crate::kernel::Element;
use flash_types::abi;
use std::marker::PhantomData;
use std::ops::Range;

/// `Read` or `ReadWrite` of the elements of rows: the types in the doors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an access to rows",
    label = "write `Ragged<'a, Read<T>>` or `Ragged<'a, ReadWrite<T>>`"
)]
pub trait RaggedAccess {
    /// Type of one element.
    type Element: Element;
    /// `ACCESS_*`.
    const ACCESS: u32;
    /// `ARG_*`.
    const KIND: u32;
    /// One row.
    type Row<'k>;
    /// Rows of consecutive work items.
    type Rows<'k>;
    /// # Safety
    /// The elements live for `'k` and, if written, have no other user.
    #[doc(hidden)]
    unsafe fn row<'k>(at: *mut Self::Element, len: usize) -> Self::Row<'k>;
    /// # Safety
    /// As `row`, for all rows from `first` on, `len` of them.
    #[doc(hidden)]
    unsafe fn rows<'k>(bound: RaggedBound<Self>, first: usize, len: usize) -> Self::Rows<'k>
    where
        Self: Sized;
}

/// Rows of consecutive work items, read only.
pub struct RaggedRows<'k, T: Element> {
    bound: RaggedBound<Read<T>>,
    first: usize,
    len: usize,
    borrow: PhantomData<&'k [T]>,
}

/// Rows of consecutive work items.
pub struct RaggedRowsMut<'k, T: Element> {
    bound: RaggedBound<ReadWrite<T>>,
    first: usize,
    len: usize,
    borrow: PhantomData<&'k mut [T]>,
}

impl<'k, T: Element> RaggedRows<'k, T> {
    /// Number of rows.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a run is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Row `i` of these. Panics if there is no such row.
    #[inline]
    #[track_caller]
    pub fn row(&self, i: usize) -> &'k [T] {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: the row of a work item, which whoever made these vouches for.
        unsafe { self.bound.row(self.first + i) }
    }
}

impl<T: Element> RaggedRowsMut<'_, T> {
    /// Number of rows.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a run is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Row `i` of these. Panics if there is no such row.
    #[inline]
    #[track_caller]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: the row of a work item, which whoever made these vouches for; the result borrows `self`.
        unsafe { self.bound.row(self.first + i) }
    }
}

impl<T: Element> RaggedAccess for Read<T> {
    type Element = T;
    const ACCESS: u32 = abi::ACCESS_READ;
    const KIND: u32 = abi::ARG_WINDOW;
    type Row<'k> = &'k [T];
    type Rows<'k> = RaggedRows<'k, T>;
    #[inline(always)]
    unsafe fn row<'k>(at: *mut T, len: usize) -> &'k [T] {
        // SAFETY: the caller vouches.
        unsafe { std::slice::from_raw_parts(at, len) }
    }
    #[inline(always)]
    unsafe fn rows<'k>(bound: RaggedBound<Self>, first: usize, len: usize) -> RaggedRows<'k, T> {
        RaggedRows { bound, first, len, borrow: PhantomData }
    }
}

impl<T: Element> RaggedAccess for ReadWrite<T> {
    type Element = T;
    const ACCESS: u32 = abi::ACCESS_READ_WRITE;
    const KIND: u32 = abi::ARG_SCATTER;
    type Row<'k> = &'k mut [T];
    type Rows<'k> = RaggedRowsMut<'k, T>;
    #[inline(always)]
    unsafe fn row<'k>(at: *mut T, len: usize) -> &'k mut [T] {
        // SAFETY: the caller vouches.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }
    #[inline(always)]
    unsafe fn rows<'k>(bound: RaggedBound<Self>, first: usize, len: usize) -> RaggedRowsMut<'k, T> {
        RaggedRowsMut { bound, first, len, borrow: PhantomData }
    }
}

/// The offsets and the elements of a `Ragged` for one share.
#[doc(hidden)]
pub struct RaggedBound<A: RaggedAccess> {
    starts: *const u64,
    /// How many offsets there are.
    count: usize,
    data: *mut A::Element,
    /// The elements that are present.
    first: usize,
    end: usize,
}

/// The row of the first work item of a run.
#[doc(hidden)]
pub struct RaggedRun<A: RaggedAccess> {
    bound: RaggedBound<A>,
    row: usize,
}

impl<A: RaggedAccess> Clone for RaggedBound<A> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: RaggedAccess> Copy for RaggedBound<A> {}
impl<A: RaggedAccess> Clone for RaggedRun<A> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: RaggedAccess> Copy for RaggedRun<A> {}

impl<A: RaggedAccess> RaggedBound<A> {
    /// # Safety
    /// `arg` is an array of these elements, whose part is present; `starts` the argument with its offsets,
    /// whole.
    #[inline(always)]
    pub unsafe fn new(arg: &abi::Arg, starts: &abi::Arg) -> Self {
        debug_assert_eq!(arg.element_size as usize, size_of::<A::Element>());
        // SAFETY: a part lives as long as the launch.
        let present = unsafe { arg.part.as_ref() }.map_or(0..arg.len as usize, span);
        RaggedBound {
            starts: starts.data.cast_const().cast(),
            count: starts.len as usize,
            data: arg.data.cast(),
            first: present.start,
            end: present.end,
        }
    }

    /// # Safety
    /// `index` is the index of a work item of the launch, `dimension` that of its row.
    #[inline(always)]
    pub unsafe fn run(&self, index: &[usize], dimension: usize) -> RaggedRun<A> {
        RaggedRun { bound: *self, row: index[dimension] }
    }

    /// The rows of a phase: those of these values of the row's dimension, or all.
    ///
    /// # Safety
    /// Nothing else that runs uses these rows.
    #[inline]
    pub unsafe fn whole<'k>(&self, values: Option<&[Range<u64>]>, dimension: usize) -> A::Rows<'k> {
        let rows = match values {
            Some(values) => values[dimension].start as usize..values[dimension].end as usize,
            None => 0..self.count.saturating_sub(1),
        };
        // SAFETY: the caller vouches.
        unsafe { A::rows(*self, rows.start, rows.len()) }
    }

    /// # Safety
    /// Nothing else that runs uses this row, or all only read it.
    #[inline(always)]
    #[track_caller]
    unsafe fn row<'k>(&self, row: usize) -> A::Row<'k> {
        if row >= self.count.saturating_sub(1) {
            outside(row, self.count.saturating_sub(1));
        }
        // SAFETY: there is an offset behind that of the row.
        let (begin, end) = unsafe { (*self.starts.add(row), *self.starts.add(row + 1)) };
        let (begin, end) = (begin as usize, end as usize);
        let is_present = begin >= self.first && end <= self.end;
        if begin > end || !(is_present || begin == end) {
            absent(row, begin..end, self.first..self.end);
        }
        // Element 0 need not lie in the buffer, and an empty row may lie anywhere.
        // SAFETY: the elements are present, and the caller vouches for who uses them.
        unsafe { A::row(self.data.wrapping_add(begin), end - begin) }
    }
}

impl<A: RaggedAccess> RaggedRun<A> {
    /// # Safety
    /// Nothing else that runs uses the row of work item `i` of the run, or all only read it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn item<'k, const CLASS: u8>(&self, i: usize) -> A::Row<'k> {
        let row = if CLASS == FIXED { self.row } else { self.row + i };
        // SAFETY: the caller vouches.
        unsafe { self.bound.row(row) }
    }

    /// # Safety
    /// As [`item`](Self::item), for `len` work items, each of which has a row of its own.
    #[inline(always)]
    pub unsafe fn span<'k>(&self, len: usize) -> A::Rows<'k> {
        // SAFETY: the caller vouches.
        unsafe { A::rows(self.bound, self.row, len) }
    }
}

/// Takes numbers, as `outside` does.
#[cold]
#[inline(never)]
#[track_caller]
fn absent(row: usize, elements: Range<usize>, present: Range<usize>) -> ! {
    panic!("row {row} has the elements {elements:?}, of which only {present:?} are here")
}
