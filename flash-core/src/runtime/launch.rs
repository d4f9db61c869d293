//! Runs what was recorded: holds the memories, submits, tracks failure, gives the memories back.

use super::Runtime;
use super::asynchronous::{self, Watch};
use super::check::WriteCheck;
use super::plan::{Plan, Target};
use super::profile::LaunchProfile;
use super::record::{Hold, Node, Slots};
use crate::abi::{self, Arg, Submission};
use crate::backend::take_error;
use crate::descriptor::{Access, Timeout, View};
use crate::error::{Code, Error, LaunchError};
use crate::kernel::shim;
use crate::memory::state::Refused;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The memories of a pipeline, held from the first to the last submission; given back on drop.
struct Held<'a> {
    slots: &'a Slots,
    /// So many are held, in the order of addresses.
    taken: usize,
    /// Per touched memory: it is poisoned. Empty as long as none ever was.
    poison: Vec<bool>,
    /// They are not taken, but the pipeline is counted in them, and it is its turn.
    pending: bool,
}

impl<'a> Held<'a> {
    /// `None`: a pipeline of the order stands before this one, which must enter the order, too.
    #[inline]
    fn take(slots: &'a Slots) -> Result<Option<Held<'a>>, Error> {
        if slots.may_block {
            return Ok(None);
        }
        let mut held = Held { slots, taken: 0, poison: Vec::new(), pending: false };
        let mut refused = None;
        let taken = slots.visit_memories(|index, memory, written| {
            let taken = if written { memory.state.launch_write() } else { memory.state.launch_read() };
            let poisoned = taken.inspect_err(|why| refused = Some(*why))?;
            held.taken += 1;
            if poisoned {
                mark(&mut held.poison, slots)[index as usize] = true;
            }
            Ok(())
        });
        match taken {
            Ok(()) => Ok(Some(held)),
            Err(_) if refused == Some(Refused::Pending) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Of a pipeline that is counted in the words of its memories, and whose turn it is.
    fn pending(slots: &'a Slots) -> Held<'a> {
        let mut held = Held { slots, taken: 0, poison: Vec::new(), pending: true };
        let _ = slots.visit_memories(|index, memory, written| {
            if written {
                memory.state.drained();
            }
            held.taken += 1;
            if memory.state.poisoned() {
                mark(&mut held.poison, slots)[index as usize] = true;
            }
            Ok(())
        });
        held
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
            let poisoned = poison.get(index as usize).is_some_and(|p| *p);
            match (self.pending, written) {
                (false, true) => memory.state.release_write(poisoned),
                (false, false) => memory.state.release_read(),
                (true, true) => memory.state.release_pending_write(poisoned),
                (true, false) => memory.state.release_pending_read(),
            }
            Ok(())
        });
    }
}

/// Runs a recorded pipeline.
#[inline]
pub(super) fn run(slots: &Slots, runtime: &Runtime) -> Result<(), Error> {
    may_run(slots, runtime)?;
    match Held::take(slots)? {
        Some(held) => run_held(slots, runtime, held, None),
        None => asynchronous::exec_here(slots, runtime),
    }
}

/// False for a launch inside a kernel, and for one with an error that is known already.
#[inline]
pub(super) fn may_run(slots: &Slots, runtime: &Runtime) -> Result<(), Error> {
    if shim::in_kernel() {
        return Err(Error::Nested);
    }
    match slots.error.as_ref().or(runtime.error.as_ref()) {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

/// Runs a pipeline that is counted in the words of its memories, and whose turn it is; `watch` hears of
/// timeouts.
pub(super) fn run_pending(slots: &Slots, runtime: &Runtime, watch: Option<&Watch>) -> Result<(), Error> {
    run_held(slots, runtime, Held::pending(slots), watch)
}

#[inline]
fn run_held(
    slots: &Slots,
    runtime: &Runtime,
    mut held: Held<'_>,
    watch: Option<&Watch>,
) -> Result<(), Error> {
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
        let outcome = match timeout(node, runtime) {
            None => submit(slots, node, plan, runtime),
            Some(limit) => asynchronous::timed(
                limit,
                watch,
                |source| blame(node, plan, position, source),
                || submit(slots, node, plan, runtime),
            ),
        };
        match outcome {
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

/// How long the submission may take.
#[inline]
fn timeout(node: &Node, runtime: &Runtime) -> Option<Duration> {
    let own = node.extra.as_ref().and_then(|extra| extra.options.attributes.get::<Timeout>());
    own.map_or(runtime.timeout, |own| Some(own.0))
}

/// True if the submission's own range of a write-only argument is all of it.
fn overwrites(hold: &Hold, access: Access, view: View) -> bool {
    access == Access::Write && matches!(view, View::Item | View::Whole) && hold.complete
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
    blame(node, plan, position, source)
}

fn blame(node: &Node, plan: &Plan, position: usize, source: Error) -> LaunchError {
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
fn submit(slots: &Slots, node: &Node, plan: &Plan, runtime: &Runtime) -> Result<(), Error> {
    let target = match plan.target() {
        Ok(target) => target,
        Err(error) => return failsafe(slots, node, plan, error),
    };
    let args = slots.args_of(node);
    if plan.phased || (plan.writes && runtime.check_writes) {
        return submit_prepared(slots, node, plan, target, runtime);
    }
    launch(slots, node, plan, target, args, runtime)
}

#[cold]
fn failsafe(slots: &Slots, node: &Node, plan: &Plan, error: Error) -> Result<(), Error> {
    match node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) {
        Some(body) => super::failsafe::call(body, plan, slots.args_of(node), slots.dims_of(node)),
        None => Err(error),
    }
}

/// Second buffers for phased arguments, and the check that everything is written.
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
    let outcome = launch(slots, node, plan, target, &args, runtime);
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
    let order = slots.order_of(node);
    let view = order.view();
    let space = view.get();
    let (attributes, profile) = match &node.extra {
        None => (&[][..], runtime.options.profile.as_ref()),
        Some(extra) => {
            (&extra.attributes[..], extra.options.profile.as_ref().or(runtime.options.profile.as_ref()))
        }
    };
    let start = profile.map(|_| Instant::now());
    let mut event = std::ptr::null_mut();
    let mut nanoseconds = 0;
    let submission = Submission {
        struct_size: size_of::<Submission>() as u32,
        flags: if profile.is_some() { abi::SUBMIT_PROFILE } else { 0 }
            | if plan.phased { abi::SUBMIT_PHASED } else { 0 },
        kernel: target.kernel,
        space: space.raw(),
        args: args.as_ptr(),
        arg_count: args.len() as u32,
        wait_count: 0,
        waits: std::ptr::null(),
        signal: &raw mut event,
        nanoseconds: &raw mut nanoseconds,
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        phase_begin: 0,
        phase_end: order.phases(),
    };
    // SAFETY: a device of this vtable, a kernel made by its `prepare` for this definition, and
    // arguments that were proved; everything lives until the call, or the event, is over.
    unsafe {
        take_error((target.submit)(target.device.raw, std::ptr::null_mut(), &submission))?;
        if !event.is_null() {
            complete(target, event, &mut nanoseconds)?;
        }
    }
    if let (Some(profile), Some(start)) = (profile, start) {
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
