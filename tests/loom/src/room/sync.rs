//! The names that the file under test imports from `std`, from loom.

pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

/// No process forks here.
pub(super) fn before_sleep() {}
