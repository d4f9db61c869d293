//! [`Scatter`](super::Scatter): atomic operations anywhere in an array.

use super::part::{check, outside};
use crate::kernel::Element;
use flash_types::abi;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

mod sealed {
    pub trait Sealed {}
}

/// Numbers with atomic operations: `u32`, `u64`, `i32`, `i64`, `f32`, `f64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no atomic operations",
    label = "a `Scatter` is of u32, u64, i32, i64, f32 or f64"
)]
pub trait AtomicElement: Element + PartialOrd + sealed::Sealed {
    /// # Safety
    /// `at` is valid, and every access to it meanwhile is atomic.
    #[doc(hidden)]
    unsafe fn update(at: *mut Self, f: impl Fn(Self) -> Self) -> Self;
    /// # Safety
    /// As `update`.
    #[doc(hidden)]
    unsafe fn fetch_add(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As `update`.
    #[doc(hidden)]
    unsafe fn load(at: *mut Self) -> Self;
}

macro_rules! atomic {
    ($($t:ty, $atomic:ident, |$p:ident, $v:ident| $add:expr, $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $t {}
        impl AtomicElement for $t {
            #[inline]
            unsafe fn update(at: *mut $t, f: impl Fn($t) -> $t) -> $t {
                // SAFETY: valid, aligned, and accessed atomically: the caller vouches.
                let cell = unsafe { $atomic::from_ptr(at.cast()) };
                let mut old = cell.load(Relaxed);
                loop {
                    match cell.compare_exchange_weak(old, $to(f($from(old))), Relaxed, Relaxed) {
                        Ok(_) => return $from(old),
                        Err(now) => old = now,
                    }
                }
            }
            #[inline]
            unsafe fn fetch_add($p: *mut $t, $v: $t) -> $t {
                // SAFETY: as above.
                unsafe { $add }
            }
            #[inline]
            unsafe fn load(at: *mut $t) -> $t {
                // SAFETY: as above.
                $from(unsafe { $atomic::from_ptr(at.cast()) }.load(Relaxed))
            }
        }
    )*};
}

atomic! {
    u32, AtomicU32, |p, v| AtomicU32::from_ptr(p).fetch_add(v, Relaxed), std::convert::identity, std::convert::identity;
    u64, AtomicU64, |p, v| AtomicU64::from_ptr(p).fetch_add(v, Relaxed), std::convert::identity, std::convert::identity;
    i32, AtomicI32, |p, v| AtomicI32::from_ptr(p).fetch_add(v, Relaxed), std::convert::identity, std::convert::identity;
    i64, AtomicI64, |p, v| AtomicI64::from_ptr(p).fetch_add(v, Relaxed), std::convert::identity, std::convert::identity;
    f32, AtomicU32, |p, v| Self::update(p, |old| old + v), f32::to_bits, f32::from_bits;
    f64, AtomicU64, |p, v| Self::update(p, |old| old + v), f64::to_bits, f64::from_bits;
}

/// The view of every door: any work item may use it, on any element.
#[derive(Clone, Copy)]
pub struct ScatterView<'k, T> {
    data: *mut T,
    len: usize,
    /// NULL: all of the array is present.
    part: *const abi::Part,
    borrow: PhantomData<&'k T>,
}

impl<T: AtomicElement> ScatterView<'_, T> {
    /// # Safety
    /// `arg` is a scatter argument of `T` that only this launch touches, and only atomically.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(arg: &abi::Arg) -> Self {
        ScatterView { data: arg.data.cast(), len: arg.len as usize, part: arg.part, borrow: PhantomData }
    }

    #[inline]
    #[track_caller]
    fn at(&self, i: usize) -> *mut T {
        if i >= self.len {
            outside(i, self.len);
        }
        if !self.part.is_null() {
            // SAFETY: a part lives as long as the launch.
            unsafe { check(self.part, i) };
        }
        // Inside the array and its part; element 0 need not be present.
        self.data.wrapping_add(i)
    }

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

    /// Element `i` now. Panics outside the array, and in a cut launch outside what the partition map gives,
    /// as all of these do.
    #[inline]
    #[track_caller]
    pub fn load(&self, i: usize) -> T {
        // SAFETY: inside the array; all accesses of this launch are atomic.
        unsafe { T::load(self.at(i)) }
    }

    /// Adds to element `i` (integers wrap); returns the old value.
    #[inline]
    #[track_caller]
    pub fn add(&self, i: usize, value: T) -> T {
        // SAFETY: as above.
        unsafe { T::fetch_add(self.at(i), value) }
    }

    /// Replaces element `i` by the smaller of itself and `value`; returns the old value. A NaN in the array
    /// stays.
    #[inline]
    #[track_caller]
    pub fn min(&self, i: usize, value: T) -> T {
        // SAFETY: as above.
        unsafe { T::update(self.at(i), |old| if value < old { value } else { old }) }
    }

    /// Replaces element `i` by the larger of itself and `value`; returns the old value. A NaN in the array
    /// stays.
    #[inline]
    #[track_caller]
    pub fn max(&self, i: usize, value: T) -> T {
        // SAFETY: as above.
        unsafe { T::update(self.at(i), |old| if value > old { value } else { old }) }
    }

    /// Replaces element `i`; returns the old value.
    #[inline]
    #[track_caller]
    pub fn swap(&self, i: usize, value: T) -> T {
        // SAFETY: as above.
        unsafe { T::update(self.at(i), |_| value) }
    }

    /// Replaces element `i` by a function of itself, which may be called several times; returns the old
    /// value.
    #[inline]
    #[track_caller]
    pub fn update(&self, i: usize, f: impl Fn(T) -> T) -> T {
        // SAFETY: as above.
        unsafe { T::update(self.at(i), f) }
    }

    /// Writes element `i` without an atomic operation.
    ///
    /// # Safety
    /// No other work item of the phase touches element `i`.
    #[inline]
    #[track_caller]
    pub unsafe fn write(&self, i: usize, value: T) {
        // SAFETY: inside the array, and without another user in this phase.
        unsafe { *self.at(i) = value }
    }
}
