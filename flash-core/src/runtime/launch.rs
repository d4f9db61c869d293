//! Runs what was recorded: holds the memories, submits, gives the memories back.
//!
//! Here is the inline path: one device that uses the host's memory, and no memory with anything to look up in
//! its directory. Submissions run one after another on the caller. At the first failure, and for everything
//! else, the pipeline goes the distributed path (`distributed/`).

use super::Runtime;
use super::asynchronous::{self, PipelineFootprint, SharedOutcome, SharedWalk};
use super::check::WriteCheck;
use super::failsafe::DeferredResult;
use super::plan::{Plan, Target};
use super::profile::LaunchProfile;
use super::resident::{self, FootprintCache};
use super::submissions::{Node, SubmissionList};
use super::{Profile, distributed, reduce, reorder};
use crate::abi::{self, Arg, Share, Submission};
use crate::backend::{DeviceHandle, HOST, take_error};
use crate::descriptor::{Access, Timeout};
use crate::error::{Code, Error, LaunchError};
use crate::index::{Order, SpaceRef, SpaceView};
use crate::kernel::shim;
use crate::memory::ArrayInner;
use crate::memory::fast_path::FastPathGuard;
use crate::memory::host_handles::{self, Scratch};
use crate::memory::state::Refused;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the launch of a number draws, the first one 0: each number is as likely, whether one looks at every launch or at
/// every second one.
#[inline]
fn draw(number: u64) -> u32 {
    // 2^32 over the golden ratio: what is drawn is spread evenly all the time.
    (number as u32).wrapping_mul(0x9E37_79B9)
}

/// The memories of a pipeline, held from the first to the last submission; given back on drop.
pub(super) struct HeldMemories<'a> {
    list: &'a SubmissionList,
    /// So many are held, in the order of addresses.
    taken: usize,
    /// Some memory has, or may have, something to look up in its directory.
    tracked: bool,
    /// They are not taken, but the pipeline is counted in them, and it is its turn.
    pending: Option<&'a InTurn<'a>>,
    /// It is pending, and has begun.
    begun: bool,
    /// It is pending, and walks them; until they are given back.
    shared_walk: Option<SharedWalk>,
    /// As long.
    active_run: Option<distributed::ActiveRun>,
    /// From before they are taken until it is going, or they are given back: if devices may have copies.
    fast_path: Option<FastPathGuard>,
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

    /// `None`: a pipeline of the order stands before this one, which must enter the order, too.
    #[inline]
    pub fn take(list: &'a SubmissionList, runtime: &Runtime) -> Result<Option<HeldMemories<'a>>, Error> {
        if list.may_block {
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
                Err(Refused::Borrowed) => return Err(Error::Borrowed),
            }
            held.taken += 1;
        }
        Ok(Some(held))
    }

    /// Of a pipeline that is counted in the words of its memories, and whose turn it is.
    fn pending(list: &'a SubmissionList, turn: &'a InTurn<'a>) -> HeldMemories<'a> {
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

    /// False: somebody finds no room on the devices, and wants nobody on the inline path there.
    #[inline]
    pub fn may_stay(&self) -> bool {
        self.fast_path.as_ref().is_some_and(FastPathGuard::may_stay)
    }

    /// True if nothing but the host's memory of arrays was missing, which is there now.
    #[cold]
    fn are_only_reserved(&self) -> Result<bool, Error> {
        for (_, memory, _) in self.list.memories().filter(|(_, memory, _)| memory.state.is_tracked()) {
            if !memory.is_only_reserved()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// It runs from now on, and waits for nobody: what its memories have on devices stays there.
    #[inline]
    fn begin(&mut self, runtime: &Runtime) {
        if self.pending.is_some() && !self.begun {
            self.fast_path = runtime.spreads.then(FastPathGuard::begin);
            self.list.memories().for_each(|(_, memory, _)| memory.state.begin());
            self.begun = true;
        }
    }
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

/// Runs a recorded pipeline.
#[inline]
pub(super) fn run(list: &SubmissionList, runtime: &Runtime) -> Result<(), Error> {
    may_run(list, runtime)?;
    let outcome = match HeldMemories::take(list, runtime)? {
        Some(held) => run_held(list, runtime, held, None, 0),
        None => asynchronous::exec_here(list, runtime),
    };
    if runtime.keeps_host && list.has_slices {
        // Slices are the caller's again. (What is executed asynchronously has none that end.)
        list.slices().for_each(|arg| {
            host_handles::forget(arg.data.cast(), (arg.len * u64::from(arg.element_size)) as usize)
        });
    }
    outcome
}

/// False for a launch inside a kernel, and for one with an error that is known already.
#[inline]
pub(super) fn may_run(list: &SubmissionList, runtime: &Runtime) -> Result<(), Error> {
    if shim::in_kernel() {
        return Err(Error::Nested);
    }
    match list.error.as_ref().or(runtime.error.as_ref()) {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

/// A pipeline of the order that is counted in the words of its memories, and whose turn it is.
pub(super) struct InTurn<'a> {
    touched: &'a PipelineFootprint,
    /// This thread may wait, for devices, memory, and launches of other threads.
    may_wait: bool,
    /// Another thread may run the rest of it.
    suspends: bool,
    /// It has begun: what it waits for before that, it has waited for.
    begun: Cell<bool>,
    /// What is to be run of it; after it was run, what is left.
    rest: RefCell<Option<Rest>>,
}

/// What is left of a pipeline.
pub(super) struct Rest {
    /// The first submission that is left, or that is not complete yet.
    first: usize,
    failures: Vec<LaunchError>,
    begun: bool,
    /// The first submission is a function of the host that completes later.
    pub awaits: Option<Arc<DeferredResult>>,
}

impl<'a> InTurn<'a> {
    /// One that this thread runs to its end.
    pub fn on_caller(touched: &'a PipelineFootprint) -> InTurn<'a> {
        let (begun, rest) = (Cell::new(false), RefCell::new(None));
        InTurn { touched, may_wait: true, suspends: false, begun, rest }
    }

    /// One of which another thread may run the rest.
    pub fn of_task(touched: &'a PipelineFootprint, may_wait: bool, rest: Option<Rest>) -> InTurn<'a> {
        let begun = Cell::new(rest.as_ref().is_some_and(|rest| rest.begun));
        InTurn { touched, may_wait, suspends: true, begun, rest: RefCell::new(rest) }
    }

    /// What is left of it, after it was run.
    pub fn left(&self) -> Option<Rest> {
        self.rest.take()
    }

    /// There is something left, so its memories stay as they are.
    fn leaves(&self, begun: bool) -> bool {
        let mut rest = self.rest.borrow_mut();
        rest.as_mut().map(|rest| rest.begun = begun).is_some()
    }

    fn leave(&self, first: usize, failures: Vec<LaunchError>, awaits: Option<Arc<DeferredResult>>) {
        *self.rest.borrow_mut() = Some(Rest { first, failures, begun: self.begun.get(), awaits });
    }

    /// It might have to wait for something else than a processor.
    fn waits(&self, list: &SubmissionList, runtime: &Runtime, first: usize, failed: bool) -> bool {
        let timed = || list.nodes().iter().any(|node| timeout(node, runtime).is_some());
        let busy = |memory: &ArrayInner, written: bool| {
            memory.state.is_tracked() || (written && !self.begun.get() && !memory.state.is_drained())
        };
        failed
            || runtime.spreads
            || runtime.runs_ahead
            || list.blocks
            || (list.may_block && timed())
            || (first == 0 && reorder::changes(list, runtime))
            || list.memories().any(|(_, memory, written)| busy(memory, written))
    }
}

/// Runs a pipeline whose turn it is, or what is left of it; `watch` hears of timeouts. What it leaves is to be run by
/// another thread.
pub(super) fn run_in_turn(
    list: &SubmissionList,
    runtime: &Runtime,
    turn: &InTurn<'_>,
    watch: Option<&SharedOutcome>,
) -> Result<(), Error> {
    let (mut first, mut failures) = (0, Vec::new());
    if let Some(rest) = turn.rest.take() {
        (first, failures) = (rest.first, rest.failures);
        if let Some(postponed) = rest.awaits {
            if let Err(source) = postponed.outcome() {
                failures.push(failed(list, &list.nodes()[first], first, source));
            }
            first += 1;
        }
    }
    if !turn.may_wait && turn.waits(list, runtime, first, !failures.is_empty()) {
        turn.leave(first, failures, None);
        return Ok(());
    }
    let mut held = HeldMemories::pending(list, turn);
    if failures.is_empty() {
        return run_held(list, runtime, held, watch, first);
    }
    long(list, runtime, &mut held, watch, (first, failures))
}

#[inline]
fn run_held(
    list: &SubmissionList,
    runtime: &Runtime,
    mut held: HeldMemories<'_>,
    watch: Option<&SharedOutcome>,
    first: usize,
) -> Result<(), Error> {
    let suspends = held.pending.is_some_and(|turn| turn.suspends);
    if (runtime.has_images || list.may_block)
        && first == 0
        && if suspends && !runtime.spreads {
            reorder::changes(list, runtime)
        } else {
            reorder::helps(list, runtime)
        }
    {
        return long(list, runtime, &mut held, watch, (0, Vec::new()));
    }
    if runtime.spreads {
        held.tracked = true;
        if held.pending.is_some_and(|turn| !turn.touched.is_alone(list)) {
            return long(list, runtime, &mut held, watch, (0, Vec::new()));
        }
        held.begin(runtime);
        if !held.may_stay() {
            return long(list, runtime, &mut held, watch, (0, Vec::new()));
        }
        return match resident::run(list, runtime, watch, 0) {
            (done, failures) if done == list.nodes().len() && failures.is_empty() => Ok(()),
            far => long(list, runtime, &mut held, watch, far),
        };
    }
    if held.tracked && !held.are_only_reserved()? {
        return long(list, runtime, &mut held, watch, (first, Vec::new()));
    }
    held.begin(runtime);
    // Chains have few orders: mostly it is that of the submission before.
    let mut last: Option<(&Order, SpaceView<'_>)> = None;
    let before = list.count_launches();
    let mut position = first;
    while position < list.nodes().len() {
        // The last one is waited for anyhow.
        if runtime.runs_ahead && position + 1 < list.nodes().len() {
            let (next, failures) = resident::run(list, runtime, watch, position);
            if !failures.is_empty() {
                return long(list, runtime, &mut held, watch, (next, failures));
            }
            position = next;
        }
        let Some(node) = list.nodes().get(position) else { break };
        let (plan, order) = (node.plan(), list.order_of(node));
        let space = match &last {
            Some((before, view)) if std::ptr::eq(*before, order) => view.get(),
            _ => last.insert((order, order.view())).1.get(),
        };
        let draw = Some(draw(before + position as u64));
        let outcome = match timeout(node, runtime) {
            None if suspends && plan.target().is_err() => match begin_on_host(list, node, plan) {
                Ok(Some(postponed)) => {
                    if let Some(turn) = held.pending {
                        turn.leave(position, Vec::new(), Some(postponed));
                    }
                    return Ok(());
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            },
            None => submit(list, node, plan, space, runtime, draw),
            Some(limit) => asynchronous::timed(
                limit,
                Instant::now(),
                watch,
                |source| blame(node, plan, position, source),
                || submit(list, node, plan, space, runtime, draw),
            ),
        };
        position += 1;
        if let Err(source) = outcome {
            let failure = failed(list, node, position - 1, source);
            return long(list, runtime, &mut held, watch, (position, vec![failure]));
        }
    }
    Ok(())
}

/// Runs the submissions from a position on the distributed path; those before it have failed, or not.
#[cold]
fn long(
    list: &SubmissionList,
    runtime: &Runtime,
    held: &mut HeldMemories<'_>,
    watch: Option<&SharedOutcome>,
    (first, failures): (usize, Vec<LaunchError>),
) -> Result<(), Error> {
    if let Some(turn) = held.pending
        && !turn.may_wait
    {
        turn.leave(first, failures, None);
        return Ok(());
    }
    held.tracked = true;
    if let Some(turn) = held.pending {
        held.shared_walk = Some(turn.touched.walk());
        held.begin(runtime);
    }
    held.active_run = runtime.has_device_memory().then(distributed::ActiveRun::begin);
    held.fast_path = None;
    let beside = held.shared_walk.is_some();
    let mut failures = distributed::run(list, runtime, watch, beside, first, failures)?.into_iter();
    match failures.next() {
        Some(mut first) => {
            first.others = failures.collect();
            Err(Error::Launch(Arc::new(first)))
        }
        None => Ok(()),
    }
}

/// How long a submission may take.
#[inline]
pub(super) fn timeout(node: &Node, runtime: &Runtime) -> Option<Duration> {
    let own = node.extra.as_ref().and_then(|extra| extra.options.attributes.get::<Timeout>());
    own.map_or(runtime.timeout, |own| Some(own.0))
}

/// Poisons what a submission should have written. Its memories are held, and given back noted.
#[cold]
pub(super) fn failed(list: &SubmissionList, node: &Node, position: usize, source: Error) -> LaunchError {
    let plan = node.plan();
    let footprint = FootprintCache::default().items(list, node);
    for (i, (hold, spec)) in list.holds_of(node).iter().zip(&plan.arguments).enumerate() {
        if let (Some(header), true) = (list.memory(hold.touched), spec.access != Access::Read) {
            header.poison(&asynchronous::region(list, node, i, header, footprint.as_deref()));
        }
    }
    blame(node, plan, position, source)
}

/// The error of a submission that runs on the best device, or on the host.
pub(super) fn blame(node: &Node, plan: &Plan, position: usize, source: Error) -> LaunchError {
    let on_host = node.extra.as_ref().is_some_and(|e| e.failsafe.is_some());
    let device = plan.target().map(|target| target.device.id());
    LaunchError {
        kernel: plan.descriptor.name.clone(),
        device: device.unwrap_or(if on_host { "the host" } else { "no device" }).to_owned(),
        position,
        source,
        others: Vec::new(),
    }
}

#[inline]
fn submit(
    list: &SubmissionList,
    node: &Node,
    plan: &Plan,
    space: SpaceRef<'_>,
    runtime: &Runtime,
    draw: Option<u32>,
) -> Result<(), Error> {
    let target = match plan.target() {
        Ok(target) => target,
        Err(error) => return failsafe(list, node, plan, error),
    };
    if plan.prepared || (plan.writes && runtime.check_writes) {
        return submit_prepared(list, node, (plan, target), space, runtime, draw);
    }
    launch(list, node, (plan, target), space, runtime, draw)
}

/// Calls the function of the host that a submission is, or that takes the place of its kernel. `Some`: it completes
/// later.
#[cold]
fn begin_on_host(
    list: &SubmissionList,
    node: &Node,
    plan: &Plan,
) -> Result<Option<Arc<DeferredResult>>, Error> {
    match (node.extra.as_ref().and_then(|e| e.failsafe.as_ref()), plan.target()) {
        (Some(body), _) => super::failsafe::begin(body, plan, list.args_of(node), list.dims_of(node)),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Ok(None),
    }
}

#[cold]
fn failsafe(list: &SubmissionList, node: &Node, plan: &Plan, error: Error) -> Result<(), Error> {
    match node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) {
        Some(body) => super::failsafe::call(body, plan, list.args_of(node), list.dims_of(node)),
        None => Err(error),
    }
}

/// Second buffers for phased arguments, wider scalars, and the check that everything is written.
fn submit_prepared(
    list: &SubmissionList,
    node: &Node,
    (plan, target): (&Plan, &Target),
    space: SpaceRef<'_>,
    runtime: &Runtime,
    draw: Option<u32>,
) -> Result<(), Error> {
    let mut args: SmallVec<[Arg; 8]> = SmallVec::from_slice(list.args_of(node));
    let mut scratch: SmallVec<[Scratch; 2]> = SmallVec::new();
    for (arg, hold) in args.iter_mut().zip(list.holds_of(node)) {
        if arg.kind != abi::ARG_PHASED || arg.flags & abi::ARG_FLAG_STAGED != 0 {
            continue;
        }
        arg.next = match list.memory(hold.touched) {
            Some(header) => {
                // SAFETY: the argument lies in the memory, and so does the same place of the second buffer.
                unsafe {
                    let offset = arg.data.cast::<u8>().offset_from(header.data());
                    header.second().offset(offset).cast()
                }
            }
            None => {
                let second = Scratch::zeroed(arg.len as usize * arg.element_size as usize);
                let data = second.data();
                scratch.push(second);
                data.cast()
            }
        };
    }
    let check =
        (plan.writes && runtime.check_writes).then(|| WriteCheck::begin(plan, list.order_of(node), &args));
    let (attributes, profile) = extras(node, runtime);
    let phases = 0..space.phases();
    let position = list.position_of(node);
    let cut = false;
    let launch = DeviceLaunch { plan, target, space, phases, attributes, profile, position, cut, draw };
    let outcome = submit_to(launch, &mut args, false);
    match check {
        Some(check) => outcome.and(check.end(plan, &args)),
        None => outcome,
    }
}

#[inline]
fn launch(
    list: &SubmissionList,
    node: &Node,
    (plan, target): (&Plan, &Target),
    space: SpaceRef<'_>,
    runtime: &Runtime,
    draw: Option<u32>,
) -> Result<(), Error> {
    let args = list.args_of(node);
    let (attributes, profile) = extras(node, runtime);
    let phases = 0..space.phases();
    let position = list.position_of(node);
    let cut = false;
    DeviceLaunch { plan, target, space, phases, attributes, profile, position, cut, draw }
        .timed(|launch, nanoseconds| launch.send(args, launch.phases.clone(), nanoseconds))
}

/// All rows of a space of one phase, for a function that runs them.
#[inline(always)] // built in place: copies of it stall on the stores just made
pub(super) fn share_of(space: SpaceRef<'_>, args: usize) -> Share {
    Share {
        struct_size: size_of::<Share>() as u32,
        arg_count: args as u32,
        host: &raw const HOST,
        space: space.raw(),
        phase: 0,
        begin: 0,
        end: space.items(),
        threads: std::ptr::null(),
    }
}

/// Attributes for the backend, and where the launch is recorded.
#[inline]
pub(super) fn extras<'n>(node: &'n Node, runtime: &'n Runtime) -> (&'n [abi::Attr], Option<&'n Profile>) {
    let all = runtime.options.profile.as_ref();
    match &node.extra {
        None => (&[], all),
        Some(extra) => (&extra.attributes, extra.options.profile.as_ref().or(all)),
    }
}

/// A launch on a device.
pub(super) struct DeviceLaunch<'a> {
    pub plan: &'a Plan,
    pub target: &'a Target,
    pub space: SpaceRef<'a>,
    pub phases: Range<u64>,
    pub attributes: &'a [abi::Attr],
    pub profile: Option<&'a Profile>,
    /// Of the submission in its pipeline.
    pub position: usize,
    /// The space is a part of the submission's.
    pub cut: bool,
    /// The host may run it itself, if it is small; with what it has drawn.
    pub draw: Option<u32>,
}

/// Runs a launch whose arguments were proved; returns when it is done. `merged`: the arguments have partial
/// results that are merged elsewhere, else accumulators are arrays of the host. Scalars are the definition's; after
/// it, they are not to be used.
pub(super) fn submit_to(launch: DeviceLaunch<'_>, args: &mut [Arg], merged: bool) -> Result<(), Error> {
    let mut room = SmallVec::new();
    launch.target.widening.apply(args, &mut room);
    launch.timed(|launch, nanoseconds| {
        if merged || !launch.plan.reduces {
            return launch.send(args, launch.phases.clone(), nanoseconds);
        }
        reduce::run(launch.plan, launch.space, args, |args, phases| {
            let mut these = 0;
            launch.send(args, phases, &mut these)?;
            *nanoseconds += these;
            Ok(())
        })
    })
}

impl DeviceLaunch<'_> {
    /// Runs it by `body`, which is given where its time on the device goes; records it if that is asked for.
    #[inline]
    pub fn timed(&self, body: impl FnOnce(&Self, &mut u64) -> Result<(), Error>) -> Result<(), Error> {
        let start = self.profile.map(|_| Instant::now());
        let mut nanoseconds = 0;
        body(self, &mut nanoseconds)?;
        if let (Some(profile), Some(start)) = (self.profile, start) {
            profile.add(LaunchProfile {
                submission: self.position,
                kernel: self.plan.descriptor.name.clone(),
                implementation: self.target.implementation.clone(),
                device: self.target.device.id().to_owned(),
                phases: self.phases.end - self.phases.start,
                items: match self.phases.end {
                    0 => 0,
                    end => self.space.phase(end - 1).end - self.space.phase(self.phases.start).start,
                },
                nanoseconds,
                wall_nanoseconds: start.elapsed().as_nanos() as u64,
            });
        }
        Ok(())
    }

    /// Calls the backend for some phases, or runs a few work items here, where what they write stays where it is;
    /// returns when they are done.
    #[inline]
    pub fn send(&self, args: &[Arg], phases: Range<u64>, nanoseconds: &mut u64) -> Result<(), Error> {
        if let Some(draw) = self.draw
            && let Some(share) = self.target.inline(self.space.items(), draw)
            && !self.plan.phased
            && self.space.phases() == 1
            && !phases.is_empty()
            && self.attributes.is_empty()
            && self.profile.is_none()
        {
            // SAFETY: all rows of a launch whose arguments were proved, in the host's memory.
            return unsafe { take_error(share(&share_of(self.space, args.len()), args.as_ptr())) };
        }
        if self.profile.is_none() {
            return self.wait(args, phases);
        }
        let mut event = std::ptr::null_mut();
        self.call(args, phases, nanoseconds, &raw mut event)?;
        match event.is_null() {
            true => Ok(()),
            // SAFETY: an event of the target's backend, given back once.
            false => unsafe { complete(self.target.device, event, Some(nanoseconds)) },
        }
    }

    /// Calls the backend for some phases, which returns when they are done: with less to do than if it gave an event.
    #[inline]
    pub fn wait(&self, args: &[Arg], phases: Range<u64>) -> Result<(), Error> {
        self.call(args, phases, &mut 0, std::ptr::null_mut())
    }

    /// Calls the backend for all phases. `Some`: it fires when they are done, and is to be completed.
    #[inline]
    pub fn begin(&self, args: &[Arg]) -> Result<Option<*mut abi::Event>, Error> {
        let mut event = std::ptr::null_mut();
        self.call(args, self.phases.clone(), &mut 0, &raw mut event)?;
        Ok((!event.is_null()).then_some(event))
    }

    /// `signal`: where the event goes; NULL if the backend is to return when it is done.
    #[inline]
    fn call(
        &self,
        args: &[Arg],
        phases: Range<u64>,
        nanoseconds: &mut u64,
        signal: *mut *mut abi::Event,
    ) -> Result<(), Error> {
        let DeviceLaunch { plan, target, space, attributes, profile, .. } = self;
        let submission = Submission {
            struct_size: size_of::<Submission>() as u32,
            flags: if profile.is_some() { abi::SUBMIT_PROFILE } else { 0 }
                | if plan.phased { abi::SUBMIT_PHASED } else { 0 }
                | if self.cut { abi::SUBMIT_PART } else { 0 },
            kernel: target.kernel,
            space: space.raw(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            wait_count: 0,
            waits: std::ptr::null(),
            signal,
            nanoseconds,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            phase_begin: phases.start,
            phase_end: phases.end,
        };
        // SAFETY: a device of this vtable, a kernel made by its `prepare` for this definition, and
        // arguments that were proved; the arrays live until the event is over, all else until the call is.
        unsafe { take_error((target.submit)(target.device.raw, std::ptr::null_mut(), &submission))? };
        target.launched();
        Ok(())
    }
}

/// Waits for a completion event and gives it back. Its time is asked for only where somebody wants it.
///
/// # Safety
/// The event is of the device's backend, and nobody uses it after.
pub(super) unsafe fn complete(
    device: &DeviceHandle,
    event: *mut abi::Event,
    nanoseconds: Option<&mut u64>,
) -> Result<(), Error> {
    let api = device.api;
    let Some(wait) = api.event_wait else {
        return Err(Error::Backend {
            code: Code::Invalid,
            text: format!("{} gave an event and has no slot `event_wait`", device.id()),
        });
    };
    // SAFETY: the caller vouches; the errors are this host's.
    unsafe {
        let outcome = take_error(wait(event));
        let (mut start, mut end) = (0, 0);
        if let (Some(nanoseconds), Some(times)) = (nanoseconds, api.event_times)
            && take_error(times(event, &mut start, &mut end)).is_ok()
        {
            *nanoseconds = end.saturating_sub(start);
        }
        if let Some(release) = api.event_release {
            release(event);
        }
        outcome
    }
}
