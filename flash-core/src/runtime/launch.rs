//! Runs what was recorded: holds the memories, submits, gives the memories back.
//!
//! Here is the short way: one device that uses the host's memory, and no memory with anything to look up in
//! its directory. Submissions run one after another on the caller. At the first failure, and for everything
//! else, the pipeline goes the long way (`spread/`).

use super::Runtime;
use super::asynchronous::{self, Touched, Walking, Watch};
use super::check::WriteCheck;
use super::near::{self, Known};
use super::plan::{Plan, Target};
use super::profile::LaunchProfile;
use super::record::{Node, Slots};
use super::{Profile, reduce, reorder, spread};
use crate::abi::{self, Arg, Share, Submission};
use crate::backend::{DeviceHandle, HOST, take_error};
use crate::descriptor::{Access, Timeout};
use crate::error::{Code, Error, LaunchError};
use crate::index::{Order, SpaceRef, SpaceView};
use crate::kernel::shim;
use crate::memory::keepers::{self, Scratch};
use crate::memory::quiet::Uncounted;
use crate::memory::state::Refused;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the launch of a number draws, the first one 0: each number is as likely, whether one looks at every launch or at
/// every second one.
#[inline]
fn lot(number: u64) -> u32 {
    // 2^32 over the golden ratio: what is drawn is spread evenly all the time.
    (number as u32).wrapping_mul(0x9E37_79B9)
}

/// The memories of a pipeline, held from the first to the last submission; given back on drop.
pub(super) struct Held<'a> {
    slots: &'a Slots,
    /// So many are held, in the order of addresses.
    taken: usize,
    /// Some memory has, or may have, something to look up in its directory.
    noted: bool,
    /// They are not taken, but the pipeline is counted in them, and it is its turn.
    pending: Option<&'a Touched>,
    /// It is pending, and has begun.
    begun: bool,
    /// It is pending, and walks them; until they are given back.
    walking: Option<Walking>,
    /// As long.
    going: Option<spread::Going>,
    /// From before they are taken until it is going, or they are given back: if devices may have copies.
    uncounted: Option<Uncounted>,
}

impl<'a> Held<'a> {
    /// None of them yet.
    #[inline(always)]
    fn of(slots: &'a Slots, pending: Option<&'a Touched>) -> Held<'a> {
        let (taken, noted, begun) = (0, false, false);
        Held { slots, taken, noted, pending, begun, walking: None, going: None, uncounted: None }
    }

    /// `None`: a pipeline of the order stands before this one, which must enter the order, too.
    #[inline]
    pub fn take(slots: &'a Slots, runtime: &Runtime) -> Result<Option<Held<'a>>, Error> {
        if slots.may_block {
            return Ok(None);
        }
        let mut held = Held::of(slots, None);
        held.uncounted = runtime.spreads.then(Uncounted::begin);
        for (_, memory, written) in slots.memories() {
            let taken = match written {
                _ if runtime.spreads => memory.state.launch_noted(written),
                true => memory.state.launch_write(),
                false => memory.state.launch_read(),
            };
            match taken {
                Ok(noted) => held.noted |= noted,
                Err(Refused::Pending) => return Ok(None),
                Err(Refused::Borrowed) => return Err(Error::Borrowed),
            }
            held.taken += 1;
        }
        Ok(Some(held))
    }

    /// Of a pipeline that is counted in the words of its memories, and whose turn it is.
    fn pending(slots: &'a Slots, touched: &'a Touched) -> Held<'a> {
        let mut held = Held::of(slots, Some(touched));
        for (_, memory, written) in slots.memories() {
            if written {
                memory.state.drained();
            }
            held.taken += 1;
            held.noted |= memory.state.is_noted();
        }
        held
    }

    /// False: somebody finds no room on the devices, and wants nobody on the short way there.
    #[inline]
    pub fn may_stay(&self) -> bool {
        self.uncounted.as_ref().is_some_and(Uncounted::may_stay)
    }

    /// It runs from now on, and waits for nobody: what its memories have on devices stays there.
    #[inline]
    fn begin(&mut self, runtime: &Runtime) {
        if self.pending.is_some() && !self.begun {
            self.uncounted = runtime.spreads.then(Uncounted::begin);
            self.slots.memories().for_each(|(_, memory, _)| memory.state.begin());
            self.begun = true;
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        let noted = self.noted;
        for (_, memory, written) in self.slots.memories().take(self.taken) {
            match (self.pending.is_some(), written) {
                (false, true) => memory.state.release_write(noted && memory.settle()),
                (false, false) => memory.state.release_read(),
                (true, _) if !self.begun => memory.state.unpend(written),
                (true, true) => memory.release_pending_written(noted),
                (true, false) => memory.state.release_pending_read(),
            }
        }
    }
}

/// Runs a recorded pipeline.
#[inline]
pub(super) fn run(slots: &Slots, runtime: &Runtime) -> Result<(), Error> {
    may_run(slots, runtime)?;
    let outcome = match Held::take(slots, runtime)? {
        Some(held) => run_held(slots, runtime, held, None),
        None => asynchronous::exec_here(slots, runtime),
    };
    if runtime.keeps_host && slots.has_slices {
        // Slices are the caller's again. (What is executed asynchronously has none that end.)
        slots.slices().for_each(|arg| {
            keepers::forget(arg.data.cast(), (arg.len * u64::from(arg.element_size)) as usize)
        });
    }
    outcome
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
pub(super) fn run_pending(
    slots: &Slots,
    runtime: &Runtime,
    touched: &Touched,
    watch: Option<&Watch>,
) -> Result<(), Error> {
    run_held(slots, runtime, Held::pending(slots, touched), watch)
}

#[inline]
fn run_held(
    slots: &Slots,
    runtime: &Runtime,
    mut held: Held<'_>,
    watch: Option<&Watch>,
) -> Result<(), Error> {
    if (runtime.has_images || slots.may_block) && reorder::helps(slots, runtime) {
        return long(slots, runtime, &mut held, watch, (0, Vec::new()));
    }
    if runtime.spreads {
        held.noted = true;
        if held.pending.is_some_and(|touched| !touched.is_alone(slots)) {
            return long(slots, runtime, &mut held, watch, (0, Vec::new()));
        }
        held.begin(runtime);
        if !held.may_stay() {
            return long(slots, runtime, &mut held, watch, (0, Vec::new()));
        }
        return match near::run(slots, runtime, watch, 0) {
            (done, failures) if done == slots.nodes().len() && failures.is_empty() => Ok(()),
            far => long(slots, runtime, &mut held, watch, far),
        };
    }
    if held.noted {
        return long(slots, runtime, &mut held, watch, (0, Vec::new()));
    }
    held.begin(runtime);
    // Chains have few orders: mostly it is that of the submission before.
    let mut last: Option<(&Order, SpaceView<'_>)> = None;
    let before = slots.count_launches();
    let mut position = 0;
    while position < slots.nodes().len() {
        // The last one is waited for anyhow.
        if runtime.runs_ahead && position + 1 < slots.nodes().len() {
            let (next, failures) = near::run(slots, runtime, watch, position);
            if !failures.is_empty() {
                return long(slots, runtime, &mut held, watch, (next, failures));
            }
            position = next;
        }
        let Some(node) = slots.nodes().get(position) else { break };
        let (plan, order) = (node.plan(), slots.order_of(node));
        let space = match &last {
            Some((before, view)) if std::ptr::eq(*before, order) => view.get(),
            _ => last.insert((order, order.view())).1.get(),
        };
        let lot = Some(lot(before + position as u64));
        let outcome = match timeout(node, runtime) {
            None => submit(slots, node, plan, space, runtime, lot),
            Some(limit) => asynchronous::timed(
                limit,
                Instant::now(),
                watch,
                |source| blame(node, plan, position, source),
                || submit(slots, node, plan, space, runtime, lot),
            ),
        };
        position += 1;
        if let Err(source) = outcome {
            let failure = failed(slots, node, position - 1, source);
            return long(slots, runtime, &mut held, watch, (position, vec![failure]));
        }
    }
    Ok(())
}

/// Runs the submissions from a position on the long way; those before it have failed, or not.
#[cold]
fn long(
    slots: &Slots,
    runtime: &Runtime,
    held: &mut Held<'_>,
    watch: Option<&Watch>,
    (first, failures): (usize, Vec<LaunchError>),
) -> Result<(), Error> {
    held.noted = true;
    if let Some(touched) = held.pending {
        held.walking = Some(touched.walk());
        held.begin(runtime);
    }
    held.going = runtime.has_device_memory().then(spread::Going::begin);
    held.uncounted = None;
    let beside = held.walking.is_some();
    let mut failures = spread::run(slots, runtime, watch, beside, first, failures)?.into_iter();
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
pub(super) fn failed(slots: &Slots, node: &Node, position: usize, source: Error) -> LaunchError {
    let plan = node.plan();
    let near = Known::default().items(slots, node);
    for (i, (hold, spec)) in slots.holds_of(node).iter().zip(&plan.arguments).enumerate() {
        if let (Some(header), true) = (slots.memory(hold.touched), spec.access != Access::Read) {
            header.poison(&asynchronous::region(slots, node, i, header, near.as_deref()));
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
    slots: &Slots,
    node: &Node,
    plan: &Plan,
    space: SpaceRef<'_>,
    runtime: &Runtime,
    lot: Option<u32>,
) -> Result<(), Error> {
    let target = match plan.target() {
        Ok(target) => target,
        Err(error) => return failsafe(slots, node, plan, error),
    };
    if plan.prepared || (plan.writes && runtime.check_writes) {
        return submit_prepared(slots, node, (plan, target), space, runtime, lot);
    }
    launch(slots, node, (plan, target), space, runtime, lot)
}

#[cold]
fn failsafe(slots: &Slots, node: &Node, plan: &Plan, error: Error) -> Result<(), Error> {
    match node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) {
        Some(body) => super::failsafe::call(body, plan, slots.args_of(node), slots.dims_of(node)),
        None => Err(error),
    }
}

/// Second buffers for phased arguments, wider scalars, and the check that everything is written.
fn submit_prepared(
    slots: &Slots,
    node: &Node,
    (plan, target): (&Plan, &Target),
    space: SpaceRef<'_>,
    runtime: &Runtime,
    lot: Option<u32>,
) -> Result<(), Error> {
    let mut args: SmallVec<[Arg; 8]> = SmallVec::from_slice(slots.args_of(node));
    let mut scratch: SmallVec<[Scratch; 2]> = SmallVec::new();
    for (arg, hold) in args.iter_mut().zip(slots.holds_of(node)) {
        if arg.kind != abi::ARG_PHASED || arg.flags & abi::ARG_FLAG_STAGED != 0 {
            continue;
        }
        arg.next = match slots.memory(hold.touched) {
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
        (plan.writes && runtime.check_writes).then(|| WriteCheck::begin(plan, slots.order_of(node), &args));
    let (attributes, profile) = extras(node, runtime);
    let phases = 0..space.phases();
    let position = slots.position_of(node);
    let cut = false;
    let launch = ToDevice { plan, target, space, phases, attributes, profile, position, cut, lot };
    let outcome = submit_to(launch, &mut args, false);
    match check {
        Some(check) => outcome.and(check.end(plan, &args)),
        None => outcome,
    }
}

#[inline]
fn launch(
    slots: &Slots,
    node: &Node,
    (plan, target): (&Plan, &Target),
    space: SpaceRef<'_>,
    runtime: &Runtime,
    lot: Option<u32>,
) -> Result<(), Error> {
    let args = slots.args_of(node);
    let (attributes, profile) = extras(node, runtime);
    let phases = 0..space.phases();
    let position = slots.position_of(node);
    let cut = false;
    ToDevice { plan, target, space, phases, attributes, profile, position, cut, lot }
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
pub(super) struct ToDevice<'a> {
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
    pub lot: Option<u32>,
}

/// Runs a launch whose arguments were proved; returns when it is done. `merged`: the arguments have partial
/// results that are merged elsewhere, else accumulators are arrays of the host. Scalars are the definition's; after
/// it, they are not to be used.
pub(super) fn submit_to(launch: ToDevice<'_>, args: &mut [Arg], merged: bool) -> Result<(), Error> {
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

impl ToDevice<'_> {
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
        if let Some(lot) = self.lot
            && let Some(share) = self.target.inline(self.space.items(), lot)
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
        let ToDevice { plan, target, space, attributes, profile, .. } = self;
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
