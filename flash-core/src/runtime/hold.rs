//! The memories of a pipeline, held from its first submission to its last, and a pipeline whose turn has
//! come.
//!
//! A pipeline holds all of its memories or none: it takes them in the order of their addresses, or is counted
//! in their words when it entered the order. That makes it enter the order as a whole. Only the thread that
//! runs the pipeline touches [`HeldMemories`]; an [`InTurn`] whose rest another thread runs goes there with
//! the pipeline.

use super::device_launch::timeout;
use super::distributed::active_run::ActiveRun;
use super::failsafe::DeferredResult;
use super::footprint::pipeline::{PipelineFootprint, SharedWalk};
use super::left_to_device::{Ending, LeftToDevice};
use super::reorder;
use super::state::Runtime;
use super::submissions::{Node, SubmissionList};
use crate::error::{Error, LaunchError};
use crate::memory::fast_path::FastPathGuard;
use crate::memory::region::Region;
use crate::memory::state::Refused;
use crate::memory::{ArrayInner, PATIENCE, own_guards};
use flash_backend::fork;
use flash_types::descriptor::Patience;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A memory of a launch, and whether the launch writes it, that is refused to it: mostly, a guard conflicts.
pub(super) struct GuardedMemory<'a> {
    pub(super) memory: &'a ArrayInner,
    pub(super) written: bool,
    pub(super) refused: Refused,
}

impl GuardedMemory<'_> {
    /// The region of it that the pipeline writes, if it writes some.
    pub(super) fn region<'t>(&self, touched: &'t PipelineFootprint) -> Option<&'t Region> {
        self.written.then(|| touched.written(self.memory))
    }

    /// The error of the launch, of whose use of the memory, or of a region of it, this is. It has waited, or
    /// not.
    #[cold]
    pub(super) fn error(&self, region: Option<&Region>, waited: Option<Duration>) -> Error {
        let memory = self.memory;
        let range = region.map_or(0..memory.len() as u64, |region| region.hull(&memory.grid()));
        memory.refused(self.refused, &range, waited)
    }
}

/// The waiting of a launch for guards of other threads. It holds nothing meanwhile.
pub(super) struct PatientWait<'a> {
    list: &'a SubmissionList,
    runtime: &'a Runtime,
    /// Set when it first waits.
    until: Option<Instant>,
}

impl<'a> PatientWait<'a> {
    /// Of a pipeline that has not waited yet.
    pub fn new(list: &'a SubmissionList, runtime: &'a Runtime) -> PatientWait<'a> {
        PatientWait { list, runtime, until: None }
    }

    /// Waits until no guard conflicts with its use of a memory; `region`: what it writes of that, if that is
    /// known.
    ///
    /// # Errors
    /// [`Error::Borrowed`], at once if this thread holds a guard, or at the end of its patience.
    /// [`Error::Forked`] in a child of `fork`.
    #[cold]
    pub fn wait(&mut self, guarded: &GuardedMemory<'_>, region: Option<&Region>) -> Result<(), Error> {
        let limit = patience(self.list, self.runtime);
        if guarded.refused == Refused::Forked || limit.is_zero() || own_guards::any() {
            return Err(guarded.error(region, None));
        }
        fork::check()?;
        let until = *self.until.get_or_insert_with(|| end_of(limit));
        match guarded.memory.after_guards(guarded.written, region, until) {
            true => Ok(()),
            false => Err(guarded.error(region, Some(limit))),
        }
    }
}

/// How long a pipeline waits for guards.
pub(super) fn patience(list: &SubmissionList, runtime: &Runtime) -> Duration {
    let of_node = |node: &Node| Some(node.extra.as_ref()?.options.attributes.get::<Patience>()?.0);
    let own = list.nodes().iter().filter_map(of_node).min();
    own.or(runtime.patience).unwrap_or(PATIENCE)
}

/// When a time from now is over.
pub(super) fn end_of(limit: Duration) -> Instant {
    let now = Instant::now();
    // A century is as good as for ever.
    now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 86_400))
}

/// The memories of a pipeline, held from the first to the last submission; given back on drop.
pub(super) struct HeldMemories<'a> {
    list: &'a SubmissionList,
    /// The number of those that are held, in the order of addresses.
    taken: usize,
    /// True if some memory has, or may have, something to look up in its directory.
    pub(super) tracked: bool,
    /// Set if they are not taken, but the pipeline is counted in them, and it is its turn.
    pub(super) pending: Option<&'a InTurn<'a>>,
    /// True if it is pending, and has begun.
    begun: bool,
    /// Set if it is pending, and moves them, until they are given back.
    pub(super) shared_walk: Option<SharedWalk>,
    /// Set for as long as `shared_walk`.
    pub(super) active_run: Option<ActiveRun>,
    /// Set if devices may have copies: from before they are taken until the launch has begun, or they are
    /// given back.
    pub(super) fast_path: Option<FastPathGuard>,
}

impl<'a> HeldMemories<'a> {
    /// None of them yet.
    #[inline(always)]
    fn of(list: &'a SubmissionList, pending: Option<&'a InTurn<'a>>) -> HeldMemories<'a> {
        let (taken, tracked, begun) = (0, false, false);
        HeldMemories {
            list,
            taken,
            tracked,
            pending,
            begun,
            shared_walk: None,
            active_run: None,
            fast_path: None,
        }
    }

    /// Takes them. `None`: a pipeline in the order comes before this one, which must enter the order, too.
    ///
    /// # Errors
    /// A memory that a guard has; then nothing is held.
    #[inline]
    pub fn take(
        list: &'a SubmissionList,
        runtime: &Runtime,
    ) -> Result<Option<HeldMemories<'a>>, GuardedMemory<'a>> {
        if list.enters_order {
            return Ok(None);
        }
        let mut held = HeldMemories::of(list, None);
        held.fast_path = runtime.spreads.then(FastPathGuard::begin);
        for (_, memory, written) in list.memories() {
            let taken = match written {
                _ if runtime.spreads => memory.state.launch_tracked(written),
                true => memory.state.launch_write(),
                false => memory.state.launch_read(),
            };
            match taken {
                Ok(tracked) => held.tracked |= tracked,
                Err(Refused::Pending) => return Ok(None),
                Err(refused) => return Err(GuardedMemory { memory, written, refused }),
            }
            held.taken += 1;
        }
        Ok(Some(held))
    }

    /// The memories of a pipeline that is counted in their words, and whose turn it is.
    pub(super) fn pending(list: &'a SubmissionList, turn: &'a InTurn<'a>) -> HeldMemories<'a> {
        let mut held = HeldMemories::of(list, Some(turn));
        held.begun = turn.begun.get();
        for (_, memory, written) in list.memories() {
            if written && !held.begun {
                memory.state.drained();
            }
            held.taken += 1;
            held.tracked |= memory.state.is_tracked();
        }
        held
    }

    /// False if a launch finds no room on the devices, and keeps the inline path free of others.
    #[inline]
    pub fn may_stay(&self) -> bool {
        self.fast_path.as_ref().is_some_and(FastPathGuard::may_stay)
    }

    /// True if only host memory of the arrays was missing, which has been committed now.
    #[cold]
    pub(super) fn are_only_reserved(&self) -> Result<bool, Error> {
        for (_, memory, _) in self.list.memories().filter(|(_, memory, _)| memory.state.is_tracked()) {
            if !memory.is_only_reserved()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Marks that it runs from now on and waits for nothing else: copies of its memories on devices stay
    /// there.
    #[inline]
    pub(super) fn begin(&mut self, runtime: &Runtime) {
        if self.pending.is_some() && !self.begun {
            self.fast_path = runtime.spreads.then(FastPathGuard::begin);
            self.list.memories().for_each(|(_, memory, _)| memory.state.begin());
            self.begun = true;
        }
    }

    /// Leaves the rest until a function of the host is complete: the first submission. The function uses the
    /// host's memory of its arguments.
    #[cold]
    pub(super) fn leave_at_host(&mut self, remaining: Remaining, postponed: Arc<DeferredResult>) {
        let Some(turn) = self.pending else { return };
        lent_to(self.list, remaining.first).for_each(ArrayInner::lend);
        self.suspend();
        turn.leave(remaining, Awaits::Host(postponed));
    }

    /// Marks that the rest is run later, by a thread that may wait. Until then it has nothing in flight, and
    /// keeps no room on devices: it is not counted among the runs that others wait for to get some.
    #[cold]
    pub(super) fn suspend(&mut self) {
        if self.begun {
            self.list.memories().for_each(|(_, memory, _)| memory.state.suspend());
            self.begun = false;
        }
        (self.fast_path, self.active_run) = (None, None);
    }
}

/// The memories of the arguments of a function of the host.
pub(super) fn lent_to(list: &SubmissionList, position: usize) -> impl Iterator<Item = &ArrayInner> {
    let holds = list.holds_of(&list.nodes()[position]);
    holds.iter().filter_map(|hold| list.memory(hold.touched))
}

impl Drop for HeldMemories<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.pending.is_some_and(|turn| turn.leaves(self.begun)) {
            return;
        }
        let tracked = self.tracked;
        for (_, memory, written) in self.list.memories().take(self.taken) {
            match (self.pending.is_some(), written) {
                (false, true) => memory.state.release_write(tracked && memory.settle()),
                (false, false) => memory.state.release_read(),
                (true, _) if !self.begun => memory.state.unpend(written),
                (true, true) => memory.release_pending_written(tracked),
                (true, false) => memory.state.release_pending_read(),
            }
        }
    }
}

/// The thread that runs a pipeline whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// A worker, which waits for nothing.
    Worker,
    /// An extra thread, or one that does as they do, which waits for memory, launches of other threads, and
    /// devices, but not for the end of the pipeline on a device.
    Extra,
    /// A thread that waits for the pipeline, or for one after it.
    Waiting,
    /// A thread that serves devices, ends what they have run, and waits for nothing.
    Device,
}

/// A pipeline of the order that is counted in the words of its memories, and whose turn it is.
pub(super) struct InTurn<'a> {
    pub(super) touched: &'a PipelineFootprint,
    runner: Runner,
    /// True if another thread may run the rest of it.
    pub(super) suspends: bool,
    /// True once it has begun, and so has waited for all that comes before.
    begun: Cell<bool>,
    /// The part to run; after it was run, the rest.
    pub(super) rest: RefCell<Option<Rest>>,
}

/// The rest of a pipeline, which its task keeps.
pub(super) struct Rest {
    pub(super) remaining: Remaining,
    begun: bool,
    pub awaits: Awaits,
}

/// What is left of a pipeline.
pub(super) struct Remaining {
    /// The first submission that is not complete.
    pub first: usize,
    /// Those behind it that are, in order: functions of the host may come later than their place.
    pub done: Vec<usize>,
    /// Of those that are complete.
    pub failures: Vec<LaunchError>,
    /// The error of the submission before the first, a function of the host: what it should have written is
    /// not poisoned yet.
    pub late: Option<Error>,
}

impl Remaining {
    /// After submissions that succeeded.
    pub fn from(first: usize) -> Remaining {
        Remaining::after(first, Vec::new())
    }

    /// After submissions of which these failed.
    pub fn after(first: usize, failures: Vec<LaunchError>) -> Remaining {
        Remaining { first, done: Vec::new(), failures, late: None }
    }

    /// The positions of a pipeline's submissions that are not complete.
    pub fn positions(&self, list: &SubmissionList) -> impl Iterator<Item = usize> {
        (self.first..list.nodes().len()).filter(|position| self.done.binary_search(position).is_err())
    }

    /// True if nothing but the submissions before the first has run, and nothing failed.
    pub fn is_plain(&self) -> bool {
        self.done.is_empty() && self.failures.is_empty() && self.late.is_none()
    }
}

/// What the rest of a pipeline needs before it is run.
pub(super) enum Awaits {
    /// A thread that may wait.
    Thread,
    /// A function of the host that completes later: the first submission that is left.
    Host(Arc<DeferredResult>),
    /// A device, which has all submissions, or some and the pipeline's turn is still to come.
    Device(Box<LeftToDevice>),
}

impl<'a> InTurn<'a> {
    /// A pipeline that this thread runs to its end.
    pub fn on_caller(touched: &'a PipelineFootprint) -> InTurn<'a> {
        let (begun, rest) = (Cell::new(false), RefCell::new(None));
        InTurn { touched, runner: Runner::Waiting, suspends: false, begun, rest }
    }

    /// A pipeline whose rest another thread may run.
    pub fn of_task(touched: &'a PipelineFootprint, runner: Runner, rest: Option<Rest>) -> InTurn<'a> {
        let begun = Cell::new(rest.as_ref().is_some_and(|rest| rest.begun));
        InTurn { touched, runner, suspends: true, begun, rest: RefCell::new(rest) }
    }

    /// True if this thread may wait: for devices, memory, and launches of other threads.
    pub(super) fn may_wait(&self) -> bool {
        !matches!(self.runner, Runner::Worker | Runner::Device)
    }

    /// Whether this thread waits until a device has ended the pipeline.
    pub(super) fn ending(&self) -> Ending {
        if self.runner == Runner::Extra { Ending::Left } else { Ending::Waited }
    }

    /// Its rest, after it was run.
    pub fn left(&self) -> Option<Rest> {
        self.rest.take()
    }

    /// True if there is a rest, so that its memories stay as they are.
    fn leaves(&self, begun: bool) -> bool {
        let mut rest = self.rest.borrow_mut();
        rest.as_mut().map(|rest| rest.begun = begun).is_some()
    }

    pub(super) fn leave(&self, remaining: Remaining, awaits: Awaits) {
        *self.rest.borrow_mut() = Some(Rest { remaining, begun: self.begun.get(), awaits });
    }

    /// True if what is left of it might have to wait for something other than a processor.
    pub(super) fn waits(&self, list: &SubmissionList, runtime: &Runtime, remaining: &Remaining) -> bool {
        let timed = || list.nodes().iter().any(|node| timeout(node, runtime).is_some());
        let busy = |memory: &ArrayInner, written: bool| {
            memory.state.is_tracked() || (written && !self.begun.get() && !memory.state.is_drained())
        };
        !remaining.is_plain()
            || runtime.spreads
            || runtime.runs_ahead
            || runtime.keeps_threads
            || list.blocks
            || (list.may_block && timed())
            || (remaining.first == 0 && reorder::changes(list, runtime))
            || list.memories().any(|(_, memory, written)| busy(memory, written))
    }
}
