//! What is queued: jobs, and the queues that threads share.
//!
//! *Invariant.* A job is in one queue at most, and what takes it out runs it, once.

use crate::thread::{Own, lock};
use crate::workers::{wake_if_wanted, worker_count};
use flash_core::workers;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The outermost scope, join, graph or future that a job belongs to: see `thread.rs`. 0: none.
pub(crate) type Root = u64;

/// No task has this one.
pub(crate) const NO_ROOT: Root = Root::MAX;

/// The beginning of everything that can be queued.
#[repr(C)]
pub(crate) struct JobHeader {
    /// Runs it, once. It does not unwind.
    pub(crate) run: unsafe fn(NonNull<JobHeader>, &'static Own),
    pub(crate) root: Root,
}

/// Something to run, once. It stays alive until it has run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job(pub(crate) NonNull<JobHeader>);

impl Job {
    pub(crate) fn root(&self) -> Root {
        // SAFETY: it has not run, so it is alive.
        unsafe { self.0.as_ref() }.root
    }
}

// SAFETY: what makes a job promises that any thread may run it.
unsafe impl Send for Job {}

/// Tasks that come before all others, by their priority.
pub(crate) static URGENT: Shelf = Shelf::new();

/// Tasks that come after all others.
pub(crate) static LATER: Shelf = Shelf::new();

/// Others of no thread's queue.
pub(crate) static SHARED: Shelf = Shelf::new();

/// Tasks of one worker each, by its index.
pub(crate) fn bound() -> &'static [Shelf] {
    static BOUND: OnceLock<Box<[Shelf]>> = OnceLock::new();
    BOUND.get_or_init(|| (0..worker_count()).map(|_| Shelf::new()).collect())
}

/// Queues a job that one worker runs: that of the index, which counts round.
pub(crate) fn bind(job: Job, worker: usize) {
    if flash_core::fork::is_child() {
        // No worker is here.
        return inject(job, &SHARED);
    }
    let bound = bound();
    bound[worker % bound.len()].push(job);
    // Workers cannot be addressed.
    workers::wake_all();
}

/// Queues a job where any thread finds it.
pub(crate) fn inject(job: Job, shelf: &Shelf) {
    let root = job.root();
    shelf.push(job);
    wake_if_wanted(root);
}

/// A queue that all threads share, first in first out.
pub(crate) struct Shelf {
    jobs: Mutex<VecDeque<Job>>,
    count: AtomicUsize,
}

impl Shelf {
    const fn new() -> Shelf {
        Shelf { jobs: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, job: Job) {
        let mut jobs = lock(&self.jobs);
        jobs.push_back(job);
        self.count.store(jobs.len(), Ordering::Relaxed);
    }

    /// The first one of a root; 0: of any.
    pub(crate) fn pop(&self, root: Root) -> Option<Job> {
        if self.is_empty() {
            return None;
        }
        let mut jobs = lock(&self.jobs);
        let at = jobs.iter().position(|job| root == 0 || job.root() == root)?;
        let job = jobs.remove(at);
        self.count.store(jobs.len(), Ordering::Relaxed);
        job
    }

    /// True if there is one of a root.
    pub(crate) fn has(&self, root: Root) -> bool {
        !self.is_empty() && lock(&self.jobs).iter().any(|job| job.root() == root)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}
