//! [`Phased`](super::Phased): the array as it was when the phase began, and the own elements of the next
//! phase.

use super::UNIT;
use super::part::{check, check_all, outside, reach};
use crate::kernel::Element;
use flash_types::abi;
use flash_types::descriptor::Use;
use std::marker::PhantomData;
use std::ops::Range;

/// Addresses and strides for one share.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct PhasedBound<T> {
    was: *const T,
    next: *mut T,
    len: usize,
    strides: *const u64,
    /// NULL: all of the array is present.
    part: *const abi::Part,
    /// Other parts of the launch have own elements, too.
    cut: bool,
}

/// The own element of the first item of a run.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct PhasedRun<T> {
    was: *const T,
    next: *mut T,
    len: usize,
    own: usize,
    step: usize,
    usage: Use,
    part: *const abi::Part,
}

/// The view of the `item` door.
pub struct PhasedItem<'k, T> {
    was: *const T,
    next: *mut T,
    len: usize,
    own: usize,
    usage: Use,
    part: *const abi::Part,
    borrow: PhantomData<&'k mut T>,
}

/// The view of the `span` and `whole` doors.
pub struct PhasedSpan<'k, T> {
    was: *const T,
    next: *mut T,
    len: usize,
    own: usize,
    count: usize,
    usage: Use,
    part: *const abi::Part,
    borrow: PhantomData<&'k mut T>,
}

impl<T: Element> PhasedBound<T> {
    /// # Safety
    /// `arg` is a phased argument of `T`, with a stride per dimension.
    #[inline(always)]
    pub unsafe fn new(arg: &abi::Arg) -> Self {
        debug_assert_eq!(arg.element_size as usize, size_of::<T>());
        PhasedBound {
            was: arg.data.cast_const().cast(),
            next: arg.next.cast(),
            len: arg.len as usize,
            strides: arg.strides,
            part: arg.part,
            cut: arg.flags & abi::ARG_FLAG_NEXT_STAYS != 0,
        }
    }

    /// # Safety
    /// `index` is the index of a work item of the launch.
    #[inline(always)]
    pub unsafe fn run(
        &self,
        index: &[usize],
        along: &[usize],
        stages: Option<(usize, &[Use])>,
    ) -> PhasedRun<T> {
        let mut own = 0;
        for &dimension in along {
            // SAFETY: there is a stride for every dimension.
            own += index[dimension] * unsafe { *self.strides.add(dimension) as usize };
        }
        // SAFETY: as above.
        let step = if along.contains(&0) { unsafe { *self.strides as usize } } else { 0 };
        let usage = match stages {
            None => Use::Both,
            Some((dimension, uses)) => uses[index[dimension]],
        };
        PhasedRun { was: self.was, next: self.next, len: self.len, own, step, usage, part: self.part }
    }

    /// # Safety
    /// As [`ItemBound::whole`](super::ItemBound::whole), for the own elements.
    #[inline]
    pub unsafe fn whole<'k>(&self, staged: bool, values: Option<&[Range<u64>]>) -> PhasedSpan<'k, T> {
        let own = match values {
            // SAFETY: there is a stride for every dimension.
            Some(values) => unsafe { reach(values, self.strides, 1) },
            None => {
                if !self.part.is_null() {
                    // SAFETY: a part lives as long as the launch.
                    unsafe { check_all(self.part, self.len, "a `whole` implementation") };
                }
                0..self.len
            }
        };
        if !staged {
            // Elements that no item owns keep their value: for a part, the merge of the parts ensures it.
            let kept = if self.cut { own.clone() } else { 0..self.len };
            let (was, next) = (self.was.wrapping_add(kept.start), self.next.wrapping_add(kept.start));
            // SAFETY: both buffers have these elements, without another user in `next`, and do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(was, next, kept.len()) };
        }
        PhasedSpan {
            was: self.was,
            next: self.next,
            len: self.len,
            own: own.start,
            count: own.len(),
            usage: if staged { Use::Write } else { Use::Both },
            part: self.part,
            borrow: PhantomData,
        }
    }
}

impl<T: Element> PhasedRun<T> {
    /// # Safety
    /// The run has more than `i` items; their own elements have no other user.
    #[inline(always)]
    pub unsafe fn item<'k, const CLASS: u8>(&self, i: usize) -> PhasedItem<'k, T> {
        let own = self.own + i * if CLASS == UNIT { 1 } else { self.step };
        if self.usage == Use::Both {
            // SAFETY: the launch was proved: the own element lies inside both arrays, and in their part; it
            // has no other user in `next`. The wrapping arithmetic starts at element 0, which need not lie in
            // the buffer.
            unsafe { *self.next.wrapping_add(own) = *self.was.wrapping_add(own) };
        }
        PhasedItem {
            was: self.was,
            next: self.next,
            len: self.len,
            own,
            usage: self.usage,
            part: self.part,
            borrow: PhantomData,
        }
    }

    /// # Safety
    /// The run has `len` items along dimension 0, and dimension 0 is axis 0 of the array (or `len` is 1);
    /// their own elements have no other user.
    #[inline(always)]
    pub unsafe fn span<'k>(&self, len: usize) -> PhasedSpan<'k, T> {
        if self.usage == Use::Both {
            let (was, next) = (self.was.wrapping_add(self.own), self.next.wrapping_add(self.own));
            // SAFETY: as in `item`, for the own elements of the run, which lie side by side.
            unsafe { std::ptr::copy_nonoverlapping(was, next, len) };
        }
        PhasedSpan {
            was: self.was,
            next: self.next,
            len: self.len,
            own: self.own,
            count: len,
            usage: self.usage,
            part: self.part,
            borrow: PhantomData,
        }
    }
}

#[cold]
#[track_caller]
fn not_declared(what: &str, usage: Use) -> ! {
    let stage = if usage == Use::Read { "read" } else { "write" };
    panic!("the kernel {what} in a stage that its definition declares as `{stage}`")
}

impl<T: Element> PhasedItem<'_, T> {
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `i` as it was when the phase began. Panics outside the array, in a cut launch outside what
    /// the partition map gives, and in a stage that is declared as `write`.
    #[inline]
    #[track_caller]
    pub fn get(&self, i: usize) -> T {
        if self.usage == Use::Write {
            not_declared("reads any element", self.usage);
        }
        if i >= self.len {
            outside(i, self.len);
        }
        if !self.part.is_null() {
            // SAFETY: a part lives as long as the launch.
            unsafe { check(self.part, i) };
        }
        // SAFETY: inside the array, and in its part; this buffer is not written in this phase.
        unsafe { *self.was.wrapping_add(i) }
    }

    /// The whole array as it was when the phase began. Panics in a stage that is declared as `write`, and
    /// in a cut launch whose partition map gives less than all.
    #[inline]
    #[track_caller]
    pub fn was(&self) -> &[T] {
        if self.usage == Use::Write {
            not_declared("reads any element", self.usage);
        }
        if !self.part.is_null() {
            // SAFETY: a part lives as long as the launch.
            unsafe { check_all(self.part, self.len, "`was`") };
        }
        // SAFETY: all of it is present; this buffer is not written in this phase.
        unsafe { std::slice::from_raw_parts(self.was, self.len) }
    }

    /// The own element as it is now. In a stage that is declared as `read`, as the phase began.
    #[inline]
    pub fn own(&self) -> T {
        // SAFETY: the own element lies inside the array and its part, and is written only here.
        unsafe { *self.next.wrapping_add(self.own) }
    }

    /// Sets the own element, for the next phase. Panics in a stage that is declared as `read`.
    #[inline]
    #[track_caller]
    pub fn set(&mut self, value: T) {
        if self.usage == Use::Read {
            not_declared("sets its element", self.usage);
        }
        // SAFETY: the own element lies inside the array and its part, and has no other user.
        unsafe { *self.next.wrapping_add(self.own) = value }
    }
}

impl<T: Element> PhasedSpan<'_, T> {
    /// The whole array as it was when the phase began. Panics in a stage that is declared as `write`, and
    /// in a cut launch whose partition map gives less than all.
    #[inline]
    #[track_caller]
    pub fn was(&self) -> &[T] {
        if self.usage == Use::Write {
            not_declared("reads any element", self.usage);
        }
        if !self.part.is_null() {
            // SAFETY: a part lives as long as the launch.
            unsafe { check_all(self.part, self.len, "`was`") };
        }
        // SAFETY: all of it is present; this buffer is not written in this phase.
        unsafe { std::slice::from_raw_parts(self.was, self.len) }
    }

    /// The run's own elements, for the next phase; they start as they are now. Panics in a stage that
    /// is declared as `read`.
    #[inline]
    #[track_caller]
    pub fn own(&mut self) -> &mut [T] {
        if self.usage == Use::Read {
            not_declared("sets its elements", self.usage);
        }
        // SAFETY: the own elements have no other user; with one buffer `was` cannot be called.
        unsafe { std::slice::from_raw_parts_mut(self.next.wrapping_add(self.own), self.count) }
    }

    /// [`was`](Self::was) and [`own`](Self::own) at once.
    #[inline]
    #[track_caller]
    pub fn split(&mut self) -> (&[T], &mut [T]) {
        if self.usage != Use::Both {
            not_declared("reads and sets at once", self.usage);
        }
        if !self.part.is_null() {
            // SAFETY: a part lives as long as the launch.
            unsafe { check_all(self.part, self.len, "`split`") };
        }
        // SAFETY: two buffers: one that is not written, one whose own elements have no other user.
        unsafe {
            (
                std::slice::from_raw_parts(self.was, self.len),
                std::slice::from_raw_parts_mut(self.next.wrapping_add(self.own), self.count),
            )
        }
    }
}
