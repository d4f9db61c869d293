//! One part of a submission, prepared for its device.

use super::arrays::Array;
use super::kept::{NotedKernel, Notes};
use super::placement::Placement;
use super::scheduler::Touches;
use super::task::{Begin, Effort, Flight, MayFly, Outcome};
use crate::devices::After;
use crate::error::Error;
use crate::memory::directory::Place;
use crate::runtime::asynchronous::limits::StopFlag;
use crate::runtime::check::{WriteCheck, number_stores};
use crate::runtime::device_launch::{self, Chosen, DeviceLaunch};
use crate::runtime::footprint::part_of;
use crate::runtime::partition::Parts;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::profile::{PhaseTimes, Profile};
use crate::runtime::state::Runtime;
use crate::runtime::submissions::{Node, SubmissionList};
use flash_types::abi::{self, Arg};
use flash_types::descriptor::View;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Expected nanoseconds of a kernel that never ran on the device: worth a wake-up, and nothing is begun
/// beside it.
const UNKNOWN: u64 = 1_000_000;

/// A part for a device.
pub(super) struct KernelPart<'r> {
    plan: &'r Plan,
    target: &'r Target,
    parts: Arc<Parts>,
    subspace: usize,
    args: Vec<Arg>,
    /// One per argument: the target of a pointer in `args`, if the second value is true.
    boxes: Vec<(abi::Part, bool)>,
    phases: Range<u64>,
    attributes: &'r [abi::Attr],
    profile: Option<Profile>,
    /// The place of its records, if it is one of several phases.
    pub by_phase: Option<Arc<PhaseTimes>>,
    position: usize,
    check_writes: bool,
    /// Accumulators are merged elsewhere.
    merged: bool,
    items: u64,
    /// Other parts run elsewhere.
    cut: bool,
}

impl<'r> KernelPart<'r> {
    pub fn new(
        list: &'r SubmissionList,
        runtime: &'r Runtime,
        Chosen { node, plan, target }: Chosen<'r>,
        placed: &Placement,
        subspace: usize,
        phases: Range<u64>,
    ) -> KernelPart<'r> {
        let parts = placed.parts.clone();
        let order = &parts.subspaces[subspace].order;
        let items = match phases.end {
            0 => 0,
            end => order.phase(end - 1).end - order.phase(phases.start).start,
        };
        let args = list.args_of(node);
        let boxes = args.iter().enumerate().map(|(i, arg)| {
            let touched = parts.subspaces[subspace].touched_in(i, &phases);
            (part_of(arg, &parts.grids[i], touched, placed.takes_all(plan, i)), false)
        });
        let boxes = boxes.collect();
        let (attributes, profile) = device_launch::extras(node, runtime);
        KernelPart {
            plan,
            target,
            subspace,
            args: args.to_vec(),
            boxes,
            phases,
            attributes,
            profile: profile.cloned(),
            by_phase: None,
            position: list.position_of(node),
            check_writes: plan.writes && runtime.check_writes,
            merged: false,
            items,
            cut: placed.is_cut(),
            parts,
        }
    }

    /// Sets the place of an argument: an array, and its element that is the argument's first. `cut`: other
    /// parts have the rest of it.
    pub fn place(&mut self, argument: u32, array: &Array<'_>, place: Place, offset: u64, cut: bool) {
        let i = argument as usize;
        let next = self.args[i].next;
        let mut there = self.at(i, array, place, offset);
        there.next = if there.flags & abi::ARG_FLAG_STAGED != 0 { there.data } else { next };
        // On the host all of an array is present, and elements outside the part may have another writer. A
        // window that is not cut has its part since it was recorded, and an array in tiles, too.
        let spec = &self.plan.arguments[i];
        let checked =
            matches!(spec.view, View::Phased | View::Scatter | View::Window) || !spec.tile.is_empty();
        self.boxes[i].1 = place != Place::HOST || (checked && cut);
        self.args[i] = there;
    }

    /// Sets the place of the second buffer of a phased argument.
    pub fn place_second(&mut self, argument: u32, array: &Array<'_>, place: Place, offset: u64, cut: bool) {
        let i = argument as usize;
        // The second buffer has its own address, and may begin with another element.
        let origin = self.boxes[i].0.origin;
        let there = self.at(i, array, place, offset);
        self.args[i].next = match there.data.is_null() {
            // A memory whose buffers have handles and no addresses.
            true => std::ptr::without_provenance_mut(there.buffer as usize),
            false => there.data,
        };
        let part = &mut self.boxes[i].0;
        part.next_origin = std::mem::replace(&mut part.origin, origin);
        if cut {
            self.args[i].flags |= abi::ARG_FLAG_COVERED | abi::ARG_FLAG_NEXT_STAYS;
        }
    }

    /// Sets the place of the accumulators of an argument: one per block of rows.
    pub fn place_partials(&mut self, argument: u32, array: &Array<'_>, place: Place, first: u64, rows: u64) {
        let i = argument as usize;
        let mut there = self.at(i, array, place, first);
        there.row_len = rows;
        self.boxes[i].1 = place != Place::HOST;
        self.args[i] = there;
        self.merged = true;
    }

    /// Notes it, with its place, as the part of a target.
    pub fn note(&self, notes: &mut Notes, node: &Node, runtime: &Runtime, target: u32, touches: &[Touches]) {
        let part = Some((&self.parts, self.subspace));
        let kernel = NotedKernel { node, plan: self.plan, target, touches, part, items: self.items };
        notes.kernel(runtime, kernel, || {
            let mut args = self.args.clone();
            let boxes: Vec<abi::Part> = self.boxes.iter().map(|(part, _)| *part).collect();
            point(&mut args, &boxes, |i| self.boxes[i].1);
            (args, boxes)
        });
    }

    fn at(&mut self, i: usize, array: &Array<'_>, place: Place, offset: u64) -> Arg {
        let mut there = self.args[i];
        if place == Place::HOST {
            let bytes = (offset * array.size()) as usize;
            there.data = array.header().data().wrapping_add(bytes).cast();
        } else {
            array.address(&mut there, &mut self.boxes[i].0, place, offset);
        }
        there
    }

    /// What is known of its work.
    pub fn effort(&self) -> Effort {
        let is_watched = self.profile.is_some() || self.by_phase.is_some() || self.check_writes;
        let flies = !is_watched && (self.merged || !self.plan.reduces);
        Effort { expected: expected(self.target, self.items), flies }
    }

    /// Runs it; returns when it is done, or, if it may fly, when the device has it.
    pub fn run(mut self, stop: StopFlag<'_>, begin: Begin<'_>) -> Result<Option<Flight<'r>>, Error> {
        let flies = self.effort().flies && begin.may_fly != MayFly::No;
        for (arg, (part, own)) in self.args.iter_mut().zip(&self.boxes) {
            if *own {
                arg.part = part;
            }
        }
        let order = &self.parts.subspaces[self.subspace].order;
        let device = self.target.device.info();
        let _numbers =
            (self.check_writes && device.runs_functions).then(|| number_stores(self.plan, &mut self.args));
        let check = (self.check_writes && device.host_memory)
            .then(|| WriteCheck::begin(self.plan, order, &self.args));
        let view = order.view();
        let own = self.by_phase.as_ref().map(|_| Profile::new());
        let launch = DeviceLaunch {
            plan: self.plan,
            target: self.target,
            space: view.get(),
            phases: self.phases.clone(),
            attributes: self.attributes,
            profile: own.as_ref().or(self.profile.as_ref()),
            position: self.position,
            cut: self.cut,
            draw: None,
            stop,
            like: 0,
        };
        if flies {
            let mut room = SmallVec::new();
            self.target.widening.apply(&mut self.args, &mut room);
            return fly(&launch, self.target, &self.args, self.items, begin);
        }
        run_timed(self.target, self.items, || device_launch::submit_to(launch, &mut self.args, self.merged))?;
        if let (Some(own), Some(all)) = (own, &self.by_phase) {
            own.take().into_iter().for_each(|launch| all.add(self.subspace, launch));
        }
        match check {
            Some(check) => check.end(self.plan, &self.args).map(|()| None),
            None => Ok(None),
        }
    }
}

/// Lets those arguments for which `own` holds point to their boxes.
pub(super) fn point(args: &mut [Arg], boxes: &[abi::Part], own: impl Fn(usize) -> bool) {
    let all = args.iter_mut().zip(boxes).enumerate();
    all.filter(|(i, _)| own(*i)).for_each(|(_, (arg, part))| arg.part = part);
}

/// Begins a launch of `items` items and leaves it to the device. `None`: it is done.
pub(super) fn fly<'r>(
    launch: &DeviceLaunch<'_>,
    target: &'r Target,
    args: &[Arg],
    items: u64,
    begin: Begin<'_>,
) -> Result<Option<Flight<'r>>, Error> {
    let at = Instant::now();
    let Some(event) = launch.begin(args, begin.may_fly == MayFly::Watched, begin.after)? else {
        let elapsed = at.elapsed().as_nanos() as u64;
        match begin.is_behind || !begin.after.is_empty() {
            true => target.rate.add_at_most(elapsed, items),
            false => target.rate.add(elapsed, items),
        }
        return Ok(None);
    };
    let (is_watched, is_behind) = (begin.may_fly == MayFly::Watched, !begin.after.is_empty());
    let is_queued = begin.is_behind;
    let end = move |before: Option<Instant>| {
        // SAFETY: an event of the target's backend, given back below.
        unsafe {
            // A thread that has been elsewhere sees no more than that it is over.
            let is_late = is_queued || (is_watched || is_behind) && target.device.has_fired(event);
            let (start, at_most) = match before.filter(|_| !is_late) {
                Some(before) => (before.max(at), false),
                None => (at, is_late || is_behind),
            };
            end(target, event, start, at_most, items).map_err(Outcome::from)
        }
    };
    let work = Some(After { device: target.device, event });
    Ok(Some(Flight { work, end: Box::new(end) }))
}

/// Waits for a launch of `items` items that was begun no earlier than at `start`; its time enters the
/// device's rate. `at_most`: it may have taken less than until now.
///
/// # Safety
/// The event is of the target's backend, and is not used afterwards.
pub(super) unsafe fn end(
    target: &Target,
    event: *mut abi::Event,
    start: Instant,
    at_most: bool,
    items: u64,
) -> Result<(), Error> {
    let mut nanoseconds = 0;
    // SAFETY: the caller vouches.
    unsafe { device_launch::complete(target.device, event, Some(&mut nanoseconds))? };
    match (nanoseconds, start.elapsed().as_nanos() as u64) {
        (0, elapsed) if at_most => target.rate.add_at_most(elapsed, items),
        (0, elapsed) => target.rate.add(elapsed, items),
        (known, _) => target.rate.add(known, items),
    }
    Ok(())
}

/// Expected nanoseconds of `items` items.
pub(super) fn expected(target: &Target, items: u64) -> u64 {
    target.rate.get().map_or(UNKNOWN, |rate| (rate * items as f64) as u64)
}

/// Runs a launch of `items` items; its duration enters the device's rate: that which the device says, and
/// `body` returns, if it is not 0.
pub(super) fn run_timed(
    target: &Target,
    items: u64,
    body: impl FnOnce() -> Result<u64, Error>,
) -> Result<(), Error> {
    let start = Instant::now();
    let nanoseconds = match body()? {
        0 => start.elapsed().as_nanos() as u64,
        known => known,
    };
    target.rate.add(nanoseconds, items);
    Ok(())
}
