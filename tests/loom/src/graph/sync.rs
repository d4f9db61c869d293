//! The names that the files under test import from `std`, from loom.

pub(super) use loom::cell::UnsafeCell;
pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(super) use loom::thread::yield_now;
