//! Tasks for the lanes, whose contents count their runs.

use super::lane::{self, Lane, Pace};
use super::sync;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, MutexGuard};

pub(super) struct Task {
    pub expected: u64,
    pub priority: i32,
    waits: Vec<TaskRef>,
    /// Number of runs: loom fails if two accesses to it are not ordered.
    runs: UnsafeCell<u32>,
    done: AtomicBool,
    /// It was begun, and has to be ended.
    landed: AtomicBool,
    /// It goes on without a thread, once it was begun.
    pub flies: bool,
    /// What its device has of it: an event, until it is given back.
    event: UnsafeCell<bool>,
    given: sync::Mutex<bool>,
}

// SAFETY: loom checks that accesses to the contents are ordered; the rest is Sync.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

#[derive(Clone)]
pub(crate) struct TaskRef(Arc<Task>);

/// Keeps the events of other tasks, until one is begun behind them.
#[derive(Default)]
pub(super) struct Behind(Vec<(MutexGuard<'static, bool>, TaskRef)>);

impl TaskRef {
    pub fn new(expected: u64, priority: i32, waits: &[TaskRef]) -> TaskRef {
        TaskRef::made(expected, priority, waits, false)
    }

    pub fn that_flies(expected: u64, waits: &[TaskRef]) -> TaskRef {
        TaskRef::made(expected, 0, waits, true)
    }

    fn made(expected: u64, priority: i32, waits: &[TaskRef], flies: bool) -> TaskRef {
        let (runs, done) = (UnsafeCell::new(0), AtomicBool::new(false));
        let (event, given) = (UnsafeCell::new(false), sync::Mutex::new(false));
        let waits = waits.to_vec();
        let landed = AtomicBool::new(false);
        TaskRef(Arc::new(Task { expected, priority, waits, runs, done, landed, flies, event, given }))
    }

    pub fn get(&self) -> &Task {
        &self.0
    }

    pub fn run(self, lane: &'static Lane, pace: Pace, behind: Behind) -> bool {
        for (_, other) in &behind.0 {
            // SAFETY: loom checks this access.
            other.0.event.with(|event| assert!(unsafe { *event }, "the event is there"));
        }
        if self.0.flies {
            // SAFETY: loom checks this access.
            self.0.event.with_mut(|event| unsafe { *event = true });
            *self.0.given.lock().unwrap() = true;
        }
        // What it is begun behind may be given back from here on.
        drop(behind);
        if self.0.flies && matches!(pace, Pace::Begin | Pace::Try) {
            // The thread that ends it waits for its device.
            self.0.landed.store(true, Ordering::Release);
            lane.takes_off(self);
            return false;
        }
        if self.0.flies {
            lane.takes_off(self.clone());
            sync::spawn(move || {
                self.0.landed.store(true, Ordering::Release);
                lane::landed();
            });
            return false;
        }
        self.end();
        true
    }

    pub fn end(self) {
        *self.0.given.lock().unwrap() = false;
        // SAFETY: loom checks this access.
        self.0.event.with_mut(|event| unsafe { *event = false });
        // Its dependencies are done, once, and it sees that.
        self.0.waits.iter().for_each(|before| assert_eq!(before.get().runs(), 1));
        // SAFETY: loom checks this access.
        self.0.runs.with_mut(|runs| unsafe { *runs += 1 });
        self.0.done.store(true, Ordering::Release);
    }
}

impl Task {
    pub fn behind(&self, _device: usize) -> Option<Behind> {
        let mut behind = Behind::default();
        for other in self.waits.iter().filter(|before| !before.get().is_done()) {
            // SAFETY: the other task is kept as long, and dropped after it.
            let given = unsafe {
                std::mem::transmute::<&sync::Mutex<bool>, &'static sync::Mutex<bool>>(&other.0.given)
            };
            let given = given.try_lock().ok()?;
            if !self.flies || !*given {
                return None;
            }
            behind.0.push((given, other.clone()));
        }
        Some(behind)
    }

    pub fn has_landed(&self) -> bool {
        self.landed.load(Ordering::Acquire)
    }

    /// Its device has its event.
    pub fn wait_for_device(&self) {
        // SAFETY: loom checks this access.
        self.event.with(|event| assert!(unsafe { *event }, "the event is there"));
    }

    pub fn is_ready(&self) -> bool {
        self.waits.iter().all(|before| before.get().is_done())
    }

    /// Its device is done at once with a task that takes no time, and with no other; a thread that waits for
    /// no time does not see it.
    pub fn is_over_soon(&self, short: u64) -> bool {
        self.expected < short.min(2)
    }

    pub fn goes_to_device(&self) {}

    pub fn waits_for_threads(&self) -> bool {
        !self.is_ready()
    }

    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    pub fn runs(&self) -> u32 {
        // SAFETY: loom checks this access.
        self.runs.with(|runs| unsafe { *runs })
    }
}
