//! The parts of `std` that [`outcome`](super::outcome) and [`queue`](super::queue) use. The models have
//! another file of this name, over loom.

pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
