//! A queue of what may run, and the threads that sleep until some of it, or what comes after it, is done.
//!
//! A thread that is about to sleep enters itself, and then looks at the queue for the last time. Whatever is
//! put in after that look finds the thread. The lock of the queue orders the two. The models include this
//! file beside their own `sync`.

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering::*};
use std::collections::VecDeque;

/// An entry that may run.
pub(super) trait Job {
    /// Entries of a higher priority come first.
    fn priority(&self) -> i32;
}

/// A thread that sleeps.
pub(super) trait Sleeper: Clone {
    /// True if they are the same thread.
    fn is(&self, other: &Self) -> bool;
    /// Wakes it.
    fn nudge(&self);
}

/// The queue, and the threads that sleep.
pub(super) struct Queue<J, S> {
    /// By priority; equals in the order in which they came.
    jobs: Mutex<VecDeque<J>>,
    /// Their number, to be read without the lock.
    len: AtomicUsize,
    /// How often something was put in or taken out, to be read without the lock.
    changes: AtomicUsize,
    sleepers: Mutex<Vec<S>>,
    /// The number of sleepers.
    sleeping: AtomicUsize,
}

impl<J: Job, S: Sleeper> Queue<J, S> {
    pub fn new() -> Queue<J, S> {
        let (jobs, sleepers) = (Mutex::new(VecDeque::new()), Mutex::new(Vec::new()));
        let [len, changes, sleeping] = [(); 3].map(|()| AtomicUsize::new(0));
        Queue { jobs, len, changes, sleepers, sleeping }
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<J>> {
        self.jobs.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<S>> {
        self.sleepers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// A number that is another one after each change.
    pub fn changes(&self) -> usize {
        self.changes.load(Relaxed)
    }

    fn changed(&self, jobs: &VecDeque<J>) {
        self.changes.store(self.changes.load(Relaxed).wrapping_add(1), Relaxed);
        self.len.store(jobs.len(), Release);
    }

    /// Puts an entry behind all of its priority or a higher one. Returns how many there are now.
    pub fn push(&self, job: J) -> usize {
        let mut jobs = self.jobs();
        let at = match jobs.back() {
            Some(last) if last.priority() < job.priority() => {
                jobs.partition_point(|before| before.priority() >= job.priority())
            }
            _ => jobs.len(),
        };
        jobs.insert(at, job);
        self.changed(&jobs);
        jobs.len()
    }

    /// Takes out the entry at the index that `which` returns, if any.
    pub fn take(&self, which: impl FnOnce(&VecDeque<J>) -> Option<usize>) -> Option<J> {
        if self.len() == 0 {
            return None;
        }
        self.take_late(which)
    }

    /// As [`take`](Self::take), for a thread that is about to sleep.
    pub fn take_late(&self, which: impl FnOnce(&VecDeque<J>) -> Option<usize>) -> Option<J> {
        let mut jobs = self.jobs();
        let at = which(&jobs)?;
        let job = jobs.remove(at);
        self.changed(&jobs);
        job
    }

    /// Enters a thread that is about to sleep; it looks with [`take_late`](Self::take_late) after this. It
    /// leaves when the answer is dropped.
    pub fn enter(&self, sleeper: &S) -> Entered<'_, J, S> {
        self.sleepers().push(sleeper.clone());
        self.sleeping.fetch_add(1, Relaxed);
        Entered { queue: self, sleeper: sleeper.clone() }
    }

    /// Wakes one of the sleeping threads that `waits` says wait for what was just put in. True if there was
    /// one: it takes the entry out, if no other thread has.
    pub fn nudge(&self, waits: impl FnMut(&S) -> bool) -> bool {
        if self.sleeping.load(Relaxed) == 0 {
            return false;
        }
        let mut sleepers = self.sleepers();
        let Some(at) = sleepers.iter().position(waits) else { return false };
        let sleeper = sleepers.swap_remove(at);
        self.sleeping.fetch_sub(1, Relaxed);
        drop(sleepers);
        sleeper.nudge();
        true
    }
}

/// A thread that sleeps, or is about to.
pub(super) struct Entered<'q, J: Job, S: Sleeper> {
    queue: &'q Queue<J, S>,
    sleeper: S,
}

impl<J: Job, S: Sleeper> Drop for Entered<'_, J, S> {
    fn drop(&mut self) {
        let mut sleepers = self.queue.sleepers();
        // A nudge has removed it already.
        if let Some(at) = sleepers.iter().position(|other| other.is(&self.sleeper)) {
            sleepers.swap_remove(at);
            self.queue.sleeping.fetch_sub(1, Relaxed);
        }
    }
}
