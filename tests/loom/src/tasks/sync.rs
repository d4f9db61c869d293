//! The atomics of loom.

pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
