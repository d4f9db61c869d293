//! Runs recorded pipelines: holds the memories, submits, gives the memories back.
//!
//! This is the inline path: one device that uses the host's memory, and no memory with anything to look up in
//! its directory. Submissions run one after another on the caller. At the first failure, and in all other
//! cases, the pipeline takes the distributed path (`distributed/`).

use super::asynchronous::limits::{SharedOutcome, StopFlag, is_stopped, timed};
use super::asynchronous::pending::{Pending, pend};
use super::check::{WriteCheck, check_contents, number_stores};
use super::device_launch::{Chosen, DeviceLaunch, blame, extras, failed, submit_to, timeout};
use super::distributed::Ended;
use super::distributed::active_run::ActiveRun;
use super::distributed::kept::KeptRuns;
use super::event::Event;
use super::failsafe::DeferredResult;
use super::footprint::pipeline::PipelineFootprint;
use super::hold::{Awaits, GuardedMemory, HeldMemories, InTurn, PatientWait, Remaining, lent_to};
use super::left_to_device::{Ending, LeftToDevice};
use super::plan::Plan;
use super::resident::{self, Progress};
use super::small::SmallPipeline;
use super::state::Runtime;
use super::submissions::{Node, SubmissionList};
use super::{distributed, movement, reorder};
use crate::devices::DeviceHandle;
use crate::devices::host_handles::{self, Scratch};
use crate::error::{Error, LaunchError};
use crate::memory::ArrayInner;
use crate::memory::order::ORDER;
use crate::memory::own_guards;
use crate::nested::in_kernel;
use flash_backend::fork;
use flash_types::abi::{self, Arg};
use flash_types::index::{Order, SpaceRef, SpaceView};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// The number that launch `number` draws, 0 for the first. All numbers are equally likely, over all launches
/// and over every second one.
#[inline]
fn draw(number: u64) -> u32 {
    // 2^32 over the golden ratio: the numbers drawn so far are always spread evenly.
    (number as u32).wrapping_mul(0x9E37_79B9)
}

/// Runs a recorded pipeline, whose last run may be kept.
#[inline]
pub(super) fn run(list: &SubmissionList, runtime: &Runtime, kept: &KeptRuns) -> Result<(), Error> {
    may_run(list, runtime)?;
    let outcome = match HeldMemories::take(list, runtime) {
        Ok(Some(held)) => run_held(list, runtime, held, None, 0, Some(kept)),
        Ok(None) => run_in_order(list, runtime, PatientWait::new(list, runtime)),
        Err(guarded) => run_after_guards(list, runtime, guarded),
    };
    if runtime.keeps_host && list.has_slices {
        // Slices are the caller's again. (An asynchronous pipeline has none that end.)
        list.slices().for_each(|arg| {
            host_handles::forget(arg.data.cast(), (arg.len * u64::from(arg.element_size)) as usize)
        });
    }
    outcome
}

/// Runs a pipeline on this thread, whose memories could not be taken because of a guard.
#[cold]
fn run_after_guards<'a>(
    list: &'a SubmissionList,
    runtime: &'a Runtime,
    mut guarded: GuardedMemory<'a>,
) -> Result<(), Error> {
    let mut wait = PatientWait::new(list, runtime);
    loop {
        wait.wait(&guarded, None)?;
        guarded = match HeldMemories::take(list, runtime) {
            Ok(Some(held)) => return run_held(list, runtime, held, None, 0, None),
            Ok(None) => return run_in_order(list, runtime, wait),
            Err(guarded) => guarded,
        };
    }
}

/// Runs a pipeline on this thread when its turn comes in the order. The launch is one that may run.
#[cold]
fn run_in_order(list: &SubmissionList, runtime: &Runtime, mut wait: PatientWait<'_>) -> Result<(), Error> {
    fork::check()?;
    let touched = PipelineFootprint::of(list, runtime);
    let turn = loop {
        match pend(list, &touched, None) {
            Ok(turn) => break turn,
            Err(guarded) => wait.wait(&guarded, guarded.region(&touched))?,
        }
    };
    if own_guards::any() && ORDER.is_behind_guards(turn.ticket()) {
        turn.withdraw(list);
        return Err(Error::Borrowed { guard: None, waited: None });
    }
    let called = Pending::wait_for_turn(&turn)?;
    run_in_turn(list, runtime, &InTurn::on_caller(&touched), Some(called.outcome()))
}

/// False for a launch inside a kernel, and for one with an error that is known already.
#[inline]
pub(super) fn may_run(list: &SubmissionList, runtime: &Runtime) -> Result<(), Error> {
    if in_kernel() {
        return Err(Error::Nested);
    }
    match list.error.as_ref().or(runtime.error.as_ref()) {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

/// Runs a pipeline whose turn it is, or its rest. `watch` is told of timeouts. What is left then has to be
/// run by another thread.
pub(super) fn run_in_turn(
    list: &SubmissionList,
    runtime: &Runtime,
    turn: &InTurn<'_>,
    watch: Option<&SharedOutcome>,
) -> Result<(), Error> {
    let mut remaining = Remaining::from(0);
    if let Some(rest) = turn.rest.take() {
        remaining = rest.remaining;
        match rest.awaits {
            Awaits::Thread => {}
            Awaits::Host(postponed) => {
                lent_to(list, remaining.first).for_each(ArrayInner::end_lending);
                remaining.first += 1;
                remaining.late = postponed.outcome().err();
            }
            Awaits::Device(left) => return end(list, runtime, turn, watch, left),
        }
    }
    if !turn.may_wait() && turn.waits(list, runtime, &remaining) {
        turn.leave(remaining, Awaits::Thread);
        return Ok(());
    }
    if let Some(source) = remaining.late.take() {
        let position = remaining.first - 1;
        remaining.failures.push(failed(list, &list.nodes()[position], position, source));
    }
    if let Some(watch) = watch
        && list.after().iter().any(Event::is_abandoned)
    {
        watch.stop(Error::Abandoned);
    }
    let mut held = HeldMemories::pending(list, turn);
    let may_be_inline = !(runtime.spreads || runtime.check_maps || runtime.has_images);
    if remaining.is_plain() && (remaining.first == 0 || may_be_inline) {
        return run_held(list, runtime, held, watch, remaining.first, None);
    }
    long(list, runtime, &mut held, watch, remaining)
}

/// Ends a pipeline that a device has run, or some of it; then runs the rest.
fn end(
    list: &SubmissionList,
    runtime: &Runtime,
    turn: &InTurn<'_>,
    watch: Option<&SharedOutcome>,
    left: Box<LeftToDevice>,
) -> Result<(), Error> {
    let mut held = HeldMemories::pending(list, turn);
    let position = left.position();
    let (failures, active_run) = resident::end(list, runtime, left);
    held.tracked |= runtime.spreads || !failures.is_empty();
    held.active_run = active_run;
    if position < list.nodes().len() {
        return long(list, runtime, &mut held, watch, Remaining::after(position, failures));
    }
    first_with_others(failures).map_or(Ok(()), Err)
}

/// The device to which a pipeline may be given before its turn (`asynchronous/follow.rs`).
pub(super) fn follows(
    list: &SubmissionList,
    runtime: &Runtime,
    touched: &PipelineFootprint,
) -> Option<&'static DeviceHandle> {
    let [device] = runtime.devices[..] else { return None };
    let plain = |node: &Node| timeout(node, runtime).is_none() && extras(node, runtime).1.is_none();
    let may = LeftToDevice::may(device)
        && (1..resident::RUN_AHEAD).contains(&list.nodes().len())
        && !(runtime.check_maps || list.may_block || list.blocks)
        && !(runtime.has_images && reorder::helps(list, runtime))
        && list.nodes().iter().all(plain)
        && (!runtime.spreads || touched.is_alone(list));
    may.then_some(device)
}

/// Gives a pipeline to its device, before its turn: the device has all those before it. What is to be done in
/// its turn is left there: its end, or all of it.
pub(super) fn follow(
    list: &SubmissionList,
    runtime: &Runtime,
    turn: &InTurn<'_>,
    device: &'static DeviceHandle,
    watch: &SharedOutcome,
) {
    turn.leave(Remaining::from(0), Awaits::Thread);
    let ending = Ending::Following(resident::failures());
    let waits = |(_, memory, written): (_, &ArrayInner, bool)| {
        (written && !memory.state.is_drained()) || (!runtime.spreads && memory.state.is_tracked())
    };
    if watch.stopped().is_some()
        || list.after().iter().any(Event::is_abandoned)
        || list.memories().any(waits)
        || !resident::has_all(list, runtime, device)
    {
        return;
    }
    let mut held = HeldMemories::pending(list, turn);
    held.begin(runtime);
    if !runtime.spreads || held.may_stay() {
        match resident::run(list, runtime, device, Some(watch), 0, ending) {
            Progress::Left(left) if left.position() > 0 => {
                return turn.leave(Remaining::from(left.position()), Awaits::Device(left));
            }
            // Something was evicted just now.
            _ => {}
        }
    }
    held.suspend();
}

/// True if a submission runs in parts.
fn is_cut(node: &Node) -> bool {
    let plan = node.plan();
    plan.targets().is_ok_and(|targets| distributed::wants_cut(plan, targets))
}

#[inline]
fn run_held(
    list: &SubmissionList,
    runtime: &Runtime,
    mut held: HeldMemories<'_>,
    watch: Option<&SharedOutcome>,
    first: usize,
    kept: Option<&KeptRuns>,
) -> Result<(), Error> {
    let suspends = held.pending.is_some_and(|turn| turn.suspends);
    if runtime.check_maps && first == 0 && list.nodes().iter().any(is_cut) {
        return long(list, runtime, &mut held, watch, Remaining::from(0));
    }
    if (runtime.has_images || list.may_block)
        && first == 0
        && if suspends && !runtime.spreads {
            reorder::changes(list, runtime)
        } else {
            reorder::helps(list, runtime)
        }
    {
        return long(list, runtime, &mut held, watch, Remaining::from(0));
    }
    if runtime.spreads {
        held.tracked = true;
        if held.pending.is_some_and(|turn| !turn.touched.is_alone(list)) {
            return long(list, runtime, &mut held, watch, Remaining::from(0));
        }
        held.begin(runtime);
        if !held.may_stay() {
            return long(list, runtime, &mut held, watch, Remaining::from(0));
        }
        let (device, small) = match &runtime.devices[..] {
            [device] => (*device, None),
            _ => match SmallPipeline::of(list, runtime) {
                Some(small) => (small.device, Some(small)),
                None => return spread(list, runtime, &mut held, watch, Remaining::from(0), kept),
            },
        };
        if !device.info().host_memory {
            // Of a small pipeline the time is taken.
            let ending = match held.pending {
                Some(turn) if small.is_none() => turn.ending(),
                _ => Ending::Waited,
            };
            return match resident::run(list, runtime, device, watch, 0, ending) {
                Progress::Done(done, failures) if done == list.nodes().len() && failures.is_empty() => {
                    small.into_iter().for_each(|small| small.end(list));
                    Ok(())
                }
                Progress::Done(done, failures) => {
                    long(list, runtime, &mut held, watch, Remaining::after(done, failures))
                }
                Progress::Left(left) => {
                    leave(list, &held, left);
                    Ok(())
                }
            };
        }
        if !held.are_only_reserved()? {
            return long(list, runtime, &mut held, watch, Remaining::from(0));
        }
        one_by_one(list, runtime, &mut held, watch, first, suspends)?;
        small.into_iter().for_each(|small| small.end(list));
        return Ok(());
    }
    if held.tracked && !held.are_only_reserved()? {
        return long(list, runtime, &mut held, watch, Remaining::from(first));
    }
    held.begin(runtime);
    one_by_one(list, runtime, &mut held, watch, first, suspends)
}

/// Runs the submissions from `first` on as the inline path does: one after another, on the caller. Nothing of
/// their memories is to be looked up. `suspends`: another thread may run the rest.
#[inline]
fn one_by_one(
    list: &SubmissionList,
    runtime: &Runtime,
    held: &mut HeldMemories<'_>,
    watch: Option<&SharedOutcome>,
    first: usize,
    suspends: bool,
) -> Result<(), Error> {
    // Chains have few orders: mostly the same as the submission before.
    let mut last: Option<(&Order, SpaceView<'_>)> = None;
    let before = list.count_launches();
    let ending = match held.pending {
        Some(turn) if !runtime.spreads && runtime.runs_ahead => turn.ending(),
        _ => Ending::Waited,
    };
    let mut position = first;
    while position < list.nodes().len() {
        // The last one is waited for anyhow, if it is not left to the device.
        if runtime.runs_ahead && (ending == Ending::Left || position + 1 < list.nodes().len()) {
            match resident::run(list, runtime, runtime.devices[0], watch, position, ending) {
                Progress::Done(next, failures) if failures.is_empty() => position = next,
                Progress::Done(next, failures) => {
                    return long(list, runtime, held, watch, Remaining::after(next, failures));
                }
                Progress::Left(left) => {
                    leave(list, held, left);
                    return Ok(());
                }
            }
        }
        let Some(node) = list.nodes().get(position) else { break };
        if is_stopped(watch) {
            return long(list, runtime, held, watch, Remaining::from(position));
        }
        let (plan, order) = (node.plan(), list.order_of(node));
        let space = match &last {
            Some((before, view)) if std::ptr::eq(*before, order) => view.get(),
            _ => last.insert((order, order.view())).1.get(),
        };
        let draw = Some(draw(before + position as u64));
        let outcome = match timeout(node, runtime) {
            None if suspends && plan.target().is_err() && plan.movement.is_none() => {
                match begin_on_host(list, node, plan) {
                    Ok(Some(postponed)) => {
                        held.leave_at_host(Remaining::from(position), postponed);
                        return Ok(());
                    }
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            None => {
                let stop = watch.and_then(|watch| watch.flag());
                submit(list, node, plan, space, runtime, Control { draw, stop })
            }
            Some(limit) => timed(
                limit,
                Instant::now(),
                watch,
                |source| blame(node, plan, position, source),
                |stop| submit(list, node, plan, space, runtime, Control { draw, stop }),
            ),
        };
        position += 1;
        if let Err(source) = outcome {
            let failure = failed(list, node, position - 1, source);
            return long(list, runtime, held, watch, Remaining::after(position, vec![failure]));
        }
    }
    Ok(())
}

/// Leaves a pipeline to the device that has all of its submissions.
fn leave(list: &SubmissionList, held: &HeldMemories<'_>, left: Box<LeftToDevice>) {
    if let Some(turn) = held.pending {
        turn.leave(Remaining::from(list.nodes().len()), Awaits::Device(left));
    }
}

/// Runs what is left of a pipeline on the distributed path.
#[cold]
fn long(
    list: &SubmissionList,
    runtime: &Runtime,
    held: &mut HeldMemories<'_>,
    watch: Option<&SharedOutcome>,
    remaining: Remaining,
) -> Result<(), Error> {
    spread(list, runtime, held, watch, remaining, None)
}

/// The same, with the last run of the recording, see [`distributed::run`].
#[cold]
fn spread(
    list: &SubmissionList,
    runtime: &Runtime,
    held: &mut HeldMemories<'_>,
    watch: Option<&SharedOutcome>,
    remaining: Remaining,
    kept: Option<&KeptRuns>,
) -> Result<(), Error> {
    if let Some(turn) = held.pending
        && !turn.may_wait()
    {
        held.suspend();
        turn.leave(remaining, Awaits::Thread);
        return Ok(());
    }
    held.tracked = true;
    if fork::is_child() {
        return Err(left_out(list, remaining));
    }
    if let Some(turn) = held.pending {
        held.shared_walk = Some(turn.touched.walk());
        held.begin(runtime);
    }
    if held.active_run.is_none() {
        held.active_run = runtime.has_device_memory().then(ActiveRun::begin);
    }
    held.fast_path = None;
    let run = distributed::Run {
        watch,
        beside: held.shared_walk.is_some(),
        suspends: held.pending.is_some_and(|turn| turn.suspends),
        kept,
    };
    let failures = match distributed::run(list, runtime, run, remaining)? {
        Ended::All(failures) => failures,
        Ended::AtHost(remaining, postponed) => {
            held.leave_at_host(remaining, postponed);
            return Ok(());
        }
    };
    first_with_others(failures).map_or(Ok(()), Err)
}

/// The first failure, with the others attached; `None` if there is none.
fn first_with_others(failures: Vec<LaunchError>) -> Option<Error> {
    let mut failures = failures.into_iter();
    let mut first = failures.next()?;
    first.others = failures.collect();
    Some(Error::Launch(Arc::new(first)))
}

/// The error of a pipeline in a child of `fork`, of which this is not run: it would have needed the threads,
/// the devices or the lanes of the parent.
fn left_out(list: &SubmissionList, mut remaining: Remaining) -> Error {
    if remaining.first == 0 {
        return Error::Forked;
    }
    let rest: Vec<usize> = remaining.positions(list).collect();
    let failed = rest.into_iter().map(|at| failed(list, &list.nodes()[at], at, Error::Forked));
    remaining.failures.extend(failed);
    first_with_others(remaining.failures).unwrap_or(Error::Forked)
}

/// How the host may run a launch, or end it.
#[derive(Clone, Copy)]
struct Control<'a> {
    /// See [`DeviceLaunch::draw`].
    draw: Option<u32>,
    /// See [`DeviceLaunch::stop`].
    stop: StopFlag<'a>,
}

#[inline]
fn submit(
    list: &SubmissionList,
    node: &Node,
    plan: &Plan,
    space: SpaceRef<'_>,
    runtime: &Runtime,
    control: Control<'_>,
) -> Result<(), Error> {
    let target = match plan.target() {
        Ok(target) => target,
        Err(error) => return failsafe(list, node, plan, error),
    };
    if plan.prepared || (plan.writes && runtime.check_writes) {
        return submit_prepared(list, Chosen { node, plan, target }, space, runtime, control);
    }
    launch(list, Chosen { node, plan, target }, space, runtime, control)
}

/// Calls the function of the host that is a submission, or that takes the place of its kernel. `Some`: it
/// completes later.
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
    if let Some(movement) = plan.movement {
        // SAFETY: the arguments were proved when they were recorded, and their memories are held; on this
        // path they are on the host.
        unsafe { movement::on_host(movement, list.args_of(node)) };
        return Ok(());
    }
    match node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) {
        Some(body) => super::failsafe::call(body, plan, list.args_of(node), list.dims_of(node)),
        None => Err(error),
    }
}

/// Second buffers for phased arguments, wider scalars, and the checks of contents and of writes.
fn submit_prepared(
    list: &SubmissionList,
    Chosen { node, plan, target }: Chosen<'_>,
    space: SpaceRef<'_>,
    runtime: &Runtime,
    Control { draw, stop }: Control<'_>,
) -> Result<(), Error> {
    if let Some(check) = plan.check {
        let layouts = list.layouts_of(node);
        // SAFETY: on this path memories are on the host, and held; submissions before this one are done.
        unsafe { check_contents(check, plan, list.dims_of(node), list.args_of(node), &layouts)? };
    }
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
    let checks = plan.writes && runtime.check_writes;
    let _numbers = (checks && target.device.info().runs_functions).then(|| number_stores(plan, &mut args));
    let check = checks.then(|| WriteCheck::begin(plan, list.order_of(node), &args));
    let (attributes, profile) = extras(node, runtime);
    let phases = 0..space.phases();
    let position = list.position_of(node);
    let cut = false;
    let launch =
        DeviceLaunch { plan, target, space, phases, attributes, profile, position, cut, draw, stop, like: 0 };
    let outcome = submit_to(launch, &mut args, false).map(drop);
    match check {
        Some(check) => outcome.and(check.end(plan, &args)),
        None => outcome,
    }
}

#[inline]
fn launch(
    list: &SubmissionList,
    Chosen { node, plan, target }: Chosen<'_>,
    space: SpaceRef<'_>,
    runtime: &Runtime,
    Control { draw, stop }: Control<'_>,
) -> Result<(), Error> {
    let args = list.args_of(node);
    let (attributes, profile) = extras(node, runtime);
    let phases = 0..space.phases();
    let position = list.position_of(node);
    let cut = false;
    DeviceLaunch { plan, target, space, phases, attributes, profile, position, cut, draw, stop, like: 0 }
        .timed(|launch, nanoseconds| launch.send(args, launch.phases.clone(), nanoseconds))
        .map(drop)
}
