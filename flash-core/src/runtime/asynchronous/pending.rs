//! Pipelines in flight, and the queue of those that may run: a source of work for the worker threads.
//!
//! A pipeline enters the queue when everything before it in the order has left. The thread that takes it out
//! runs it: a worker, a thread that waits for it, or one that waits for a later pipeline which it holds up. A
//! waiting thread runs nothing else.
//!
//! A worker runs only what needs nothing but processors. A pipeline that may wait for a device, for memory or
//! for a launch of another thread is handed to an extra thread (`workers/blocking.rs`), as a whole or for the
//! rest of it. So no worker is kept from what others wait for. A pipeline that a device has all of is in
//! no queue and on no thread (`landing.rs`).

use super::limits::{SharedOutcome, StoppableOutcome};
use super::outcome::Outcome;
use super::queue::{Job, Queue, Sleeper};
use crate::error::Error;
use crate::memory::ArrayInner;
use crate::memory::order::{DeviceNumber, ORDER, TAKE_TURN, Ticket};
use crate::memory::watch_forks;
use crate::runtime::event::Event;
use crate::runtime::footprint::pipeline::PipelineFootprint;
use crate::runtime::hold::{GuardedMemory, Runner};
use crate::runtime::submissions::SubmissionList;
use crate::workers::{self, Source};
use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Looks of a worker at a single pipeline before it takes it: the thread that started the pipeline may wait
/// for it at once, and then runs it with its data in its caches.
const GRACE: u32 = 5;
/// Looks of a worker at most, while other threads put short pipelines in and run them: two threads at one
/// queue take several times as long for such as one of them alone, since all that they touch goes back and
/// forth between two cores.
const PATIENT: u32 = 250;
/// Looks without a change after which the others are no longer at it.
const STILL: u32 = 25;
/// Looks at what may be so, where nothing has changed since this worker was there.
const ALONE: u32 = 2;
/// Pauses between two looks.
const PAUSES: u32 = 8;
/// A pipeline that takes less is short.
const SHORT: Duration = Duration::from_micros(2);
/// Polls of a waiting thread before it sleeps: this many with a pause, then as many that give up the
/// processor.
const POLLS: u32 = 200;

/// A pipeline whose turn it is, in the queue.
pub(super) trait QueuedPipeline: Send {
    fn ticket(&self) -> Ticket;

    /// A pipeline of a higher priority comes before others.
    fn priority(&self) -> i32;

    /// The host is told when its time is up, whatever its threads do.
    fn is_timed(&self) -> bool;

    /// It enters the queue, or was taken out.
    fn set_queued(&self, queued: bool);

    /// Runs it, or some of it, on this thread, and sees to it that the rest is run. True if all of it has
    /// run.
    fn run(self: Box<Self>, runner: Runner) -> bool;
}

/// Takes a place in the order, and counts a pipeline in the words of its memories. `follows`: the device to
/// which it may be given before its turn.
///
/// # Errors
/// A memory that a guard has; then the pipeline is counted nowhere.
pub(in crate::runtime) fn pend<'a>(
    list: &'a SubmissionList,
    touched: &'a PipelineFootprint,
    follows: Option<DeviceNumber>,
) -> Result<PlaceInOrder, GuardedMemory<'a>> {
    // A thread that tries again and again while a guard is alive leaves nothing in the order.
    if let Some(guarded) = guarded(list, touched).next() {
        return Err(guarded);
    }
    let turn = line_up(list, touched, follows);
    for (counted, (_, memory, written)) in list.memories().enumerate() {
        if let Err(refused) = memory.pend(written.then(|| touched.written(memory))) {
            turn.withdraw_from(list.memories().take(counted));
            return Err(GuardedMemory { memory, written, refused });
        }
    }
    Ok(turn)
}

/// For guards of a worker: see [`TAKE_TURN`].
fn take_turn(ticket: Ticket) {
    // There is no error: the outcome is that it is its turn.
    let _ = Pending::wait_for_turn(&PlaceInOrder(ticket));
}

/// The same beside guards that conflict. True if there are any, which the pipeline waits for later.
pub(super) fn pend_behind(
    list: &SubmissionList,
    touched: &PipelineFootprint,
    follows: Option<DeviceNumber>,
) -> (PlaceInOrder, bool) {
    let turn = line_up(list, touched, follows);
    let mut is_behind = false;
    for (_, memory, written) in list.memories() {
        is_behind |= memory.pend_behind(written.then(|| touched.written(memory)));
    }
    (turn, is_behind)
}

fn line_up(
    list: &SubmissionList,
    touched: &PipelineFootprint,
    follows: Option<DeviceNumber>,
) -> PlaceInOrder {
    watch_forks();
    TAKE_TURN.get_or_init(|| take_turn);
    PlaceInOrder(ORDER.line_up_for(follows, touched.touches(), list.after().iter().map(Event::ticket)))
}

/// The memories of a pipeline that guards have now.
pub(super) fn guarded<'a>(
    list: &'a SubmissionList,
    touched: &'a PipelineFootprint,
) -> impl Iterator<Item = GuardedMemory<'a>> {
    list.memories().filter_map(|(_, memory, written)| {
        let refused = memory.look(written.then(|| touched.written(memory))).err()?;
        Some(GuardedMemory { memory, written, refused })
    })
}

/// Leaves the order when dropped.
pub(in crate::runtime) struct PlaceInOrder(pub Ticket);

impl PlaceInOrder {
    pub fn ticket(&self) -> Ticket {
        self.0
    }

    /// Leaves when its turn comes, without having run, and is counted in its memories no more.
    pub fn withdraw(self, list: &SubmissionList) {
        self.withdraw_from(list.memories());
    }

    fn withdraw_from<'a>(self, counted: impl Iterator<Item = (u32, &'a ArrayInner, bool)>) {
        counted.for_each(|(_, memory, written)| memory.state.unpend(written));
        ORDER.withdraw(self.0);
        std::mem::forget(self);
    }
}

impl Drop for PlaceInOrder {
    fn drop(&mut self) {
        ORDER.leave(self.0);
    }
}

/// A pipeline in flight: its outcome, and its place in the order.
pub(crate) struct Pending {
    outcome: SharedOutcome,
    /// Set once, before the pipeline can come into the queue.
    ticket: AtomicU64,
    /// The outcome is there, and its pipeline has left the order.
    done: AtomicBool,
    /// It is in the queue. Set before it enters, so that a thread that has the queue's lock finds it set.
    queued: AtomicBool,
    /// The host is told when its time is up: an extra thread runs it, and none that waits for it.
    timed: bool,
}

impl Deref for Pending {
    type Target = Outcome<Result<(), Error>>;

    fn deref(&self) -> &Self::Target {
        &self.outcome
    }
}

impl Pending {
    pub fn new(timed: bool) -> Arc<Pending> {
        let (outcome, ticket) = (StoppableOutcome::new(), AtomicU64::new(u64::MAX));
        let (done, queued) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Pending { outcome, ticket, done, queued, timed })
    }

    pub fn outcome(&self) -> &SharedOutcome {
        &self.outcome
    }

    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Its place in the order, or a number of no place.
    pub fn ticket(&self) -> Ticket {
        self.ticket.load(Relaxed)
    }

    /// Waits on this thread until it is the turn of a place in the order. `Ok`: the outcome to watch
    /// meanwhile.
    pub fn wait_for_turn(turn: &PlaceInOrder) -> Result<Arc<Pending>, Error> {
        let called = Pending::new(false);
        called.enter(turn.ticket());
        let caller = called.clone();
        ORDER.ready(turn.ticket(), Box::new(move |_: Ticket| caller.call()));
        called.wait()?;
        Ok(called)
    }

    /// See [`QueuedPipeline::set_queued`].
    pub fn set_queued(&self, queued: bool) {
        self.queued.store(queued, Relaxed);
    }

    /// It has a place in the order.
    pub fn enter(&self, ticket: Ticket) {
        self.ticket.store(ticket, Relaxed);
    }

    /// It is its turn, and the thread that waits for that runs it.
    pub fn call(&self) {
        self.outcome.set(Ok(()));
        self.done.store(true, Release);
    }

    /// Finishes it: sets the outcome, and leaves the order. `looks`: this thread looks at the queue right
    /// after.
    pub(super) fn finish(&self, outcome: Result<(), Error>, turn: PlaceInOrder, looks: bool) {
        self.outcome.set_before(outcome, || {
            COMPLETES.set(looks);
            drop(turn);
            COMPLETES.set(false);
        });
        self.done.store(true, Release);
    }

    /// Waits for the outcome. Meanwhile runs this pipeline, or what it waits for, if that has not begun.
    pub fn wait(self: &Arc<Self>) -> Result<(), Error> {
        let mut known = HashSet::new();
        loop {
            if let Some(outcome) = self.outcome.get() {
                return outcome;
            }
            if let Some(task) = taken(QUEUE.take(|jobs| self.wanted(jobs, &mut known))) {
                task.run(Runner::Waiting);
                continue;
            }
            if self.comes_soon() {
                continue;
            }
            let seen = self.outcome.nudges();
            let entered = QUEUE.enter(self);
            let late = taken(QUEUE.take_late(|jobs| self.wanted(jobs, &mut known)));
            let outcome = match &late {
                None => self.outcome.wait_unless_nudged(seen),
                Some(_) => None,
            };
            drop(entered);
            if let Some(task) = late {
                task.run(Runner::Waiting);
            }
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Which pipeline of the queue a thread runs that waits for this one: this one, or one before it that it
    /// waits for. `known`: places that are known to come before it. The queue is searched only for what may
    /// be there.
    fn wanted(&self, jobs: &VecDeque<Box<dyn QueuedPipeline>>, known: &mut HashSet<Ticket>) -> Option<usize> {
        let ticket = self.ticket();
        if self.queued.load(Relaxed) {
            let own = jobs.iter().position(|task| task.ticket() == ticket);
            if own.is_some() {
                return own;
            }
        }
        if !ORDER.waits(ticket) {
            return None;
        }
        let mut is_before = |task: &dyn QueuedPipeline| {
            task.ticket() < ticket && ORDER.precedes(task.ticket(), ticket, known)
        };
        jobs.iter().position(|task| is_before(&**task))
    }

    /// Waits a moment. False: it is time to sleep.
    fn comes_soon(&self) -> bool {
        let before = QUEUE.len();
        for poll in 0..2 * POLLS {
            if self.done.load(Acquire) || QUEUE.len() > before {
                return true;
            }
            if poll < POLLS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        false
    }
}

thread_local! {
    /// True while this worker completes a pipeline, and will look at the queue right after.
    static COMPLETES: Cell<bool> = const { Cell::new(false) };
    /// True if this worker has put a pipeline into the queue, and told no other worker.
    static CONTINUES: Cell<bool> = const { Cell::new(false) };
    /// The queue's number of changes when this worker last took something out.
    static LEFT_AT: Cell<usize> = const { Cell::new(0) };
}

/// The last pipeline that a worker has run all of was short.
static ARE_SHORT: AtomicBool = AtomicBool::new(false);

/// The pipelines that may run, and the threads that sleep until some pipeline is done.
static QUEUE: LazyLock<Queue<Box<dyn QueuedPipeline>, Arc<Pending>>> = LazyLock::new(Queue::new);

impl Job for Box<dyn QueuedPipeline> {
    fn priority(&self) -> i32 {
        (**self).priority()
    }
}

impl Sleeper for Arc<Pending> {
    fn is(&self, other: &Arc<Pending>) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn nudge(&self) {
        self.outcome.nudge();
    }
}

/// True if a pipeline may run and no thread has begun it: a [source](crate::workers::Source) that looks for
/// more work of its own for a while returns then, as its thread may be the one that the pipeline waits for.
#[inline]
pub fn pipelines_wait() -> bool {
    QUEUE.len() > 0
}

/// The source that the workers ask.
struct Pipelines;

static REGISTERED: LazyLock<workers::Registration> = LazyLock::new(|| workers::register(Arc::new(Pipelines)));

impl Source for Pipelines {
    fn run_one(&self) -> bool {
        if !has_its_turn() {
            return false;
        }
        let task = taken(QUEUE.take(|_| Some(0)));
        LEFT_AT.set(QUEUE.changes());
        let Some(task) = task else { return false };
        let start = Instant::now();
        if task.run(Runner::Worker) {
            ARE_SHORT.store(start.elapsed() < SHORT, Relaxed);
        }
        true
    }
}

/// Waits until this worker is to take what is in the queue, and not a thread that is at it. False: nothing
/// is.
fn has_its_turn() -> bool {
    // True if no other thread has been at the queue since this one was.
    let alone = QUEUE.changes() == LEFT_AT.get();
    let mut looks = match (CONTINUES.take(), alone) {
        (true, _) => STILL,
        (false, true) => STILL - ALONE,
        (false, false) => 0,
    };
    let mut patience = if ARE_SHORT.load(Relaxed) { PATIENT } else { 0 };
    let mut seen = QUEUE.changes();
    loop {
        let (len, changes) = (QUEUE.len(), QUEUE.changes());
        if changes != seen && patience > 0 {
            (seen, looks) = (changes, 0);
        }
        match len {
            0 => return false,
            1 if looks < GRACE => looks += 1,
            _ if looks < STILL && patience > 0 => looks += 1,
            _ => return true,
        }
        patience = patience.saturating_sub(1);
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}

/// Puts a pipeline into the queue whose turn it is.
pub(super) fn push(task: Box<dyn QueuedPipeline>) {
    if task.is_timed() {
        // Workers, and threads in jobs of their pool, may all wait for it.
        return workers::blocking::run(task.priority(), Box::new(move || _ = task.run(Runner::Extra)));
    }
    let ticket = task.ticket();
    task.set_queued(true);
    let len = QUEUE.push(task);
    let waits = |sleeper: &Arc<Pending>| {
        let theirs = sleeper.ticket.load(Relaxed);
        theirs == ticket || theirs > ticket && ORDER.precedes(ticket, theirs, &mut HashSet::new())
    };
    if QUEUE.nudge(waits) {
        return;
    }
    if COMPLETES.get() && len == 1 {
        return CONTINUES.set(true);
    }
    LazyLock::force(&REGISTERED);
    if !workers::announce(1) {
        // There is no thread but this one.
        while let Some(task) = taken(QUEUE.take(|_| Some(0))) {
            task.run(Runner::Waiting);
        }
    }
}

/// A pipeline that was taken out of the queue.
fn taken(task: Option<Box<dyn QueuedPipeline>>) -> Option<Box<dyn QueuedPipeline>> {
    task.inspect(|task| task.set_queued(false))
}
