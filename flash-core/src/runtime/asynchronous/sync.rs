//! What [`order`](super::order) and [`outcome`](super::outcome) take from `std`. The models have another
//! file of this name, over loom.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
