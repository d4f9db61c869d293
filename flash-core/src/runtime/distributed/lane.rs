//! Lanes: the queues in which parts and copies wait for their device.
//!
//! A lane has no thread of its own. It is run in order by the thread that has its turn: the caller of `exec`,
//! or a helper, which is a worker or an extra thread. Its head waits until its dependencies are done. It
//! depends only on tasks that were put into lanes before it, so the lanes of several pipelines cannot wait
//! for each other in a circle.
//!
//! A caller never relies on a helper: it drives every lane that it has put something into until its own tasks
//! are done. Waking a thread takes tens of microseconds, so a helper is called only for work that costs more
//! than that.
//!
//! A helper never waits for another lane. If the head of its lane is not ready, it enters the lane in the
//! list of *blocked* ones and leaves. A thread that has run tasks calls helpers for the blocked lanes whose
//! heads have become ready. A caller that cannot go on waits until something has *changed*: a thread that has
//! run tasks wakes it. In both cases the waiting side enters itself before it looks for the last time, and
//! the other side makes its change before it looks for entries. One of the two sees the other.
//!
//! A task may go on without a thread, on its device: it is *in flight*. When the device is done, its
//! backend's thread says so and nothing else: the task has *landed*, and the next thread that drives the lane
//! ends it. Tasks are ended in the order in which they were begun. The lane waits for the one in flight as
//! for a dependency, except where the device waits in its queues: there the next ones are begun, too, while
//! those in flight are few and short ([`Aloft`]), so that the device has work until a thread comes.
//!
//! A task for a device that works without a thread ([`Runs::Alone`]) is begun as it is put into the lane, if
//! it is ready. A caller with work for several devices, which are not all processors of this process,
//! *begins* tasks before it computes ([`Pace::Begin`]), so that all of them work at the same time. What it
//! has computed may be what they wait for, so it looks at them before each task that takes long. Such a task
//! has landed at once, as far as the lane is concerned: whoever drives the lane next may wait for the device
//! and end it. The lane was ready before and is ready after, so nothing needs to be told, and a caller may
//! leave for good then. The caller itself ends what is over, or is over soon: a copy, say, that the next task
//! of the device needs. The rest it leaves to helpers if it goes on to compute and a device could go on
//! meanwhile, and waits for if it has nothing else to do ([`Pace::End`]); for the last one of
//! each lane first, if all is in flight and it waits for all ([`drain`]): a wake-up for each would cost more
//! than the tasks.
//!
//! Where the queues of a device wait for its own work by themselves ([`Runs::InQueue`]), a task may be begun
//! *behind* those that it still waits for, if the device has them all: it is ready for the device, and not
//! for threads. It is in flight then, and is ended only when all that it waits for is done, so that tasks
//! end in the order in which they depend on each other. A thread does so where it comes across such a task.
//! None is called for it: the ends of the others call those that wait. What a task in flight waits for was
//! begun before it, so the first one begun of all in flight can be ended: there is no circle.
//!
//! A thread that finds a lane taken leaves a *knock*. The thread that has the turn may have looked before the
//! new task was put in, or was ready, and may be about to leave for good (as a caller whose own tasks are
//! done). So the turn is given back only by a thread that has looked since the last knock, and that has then
//! ended what was begun, and run what was ready ([`Pace::Run`]). One that computes between its looks at
//! devices leaves what is ready to those that have knocked: it wakes them, and calls a helper.
//!
//! A helper that finds a lane taken leaves it to the thread that has the turn, and that thread leaves for
//! good when its own tasks are done and the head is not ready. The lane is then in no list. So a caller that
//! waits for a lane which it has left to helpers drives it itself whenever it is ready
//! ([`Lane::drive_ready`]).
//!
//! Tasks of a higher priority stand before those of a lower one that are not running. All tasks of a pipeline
//! have one priority, and tasks wait for tasks of their own pipeline only. So every lane is sorted by
//! (priority, time of `push`), and so are the dependencies of a task before the task itself. The first
//! unfinished task of all in that order is at the head of its lane and ready. There is no circle.
//!
//! The models (`tests/loom`) include this file beside their own `sync` and `task`, so it names no other
//! modules.

use super::sync::{
    AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering::*, before_sleep, blocked, call,
    changed, fence, helps, spin,
};
use super::task::{Behind, TaskRef};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Expected nanoseconds from which it is worth to call a helper.
const WORTH_WAKING: u64 = 30_000;
/// Sleepers are notified at most this many expected nanoseconds after a task is done: a wake-up for each of
/// many small tasks would cost more than the tasks.
const TELL: u64 = 10_000;

/// The most tasks of a lane that are in flight.
const MOST_ALOFT: usize = 16;
/// Another is begun while those in flight are expected to take less than this many nanoseconds. More gains
/// nothing, and one that is to stop, or comes first, would wait for them.
const LONG_ALOFT: u64 = 1_000_000;

/// Every eighth time, the tasks in flight are waited for one by one. Only then the time of each is seen.
const EXACT: u32 = 8;

/// How often a thread goes through the lanes of devices before it computes: to end what is over soon, and to
/// begin what waits for that.
const ROUNDS: u32 = 4;

/// A queue of one device.
pub(crate) struct Lane {
    queue: Mutex<VecDeque<TaskRef>>,
    /// 0: no thread has the turn; otherwise one has it, and this is the number of knocks plus one.
    turn: AtomicU64,
    /// Expected nanoseconds of all tasks in the queue or running.
    expected: AtomicU64,
    /// A helper was called and has not come.
    called: AtomicBool,
    /// The number of callers that are away: meanwhile helpers come for whatever is ready, worth it or not.
    left: AtomicU32,
    /// Names the device.
    device: usize,
    pub runs: Runs,
    /// The tasks in flight, in the order in which they were begun. Only the thread that has the turn changes
    /// them.
    flights: Mutex<VecDeque<TaskRef>>,
    /// Their number.
    in_flight: AtomicU32,
    /// How often callers have waited for the last of them.
    drained: AtomicU32,
}

/// How much is in flight.
#[derive(Clone, Copy)]
struct Aloft {
    tasks: usize,
    /// Expected nanoseconds.
    expected: u64,
}

/// How the tasks of a lane run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// They compute on the thread that runs them.
    Here,
    /// That thread waits for the device.
    Waited,
    /// The device takes those that may fly, and works without a thread.
    Alone,
    /// The same, and its queues wait for what else it works on.
    InQueue,
}

impl Runs {
    /// Whether the device works without a thread.
    pub fn is_alone(self) -> bool {
        matches!(self, Runs::Alone | Runs::InQueue)
    }
}

/// What a thread that drives a lane does with its tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Runs them to their end, one after another.
    Run,
    /// Begins what a device takes, and leaves the lane; computes for a moment.
    Begin,
    /// Begins what a device takes, without waiting for what is over soon.
    Try,
    /// Waits for one that was begun, and leaves the lane.
    End,
    /// Waits for the last one that was begun, and ends all.
    EndAll,
}

impl Pace {
    /// What suits these lanes.
    fn of(lanes: &[&'static Lane]) -> Pace {
        let busy = || lanes.iter().filter(|lane| !lane.is_idle());
        let is_device = busy().any(|lane| !lane.computes());
        let mut devices = busy().map(|lane| lane.device);
        let first = devices.next();
        // A device that takes several at a time.
        let queues = || busy().filter(|lane| lane.runs == Runs::InQueue);
        let several = is_device
            && (devices.any(|device| Some(device) != first)
                || queues().count() > 1
                || queues().any(|lane| lane.has_flights()));
        if several { Pace::Begin } else { Pace::Run }
    }
}

impl Lane {
    /// A lane of a device, which this number names.
    pub fn new(device: usize, runs: Runs) -> Lane {
        Lane {
            device,
            queue: Mutex::new(VecDeque::new()),
            turn: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            called: AtomicBool::new(false),
            left: AtomicU32::new(0),
            runs,
            flights: Mutex::new(VecDeque::new()),
            in_flight: AtomicU32::new(0),
            drained: AtomicU32::new(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<TaskRef>> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// True if its tasks compute on the thread that runs them.
    pub fn computes(&self) -> bool {
        self.runs == Runs::Here
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

    /// Tasks in the queue, in flight and, if there is one, the one that runs.
    pub fn waiting(&self) -> usize {
        let in_flight = self.in_flight.load(Relaxed) as usize;
        self.queue().len() + in_flight.max(usize::from(self.is_at_work()))
    }

    /// A task goes on without a thread, until it has landed. Called by what runs it.
    pub(super) fn takes_off(&self, task: TaskRef) {
        self.flights().push_back(task);
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Whether something was begun, or has landed, and no thread sees to it.
    fn is_begun(&self) -> bool {
        !self.is_at_work() && self.flights().front().is_some_and(|task| task.get().has_landed())
    }

    /// Whether tasks of it are in flight.
    pub fn has_flights(&self) -> bool {
        self.in_flight.load(Relaxed) > 0
    }

    fn flights(&self) -> MutexGuard<'_, VecDeque<TaskRef>> {
        self.flights.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn aloft(&self) -> Aloft {
        if !self.has_flights() {
            return Aloft { tasks: 0, expected: 0 };
        }
        let flights = self.flights();
        Aloft { tasks: flights.len(), expected: flights.iter().map(|task| task.get().expected).sum() }
    }

    /// Whether a task may be begun beside those in flight.
    fn has_room(&self, aloft: Aloft, task: &TaskRef) -> bool {
        let Aloft { tasks, expected } = aloft;
        let is_little = tasks < MOST_ALOFT && expected < LONG_ALOFT;
        tasks == 0 || self.runs == Runs::InQueue && task.get().flies && is_little
    }

    /// Takes out the first task in flight, if it has to be ended. Only for the thread that has the turn.
    fn take_landed(&self, pace: Pace) -> Option<TaskRef> {
        if !self.has_flights() {
            return None;
        }
        // One that was begun behind others ends after them. The device is asked without the lock, which a
        // callback of the device may wait for.
        let first = self.flights().front().cloned();
        let task = first.filter(|task| task.get().has_landed() && task.get().is_ready())?;
        let ends = match pace {
            Pace::Begin => task.get().is_over_soon(WORTH_WAKING),
            Pace::Try => task.get().is_over_soon(0),
            Pace::Run | Pace::End | Pace::EndAll => true,
        };
        if !ends {
            return None;
        }
        self.flights().pop_front();
        self.in_flight.fetch_sub(1, Relaxed);
        Some(task)
    }

    /// Waits until the device is done with the last task in flight. Only for the thread that has the turn.
    fn wait_for_last(&self) {
        // To end one waits for the device, too. Others may have put in what takes long.
        let Aloft { tasks, expected } = self.aloft();
        let is_exact = self.drained.fetch_add(1, Relaxed).is_multiple_of(EXACT);
        if tasks < 2 || expected >= LONG_ALOFT || is_exact {
            return;
        }
        if let Some(task) = self.last().filter(|task| task.get().has_landed()) {
            task.get().wait_for_device();
        }
    }

    /// The last task in flight, so that the device is asked without the lock.
    fn last(&self) -> Option<TaskRef> {
        self.flights().back().cloned()
    }

    /// Puts a task behind those of its priority and above. Begins what is ready, if the device goes on with
    /// the task without a thread; else calls a helper, if what waits is worth it.
    pub fn push(&'static self, task: TaskRef) {
        if self.put(task) {
            self.begin_ready();
        }
    }

    /// Begins what is ready, and ends what is over, of a device that goes on without a thread.
    pub fn begin_ready(&'static self) {
        if self.runs.is_alone() {
            self.drive(Pace::Try);
        }
    }

    /// The same as [`push`](Self::push), but begins and ends nothing, for a caller with a lock that the end
    /// of a task may need. True: there is something to begin, by [`begin_ready`](Self::begin_ready).
    pub fn put(&'static self, task: TaskRef) -> bool {
        if !self.computes() {
            task.get().goes_to_device();
        }
        let (own, priority) = (task.get().expected, task.get().priority);
        let flies = self.runs.is_alone() && task.get().flies;
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
        let is_left = || self.left.load(Relaxed) > 0;
        let begins = flies && !is_left();
        if !begins && all >= WORTH_WAKING && (helps(self) || is_left()) {
            self.call();
        }
        begins
    }

    /// True if a thread could go on with it while others compute: its head does not wait for what they do.
    fn goes_on_meanwhile(&self) -> bool {
        !self.computes() && self.queue().front().is_some_and(|task| !task.get().waits_for_threads())
    }

    /// Calls a helper, unless one was called and has not come. False: there is none, and the callers do it
    /// all.
    pub fn call(&'static self) -> bool {
        if self.called.swap(true, AcqRel) || call(self) {
            return true;
        }
        self.called.store(false, Release);
        false
    }

    /// What a helper does.
    pub fn help(&'static self) {
        // What comes from now on calls another one.
        self.called.swap(false, AcqRel);
        // Its head may become ready just after it was looked at. If it was ready before and nothing ran,
        // another thread has the turn, and the knock came after.
        let head = loop {
            let ready = self.is_ready() == Some(true);
            let any = self.drive(Pace::Run);
            match self.is_ready() {
                Some(true) if any || !ready => {}
                head => break head,
            }
        };
        let is_wanted = || self.expected() >= WORTH_WAKING || self.left.load(Relaxed) > 0;
        if head == Some(false) && is_wanted() {
            blocked().enter(self);
        }
    }

    /// A caller goes on with something that may take long: helpers run what is in the lane, until
    /// [`come_back`](Self::come_back). False: there are none.
    pub fn leave_to_helpers(&'static self) -> bool {
        self.left.fetch_add(1, Relaxed);
        self.waiting() == 0 || self.call()
    }

    /// The caller drives the lane again.
    pub fn come_back(&self) {
        self.left.fetch_sub(1, Relaxed);
    }

    /// Runs what is ready, if no thread is at it, and knocks otherwise: a helper may not come, and the thread
    /// that has the turn may be about to leave. True if that was anything.
    pub fn drive_ready(&'static self) -> bool {
        self.is_ready() == Some(true) && self.drive(Pace::Run)
    }

    /// True if a thread is at it.
    pub fn is_at_work(&self) -> bool {
        self.turn.load(Relaxed) != 0
    }

    /// True if a thread can go on with it, and none is at it.
    pub fn awaits_helper(&self) -> bool {
        !self.is_at_work() && self.is_ready() == Some(true)
    }

    /// Whether a thread can go on with it; `None`: there is nothing in it.
    fn is_ready(&self) -> Option<bool> {
        if self.has_flights()
            && let Some(task) = self.flights().front()
            && task.get().has_landed()
            && task.get().is_ready()
        {
            return Some(true);
        }
        let aloft = self.aloft();
        let begins = |task: &TaskRef| task.get().is_ready() && self.has_room(aloft, task);
        match self.queue().front() {
            None if aloft.tasks == 0 => None,
            head => Some(head.is_some_and(begins)),
        }
    }

    /// Runs tasks while the head is ready and the pace lets it. True if there was any.
    pub(super) fn drive(&'static self, mut pace: Pace) -> bool {
        // Release and Acquire: the thread that has the turn sees, after the knock, the changes before it.
        if self.turn.fetch_add(1, AcqRel) != 0 {
            return false;
        }
        let (mut any, mut knocks) = (false, 1);
        if pace == Pace::EndAll {
            self.wait_for_last();
        }
        loop {
            // Nanoseconds since others were notified, and one more if a task is done.
            let (mut untold, mut has_begun) = (0, false);
            loop {
                // What was done may be what a device waits for: that is begun before something long is run.
                let at_most = match pace == Pace::Begin && self.computes() && untold > 0 {
                    true => TELL.saturating_sub(untold),
                    false => u64::MAX,
                };
                let landed = || Some((self.take_landed(pace)?, None));
                let next = || self.next(pace, at_most).map(|(task, behind)| (task, Some(behind)));
                let taken = match pace {
                    Pace::Run => landed().or_else(next),
                    // What can be begun is, before the device is asked.
                    Pace::Begin | Pace::Try => next().or_else(|| if has_begun { None } else { landed() }),
                    Pace::End | Pace::EndAll => landed(),
                };
                let Some((task, begins)) = taken else {
                    // Some drivers send a command only when they are asked whether it is over.
                    if pace == Pace::Begin
                        && let Some(task) = self.last()
                    {
                        task.get().is_over_soon(0);
                    }
                    break;
                };
                any = true;
                let expected = task.get().expected;
                // Others do not wait for a long task to be notified of those before it.
                if untold > 0 && untold + expected > TELL {
                    changed().notify();
                    untold = 0;
                }
                match begins {
                    None => task.end(),
                    Some(behind) => {
                        if !task.run(self, pace, behind) {
                            // It is in flight.
                            has_begun = true;
                            continue;
                        }
                    }
                }
                self.expected.fetch_sub(expected, Relaxed);
                untold += expected + 1;
                if pace == Pace::End {
                    break;
                }
            }
            if untold > 0 {
                changed().notify();
            }
            match self.turn.compare_exchange(knocks, 0, AcqRel, Acquire) {
                Ok(_) => return any,
                Err(_) if pace == Pace::Begin && self.computes() => {
                    self.turn.swap(0, AcqRel);
                    self.pass_on();
                    return any;
                }
                // Another thread counts on this one to leave nothing that can be done.
                Err(more) => (knocks, pace) = (more, Pace::Run),
            }
        }
    }

    /// The thread that had the turn goes on to devices, and others have knocked: one of them runs what it has
    /// left, or a helper does.
    fn pass_on(&'static self) {
        if self.is_ready() == Some(true) {
            changed().notify();
            if helps(self) {
                self.call();
            }
        }
    }

    /// Takes the head out, if it is ready, for the device at least, takes at most this many nanoseconds, and
    /// there is room for it in flight; with what it is to be begun behind. Only for the thread that has the
    /// turn.
    fn next(&self, pace: Pace, at_most: u64) -> Option<(TaskRef, Behind)> {
        let (aloft, mut behind) = (self.aloft(), Behind::default());
        let task = self.queue().pop_front_if(|task| {
            if !self.has_room(aloft, task) {
                return false;
            }
            let task = task.get();
            let mut is_behind = || match self.runs {
                Runs::InQueue => task.behind(self.device).map(|others| behind = others).is_some(),
                _ => false,
            };
            task.expected <= at_most && (pace != Pace::Try || task.flies) && (task.is_ready() || is_behind())
        })?;
        Some((task, behind))
    }
}

/// Drives lanes until `done` says so.
pub(super) fn drive_until(lanes: &[&'static Lane], done: impl FnMut() -> bool) {
    drive_until_or(lanes, done, || false);
}

/// Drives those lanes that compute, or those that do not. True if anything was run.
fn drive_all(lanes: &[&'static Lane], computes: bool, pace: Pace) -> bool {
    let these = lanes.iter().filter(|lane| lane.computes() == computes);
    these.filter(|lane| lane.drive(pace)).count() > 0
}

/// A caller is about to compute: helpers see to the devices, if any could go on meanwhile.
fn call_helpers_of_devices(lanes: &[&'static Lane]) {
    if lanes.iter().any(|lane| lane.goes_on_meanwhile()) {
        let these = lanes.iter().filter(|lane| lane.is_begun() || lane.goes_on_meanwhile());
        these.filter(|lane| helps(lane)).for_each(|lane| _ = lane.call());
    }
}

/// A device is done with a task in flight, which says so.
pub(super) fn landed() {
    changed().notify();
}

/// Drives lanes until `done` says so; before it sleeps, `else_run` may run something else, and says whether
/// it has.
pub(super) fn drive_until_or(
    lanes: &[&'static Lane],
    done: impl FnMut() -> bool,
    else_run: impl FnMut() -> bool,
) {
    let end = |lanes: &[&'static Lane]| lanes.iter().any(|lane| lane.drive(Pace::End));
    drive_and_end(lanes, done, else_run, end);
}

/// Drives lanes until `done` says so, which it does when all that the caller has put into them is done.
pub(super) fn drain(lanes: &[&'static Lane], done: impl FnMut() -> bool) {
    let end = |lanes: &[&'static Lane]| {
        if lanes.iter().any(|lane| !lane.queue().is_empty()) {
            return lanes.iter().any(|lane| lane.drive(Pace::End));
        }
        // Nothing is left to begin.
        lanes.iter().filter(|lane| lane.drive(Pace::EndAll)).count() > 0
    };
    drive_and_end(lanes, done, || false, end);
}

/// `end` ends something that was begun, and says whether there was anything.
fn drive_and_end(
    lanes: &[&'static Lane],
    mut done: impl FnMut() -> bool,
    mut else_run: impl FnMut() -> bool,
    end: impl Fn(&[&'static Lane]) -> bool,
) {
    let mut idle_rounds = 0u32;
    loop {
        let seen = changed().epoch();
        let (pace, mut any) = (Pace::of(lanes), false);
        // Devices work while this thread computes.
        let rounds = if pace == Pace::Begin { ROUNDS } else { 1 };
        for _ in 0..rounds {
            let more = drive_all(lanes, false, pace);
            any |= more;
            if !more {
                break;
            }
        }
        if pace == Pace::Begin && lanes.iter().any(|lane| lane.computes() && lane.is_ready() == Some(true)) {
            call_helpers_of_devices(lanes);
        }
        any |= drive_all(lanes, true, pace);
        if done() {
            return;
        }
        if any || pace == Pace::Begin && end(lanes) {
            idle_rounds = 0;
            continue;
        }
        idle_rounds += 1;
        if !spin(idle_rounds) && !else_run() {
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
        blocked().call_ready();
        if self.sleepers.load(Relaxed) != 0 {
            drop(self.lock.lock().unwrap_or_else(|e| e.into_inner()));
            self.wake.notify_all();
        }
    }

    /// Sleeps until something has changed since `seen` was taken.
    pub fn wait(&self, seen: u32) {
        before_sleep();
        let mut guard = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.sleepers.fetch_add(1, Relaxed);
        fence(SeqCst);
        while self.epoch.load(Acquire) == seen {
            guard = self.wake.wait(guard).unwrap_or_else(|e| e.into_inner());
        }
        self.sleepers.fetch_sub(1, Relaxed);
    }
}

/// Lanes whose helpers have gone because the head was not ready.
pub(super) struct Blocked {
    /// How many there are.
    pub count: AtomicU32,
    pub lanes: Mutex<Vec<&'static Lane>>,
}

impl Blocked {
    fn lanes(&self) -> MutexGuard<'_, Vec<&'static Lane>> {
        self.lanes.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A helper leaves a lane. If its head has become ready meanwhile, another helper is called.
    fn enter(&self, lane: &'static Lane) {
        {
            let mut lanes = self.lanes();
            if !lanes.iter().any(|other| std::ptr::eq(*other, lane)) {
                lanes.push(lane);
                self.count.store(lanes.len() as u32, Relaxed);
            }
        }
        // Either this sees the task that is done, or the thread that has done it sees the lane.
        fence(SeqCst);
        if lane.is_ready() == Some(true) {
            self.call_ready();
        }
    }

    /// Calls helpers for the lanes that can go on. After a fence.
    fn call_ready(&self) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut ready: SmallVec<[&'static Lane; 4]> = SmallVec::new();
        {
            let mut lanes = self.lanes();
            lanes.retain(|lane| match lane.is_ready() {
                Some(false) => true,
                Some(true) => {
                    ready.push(lane);
                    false
                }
                // The thread that is at it may have taken out what comes next, and leave.
                None => lane.is_at_work(),
            });
            self.count.store(lanes.len() as u32, Relaxed);
        }
        for lane in ready {
            lane.call();
        }
    }
}
