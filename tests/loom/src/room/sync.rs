//! What the file under test takes from `std`, from loom.

pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
