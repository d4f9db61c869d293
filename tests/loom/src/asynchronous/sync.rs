//! The names that the order, the outcome and the queue import from `std`, from loom.

pub(super) use loom::sync::atomic::{AtomicUsize, Ordering};
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

/// No process forks here.
pub(super) fn is_child() -> bool {
    false
}

pub(super) fn before_sleep() {}
