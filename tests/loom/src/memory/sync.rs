//! The names that the word imports from `std`, from loom. All memories park in one slot, so that a waiter is
//! woken for another memory, too; no thread spins first.

use super::word::Slot;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

loom::lazy_static! {
    static ref PARKING: Slot = Slot { lock: Mutex::new(()), wake: Condvar::new() };
}

pub(super) fn with_slot<R>(_: usize, f: impl FnOnce(&Slot) -> R) -> R {
    f(&PARKING)
}

pub(super) fn spin(_: u32) -> bool {
    false
}

/// No process forks here.
pub(super) fn is_child() -> bool {
    false
}

/// Sleeping threads are not counted here.
pub(super) fn asleep<R>(body: impl FnOnce() -> R) -> R {
    body()
}
