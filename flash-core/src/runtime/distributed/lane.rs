//! Lanes: the queues in which parts and copies wait for their device.
//!
//! A lane is run in order by the thread that has its turn: its own thread, or the caller of `exec`. Its head
//! waits until its dependencies are done. It depends only on tasks that were put into lanes before it, so the
//! lanes of several pipelines cannot wait for each other in a circle.
//!
//! A caller never relies on a lane's thread: it drives every lane that it has put something into until its
//! own tasks are done. Waking a thread takes tens of microseconds, so it is done only for work that costs
//! more than that.
//!
//! There are two kinds of sleep. A lane's thread whose queue is empty waits until it is *filled*, which only
//! `push` signals. A thread that is blocked by a task in another lane waits until something has *changed*: a
//! thread that has run tasks wakes all of those. A waiting thread takes the epoch before it looks. The other
//! one makes its change, increments the epoch, and then looks for sleepers. One of the two sees the other.
//!
//! A thread that finds a lane taken leaves a *knock*. The thread that has the turn may have looked before the
//! new task was put in, or was ready, and may be about to leave for good (as a caller whose own tasks are
//! done). So the turn is given back only by a thread that has looked since the last knock.
//!
//! Tasks of a higher priority stand before those of a lower one that are not running. All tasks of a pipeline
//! have one priority, and tasks wait for tasks of their own pipeline only. So every lane is sorted by
//! (priority, time of `push`), and so are the dependencies of a task before the task itself. The first
//! unfinished task of all in that order is at the head of its lane and ready. There is no circle.
//!
//! The models (`tests/loom`) include this file beside their own `sync` and `task`, so it names no other
//! modules.

use super::sync::{
    AtomicU32, AtomicU64, Condvar, Linger, Mutex, MutexGuard, Ordering::*, Server, changed, fence, serves,
    spin,
};
use super::task::TaskRef;
use std::collections::VecDeque;

/// Expected nanoseconds from which on it pays to wake a lane's thread.
const WORTH_WAKING: u64 = 30_000;
/// Sleepers are notified at most this many expected nanoseconds after a task is done: a wake-up for each of
/// many small tasks would cost more than the tasks.
const TELL: u64 = 10_000;

/// A queue of one device.
pub(crate) struct Lane {
    name: String,
    queue: Mutex<VecDeque<TaskRef>>,
    /// Signals its thread, which found the queue empty, that it is not.
    filled: Condvar,
    /// 0: no thread has the turn; otherwise one has it, and this is the number of knocks plus one.
    turn: AtomicU64,
    /// Expected nanoseconds of all tasks in the queue or running.
    expected: AtomicU64,
    server: Server,
}

impl Lane {
    pub fn new(name: String) -> Lane {
        Lane {
            name,
            queue: Mutex::new(VecDeque::new()),
            filled: Condvar::new(),
            turn: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            server: Server::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<TaskRef>> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Expected nanoseconds until everything in it is done; 0 if it is idle.
    pub fn expected(&self) -> u64 {
        self.expected.load(Relaxed)
    }

    /// True if nothing is in it and none of its tasks runs. Its thread may still have the turn, to look for
    /// more.
    pub fn is_idle(&self) -> bool {
        self.expected() == 0
    }

    /// Tasks in the queue, and one more if one runs.
    pub fn waiting(&self) -> usize {
        self.queue().len() + usize::from(self.turn.load(Relaxed) != 0)
    }

    /// Inserts a task behind those of its priority and above; wakes the lane's thread if the waiting tasks
    /// are worth it.
    pub fn push(&'static self, task: TaskRef) {
        let (own, priority) = (task.get().expected, task.get().priority);
        let all = self.expected.fetch_add(own, Relaxed) + own;
        let mut queue = self.queue();
        match queue.back() {
            Some(last) if last.get().priority < priority => {
                let at = queue.partition_point(|before| before.get().priority >= priority);
                queue.insert(at, task);
                drop(queue);
                // A thread that was blocked by the old head may run the new one.
                changed().notify();
            }
            _ => {
                queue.push_back(task);
                drop(queue);
            }
        }
        if all >= WORTH_WAKING {
            self.wake();
        }
    }

    /// Wakes the lane's thread, or starts it. False: it cannot be started, and callers do all the work.
    pub fn wake(&'static self) -> bool {
        let served = self.server.start(&self.name, move || self.serve());
        self.filled.notify_one();
        served
    }

    /// Runs tasks while the head is ready. True if it ran any.
    pub fn drive(&self) -> bool {
        // Release and Acquire: the thread that has the turn sees, after the knock, the changes before it.
        if self.turn.fetch_add(1, AcqRel) != 0 {
            return false;
        }
        let (mut any, mut knocks) = (false, 1);
        loop {
            // Nanoseconds since others were notified, and one more if a task is done.
            let mut untold = 0;
            while let Some(task) = self.next() {
                let expected = task.get().expected;
                // Others do not wait for a long task to be notified of those before it.
                if untold > 0 && untold + expected > TELL {
                    changed().notify();
                    untold = 0;
                }
                task.run();
                self.expected.fetch_sub(expected, Relaxed);
                any = true;
                untold += expected + 1;
            }
            if untold > 0 {
                changed().notify();
            }
            match self.turn.compare_exchange(knocks, 0, AcqRel, Acquire) {
                Ok(_) => return any,
                Err(more) => knocks = more,
            }
        }
    }

    /// Takes the head out, if it is ready. Only for the thread that has the turn.
    fn next(&self) -> Option<TaskRef> {
        self.queue().pop_front_if(|task| task.get().is_ready())
    }

    /// The main loop of a lane's thread.
    fn serve(&self) {
        let mut linger = Linger::begin();
        while serves() {
            let seen = changed().epoch();
            if self.drive() {
                linger = Linger::begin();
                continue;
            }
            if linger.goes_on() {
                continue;
            }
            let mut queue = self.queue();
            if queue.is_empty() {
                while queue.is_empty() {
                    queue = self.filled.wait(queue).unwrap_or_else(|e| e.into_inner());
                }
            } else {
                let ready = queue.front().is_some_and(|task| task.get().is_ready());
                drop(queue);
                // It came, or became ready, after this thread had looked, so this thread was not notified. It
                // runs the task now, or knocks, and the thread that has the turn runs it.
                if !ready || !self.drive() {
                    changed().wait(seen);
                }
            }
            linger = Linger::begin();
        }
    }
}

/// Drives lanes until `done` returns true.
pub(super) fn drive_until(lanes: &[&'static Lane], mut done: impl FnMut() -> bool) {
    let mut idle_rounds = 0u32;
    loop {
        let seen = changed().epoch();
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
        if !spin(idle_rounds) {
            changed().wait(seen);
        }
    }
}

/// A counter of events that threads can wait for: [`changed`] counts finished tasks.
pub(super) struct Changed {
    pub epoch: AtomicU32,
    pub sleepers: AtomicU32,
    pub lock: Mutex<()>,
    pub wake: Condvar,
}

impl Changed {
    /// To be taken before looking at what may change.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Acquire)
    }

    /// Something has changed.
    pub fn notify(&self) {
        self.epoch.fetch_add(1, Release);
        // Either this sees the sleeper or the sleeper sees the new epoch.
        fence(SeqCst);
        if self.sleepers.load(Relaxed) != 0 {
            drop(self.lock.lock().unwrap_or_else(|e| e.into_inner()));
            self.wake.notify_all();
        }
    }

    /// Sleeps until something has changed since `seen` was taken.
    pub fn wait(&self, seen: u32) {
        let mut guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.sleepers.fetch_add(1, Relaxed);
        fence(SeqCst);
        while self.epoch.load(Acquire) == seen {
            guard = self.wake.wait(guard).unwrap_or_else(|e| e.into_inner());
        }
        self.sleepers.fetch_sub(1, Relaxed);
    }
}
