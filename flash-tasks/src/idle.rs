//! When to wake a worker: the count of threads that run tasks, and of those among them that look for some.
//!
//! *Invariant.* No task is left lying while a worker sleeps that may run it. A thread that makes a task
//! available ([`Activity::wanted`]) publishes it, then looks at the counts. A thread that finds nothing
//! ([`Activity::leave`]) takes itself out of the counts, then looks at the queues for the last time. Both have
//! a full fence in between, so one of the two sees the other. Model-checked (`tests/loom`).
//!
//! A thread that searches will find the task, or another one, and then it wakes the next
//! ([`Activity::found`]). So at most one worker is woken at a time, and none while one searches.

use super::sync::{AtomicU64, Ordering, fence};

/// The number of threads that run tasks or look for some, and in the upper half, of those that look.
pub(crate) struct Activity(AtomicU64);

const ACTIVE: u64 = 1;
const SEARCHING: u64 = 1 << 32;

impl Activity {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Activity {
        Activity(AtomicU64::new(0))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Activity {
        Activity(AtomicU64::new(0))
    }

    /// True if a worker should be woken for a task that this thread has just published: none searches, and
    /// fewer than `limit` are active.
    #[inline]
    pub(crate) fn wanted(&self, limit: u32) -> bool {
        fence(Ordering::SeqCst);
        self.seems_wanted(limit)
    }

    /// As [`wanted`](Self::wanted), for a task that this thread will run itself if no other does: without the
    /// fence, a worker that goes to sleep at the same moment may be overlooked.
    #[inline]
    pub(crate) fn seems_wanted(&self, limit: u32) -> bool {
        let now = self.0.load(Ordering::Relaxed);
        now < SEARCHING && (now as u32) < limit
    }

    /// This thread runs tasks now, and `searches` or has one already.
    pub(crate) fn enter(&self, searches: bool) {
        self.0.fetch_add(ACTIVE + if searches { SEARCHING } else { 0 }, Ordering::SeqCst);
    }

    /// This active thread begins to look for a task.
    pub(crate) fn search(&self) {
        self.0.fetch_add(SEARCHING, Ordering::SeqCst);
    }

    /// A searching thread has found a task. True if no other one searches now: if there are more tasks, a
    /// worker should be woken.
    pub(crate) fn found(&self) -> bool {
        self.0.fetch_sub(SEARCHING, Ordering::SeqCst) < 2 * SEARCHING
    }

    /// The number of active threads.
    pub(crate) fn active(&self) -> u32 {
        self.0.load(Ordering::Relaxed) as u32
    }

    /// This thread stops running tasks. It must look once more at the queues then, and enter again if there
    /// is something.
    pub(crate) fn leave(&self, searched: bool) {
        self.0.fetch_sub(ACTIVE + if searched { SEARCHING } else { 0 }, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}
