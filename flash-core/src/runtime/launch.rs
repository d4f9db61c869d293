//! Runs what was recorded: holds the memories, submits, tracks failure, gives the memories back.

use super::check::WriteCheck;
use super::plan::{Plan, Target};
use super::profile::LaunchProfile;
use super::record::{Hold, Node, Slots};
use super::{HostArgs, Runtime, reduce};
use crate::abi::{self, Arg, Submission};
use crate::backend::take_error;
use crate::descriptor::{Access, View};
use crate::error::{Code, Error, LaunchError};
use crate::kernel::shim;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The memories of a pipeline, held from the first to the last submission; given back on drop.
struct Held<'a> {
    slots: &'a Slots,
    /// So many are held, in the order of addresses.
    taken: usize,
    /// Per touched memory: it is poisoned. Empty as long as none ever was.
    poison: Vec<bool>,
}

impl<'a> Held<'a> {
    #[inline]
    fn take(slots: &'a Slots) -> Result<Held<'a>, Error> {
        let mut held = Held { slots, taken: 0, poison: Vec::new() };
        slots.visit_memories(|index, memory, written| {
            let poisoned = if written { memory.state.launch_write()? } else { memory.state.launch_read()? };
            held.taken += 1;
            if poisoned {
                mark(&mut held.poison, slots)[index as usize] = true;
            }
            Ok(())
        })?;
        Ok(held)
    }
}

/// Makes room for the poison of every memory.
#[cold]
fn mark<'p>(poison: &'p mut Vec<bool>, slots: &Slots) -> &'p mut Vec<bool> {
    poison.resize(slots.memories(), false);
    poison
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        let (mut left, poison) = (self.taken, &self.poison);
        let _ = self.slots.visit_memories(|index, memory, written| {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            if written {
                memory.state.release_write(poison.get(index as usize).is_some_and(|p| *p));
            } else {
                memory.state.release_read();
            }
            Ok(())
        });
    }
}

/// Runs a recorded pipeline.
#[inline]
pub(super) fn run(slots: &Slots, runtime: &Runtime) -> Result<(), Error> {
    if shim::in_kernel() {
        return Err(Error::Nested);
    }
    if let Some(error) = slots.error.as_ref().or(runtime.error.as_ref()) {
        return Err(error.clone());
    }
    let mut held = Held::take(slots)?;
    let mut failures: Vec<LaunchError> = Vec::new();
    for (position, node) in slots.nodes().iter().enumerate() {
        let plan = node.plan();
        if !held.poison.is_empty()
            && let Some(argument) = reads_poisoned(slots, node, plan, &held)
        {
            let skipped = Error::Skipped { argument };
            failures.push(failed(slots, node, plan, &mut held, position, skipped));
            continue;
        }
        match submit(slots, node, plan, runtime) {
            Ok(()) if held.poison.is_empty() => {}
            Ok(()) => heal(slots, node, plan, &mut held),
            Err(source) => failures.push(failed(slots, node, plan, &mut held, position, source)),
        }
    }
    drop(held);
    if failures.is_empty() { Ok(()) } else { finish(failures) }
}

#[cold]
fn finish(failures: Vec<LaunchError>) -> Result<(), Error> {
    let mut failures = failures.into_iter();
    match failures.next() {
        Some(mut first) => {
            first.others = failures.collect();
            Err(Error::Launch(Arc::new(first)))
        }
        None => Ok(()),
    }
}

/// True if the submission's own range of a write-only argument is all of it.
fn overwrites(hold: &Hold, access: Access, view: View) -> bool {
    access == Access::Write && matches!(view, View::Item | View::Reduce) && hold.complete
}

/// The first argument whose poison the submission would read.
fn reads_poisoned(slots: &Slots, node: &Node, plan: &Plan, held: &Held<'_>) -> Option<String> {
    if slots.order_of(node).items() == 0 {
        return None;
    }
    let holds = slots.holds_of(node).iter();
    holds
        .zip(&plan.arguments)
        .position(|(hold, spec)| {
            spec.access != Access::Write && held.poison.get(hold.touched as usize).is_some_and(|p| *p)
        })
        .map(|i| plan.descriptor.arguments[i].name.clone())
}

/// A complete write heals.
fn heal(slots: &Slots, node: &Node, plan: &Plan, held: &mut Held<'_>) {
    for (hold, spec) in slots.holds_of(node).iter().zip(&plan.arguments) {
        if let (Some(poison), true) =
            (held.poison.get_mut(hold.touched as usize), overwrites(hold, spec.access, spec.view))
        {
            *poison = false;
        }
    }
}

#[cold]
fn failed(
    slots: &Slots,
    node: &Node,
    plan: &Plan,
    held: &mut Held<'_>,
    position: usize,
    source: Error,
) -> LaunchError {
    let poison = mark(&mut held.poison, slots);
    for (hold, spec) in slots.holds_of(node).iter().zip(&plan.arguments) {
        if let (Some(poison), true) = (poison.get_mut(hold.touched as usize), spec.access != Access::Read) {
            *poison = true;
        }
    }
    LaunchError {
        kernel: plan.descriptor.name.clone(),
        device: plan.target().map_or_else(|_| "no device".to_owned(), |t| t.device.id().to_owned()),
        position,
        source,
        others: Vec::new(),
    }
}

#[inline]
fn submit(slots: &Slots, node: &Node, plan: &Plan, runtime: &Runtime) -> Result<(), Error> {
    let target = match plan.target() {
        Ok(target) => target,
        Err(error) => return failsafe(slots, node, plan, error),
    };
    let args = slots.args_of(node);
    if plan.prepared || (plan.writes && runtime.check_writes) {
        return submit_prepared(slots, node, plan, target, runtime);
    }
    launch(slots, node, plan, target, args, runtime)
}

#[cold]
fn failsafe(slots: &Slots, node: &Node, plan: &Plan, error: Error) -> Result<(), Error> {
    match node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) {
        Some(body) => body(&mut HostArgs::new(plan, slots.args_of(node), slots.dims_of(node))),
        None => Err(error),
    }
}

/// Second buffers for phased arguments, partial results for accumulators, and the check that everything
/// is written.
fn submit_prepared(
    slots: &Slots,
    node: &Node,
    plan: &Plan,
    target: &Target,
    runtime: &Runtime,
) -> Result<(), Error> {
    let mut args: SmallVec<[Arg; 8]> = SmallVec::from_slice(slots.args_of(node));
    let mut scratch: Vec<Box<[u128]>> = Vec::new();
    for (arg, hold) in args.iter_mut().zip(slots.holds_of(node)) {
        if arg.kind != abi::ARG_PHASED || arg.flags & abi::ARG_FLAG_STAGED != 0 {
            continue;
        }
        arg.next = match slots.memory(hold.touched) {
            Some(header) => {
                // SAFETY: the memory is held as a writer; the argument lies in it, and so does the
                // same place of the second buffer.
                unsafe {
                    let offset = arg.data.cast::<u8>().offset_from(header.data());
                    header.second().offset(offset).cast()
                }
            }
            None => {
                let bytes = arg.len as usize * arg.element_size as usize;
                scratch.push(vec![0u128; bytes.div_ceil(16)].into_boxed_slice());
                scratch.last_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast())
            }
        };
    }
    let check =
        (plan.writes && runtime.check_writes).then(|| WriteCheck::begin(plan, slots.order_of(node), &args));
    let outcome = if plan.reduces {
        timed(slots, node, plan, target, runtime, |profiled, nanoseconds| {
            reduce::run(plan, slots.order_of(node), &mut args, |args, phases| {
                let mut these = 0;
                send(slots, node, plan, target, args, phases, profiled, &mut these)?;
                *nanoseconds += these;
                Ok(())
            })
        })
    } else {
        launch(slots, node, plan, target, &args, runtime)
    };
    match check {
        Some(check) => outcome.and(check.end(plan, &args)),
        None => outcome,
    }
}

#[inline]
fn launch(
    slots: &Slots,
    node: &Node,
    plan: &Plan,
    target: &Target,
    args: &[Arg],
    runtime: &Runtime,
) -> Result<(), Error> {
    timed(slots, node, plan, target, runtime, |profiled, nanoseconds| {
        let phases = 0..slots.order_of(node).phases();
        send(slots, node, plan, target, args, phases, profiled, nanoseconds)
    })
}

/// Runs a launch, given by whether it is profiled and where its time on the device goes.
#[inline]
fn timed(
    slots: &Slots,
    node: &Node,
    plan: &Plan,
    target: &Target,
    runtime: &Runtime,
    body: impl FnOnce(bool, &mut u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let profile = node.extra.as_ref().and_then(|e| e.options.profile.as_ref());
    let profile = profile.or(runtime.options.profile.as_ref());
    let start = profile.map(|_| Instant::now());
    let mut nanoseconds = 0;
    body(profile.is_some(), &mut nanoseconds)?;
    if let (Some(profile), Some(start)) = (profile, start) {
        let order = slots.order_of(node);
        profile.add(LaunchProfile {
            kernel: plan.descriptor.name.clone(),
            implementation: target.implementation.clone(),
            device: target.device.id().to_owned(),
            phases: order.phases(),
            items: order.items(),
            nanoseconds,
            wall_nanoseconds: start.elapsed().as_nanos() as u64,
        });
    }
    Ok(())
}

/// Submits some phases and waits for them.
#[inline]
#[allow(clippy::too_many_arguments)] // inlined: they are the locals of its callers
fn send(
    slots: &Slots,
    node: &Node,
    plan: &Plan,
    target: &Target,
    args: &[Arg],
    phases: Range<u64>,
    profiled: bool,
    nanoseconds: &mut u64,
) -> Result<(), Error> {
    let view = slots.order_of(node).view();
    let space = view.get();
    let attributes = node.extra.as_ref().map_or(&[][..], |extra| &extra.attributes[..]);
    let mut event = std::ptr::null_mut();
    let submission = Submission {
        struct_size: size_of::<Submission>() as u32,
        flags: if profiled { abi::SUBMIT_PROFILE } else { 0 }
            | if plan.phased { abi::SUBMIT_PHASED } else { 0 },
        kernel: target.kernel,
        space: space.raw(),
        args: args.as_ptr(),
        arg_count: args.len() as u32,
        wait_count: 0,
        waits: std::ptr::null(),
        signal: &raw mut event,
        nanoseconds,
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        phase_begin: phases.start,
        phase_end: phases.end,
    };
    // SAFETY: a device of this vtable, a kernel made by its `prepare` for this definition, and
    // arguments that were proved; everything lives until the call, or the event, is over.
    unsafe {
        take_error((target.submit)(target.device.raw, std::ptr::null_mut(), &submission))?;
        if !event.is_null() {
            complete(target, event, nanoseconds)?;
        }
    }
    Ok(())
}

/// Waits for a completion event and gives it back.
///
/// # Safety
/// The event is of the target's backend.
unsafe fn complete(target: &Target, event: *mut abi::Event, nanoseconds: &mut u64) -> Result<(), Error> {
    let api = target.device.api;
    let Some(wait) = api.event_wait else {
        return Err(Error::Backend {
            code: Code::Invalid,
            text: format!("{} gave an event and has no slot `event_wait`", target.device.id()),
        });
    };
    // SAFETY: the caller vouches; the errors are this host's.
    unsafe {
        let outcome = take_error(wait(event));
        let (mut start, mut end) = (0, 0);
        if let Some(times) = api.event_times
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
