//! The names that a published value imports from `std`, from loom.

pub(super) use loom::cell::UnsafeCell as Place;
pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(super) fn barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

pub(super) fn spin(_: u32) {
    loom::thread::yield_now();
}

/// A number above 0 that was never given before.
pub(super) fn fresh() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
