//! Tasks for the lanes, whose contents count their runs.

use super::lane::{Lane, Pace};
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

/// Keeps the event of another task, until one is begun behind it.
pub(super) struct Behind {
    _given: MutexGuard<'static, bool>,
    other: TaskRef,
}

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
        TaskRef(Arc::new(Task { expected, priority, waits, runs, done, flies, event, given }))
    }

    pub fn get(&self) -> &Task {
        &self.0
    }

    pub fn run(self, lane: &'static Lane, pace: Pace, behind: Option<Behind>) -> bool {
        if let Some(behind) = &behind {
            // SAFETY: loom checks this access.
            behind.other.0.event.with(|event| assert!(unsafe { *event }, "the event is there"));
        }
        if self.0.flies {
            // SAFETY: loom checks this access.
            self.0.event.with_mut(|event| unsafe { *event = true });
            *self.0.given.lock().unwrap() = true;
        }
        if self.0.flies && matches!(pace, Pace::Begin | Pace::Try) {
            // The thread that ends it waits for its device.
            lane.begun(self);
            return false;
        }
        if self.0.flies {
            lane.takes_off(self);
            sync::spawn(|| lane.landed());
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
        let mut left = self.waits.iter().filter(|before| !before.get().is_done());
        let (other, None) = (left.next()?.clone(), left.next()) else { return None };
        // SAFETY: the other task is kept as long, and dropped after it.
        let given =
            unsafe { std::mem::transmute::<&sync::Mutex<bool>, &'static sync::Mutex<bool>>(&other.0.given) };
        let given = given.try_lock().ok()?;
        (self.flies && *given).then(|| Behind { _given: given, other })
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
