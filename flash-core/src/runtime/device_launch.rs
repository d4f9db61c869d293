//! One launch on one device: the call of the backend's `submit`, its time, and the meaning of its failure.
//!
//! All paths of a launch end here. The caller has proved the arguments, and holds the memories.

use super::asynchronous::limits::StopFlag;
use super::footprint::items;
use super::footprint::pipeline::region;
use super::plan::{Plan, Target};
use super::profile::{LaunchProfile, Profile};
use super::reduce;
use super::state::Runtime;
use super::submissions::{Node, SubmissionList};
use crate::devices::{After, DeviceHandle, take_error};
use crate::error::{Error, LaunchError};
use flash_backend::__host::HOST;
use flash_types::Code;
use flash_types::abi::{self, Arg, Share, Submission};
use flash_types::descriptor::{Access, Timeout};
use flash_types::index::SpaceRef;
use smallvec::SmallVec;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a submission may take.
#[inline]
pub(super) fn timeout(node: &Node, runtime: &Runtime) -> Option<Duration> {
    let own = node.extra.as_ref().and_then(|extra| extra.options.attributes.get::<Timeout>());
    own.map_or(runtime.timeout, |own| Some(own.0))
}

/// Poisons what a submission should have written, and what was lost with its device. Its memories are held,
/// and tracked when they are given back.
#[cold]
pub(super) fn failed(list: &SubmissionList, node: &Node, position: usize, source: Error) -> LaunchError {
    let plan = node.plan();
    let lost = matches!(source, Error::Backend { code: Code::DeviceLost, .. });
    let memory = plan.target().ok().filter(|_| lost).and_then(|target| target.device.memory());
    if let Some(memory) = memory.filter(|memory| !memory.outlives_devices()) {
        for header in list.holds_of(node).iter().filter_map(|hold| list.memory(hold.touched)) {
            header.lost(memory.place());
        }
        memory.lose();
    }
    let parts = items(list, node);
    for (i, (hold, spec)) in list.holds_of(node).iter().zip(&plan.arguments).enumerate() {
        if let (Some(header), true) = (list.memory(hold.touched), spec.access != Access::Read) {
            header.poison(&region(list, node, i, header, parts.as_deref()));
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

/// A submission, and what runs it.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub node: &'a Node,
    pub plan: &'a Plan,
    /// Of the plan.
    pub target: &'a Target,
}

/// A launch on a device.
pub(super) struct DeviceLaunch<'a> {
    pub plan: &'a Plan,
    pub target: &'a Target,
    pub space: SpaceRef<'a>,
    pub phases: Range<u64>,
    pub attributes: &'a [abi::Attr],
    pub profile: Option<&'a Profile>,
    /// The position of the submission in its pipeline.
    pub position: usize,
    /// True if the space is a part of the submission's.
    pub cut: bool,
    /// Set if the host may run a small launch itself: the number that it has drawn.
    pub draw: Option<u32>,
    /// Where it looks whether it is to stop.
    pub stop: StopFlag<'a>,
    /// Not 0: launches with this number are the same, but for what is in their arrays.
    pub like: u64,
}

/// Runs a launch whose arguments were proved, and returns when it is done. `merged`: the arguments have
/// partial results that are merged elsewhere; else accumulators are arrays of the host. Scalars are the
/// definition's, and must not be used afterwards. Returns the nanoseconds that the device says it took; 0: it
/// does not say.
pub(super) fn submit_to(launch: DeviceLaunch<'_>, args: &mut [Arg], merged: bool) -> Result<u64, Error> {
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
    /// Runs it by `body`, which gets a place for its time on the device, and records it if that is asked for.
    /// Returns that time.
    #[inline]
    pub fn timed(&self, body: impl FnOnce(&Self, &mut u64) -> Result<(), Error>) -> Result<u64, Error> {
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
                start,
            });
        }
        Ok(nanoseconds)
    }

    /// Calls the backend for some phases, or runs a few work items here, where their results stay in place.
    /// Returns when they are done.
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
            return self.wait(args, phases, nanoseconds);
        }
        let mut event = std::ptr::null_mut();
        self.call(args, phases, nanoseconds, Signal::Waited(&mut event), &[])?;
        match event.is_null() {
            true => Ok(()),
            // SAFETY: an event of the target's backend, given back once.
            false => unsafe { complete(self.target.device, event, Some(nanoseconds)) },
        }
    }

    /// Calls the backend for some phases, and returns when they are done: this costs less than an event.
    #[inline]
    pub fn wait(&self, args: &[Arg], phases: Range<u64>, nanoseconds: &mut u64) -> Result<(), Error> {
        self.call(args, phases, nanoseconds, Signal::Return, &[])
    }

    /// Calls the backend for all phases. `Some`: an event that fires when they are done, and must be
    /// completed; `waited`: by that alone, and soon. `after`: the device waits for them.
    #[inline]
    pub fn begin(
        &self,
        args: &[Arg],
        waited: bool,
        after: &[After],
    ) -> Result<Option<*mut abi::Event>, Error> {
        let mut event = std::ptr::null_mut();
        let signal = if waited { Signal::Waited(&mut event) } else { Signal::Event(&mut event) };
        let waits = After::in_queue_of(after, self.target.device)?;
        self.call(args, self.phases.clone(), &mut 0, signal, &waits)?;
        Ok((!event.is_null()).then_some(event))
    }

    #[inline]
    fn call(
        &self,
        args: &[Arg],
        phases: Range<u64>,
        nanoseconds: &mut u64,
        signal: Signal<'_>,
        waits: &[*mut abi::Event],
    ) -> Result<(), Error> {
        let (signal, waited) = match signal {
            Signal::Return => (std::ptr::null_mut(), 0),
            Signal::Event(event) => (std::ptr::from_mut(event), 0),
            Signal::Waited(event) => (std::ptr::from_mut(event), abi::SUBMIT_WAITED),
        };
        let DeviceLaunch { plan, target, space, attributes, profile, .. } = self;
        let submission = Submission {
            struct_size: size_of::<Submission>() as u32,
            flags: plan.flags
                | if profile.is_some() { abi::SUBMIT_PROFILE } else { 0 }
                | if self.cut { abi::SUBMIT_PART } else { 0 }
                | waited,
            kernel: target.kernel,
            space: space.raw(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            wait_count: waits.len() as u32,
            waits: waits.as_ptr(),
            signal,
            nanoseconds,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            phase_begin: phases.start,
            phase_end: phases.end,
            stop: self.stop.map_or(std::ptr::null(), |flag| flag.as_ptr().cast_const()),
            like: self.like,
        };
        // SAFETY: a device of this vtable, a kernel made by its `prepare` for this definition, and
        // arguments that were proved; the arrays live until the event is over, all else until the call is.
        unsafe { take_error((target.submit)(target.device.raw, &submission))? };
        target.launched();
        Ok(())
    }
}

/// How the host hears of the end of a launch.
enum Signal<'e> {
    /// The backend returns then.
    Return,
    /// By an event, which it puts there.
    Event(&'e mut *mut abi::Event),
    /// By one for which this thread or another waits soon.
    Waited(&'e mut *mut abi::Event),
}

/// Waits for a completion event and gives it back. Its time is asked for only where `nanoseconds` is given.
///
/// # Safety
/// The event is of the device's backend, and is not used afterwards.
pub(in crate::runtime) unsafe fn complete(
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
