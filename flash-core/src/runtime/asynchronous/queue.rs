//! A queue of what may run, and the threads that sleep until some of it, or what comes after it, is done.
//!
//! A thread that is about to sleep enters itself before it looks at the queue for the last time; whatever comes into the
//! queue after that look finds the thread. The lock of the queue orders the two. The models include this file beside
//! their own `sync`.

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering::*};
use std::collections::VecDeque;

/// Something that may run.
pub(super) trait Job {
    /// Of a higher priority: before others.
    fn priority(&self) -> i32;
}

/// A thread that sleeps.
pub(super) trait Sleeper: Clone {
    /// True if they are the same.
    fn is(&self, other: &Self) -> bool;
    /// Wakes it.
    fn nudge(&self);
}

/// The queue, and the threads that sleep.
pub(super) struct Queue<J, S> {
    /// By priority; equals as they came.
    jobs: Mutex<VecDeque<J>>,
    /// How many there are, to look at without the lock.
    len: AtomicUsize,
    sleepers: Mutex<Vec<S>>,
    /// How many sleepers there are.
    sleeping: AtomicUsize,
}

impl<J: Job, S: Sleeper> Queue<J, S> {
    pub fn new() -> Queue<J, S> {
        let (jobs, sleepers) = (Mutex::new(VecDeque::new()), Mutex::new(Vec::new()));
        Queue { jobs, len: AtomicUsize::new(0), sleepers, sleeping: AtomicUsize::new(0) }
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<J>> {
        self.jobs.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<S>> {
        self.sleepers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// Puts something behind what has its priority or a higher one; how many there are now.
    pub fn push(&self, job: J) -> usize {
        let mut jobs = self.jobs();
        let at = match jobs.back() {
            Some(last) if last.priority() < job.priority() => {
                jobs.partition_point(|before| before.priority() >= job.priority())
            }
            _ => jobs.len(),
        };
        jobs.insert(at, job);
        self.len.store(jobs.len(), Release);
        jobs.len()
    }

    /// Takes out what `which` says, by its number, if there is anything.
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
        self.len.store(jobs.len(), Release);
        job
    }

    /// A thread is about to sleep: it looks with [`take_late`](Self::take_late) after this. It leaves when the answer is
    /// dropped.
    pub fn enter(&self, sleeper: &S) -> Entered<'_, J, S> {
        self.sleepers().push(sleeper.clone());
        self.sleeping.fetch_add(1, Relaxed);
        Entered { queue: self, sleeper: sleeper.clone() }
    }

    /// Wakes one of the threads that sleep and wait for what was just put in, as `waits` says. True if there was one:
    /// it takes it out, if nothing else has.
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
        // Unless it was nudged.
        if let Some(at) = sleepers.iter().position(|other| other.is(&self.sleeper)) {
            sleepers.swap_remove(at);
            self.queue.sleeping.fetch_sub(1, Relaxed);
        }
    }
}
