//! The threads that run asynchronous pipelines: made when they are needed, parked while idle, shared by
//! all runtimes.
//!
//! A pipeline comes here when everything before it in the order has left, so no thread waits for another
//! pipeline. As many run at once as there are cores, and one more for each that says it is
//! [`blocked`](Blocked) in a host task.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

/// What to run, and the priority of its pipeline.
struct Job {
    priority: i32,
    body: Box<dyn FnOnce() + Send>,
}

/// The pool of the process.
struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    /// By priority; equals as they came.
    queue: VecDeque<Job>,
    threads: usize,
    /// Threads that are parked and not called.
    idle: usize,
    /// Calls that no parked thread has heard yet.
    calls: usize,
    /// Threads that are in a host task.
    blocked: usize,
}

static POOL: Pool = Pool {
    state: Mutex::new(State { queue: VecDeque::new(), threads: 0, idle: 0, calls: 0, blocked: 0 }),
    work: Condvar::new(),
};

thread_local! {
    static WORKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// As many run at once.
fn limit() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from).max(2))
}

/// Runs `body` on a thread of the pool, before all of a lower priority that wait for one. Where not even one thread
/// can be made, this one does what waits, until nothing does.
pub(super) fn run(priority: i32, body: impl FnOnce() + Send + 'static) {
    let mut state = POOL.lock();
    let at = state.queue.partition_point(|before| before.priority >= priority);
    state.queue.insert(at, Job { priority, body: Box::new(body) });
    POOL.serve(state);
}

/// While it is alive, this thread does not count among those that run: another may take its place. It
/// does nothing on threads that are not the pool's.
pub(super) struct Blocked(bool);

impl Blocked {
    pub fn begin() -> Blocked {
        let worker = WORKER.get();
        if worker {
            let mut state = POOL.lock();
            state.blocked += 1;
            POOL.serve(state);
        }
        Blocked(worker)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if self.0 {
            POOL.lock().blocked -= 1;
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sees to it that what was queued is taken: by a parked thread, a new one, or one that is busy and
    /// will come back.
    fn serve(&'static self, mut state: MutexGuard<'static, State>) {
        let running = state.threads - state.idle - state.blocked;
        if state.queue.is_empty() || running >= limit() {
            return;
        }
        if state.idle > 0 {
            state.idle -= 1;
            state.calls += 1;
            self.work.notify_one();
            return;
        }
        let made = std::thread::Builder::new().name("flash-async".into()).spawn(|| POOL.work());
        if made.is_ok() {
            state.threads += 1;
        } else if running == 0 {
            // This is one meanwhile: what its jobs add waits for it, and is not run inside them.
            let worker = WORKER.replace(true);
            state.threads += 1;
            state = self.drain(state);
            state.threads -= 1;
            WORKER.set(worker);
        }
    }

    /// Runs what waits, until nothing does.
    fn drain(&'static self, mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
        while let Some(job) = state.queue.pop_front() {
            drop(state);
            (job.body)();
            state = self.lock();
        }
        state
    }

    /// What a thread does: jobs while there are some, then it parks; it ends if enough others are parked.
    fn work(&'static self) {
        WORKER.set(true);
        let mut state = self.lock();
        loop {
            state = self.drain(state);
            if state.idle >= limit() {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            while state.calls == 0 {
                state = self.work.wait(state).unwrap_or_else(|e| e.into_inner());
            }
            state.calls -= 1;
        }
    }
}
