//! How long the last direct call took.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// Takes the time of a call: the mean of several, one after the other.
pub fn time<R>(count: u64, mut call: impl FnMut() -> R) -> R {
    let start = Instant::now();
    for _ in 1..count {
        black_box(call());
    }
    let result = call();
    NANOSECONDS.store(start.elapsed().as_nanos() as u64 / count, Relaxed);
    result
}

/// What it was.
pub fn nanoseconds() -> f64 {
    NANOSECONDS.load(Relaxed) as f64
}
