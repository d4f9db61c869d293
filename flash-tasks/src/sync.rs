//! The atomics of the files that `tests/loom` models.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
