//! The names that [`published`](super::published) imports from `std`. The models have another file of this
//! name, over loom.

pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use std::cell::UnsafeCell;

/// A place that several threads may read, or one may write.
pub(super) struct Place<T>(UnsafeCell<T>);

impl<T> Place<T> {
    pub fn new(value: T) -> Place<T> {
        Place(UnsafeCell::new(value))
    }

    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(*const T) -> R) -> R {
        body(self.0.get())
    }

    pub fn with_mut<R>(&self, body: impl FnOnce(*mut T) -> R) -> R {
        body(self.0.get())
    }
}

/// Empty: the orders are SeqCst. (Loom takes that for AcqRel, so the models have a fence here.)
#[inline]
pub(super) fn barrier() {}

/// Waits a moment.
pub(super) fn spin(round: u32) {
    if round < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// A number above 0 that was never given before.
pub(super) fn fresh() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
