//! [`Scatter`](super::Scatter): stores and atomic operations anywhere in an array.
//!
//! All that a launch does to such an array is atomic, if only by words of an element. So no two of its
//! threads race, whatever the kernel does; an element of several words may be torn.

use super::part::{check, outside};
use crate::kernel::Element;
use flash_types::abi;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

mod sealed {
    pub trait Sealed {}
}

/// Numbers with atomic operations: `u32`, `u64`, `i32`, `i64`, `f32`, `f64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no atomic operations",
    label = "u32, u64, i32, i64, f32 and f64 have them; a `Scatter` of other elements has `load` and `store`"
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

/// The words of an element: what is loaded and stored at once, as large as its alignment says.
macro_rules! of_words {
    ($t:ty, $f:ident($($argument:expr),*)) => {
        match align_of::<$t>() {
            1 => $f::<$t, u8>($($argument),*),
            2 => $f::<$t, u16>($($argument),*),
            4 => $f::<$t, u32>($($argument),*),
            _ => $f::<$t, u64>($($argument),*),
        }
    };
}

trait Word: Copy {
    /// # Safety
    /// `at` is valid and aligned, and every access to it meanwhile is atomic.
    unsafe fn load(at: *mut Self) -> Self;
    /// # Safety
    /// As `load`.
    unsafe fn store(at: *mut Self, word: Self);
}

macro_rules! words {
    ($($t:ty, $atomic:ident;)*) => {$(
        impl Word for $t {
            #[inline(always)]
            unsafe fn load(at: *mut $t) -> $t {
                // SAFETY: valid, aligned, and accessed atomically: the caller vouches.
                unsafe { $atomic::from_ptr(at) }.load(Relaxed)
            }
            #[inline(always)]
            unsafe fn store(at: *mut $t, word: $t) {
                // SAFETY: as above.
                unsafe { $atomic::from_ptr(at) }.store(word, Relaxed);
            }
        }
    )*};
}

words! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// # Safety
/// `at` is valid, and every access to it meanwhile is by words or larger ones that are atomic. The size of
/// `T` is a multiple of `W`'s, and its alignment no smaller.
#[inline(always)]
unsafe fn load_words<T: Element, W: Word>(at: *mut T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    for i in 0..size_of::<T>() / size_of::<W>() {
        // SAFETY: word i of the element and of the value, for which the caller vouches.
        unsafe { value.as_mut_ptr().cast::<W>().add(i).write(W::load(at.cast::<W>().add(i))) };
    }
    // SAFETY: all of its words are written, and any bytes are an `Element`.
    unsafe { value.assume_init() }
}

/// # Safety
/// As [`load_words`].
#[inline(always)]
unsafe fn store_words<T: Element, W: Word>(at: *mut T, value: T) {
    for i in 0..size_of::<T>() / size_of::<W>() {
        // SAFETY: word i of the element and of the value, for which the caller vouches. An `Element` has no
        // padding, whose bytes would be no values.
        unsafe { W::store(at.cast::<W>().add(i), (&raw const value).cast::<W>().add(i).read()) };
    }
}

/// The view of every door: any work item may use it, on any element.
#[derive(Clone, Copy)]
pub struct ScatterView<'k, T> {
    data: *mut T,
    len: usize,
    /// NULL: all of the array is present.
    part: *const abi::Part,
    /// Where stores are checked, a number for each element: the mark of the phase that has stored it last.
    stored: *mut u32,
    borrow: PhantomData<&'k T>,
}

impl<T: Element> ScatterView<'_, T> {
    /// # Safety
    /// `arg` is a scatter argument of `T` that only this launch touches, and only atomically.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(arg: &abi::Arg) -> Self {
        let (data, stored) = (arg.data.cast(), arg.next.cast());
        ScatterView { data, len: arg.len as usize, part: arg.part, stored, borrow: PhantomData }
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
        // SAFETY: inside the array; all accesses of this launch are atomic, by words at least.
        unsafe { of_words!(T, load_words(self.at(i))) }
    }

    /// Replaces element `i`. No two work items of a phase store the same element: the result would be the
    /// value of one of them or, if it has several fields, some from one and some from another. With
    /// `FLASH_CHECK_WRITES=1` this is an error, where the kernel runs on the CPU.
    ///
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::kernel::prelude::*;
    ///
    /// /// `to[place[i]] = from[i]`, where all places are different.
    /// #[derive(KernelDefinition)]
    /// #[kernel(name = "doc.permute", dims(i))]
    /// struct Permute<'a> {
    ///     place: Item<'a, Read<u32>>,
    ///     from: Item<'a, Read<[f32; 3]>>,
    ///     to: Scatter<'a, [f32; 3]>,
    /// }
    ///
    /// struct Once;
    ///
    /// #[kernel(devices)]
    /// impl CpuItem<Permute<'_>> for Once {
    ///     fn item(_: Index<1>, k: PermuteItem<'_>) {
    ///         k.to.store(*k.place as usize, *k.from);
    ///     }
    /// }
    /// # let (from, to) = (vec![[1.0; 3], [2.0; 3]], flash_core::FlashMemory::<[f32; 3]>::zeroed(2));
    /// # rt.submit(Permute::of(&vec![1, 0], &from, &to)).exec([2])?;
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn store(&self, i: usize, value: T) {
        let at = self.at(i);
        if !self.stored.is_null() {
            // SAFETY: a number for each element, which lives as long as the launch.
            unsafe { note_store(self.stored.add(i), i) };
        }
        // SAFETY: as above.
        unsafe { of_words!(T, store_words(at, value)) }
    }
}

/// Panics if this element was stored before in this phase.
///
/// # Safety
/// `stored` is its number, and every access to it meanwhile is atomic.
#[cold]
#[inline(never)]
#[track_caller]
unsafe fn note_store(stored: *mut u32, i: usize) {
    let mark = crate::nested::mark();
    // SAFETY: the caller vouches.
    let before = unsafe { AtomicU32::from_ptr(stored) }.swap(mark, Relaxed);
    assert!(
        before != mark,
        "FLASH_CHECK_WRITES: element {i} of a `Scatter` is stored twice in this phase: let each element be stored by one work item, or use `swap`, `add`, `min` or `max`"
    );
}

impl<T: AtomicElement> ScatterView<'_, T> {
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
}
