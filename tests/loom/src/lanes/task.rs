//! Tasks for the lanes, whose contents count their runs.

use super::lane::{Lane, Pace};
use super::sync;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Task {
    pub expected: u64,
    pub priority: i32,
    waits: Vec<TaskRef>,
    /// Number of runs: loom fails if two accesses to it are not ordered.
    runs: UnsafeCell<u32>,
    done: AtomicBool,
    /// It goes on without a thread, once it was begun.
    pub flies: bool,
}

// SAFETY: loom checks that accesses to the contents are ordered; the rest is Sync.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

#[derive(Clone)]
pub(crate) struct TaskRef(Arc<Task>);

impl TaskRef {
    pub fn new(expected: u64, priority: i32, waits: &[TaskRef]) -> TaskRef {
        TaskRef::made(expected, priority, waits, false)
    }

    pub fn that_flies(expected: u64, waits: &[TaskRef]) -> TaskRef {
        TaskRef::made(expected, 0, waits, true)
    }

    fn made(expected: u64, priority: i32, waits: &[TaskRef], flies: bool) -> TaskRef {
        let (runs, done) = (UnsafeCell::new(0), AtomicBool::new(false));
        TaskRef(Arc::new(Task { expected, priority, waits: waits.to_vec(), runs, done, flies }))
    }

    pub fn get(&self) -> &Task {
        &self.0
    }

    pub fn run(self, lane: &'static Lane, pace: Pace) -> bool {
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
        // Its dependencies are done, once, and it sees that.
        self.0.waits.iter().for_each(|before| assert_eq!(before.get().runs(), 1));
        // SAFETY: loom checks this access.
        self.0.runs.with_mut(|runs| unsafe { *runs += 1 });
        self.0.done.store(true, Ordering::Release);
    }
}

impl Task {
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
