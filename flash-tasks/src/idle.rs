//! When to wake a worker: the count of threads that run tasks, and of those among them that look for some.
//!
//! *Invariant.* No task is left lying while a thread sleeps that may run it. A thread that makes a task
//! available ([`Activity::wanted`]) publishes it, then looks at the counts. A thread that finds nothing
//! ([`Activity::leave`]) takes itself out of the counts, then looks at the queues for the last time. Both
//! have a full fence in between, so one of the two sees the other. Model-checked (`tests/loom`).
//!
//! A thread that searches will find the task, or another one, and then it wakes the next
//! ([`Activity::found`]). So at most one worker is woken at a time, and none while one searches.

use super::sync::{AtomicU64, Ordering, fence};

/// The numbers of threads that run tasks or wait for some, of workers among them, of workers among these that
/// look for a task, and of threads that sleep until tasks that they wait for have ended.
pub(crate) struct Activity(pub(crate) AtomicU64);

/// What a thread counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part(u64);

const ACTIVE: u64 = 1;
const WORKER: u64 = 1 << 16;
const SEARCHES: u64 = 1 << 32;
const SLEEPS: u64 = 1 << 48;

impl Part {
    /// A thread that waits for tasks of its own, or will.
    pub(crate) const WAITS: Part = Part(ACTIVE);
    /// A worker that runs a task.
    pub(crate) const RUNS: Part = Part(ACTIVE + WORKER);
    /// A worker that looks for a task.
    pub(crate) const SEARCHES: Part = Part(ACTIVE + WORKER + SEARCHES);
    /// A thread that sleeps until what it waits for has ended, or there is a task that it may run.
    pub(crate) const SLEEPS: Part = Part(SLEEPS);
}

impl Activity {
    /// True if a thread should be woken for a task that this thread has just published: a worker, as none
    /// searches, and fewer than `limit` threads are active, or no worker is, as threads that wait may do so
    /// in a way of their own; or one that sleeps, if it may run the task.
    #[inline]
    pub(crate) fn wanted(&self, limit: u64) -> bool {
        fence(Ordering::SeqCst);
        self.seems_wanted(limit)
    }

    /// As [`wanted`](Self::wanted), for a task that this thread will run itself if no other does: without the
    /// fence, a worker that goes to sleep at the same moment may be overlooked.
    #[inline]
    pub(crate) fn seems_wanted(&self, limit: u64) -> bool {
        let now = self.0.load(Ordering::Relaxed);
        now >= SLEEPS || Activity::lacks_worker(now, limit)
    }

    /// True if that was because of a worker.
    pub(crate) fn wants_worker(&self, limit: u64) -> bool {
        Activity::lacks_worker(self.0.load(Ordering::Relaxed) % SLEEPS, limit)
    }

    #[inline]
    fn lacks_worker(now: u64, limit: u64) -> bool {
        now < WORKER || (now < SEARCHES && now % WORKER < limit)
    }

    /// This thread becomes active, or sleeps.
    pub(crate) fn enter(&self, part: Part) {
        self.0.fetch_add(part.0, Ordering::SeqCst);
    }

    /// This worker begins to look for a task.
    pub(crate) fn search(&self) {
        self.0.fetch_add(SEARCHES, Ordering::SeqCst);
    }

    /// This worker has found a task. True if no other one searches now: if there are more tasks, a worker
    /// should be woken.
    pub(crate) fn found(&self) -> bool {
        self.0.fetch_sub(SEARCHES, Ordering::SeqCst) % SLEEPS < 2 * SEARCHES
    }

    /// The number of active workers.
    pub(crate) fn workers(&self) -> u64 {
        self.0.load(Ordering::Relaxed) % SEARCHES / WORKER
    }

    /// This thread stops being `before`, and is `after`. To be followed by a last look, as
    /// [`leave`](Self::leave), if it sleeps then.
    pub(crate) fn change(&self, before: Part, after: Part) {
        self.0.fetch_add(after.0.wrapping_sub(before.0), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// This thread stops being active. It must look once more at the queues then, and enter again if there
    /// is something.
    pub(crate) fn leave(&self, part: Part) {
        self.0.fetch_sub(part.0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}
