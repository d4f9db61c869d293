//! What user events take from `std`, from loom.

pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
