//! The parts of `std` that the protocol files use. The model checker includes those files beside its own
//! `sync`, which takes the same names from loom, so they name `super::sync` and never `std::sync`.

pub(crate) use flash_backend::fork::before_sleep;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// `std`'s cell with the interface of loom's.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
