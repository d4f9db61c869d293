//! The names that [`user`](super::user) imports from `std`. The models have another file of this name, over
//! loom.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
