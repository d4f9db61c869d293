//! How long the thread that gives out parts waits for helpers that it has called.
//!
//! A part that this thread runs itself may take long, and meanwhile no device gets another one. So helpers
//! get the time that they need to wake up: some tens of microseconds, and milliseconds where other programs
//! have the processors. They may have other work and not come at all: then a run waits no longer, and the
//! next one less.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const MOST: u64 = 4_000_000;
const LEAST: u64 = 50_000;

/// What a run begins with, in nanoseconds.
static OF_RUN: AtomicU64 = AtomicU64::new(MOST);

/// What is left of a run's, in nanoseconds.
pub(super) struct Patience(u64);

/// A wait for helpers; they have come when it is dropped before the patience is over.
pub(super) struct Wait<'p> {
    left: &'p mut u64,
    began_with: u64,
}

impl Patience {
    pub fn of_run() -> Patience {
        Patience(OF_RUN.load(Relaxed))
    }

    pub fn begin(&mut self) -> Wait<'_> {
        Wait { began_with: self.0, left: &mut self.0 }
    }
}

impl Wait<'_> {
    /// Lets other threads run. False: it is over.
    pub fn wait(&mut self) -> bool {
        if *self.left == 0 {
            return false;
        }
        let start = Instant::now();
        std::thread::yield_now();
        *self.left = self.left.saturating_sub(start.elapsed().as_nanos() as u64);
        if *self.left == 0 {
            OF_RUN.store((OF_RUN.load(Relaxed) / 2).max(LEAST), Relaxed);
        }
        true
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if 0 < *self.left && *self.left < self.began_with && OF_RUN.load(Relaxed) != MOST {
            OF_RUN.store(MOST, Relaxed);
        }
    }
}
