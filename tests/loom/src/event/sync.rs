//! The names that user events import from `std`, from loom.

pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
