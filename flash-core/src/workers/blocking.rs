//! Extra threads, for work that may wait for something other than a processor: a function of the host that
//! says `blocking`, a pipeline that waits for devices ([`run`]), or a part of one that a device runs
//! ([`serve_device`]).
//!
//! There are two sorts, of at most [`limit`] threads each: pipelines wait for parts, so parts do not wait for
//! the threads of pipelines. A thread is started when work comes and none is idle, and ends after being idle
//! for [`IDLE`]. Work beyond the limit waits, by priority and then in the order in which it came.
//!
//! While pipelines are left to devices (`runtime/left_to_device.rs`), one thread of those for parts stays
//! ([`DeviceThread`]): it ends these pipelines, whatever the other threads wait for.

use flash_backend::fork::is_child;
use flash_backend::settings::process_number;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that has been idle for this long ends.
const IDLE: Duration = Duration::from_millis(500);

/// The threads of one sort.
struct Extra {
    name: &'static str,
    state: Mutex<State>,
    work: Condvar,
    /// Work waits for a thread, and there may be no more.
    waits: AtomicBool,
}

struct State {
    /// By priority; equals as they came.
    queue: VecDeque<(i32, Job)>,
    threads: usize,
    /// Threads that sleep, and may or may not find something in the queue.
    idle: usize,
    /// While it is not 0, one thread stays, idle or not.
    reserved: usize,
}

impl State {
    fn put(&mut self, priority: i32, job: Job) {
        let at = self.queue.partition_point(|(before, _)| *before >= priority);
        self.queue.insert(at, (priority, job));
    }
}

thread_local! {
    /// The name of the sort of threads that this one is of.
    static SORT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// True on an extra thread, which ends when it has been idle for a while.
pub fn is_extra() -> bool {
    SORT.get().is_some()
}

/// True on an extra thread that serves devices, and ends pipelines that were left to them.
pub(crate) fn serves_devices() -> bool {
    SORT.get() == Some(DEVICES.name)
}

static PIPELINES: Extra = Extra::new("flash-blocking");
static DEVICES: Extra = Extra::new("flash-device");

/// The limit of their number, of either sort: the setting `blocking_threads`, 8 by default, at least 1.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| process_number("blocking_threads").map_or(8, |limit| limit as usize))
}

/// Runs `job` on an extra thread, before all waiting jobs of a lower priority. Where no thread can be
/// started, this thread runs what waits.
pub(crate) fn run(priority: i32, job: Job) {
    PIPELINES.run(priority, job);
}

/// As [`run`], for a job that waits for a device and nothing else.
pub(crate) fn serve_device(job: Job) {
    DEVICES.run(0, job);
}

/// A thread that serves devices is there, and takes what [`run`](Self::run) gives it, until this is dropped.
pub(crate) struct DeviceThread(());

impl DeviceThread {
    /// `None`: no thread could be started.
    pub fn reserve() -> Option<DeviceThread> {
        DEVICES.reserve().then_some(DeviceThread(()))
    }

    /// Has a job run that waits for nothing. Starts no thread and waits for none: a thread of a backend may
    /// call it.
    pub fn run(job: Job) {
        DEVICES.give(job);
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        // The thread looks when it has been idle for a while.
        DEVICES.lock().reserved -= 1;
    }
}

/// True if work for devices waits for a thread: what serves one should leave it to work by itself.
pub(crate) fn devices_wait() -> bool {
    DEVICES.waits.load(Relaxed)
}

impl Extra {
    const fn new(name: &'static str) -> Extra {
        let state = State { queue: VecDeque::new(), threads: 0, idle: 0, reserved: 0 };
        Extra { name, state: Mutex::new(state), work: Condvar::new(), waits: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&'static self, priority: i32, job: Job) {
        if is_child() {
            return job();
        }
        let mut state = self.lock();
        state.put(priority, job);
        if state.idle >= state.queue.len() {
            drop(state);
            self.work.notify_one();
            return;
        }
        if state.threads >= limit() {
            return self.waits.store(true, Relaxed);
        }
        state.threads += 1;
        drop(state);
        if !self.start() {
            let mut state = self.lock();
            while state.threads == 0
                && let Some((_, job)) = state.queue.pop_front()
            {
                drop(state);
                job();
                state = self.lock();
            }
        }
    }

    /// Starts a thread that is counted already. False: that is not possible, and it is counted no more.
    fn start(&'static self) -> bool {
        let started = flash_backend::threads::thread(self.name).spawn(|| self.work()).is_ok();
        if !started {
            self.lock().threads -= 1;
        }
        started
    }

    /// Lets one thread stay. False: there is none.
    fn reserve(&'static self) -> bool {
        let mut state = self.lock();
        state.reserved += 1;
        if state.threads > 0 {
            return true;
        }
        state.threads += 1;
        drop(state);
        let started = self.start();
        if !started {
            self.lock().reserved -= 1;
        }
        started
    }

    /// Puts a job before all others but those put here before, for a thread that is there.
    fn give(&self, job: Job) {
        let mut state = self.lock();
        state.put(i32::MAX, job);
        let (idle, waiting) = (state.idle, state.queue.len());
        if idle < waiting {
            self.waits.store(true, Relaxed);
        }
        drop(state);
        if idle > 0 {
            self.work.notify_one();
        }
    }

    fn work(&self) {
        SORT.set(Some(self.name));
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.queue.pop_front() {
                if state.queue.is_empty() {
                    self.waits.store(false, Relaxed);
                }
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            let stays = state.reserved > 0 && state.threads == 1;
            if timeout.timed_out() && state.queue.is_empty() && !stays {
                state.threads -= 1;
                return;
            }
        }
    }
}
