//! What a published value takes from `std`, from loom.

pub(super) use loom::cell::UnsafeCell as Place;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(super) fn barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

pub(super) fn spin(_: u32) {
    loom::thread::yield_now();
}
