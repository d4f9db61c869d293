//! The names that [`table`](super::table) imports from `std`. The models have another file of this name, over
//! loom.

pub(super) use flash_backend::fork::{before_sleep, is_child};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
