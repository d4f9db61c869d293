//! Lanes: the queues in which parts and copies wait for their device.
//!
//! A lane is run in order by whoever has its turn: its own thread, or the caller of `exec`. Its head waits
//! until what it depends on is done; it depends only on what was put into lanes before it, so the lanes of
//! several pipelines cannot wait for each other in a circle.
//!
//! A caller never relies on a lane's thread: it drives every lane that it has put something into until its
//! own tasks are done. Waking a thread takes tens of microseconds, so it is done only for work that costs
//! more than that.
//!
//! Two kinds of sleep. A lane's thread whose queue is empty is *idle*: only `push` wakes it. Who cannot go
//! on because of a task in another lane is *blocked*: every task that is done wakes all of those. Both
//! look once more after they have said that they sleep, and who changes something looks for sleepers after
//! that: one of the two sees the other.

use super::task::TaskRef;
use crate::backend::DeviceHandle;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Expected nanoseconds from which it is worth to wake a lane's thread.
const WORTH_WAKING: u64 = 30_000;
/// How long a lane's thread stays awake with nothing to do.
const LINGER: Duration = Duration::from_micros(50);

/// A queue of one device.
pub(crate) struct Lane {
    name: String,
    queue: Mutex<VecDeque<TaskRef>>,
    /// Somebody runs it.
    taken: AtomicBool,
    /// Expected nanoseconds of what is in the queue.
    expected: AtomicU64,
    /// Its thread has seen an empty queue and sleeps.
    idle: AtomicBool,
    thread: OnceLock<Option<Thread>>,
}

/// The lanes of a device.
pub(crate) struct Lanes {
    pub kernels: Lane,
    pub copies: Lane,
}

impl Lanes {
    /// Those of a device.
    pub fn of(device: &'static DeviceHandle) -> &'static Lanes {
        device.lanes.get_or_init(|| Lanes {
            kernels: Lane::new(format!("flash {}", device.id())),
            copies: Lane::new(format!("flash {} copies", device.id())),
        })
    }
}

impl Lane {
    fn new(name: String) -> Lane {
        Lane {
            name,
            queue: Mutex::default(),
            taken: AtomicBool::new(false),
            expected: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<TaskRef>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expected nanoseconds until everything in the queue is done.
    pub fn expected(&self) -> u64 {
        self.expected.load(Relaxed)
    }

    /// Tasks in the queue, and one more if somebody runs one.
    pub fn waiting(&self) -> usize {
        self.queue().len() + usize::from(self.taken.load(Relaxed))
    }

    /// Puts a task at the end; wakes the lane's thread if what waits is worth it.
    pub fn push(&'static self, task: TaskRef) {
        let own = task.get().expected;
        let all = self.expected.fetch_add(own, Relaxed) + own;
        self.queue().push_back(task);
        if all >= WORTH_WAKING {
            self.wake();
        }
    }

    /// Wakes the lane's thread, or starts it. False: there is none, and the callers do it all.
    pub fn wake(&'static self) -> bool {
        let thread = self.thread.get_or_init(|| {
            let builder = std::thread::Builder::new().name(self.name.clone());
            builder.spawn(move || self.serve()).ok().map(|handle| handle.thread().clone())
        });
        if let Some(thread) = thread
            && self.idle.swap(false, SeqCst)
        {
            thread.unpark();
        }
        thread.is_some()
    }

    /// Runs what is ready, as long as the head is. True if that was anything.
    pub fn drive(&self) -> bool {
        if self.taken.swap(true, Acquire) {
            return false;
        }
        let mut any = false;
        loop {
            let mut queue = self.queue();
            let Some(task) = queue.front().copied().filter(|task| task.get().is_ready()) else {
                break;
            };
            queue.pop_front();
            drop(queue);
            let expected = task.get().expected;
            task.run();
            self.expected.fetch_sub(expected, Relaxed);
            any = true;
            CHANGED.notify();
        }
        self.taken.store(false, Release);
        any
    }

    /// The life of a lane's thread.
    fn serve(&self) {
        let mut since = Instant::now();
        loop {
            let seen = CHANGED.epoch();
            if self.drive() {
                since = Instant::now();
                continue;
            }
            if since.elapsed() < LINGER {
                std::thread::yield_now();
                continue;
            }
            if self.queue().is_empty() {
                self.idle.store(true, SeqCst);
                while self.idle.load(SeqCst) && self.queue().is_empty() {
                    std::thread::park();
                }
                self.idle.store(false, SeqCst);
            } else {
                CHANGED.wait(seen);
            }
            since = Instant::now();
        }
    }
}

/// Drives lanes until `done` says so.
pub(super) fn drive_until(lanes: &[&'static Lane], mut done: impl FnMut() -> bool) {
    let mut idle_rounds = 0u32;
    loop {
        let seen = CHANGED.epoch();
        let mut any = false;
        for lane in lanes {
            any |= lane.drive();
        }
        if done() {
            return;
        }
        if any {
            idle_rounds = 0;
            continue;
        }
        idle_rounds += 1;
        if idle_rounds < 64 {
            std::hint::spin_loop();
        } else if idle_rounds < 128 {
            std::thread::yield_now();
        } else {
            CHANGED.wait(seen);
        }
    }
}

/// Says that some task is done.
pub(super) static CHANGED: Changed = Changed {
    epoch: AtomicU32::new(0),
    sleepers: AtomicU32::new(0),
    lock: Mutex::new(()),
    wake: Condvar::new(),
};

/// A counter of events that one can wait for.
pub(super) struct Changed {
    epoch: AtomicU32,
    sleepers: AtomicU32,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Changed {
    /// To be taken before one looks at what may change.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(SeqCst)
    }

    /// Something has changed.
    pub fn notify(&self) {
        self.epoch.fetch_add(1, SeqCst);
        if self.sleepers.load(SeqCst) != 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }

    /// Sleeps until something has changed since `seen` was taken.
    pub fn wait(&self, seen: u32) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, SeqCst);
        while self.epoch.load(SeqCst) == seen {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }
}
