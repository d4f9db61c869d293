//! What the order and the outcome take from `std`, from loom.

pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
