//! Tasks: parts of launches, copies, and work of the host between them.
//!
//! A task is run once: by the thread that has its lane's turn, or by the walk if it is in no lane. The
//! table at [`Task`] says which thread may touch which field. It waits only for tasks of its run that were
//! made before it, so there is no circle: for their end, or for an argument's input. If the input was not
//! made, the task does not run and fails itself. A task may be *in flight*: its device goes on without a
//! thread. The device's callback only says that it has landed, and the thread that drives the lane next ends
//! it; if it flies [watched](MayFly::Watched), that thread waits for the device.
//!
//! A task may be begun *behind* those that it still waits for, if their device has them all and waits in its
//! queues. The thread that begins it holds a [`Behind`] meanwhile, so that the events of the others stay. It
//! ends after the others, and fails as if it had not run if one that makes its input has failed.
//!
//! [`Tasks`] owns the tasks of a run; a [`TaskRef`] is not used after it is gone. What a task borrows has
//! its lifetime taken off. So the scheduler drains its lanes before anything of the run is dropped, also
//! after a panic, and `Tasks` asserts that all are done.

use super::lane::{self, Lane, Pace};
use crate::devices::{After, take_error};
use crate::error::Error;
use crate::workers::blocking;
use flash_backend::caught;
use flash_types::Code;
use smallvec::SmallVec;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering::*};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// The work of a task. If it may, it leaves the rest to its device.
pub(super) type Work<'r> = Box<dyn FnOnce(Begin<'_>) -> Result<Option<Flight<'r>>, Outcome> + 'r>;

/// How a task begins.
#[derive(Clone, Copy)]
pub(super) struct Begin<'a> {
    pub may_fly: MayFly,
    /// What its device has to wait for: if there is anything, it may fly.
    pub after: &'a [After],
    /// Its lane has other work, which may come first.
    pub is_behind: bool,
}

/// Whether a task may go on without a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MayFly {
    /// The thread that runs it waits for its device.
    No,
    /// A thread waits for its device soon.
    Watched,
    /// Its device says when it is done.
    Alone,
}

/// What is known of a task's work.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// Expected nanoseconds.
    pub expected: u64,
    /// Its device can go on with it without a thread.
    pub flies: bool,
}

impl Effort {
    /// Of work that a thread does to its end, in so many nanoseconds.
    pub fn of_thread(expected: u64) -> Effort {
        Effort { expected, flies: false }
    }
}

/// What remains of a task while its device goes on.
pub(super) struct Flight<'r> {
    /// The work of the device; `end` gives it back. `None`: it is over, and another that comes before the
    /// task is not.
    pub work: Option<After>,
    /// To be called when the event has fired, with the time when the last copy before it was seen to end, if
    /// one was.
    pub end: Box<dyn FnOnce(Option<Instant>) -> Result<(), Outcome> + 'r>,
}

/// Keeps the events of tasks in flight, until a task is begun behind them. None: it waits for nothing more.
#[derive(Default)]
pub(super) struct Behind(SmallVec<[MutexGuard<'static, Option<After>>; 2]>);

/// Not begun.
const WAITING: u8 = 0;
/// Not begun, and in the lane of a device that does not compute here.
const FOR_DEVICE: u8 = 1;
/// It runs, or its device has it.
const BEGUN: u8 = 2;
/// Its device is done with it, or a thread is to wait for that: it has to be ended.
const LANDED: u8 = 3;
/// Done, and it succeeded.
const DONE: u8 = 4;
/// Done, and it failed, or was skipped because a task that makes its input had failed.
const FAILED: u8 = 5;

/// One piece of work in a lane.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `waits` to `brings_late` | its maker, before it enters a lane | all |
/// | `work` | taken by the thread that runs it, once | the same |
/// | `flight` | the thread that runs it | the thread that ends it, after the state [`LANDED`] |
/// | `given` | the threads that run it and end it | all, under its lock |
/// | `outcome`, `ended` | the thread that ends it, before `state` | all, after `state` |
/// | `state` | its maker, before it enters a lane; the thread that runs it; for [`LANDED`] that or its device's; the thread that ends it | all |
pub(super) struct Task {
    /// Tasks that must be done before. With an argument's number: the task makes that argument's input.
    waits: SmallVec<[(TaskRef, Option<u32>); 4]>,
    /// Expected nanoseconds, at least one.
    pub expected: u64,
    /// The same for all tasks of a run.
    pub priority: i32,
    /// It only moves what others make: a reader of that fails as the maker does.
    pub copies: bool,
    /// Its device can go on with it without a thread.
    pub flies: bool,
    /// It brings back host memory, including what was made too late.
    brings_late: bool,
    work: UnsafeCell<Option<Work<'static>>>,
    flight: UnsafeCell<Option<Flight<'static>>>,
    /// What its device has of it, while others may be begun behind it.
    given: Mutex<Option<After>>,
    outcome: UnsafeCell<Outcome>,
    /// For a copy, when a thread saw it end.
    ended: UnsafeCell<Option<Instant>>,
    state: AtomicU8,
}

/// The failure of a task.
#[derive(Default)]
pub(super) enum Outcome {
    #[default]
    Unknown,
    /// Its own error.
    Error(Error),
    /// It took longer than allowed; its results are complete.
    Late(Error),
    /// The failure of a copy of its input.
    NotBrought(Error),
    /// The input of this argument was not made.
    Skipped(u32),
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Outcome {
        Outcome::Error(error)
    }
}

// SAFETY: see the table: what is not atomic is written by one thread before it publishes the task (by the
// lane's lock) or its state (Release), and read after that. The work may run on any thread: it holds pointers
// into the pipeline's recording and the device's handles, which may be used from any thread.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

/// A reference to a task of a run that is not over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskRef(NonNull<Task>);

// SAFETY: a shared reference to a Sync type.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    pub(super) fn get(&self) -> &Task {
        // SAFETY: `Tasks` keeps its tasks until all of them are done, and no reference is used after that:
        // lanes have dropped them, and the run's own records are dropped before.
        unsafe { self.0.as_ref() }
    }

    /// Runs it; called by the thread that has its lane's turn, once it is ready, or can be begun behind
    /// others. False: it is in flight, and the lane has it.
    pub(super) fn run(self, lane: &'static Lane, pace: Pace, behind: Behind) -> bool {
        self.run_or_begin(Some((lane, pace)), behind)
    }

    /// Runs a task that is in no lane, once it is ready.
    pub(super) fn run_here(self) {
        self.run_or_begin(None, Behind::default());
    }

    fn run_or_begin(self, lane: Option<(&'static Lane, Pace)>, behind: Behind) -> bool {
        let task = self.get();
        // SAFETY: only the thread that took it out of its lane comes here.
        let work = unsafe { (*task.work.get()).take() };
        task.state.store(BEGUN, Relaxed);
        let after: SmallVec<[After; 2]> = behind.0.iter().filter_map(|given| **given).collect();
        let has_after = !after.is_empty();
        // Then this thread does not wait for it: the others end before it.
        let has_flights = lane.is_some_and(|(lane, _)| lane.has_flights());
        let may_fly = match lane {
            Some((lane, _)) if !lane.computes() && blocking::devices_wait() => MayFly::Alone,
            Some((lane, Pace::Begin | Pace::Try)) if !lane.computes() => MayFly::Watched,
            _ if has_after || has_flights => MayFly::Watched,
            _ => MayFly::No,
        };
        let begin = Begin { may_fly, after: &after, is_behind: has_flights };
        let outcome = match (task.not_made(), work) {
            (Some(outcome), _) => Err(outcome),
            (None, None) => Ok(None),
            (None, Some(work)) => outcome_of(|| work(begin)),
        };
        // Before anything that may call back.
        drop(behind);
        match outcome {
            Ok(Some(flight)) => self.fly(flight, lane, may_fly),
            // It ends after the others.
            outcome if has_after => {
                let end = Box::new(move |_| outcome.map(drop));
                self.fly(Flight { work: None, end }, lane, may_fly)
            }
            outcome => {
                self.is_done_with(outcome.err());
                true
            }
        }
    }

    /// Leaves it to its device.
    fn fly(self, flight: Flight<'static>, lane: Option<(&'static Lane, Pace)>, how: MayFly) -> bool {
        unsafe extern "C" fn landed(task: *mut c_void) {
            // SAFETY: the task that was passed with this function, which is not ended before it has landed.
            unsafe { &*task.cast_const().cast::<Task>() }.state.store(LANDED, Release);
            // It may be gone by now.
            lane::landed();
        }
        let work = flight.work;
        // SAFETY: only the thread that runs it comes here; the lane hands it to the one that ends it.
        unsafe { *self.get().flight.get() = Some(flight) };
        let Some((lane, _)) = lane else {
            self.end();
            return true;
        };
        *self.get().given() = work.filter(|work| work.is_in_queue());
        let is_over = || self.get().state.store(LANDED, Release);
        if let (MayFly::Alone, Some(After { device, event })) = (how, work)
            && let Some(on_ready) = device.api.event_on_ready
        {
            lane.takes_off(self);
            // SAFETY: an event of this device that is not given back before it has fired.
            if unsafe { take_error(on_ready(event, landed, self.0.as_ptr().cast())) }.is_err() {
                // It will not be called: the thread that drives the lane waits.
                is_over();
                lane::landed();
            }
        } else {
            is_over();
            lane.takes_off(self);
        }
        false
    }

    /// Ends a task with which its device is done, or waits until it is.
    pub(super) fn end(self) {
        // From now on nothing is begun behind it, and what was has been.
        let given = self.get().given().take();
        // A thread that comes late does not see when it ended.
        // SAFETY: the event of that device, which is given back below.
        let is_seen = |work: After| unsafe { !work.device.has_fired(work.event) };
        let is_seen = self.get().copies && given.is_some_and(is_seen);
        // SAFETY: put there before the lane was told, and taken once.
        let flight = unsafe { (*self.get().flight.get()).take() };
        let before = self.get().waits.iter().filter_map(|(before, _)| before.get().ended()).max();
        let own = flight.and_then(|flight| outcome_of(|| (flight.end)(before)).err());
        if is_seen {
            // SAFETY: it is not read before the state is stored.
            unsafe { *self.get().ended.get() = Some(Instant::now()) };
        }
        // The task that it was begun behind may have failed.
        self.is_done_with(self.get().not_made().or(own));
    }

    /// Publishes its outcome. The task may be gone afterwards.
    fn is_done_with(self, outcome: Option<Outcome>) {
        let task = self.get();
        let state = if outcome.is_some() { FAILED } else { DONE };
        if let Some(outcome) = outcome {
            // SAFETY: it is not read before the state is stored.
            unsafe { *task.outcome.get() = outcome };
        }
        task.state.store(state, Release);
    }
}

/// Calls a part of a task's work; a panic is its failure.
fn outcome_of<R>(work: impl FnOnce() -> Result<R, Outcome>) -> Result<R, Outcome> {
    caught(work).unwrap_or_else(|panic| {
        Err(Outcome::Error(Error::Backend {
            code: Code::Panic,
            text: format!("a task of the runtime panicked: {panic}"),
        }))
    })
}

impl Task {
    pub fn is_done(&self) -> bool {
        self.state.load(Acquire) >= DONE
    }

    fn given(&self) -> MutexGuard<'_, Option<After>> {
        self.given.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// It was begun, and has to be ended.
    pub fn has_landed(&self) -> bool {
        self.state.load(Acquire) == LANDED
    }

    /// What it can be begun behind: all that makes its input and is not done, if the device of this number
    /// has it, and if whatever else it waits for comes before one of those. It does not wait: a thread that
    /// ends or begins something there may wait for this one.
    pub fn behind(&self, device: usize) -> Option<Behind> {
        if !self.flies {
            return None;
        }
        let mut behind = Behind::default();
        let left = || self.waits.iter().filter(|(before, _)| !before.get().is_done());
        for (before, _) in left().filter(|(_, argument)| argument.is_some()) {
            // SAFETY: as in `TaskRef::get`; the guard goes before this task can be done, and so before the
            // run.
            let before: &'static Task = unsafe { before.0.as_ref() };
            let given = before.given.try_lock().ok()?;
            let is_there = given.is_some_and(|work| ptr::from_ref(work.device).addr() == device);
            if !is_there {
                return None;
            }
            behind.0.push(given);
        }
        // The failure of one that only has to come before is none of this one's, but a device may think it
        // is. So there has to be one of the others that comes after it.
        let after = |(other, _): &(TaskRef, _), before| other.get().waits.iter().any(|(of, _)| of == before);
        let comes_after = |before| self.waits.iter().any(|wait| wait.1.is_some() && after(wait, before));
        let is_ordered = left().all(|(before, argument)| argument.is_some() || comes_after(before));
        is_ordered.then_some(behind)
    }

    /// The outcome of a task whose input was not made: it does not run, or has run for nothing.
    fn not_made(&self) -> Option<Outcome> {
        self.waits.iter().find_map(|(before, argument)| {
            let argument = (*argument)?;
            match before.get().failure()? {
                Outcome::Error(error) | Outcome::NotBrought(error) if before.get().copies => {
                    Some(Outcome::NotBrought(error.clone()))
                }
                Outcome::Late(_) if self.brings_late => None,
                _ => Some(Outcome::Skipped(argument)),
            }
        })
    }

    /// It goes to a device that does not compute on the threads of this process.
    pub fn goes_to_device(&self) {
        self.state.store(FOR_DEVICE, Relaxed);
    }

    /// Whether it is known to wait, in the end, for something that threads of this process have not begun to
    /// compute.
    pub fn waits_for_threads(&self) -> bool {
        self.waits_below(4)
    }

    fn waits_below(&self, depth: u32) -> bool {
        let waits = |before: &Task| match before.state.load(Relaxed) {
            WAITING => true,
            FOR_DEVICE => depth > 0 && before.waits_below(depth - 1),
            _ => false,
        };
        self.waits.iter().any(|(before, _)| waits(before.get()))
    }

    /// For a task that its device has: what that works on.
    fn work_of_device(&self) -> Option<After> {
        // SAFETY: asked by the thread that has its lane's turn, and the lane has the task.
        let flight = unsafe { &*self.flight.get() };
        flight.as_ref().and_then(|flight| flight.work)
    }

    /// For a task that its device has: returns when that is done with it.
    pub fn wait_for_device(&self) {
        if let Some(After { device, event }) = self.work_of_device()
            && let Some(wait) = device.api.event_wait
        {
            // Its error comes again where the task is ended.
            // SAFETY: the event of that device, which is given back when the flight ends.
            let _ = unsafe { take_error(wait(event)) };
        }
    }

    /// For a task that its device has: whether that is done with it. A device that is to be done soon is
    /// waited for, if a task that is expected to take less than `short` nanoseconds is not done.
    pub fn is_over_soon(&self, short: u64) -> bool {
        let Some(After { device, event }) = self.work_of_device() else { return true };
        let start = Instant::now();
        loop {
            // SAFETY: as above.
            if unsafe { device.has_fired(event) } {
                return true;
            }
            if self.expected >= short || start.elapsed().as_nanos() as u64 > 2 * self.expected {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Done, and failed.
    pub fn failed(&self) -> bool {
        self.state.load(Acquire) == FAILED
    }

    /// When it was seen to end.
    fn ended(&self) -> Option<Instant> {
        // SAFETY: written before the state, which was read (Acquire).
        if self.is_done() { unsafe { *self.ended.get() } } else { None }
    }

    /// Everything that it waits for is done.
    pub fn is_ready(&self) -> bool {
        self.waits.iter().all(|(before, _)| before.get().is_done())
    }

    /// Its failure, if it failed.
    pub fn failure(&self) -> Option<&Outcome> {
        // SAFETY: written before the state, which was read (Acquire).
        self.failed().then(|| unsafe { &*self.outcome.get() })
    }
}

/// The tasks of one run. They stay until all are done.
pub(super) struct Tasks {
    /// From boxes, so that they do not move when the list grows.
    all: Vec<TaskRef>,
    /// All before this one are known to be done.
    done: usize,
    priority: i32,
    /// New copies bring back what was made too late, too.
    brings_late: bool,
}

/// The dependencies of a new task.
#[derive(Default)]
pub(super) struct Waits(SmallVec<[(TaskRef, Option<u32>); 4]>);

impl Waits {
    /// After `before`, whatever its outcome.
    pub fn after(&mut self, before: TaskRef) {
        if !before.get().is_done() && !self.0.iter().any(|(there, _)| *there == before) {
            self.0.push((before, None));
        }
    }

    /// After `before`, which makes the input of argument `argument`.
    pub fn reads(&mut self, before: TaskRef, argument: u32) {
        match self.0.iter_mut().find(|(there, _)| *there == before) {
            Some((_, what)) => *what = what.or(Some(argument)),
            // A task that succeeded needs no wait; one that failed must be seen.
            None if before.get().is_done() && !before.get().failed() => {}
            None => self.0.push((before, Some(argument))),
        }
    }
}

impl Tasks {
    /// No tasks yet; all of them will have this priority.
    pub fn new(priority: i32) -> Tasks {
        Tasks { all: Vec::new(), done: 0, priority, brings_late: false }
    }

    /// All further tasks are copies to the host, for the end of the run.
    pub fn bring_home(&mut self) {
        self.brings_late = true;
    }

    /// A new task.
    ///
    /// # Safety
    /// What `work` borrows lives until all tasks are done, and may be used from any thread.
    pub unsafe fn add<'r>(&mut self, waits: Waits, effort: Effort, work: Work<'r>) -> TaskRef {
        // SAFETY: the caller vouches.
        unsafe { self.add_task(waits, effort, work, false) }
    }

    /// A new task that copies.
    ///
    /// # Safety
    /// As [`add`](Self::add).
    pub unsafe fn add_copy<'r>(&mut self, waits: Waits, effort: Effort, work: Work<'r>) -> TaskRef {
        // SAFETY: the caller vouches.
        unsafe { self.add_task(waits, effort, work, true) }
    }

    unsafe fn add_task<'r>(&mut self, waits: Waits, effort: Effort, work: Work<'r>, copies: bool) -> TaskRef {
        // SAFETY: only the lifetime changes; the caller vouches for it.
        let work = unsafe { std::mem::transmute::<Work<'r>, Work<'static>>(work) };
        let task = Box::into_raw(Box::new(Task {
            waits: waits.0,
            expected: effort.expected.max(1),
            priority: self.priority,
            copies,
            flies: effort.flies,
            brings_late: copies && self.brings_late,
            work: UnsafeCell::new(Some(work)),
            flight: UnsafeCell::new(None),
            given: Mutex::new(None),
            outcome: UnsafeCell::new(Outcome::Unknown),
            ended: UnsafeCell::new(None),
            state: AtomicU8::new(WAITING),
        }));
        // SAFETY: a box is not NULL.
        let task = TaskRef(unsafe { NonNull::new_unchecked(task) });
        self.all.push(task);
        task
    }

    /// True once all are done.
    pub fn all_done(&mut self) -> bool {
        while let Some(task) = self.all.get(self.done) {
            if !task.get().is_done() {
                return false;
            }
            self.done += 1;
        }
        true
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of tasks that may be waiting.
    pub fn waiting(&mut self) -> usize {
        self.all_done();
        self.all.len() - self.done
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        assert!(self.all_done(), "a run ends after its tasks");
        for task in self.all.drain(..) {
            // SAFETY: made by `add`, done, and no longer referred to.
            drop(unsafe { Box::from_raw(task.0.as_ptr()) });
        }
    }
}
