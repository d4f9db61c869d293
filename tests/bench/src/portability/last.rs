//! How long the last direct call took.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// Takes the time of a call.
pub fn time<R>(call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    NANOSECONDS.store(start.elapsed().as_nanos() as u64, Relaxed);
    result
}

/// What it was.
pub fn nanoseconds() -> f64 {
    NANOSECONDS.load(Relaxed) as f64
}
