//! The tasks as a source of work of the process's workers: how many run tasks, and which thread is woken for
//! one.

use crate::idle::Part;
use crate::jobs::{Root, Shelf, bound};
use crate::thread::{ACTIVITY, AWAKE, IDLE, Own, PARKED, Shared};
use flash_core::workers::{self, Registration, Source};
use flash_trace::hooks::{Category, begin};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A worker leaves the tasks for a moment after this time, for work of other sources.
const TURN: Duration = Duration::from_micros(200);
/// A worker without a task looks for one for this long before it leaves the tasks.
const SEARCH: Duration = Duration::from_micros(5);

/// At most this many threads run tasks at once. 0 until a thread uses tasks.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Changes when a worker looks for tasks, and after a thread that may be called for some has gone to sleep or
/// is awake again: then the last call says nothing about the next.
pub(crate) static LOOKS: AtomicU32 = AtomicU32::new(0);

#[inline]
pub(crate) fn limit() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}

/// The number of workers that run tasks, started or not. Threads that wait run tasks, too.
pub fn worker_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(workers::count)
}

/// Sets the limit of workers that run tasks at the same time, at least 1: workers beyond it finish the tasks
/// that they have begun, and take no others. `None`: all workers, as at the start. It may change at any time.
///
/// Fewer workers save energy where tasks wait for memory anyway.
pub fn set_limit(threads: Option<usize>) {
    register_source();
    LIMIT.store(threads.unwrap_or_else(worker_count).max(1) as u64, Ordering::Relaxed);
    workers::wake_all();
}

pub(crate) fn beyond_limit() -> bool {
    let limit = limit();
    limit < worker_count() as u64 && ACTIVITY.workers() > limit
}

/// Wakes a thread if one is wanted for a job of `root` that was just queued.
#[inline]
pub(crate) fn wake_if_wanted(root: Root) {
    if ACTIVITY.wanted(limit()) {
        wake_for(root);
    }
}

/// Wakes the thread that sleeps and waits for `root`, or a worker.
#[cold]
pub(crate) fn wake_for(root: Root) {
    for thread in Own::here().victims().iter() {
        let sleeps = thread.rest.load(Ordering::SeqCst) == PARKED;
        if sleeps && thread.filter.load(Ordering::Relaxed) == root {
            return thread.call();
        }
    }
    if ACTIVITY.wants_worker(limit()) {
        workers::wake(1);
    }
}

impl Own {
    /// True if a worker has something to do.
    fn has_work(&self) -> bool {
        self.shared.has_mail.load(Ordering::Acquire)
            || !self.waiting_turn.borrow().is_empty()
            || self.bound().is_some_and(|bound| !bound.is_empty())
            || (!beyond_limit() && self.any_queued())
    }

    /// A worker that was in the middle of something of rayon's when it was called for what only it may do has
    /// not come, and goes to sleep without a look. True if there is one such, which is called once more.
    fn calls_again(&self) -> bool {
        let threads = self.victims();
        let idle = |thread: &Shared| thread.rest.load(Ordering::Relaxed) == IDLE;
        let has_mail = |thread: &Shared| thread.has_mail.load(Ordering::Relaxed) && idle(thread);
        // A worker that has not run tasks yet has no index.
        let of = |index| threads.iter().find(|thread| thread.index.load(Ordering::Relaxed) == index);
        let waits = |(index, shelf): (usize, &Shelf)| {
            !shelf.is_empty() && of(index).is_none_or(|thread| idle(thread))
        };
        let any = threads.iter().any(|thread| has_mail(thread)) || bound().iter().enumerate().any(waits);
        if any {
            std::thread::sleep(Duration::from_millis(1));
            workers::wake_all();
        }
        any
    }
}

/// The tasks as a source of work of the process's workers.
struct Tasks;

impl Source for Tasks {
    fn run_one(&self) -> bool {
        static WORKERS: AtomicUsize = AtomicUsize::new(0);
        LOOKS.fetch_add(1, Ordering::Relaxed);
        let own = Own::here();
        if own.index.get().is_none() && !workers::is_extra() {
            let index = WORKERS.fetch_add(1, Ordering::Relaxed);
            own.index.set((index < worker_count()).then_some(index));
            own.shared.index.store(index, Ordering::Relaxed);
        }
        if !own.has_work() {
            own.shared.rest.store(IDLE, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !own.has_work() {
                return own.calls_again();
            }
        }
        own.shared.rest.store(AWAKE, Ordering::Relaxed);
        own.until.set(Some(Instant::now() + TURN));
        let _span = begin(Category::Worker, "tasks", [0; 2]);
        ACTIVITY.enter(Part::SEARCHES);
        own.active.set(true);
        own.worker.set(true);
        own.searching.set(true);
        let mut since = None;
        // For a while after the last task, it is likely that more come.
        while own.run() && since.get_or_insert_with(Instant::now).elapsed() < SEARCH {
            std::hint::spin_loop();
        }
        own.leaves();
        own.worker.set(false);
        own.until.set(None);
        true
    }
}

pub(crate) fn register_source() {
    static REGISTRATION: OnceLock<Registration> = OnceLock::new();
    REGISTRATION.get_or_init(|| {
        // The number of workers is asked of a backend: not where a task is queued.
        LIMIT.store(worker_count() as u64, Ordering::Relaxed);
        workers::register(Arc::new(Tasks))
    });
}
