//! The names that the order and the outcome import from `std`, from loom.

pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
