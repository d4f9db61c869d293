//! The names that the protocol files import from `std`: the models have them from loom.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::thread::yield_now;

/// As loom's.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(inside: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(inside))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, body: impl FnOnce(*mut T) -> R) -> R {
        body(self.0.get())
    }
}
