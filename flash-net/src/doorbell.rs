//! A doorbell: sleeping until something was published, without a system call of those that publish while
//! nothing sleeps, and without a lost wake-up.
//!
//! | word | changed by |
//! |---|---|
//! | `count` | each ring that finds a sleeper; the futex |
//! | `sleeping` | 1 by a thread that is about to sleep, 0 by the one that wakes it |
//!
//! A thread that publishes writes, then [`Doorbell::ring`]s; one that sleeps [`Doorbell::announce`]s itself,
//! looks once more, then [`Doorbell::sleep`]s. A fence on both sides: either the sleeper sees what was
//! written, or the ringer sees the sleeper. A ring may clear an announcement that another thread made between
//! the ring's load and its store. It changes `count` after that, so that thread does not fall asleep.
//!
//! Both words may be in memory that another process writes at will: it can wake us too often, or not at all,
//! which a limit of the sleep bounds, and no more.

use super::sync::{AtomicU32, fence, futex_wait, futex_wake};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

/// The two words, each on a cache line of its own.
#[derive(Clone, Copy)]
pub(crate) struct Doorbell<'a> {
    pub(crate) count: &'a AtomicU32,
    pub(crate) sleeping: &'a AtomicU32,
}

impl Doorbell<'_> {
    /// Wakes what sleeps, after something was published.
    pub(crate) fn ring(self) {
        if self.has_sleeper() {
            self.wake();
        }
    }

    /// Whether a thread sleeps, or is about to and does not see what was published before this call.
    pub(crate) fn has_sleeper(self) -> bool {
        fence(SeqCst);
        self.sleeping.load(Relaxed) != 0
    }

    /// Wakes what sleeps.
    pub(crate) fn wake(self) {
        self.sleeping.store(0, Relaxed);
        // Released: a sleeper that sees the new count announces itself after the store above.
        self.count.fetch_add(1, Release);
        futex_wake(self.count);
    }

    /// Wakes what sleeps, and lets those that look at the count alone see a new one.
    pub(crate) fn ring_always(self) {
        self.count.fetch_add(1, Release);
        self.ring();
    }

    /// Says that this thread is about to sleep. What was published before a ring that did not see this is
    /// visible after it.
    pub(crate) fn announce(self) -> u32 {
        let seen = self.count.load(Acquire);
        self.sleeping.store(1, Relaxed);
        fence(SeqCst);
        seen
    }

    /// Sleeps unless there was a ring after the announcement that gave `seen`. May return early.
    pub(crate) fn sleep(self, seen: u32, at_most: Option<Duration>) {
        futex_wait(self.count, seen, at_most);
    }
}
