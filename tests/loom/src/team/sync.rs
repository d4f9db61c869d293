//! The names that the team's `sync` imports from `std`, from loom.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering, fence};
pub(crate) use loom::thread::yield_now;

/// No process forks here.
pub(crate) fn before_sleep() {}
