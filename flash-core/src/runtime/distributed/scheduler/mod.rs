//! The walk through a pipeline's submissions: each becomes parts, with the copies that they need before
//! them, in the lanes of devices.
//!
//! One thread walks. For each submission it places the parts, makes room and copies what is missing
//! ([`Scheduler::make_current`]), puts a task per part into the lane of its device ([`Scheduler::put`]),
//! and records what the task touches. Later tasks find it in the arrays. Directories are advanced as if
//! everything succeeded; a submission that fails on the walk poisons what it should have written, for
//! later ones, and `settle.rs` does the rest at the end.
//!
//! The walk runs tasks itself when many wait, and wherever it has to wait. Tasks point into the recording
//! and the plans. So the scheduler drains its lanes before it is dropped, also after a panic.

mod accumulators;
mod checks;
mod fit;
mod movement;
mod patience;
mod phased;
mod touches;
mod whole;

use super::Run;
use super::active_run::ROOM;
use super::arrays::{Array, TaskSink, Touch};
use super::kept::{KeptKernel, KeptRuns, KeptSubmission, Notes};
use super::lane::{Lane, drive_until, drive_until_or};
use super::lanes::Lanes;
use super::part::KernelPart;
use super::placement::{self, Placement, place_of};
use super::sync::changed;
use super::task::{Begin, Effort, Flight, MayFly, Outcome, TaskRef, Tasks, Waits, Work};
use crate::devices::host_handles::Scratch;
use crate::error::{Error, LaunchError};
use crate::memory::device::{DeviceBuffer, DeviceMemory};
use crate::memory::directory::Place;
use crate::memory::region::Region;
use crate::runtime::asynchronous::limits::{SharedOutcome, StopFlag, timed};
use crate::runtime::check::check_contents;
use crate::runtime::device_launch::{self, Chosen};
use crate::runtime::failsafe::{self, DeferredResult};
use crate::runtime::footprint::FootprintCache;
use crate::runtime::partition::Parts;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::profile::PhaseTimes;
use crate::runtime::state::Runtime;
use crate::runtime::submissions::{Node, SubmissionList};
use crate::workers;
use accumulators::Partial;
use flash_types::descriptor::{Access, View};
use patience::Patience;
use phased::Buffers;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// When this many tasks wait, the walk helps to run them before it goes on.
const RUN_AHEAD: usize = 256;

/// The walk.
pub(super) struct Scheduler<'r> {
    pub list: &'r SubmissionList,
    pub runtime: &'r Runtime,
    watch: Option<&'r SharedOutcome>,
    /// Others may use other elements of the memories meanwhile.
    beside: bool,
    /// See [`Run::suspends`].
    suspends: bool,
    /// The latest submission is a function of the host that completes later, and the walk suspends: nothing
    /// more may be issued.
    pub postponed: Option<Arc<DeferredResult>>,
    pub arrays: Vec<Array<'r>>,
    /// Array of each touched memory, by its index.
    of_memory: Vec<Option<u32>>,
    /// Slices of the host, by address.
    of_slice: Vec<(*mut u8, u32)>,
    /// Second buffers, by the array that they belong to.
    of_second: Vec<(u32, u32)>,
    known: FootprintCache,
    tasks: Tasks,
    lanes: SmallVec<[&'static Lane; 8]>,
    pub launched: Vec<SubmissionState>,
    /// Memory of second buffers of slices, and of accumulators.
    scratch: Vec<Scratch>,
    /// It may be repeated.
    notes: Option<Notes>,
    patience: Patience,
}

/// The state of a submission.
pub(super) struct SubmissionState {
    pub position: usize,
    /// Each with the target that runs it.
    pub tasks: SmallVec<[(TaskRef, u32); 1]>,
    /// The error, if it failed before it was put into a lane.
    pub error: Option<Error>,
    /// The time when its first part began, if it has a `Timeout`.
    begun: Option<Arc<OnceLock<Instant>>>,
    /// Its reads and writes are not recorded, see [`Scheduler::record_whole`].
    pub plain: bool,
    /// Its reads: argument, array and region.
    pub reads: Vec<(u32, u32, Region)>,
    /// Its writes: array, region, and whether all of that is written.
    pub writes: Vec<(u32, Region, bool)>,
}

impl SubmissionState {
    /// Of a submission that is about to be issued.
    fn new(position: usize) -> SubmissionState {
        SubmissionState {
            position,
            tasks: SmallVec::new(),
            error: None,
            begun: None,
            plain: false,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }
}

/// The use of an array by a part.
#[derive(Clone)]
pub(super) struct Touches {
    pub argument: u32,
    pub array: u32,
    pub region: Region,
    pub touch: Touch,
    /// It is the buffer that takes the writes of a phase.
    pub second: bool,
}

/// A submission that is being issued.
#[derive(Clone, Copy)]
struct PartRequest<'r, 'i> {
    node: &'r Node,
    plan: &'r Plan,
    targets: &'r [Target],
    placed: &'i Placement,
    /// Of every dimension.
    positions: &'i [u64],
    /// The place of its records, if each launch is of one phase of several.
    by_phase: Option<&'i Arc<PhaseTimes>>,
    /// Its parts do not fit a device's memory all at once.
    streams: bool,
    /// What it writes keeps its value where it does not: the pattern of a check.
    keeps: bool,
}

/// What a part of a submission touches.
struct PartTouches<'b> {
    subspace: usize,
    touches: SmallVec<[Touches; 4]>,
    /// The second buffers of the submission.
    buffers: &'b [Buffers],
}

impl PartRequest<'_, '_> {
    /// Memory and place of the first part's device.
    fn alone(&self) -> (Option<&'static DeviceMemory>, Place) {
        place_of(&self.targets[self.placed.targets.first().copied().flatten().unwrap_or(0) as usize])
    }
}

impl<'r> Scheduler<'r> {
    /// Zeroed host memory until the end of the run.
    fn scratch(&mut self, bytes: usize) -> *mut u8 {
        let scratch = Scratch::zeroed(bytes);
        let data = scratch.data();
        self.scratch.push(scratch);
        data
    }

    pub fn new(list: &'r SubmissionList, runtime: &'r Runtime, run: &Run<'r>) -> Scheduler<'r> {
        let mut walk = Scheduler {
            list,
            runtime,
            watch: run.watch,
            beside: run.beside,
            suspends: run.suspends,
            postponed: None,
            arrays: Vec::with_capacity(list.memories_touched()),
            of_memory: (0..list.memories_touched()).map(|_| None).collect(),
            of_slice: Vec::new(),
            of_second: Vec::new(),
            known: FootprintCache::default(),
            tasks: Tasks::new(runtime.priority),
            lanes: SmallVec::new(),
            launched: Vec::with_capacity(list.nodes().len()),
            scratch: Vec::new(),
            notes: None,
            patience: Patience::of_run(),
        };
        // In the order of addresses, in which all runs lock directories.
        let own_memory = runtime.has_device_memory();
        for (index, memory, written) in list.memories() {
            walk.of_memory[index as usize] = Some(walk.arrays.len() as u32);
            memory.set_granule(runtime.granule);
            walk.arrays.push(Array::of_memory(memory, written, own_memory));
        }
        walk
    }

    fn ways(&mut self) -> TaskSink<'_> {
        TaskSink { tasks: &mut self.tasks, lanes: &mut self.lanes }
    }

    /// Notes what it does from now on.
    pub fn note(&mut self) {
        self.notes = Notes::begin(self.list, self.runtime, &self.arrays);
    }

    /// A submission begins that a kept run has repeated.
    pub fn repeats(&mut self, submission: &KeptSubmission) {
        let KeptSubmission { position, plain, reads, writes, .. } = submission;
        let (reads, writes) = (reads.clone(), writes.clone());
        self.launched.push(SubmissionState {
            plain: *plain,
            reads,
            writes,
            ..SubmissionState::new(*position)
        });
    }

    /// A kernel of that submission has run at a place, with or without an error.
    pub fn was_run(&mut self, kernel: &KeptKernel, place: Place, error: Option<Error>) {
        let waits = self.waits(&kernel.touches, place);
        let work = move |_: Begin<'_>| match error {
            Some(error) => Err(Outcome::Error(error)),
            None => Ok(None),
        };
        // SAFETY: it borrows nothing.
        let task = unsafe { self.tasks.add(waits, Effort::of_thread(0), Box::new(work)) };
        task.run_here();
        self.touched(&kernel.touches, place, task);
        self.latest().tasks.push((task, kernel.target));
    }

    /// Puts a submission into lanes.
    pub fn issue(&mut self, position: usize, node: &'r Node, checked: Option<Arc<Parts>>) {
        self.launched.push(SubmissionState::new(position));
        if let Some(notes) = &mut self.notes {
            notes.submission(position, checked.as_ref());
        }
        let issued = match self.watch.and_then(|watch| watch.stopped()) {
            Some(reason) => Err(reason.clone()),
            None => self.try_issue(node, checked),
        };
        if let Err(error) = issued {
            self.fail(node, error);
        }
        if self.tasks.waiting() > RUN_AHEAD {
            let tasks = &mut self.tasks;
            drive_until(&self.lanes, || tasks.waiting() <= RUN_AHEAD / 2);
        }
    }

    pub fn latest(&mut self) -> &mut SubmissionState {
        self.launched.last_mut().expect("a submission was begun")
    }

    /// The latest submission failed: what it writes is poisoned for later ones.
    fn fail(&mut self, node: &Node, error: Error) {
        if std::mem::take(&mut self.latest().plain) {
            let mut latest = self.launched.pop().expect("a submission was begun");
            self.record_whole(&mut latest);
            self.launched.push(latest);
        }
        if self.latest().writes.is_empty() {
            // It failed before it was cut: all that it could have written.
            let plan = node.plan();
            for (i, _) in plan.arguments.iter().enumerate().filter(|(_, a)| a.access != Access::Read) {
                let (array, region) = self.range_of(node, i);
                self.latest().writes.push((array, region, false));
            }
        }
        let writes = std::mem::take(&mut self.latest().writes);
        for (array, region, _) in &writes {
            self.arrays[*array as usize].directory_mut().poison(region);
        }
        let latest = self.latest();
        latest.writes = writes;
        latest.error.get_or_insert(error);
        self.arrays.iter_mut().for_each(|array| array.pins.clear());
    }

    fn try_issue(&mut self, node: &'r Node, checked: Option<Arc<Parts>>) -> Result<(), Error> {
        let (plan, order) = (node.plan(), self.list.order_of(node));
        let targets = match plan.targets() {
            Ok(targets) => targets,
            Err(error) => {
                return match plan.movement {
                    Some(movement) => self.issue_movement(node, plan, movement),
                    None => self.on_host(node, plan, error),
                };
            }
        };
        if order.items() == 0 {
            return self.identities(node, plan, &targets[0]);
        }
        if checked.is_none()
            && let Some(outcome) = self.issue_whole(node, plan, targets)
        {
            return outcome;
        }
        self.fetch_contents(node, plan)?;
        if let Some(check) = plan.check {
            let (list, layouts) = (self.list, self.list.layouts_of(node));
            // SAFETY: what it reads was fetched. The run holds the memories; whatever writes them on the host
            // before this submission is done, and what comes after it was not issued yet.
            unsafe { check_contents(check, plan, list.dims_of(node), list.args_of(node), &layouts)? };
        }
        let check = self.begin_check(node, plan, targets)?;
        let placed = &placement::place(self, node, plan, targets, checked)?;
        let positions: SmallVec<[u64; 4]> = self.list.dims_of(node).iter().map(|dim| dim.len()).collect();
        let issue = PartRequest {
            node,
            plan,
            targets,
            placed,
            positions: &positions,
            by_phase: None,
            streams: false,
            keeps: check.is_some(),
        };
        let mut buffers = self.buffers(&issue);
        let phases = order.phases();
        // One device that uses the host's memory merges its own accumulators.
        let merges = plan.reduces && (placed.is_cut() || issue.alone().1 != Place::HOST);
        let by_phase = merges || placed.is_cut() && phases > 1;
        let profile = device_launch::extras(node, self.runtime).1.filter(|_| by_phase && phases > 1);
        let records = profile.map(|profile| PhaseTimes::new(profile.clone()));
        let issue = PartRequest { by_phase: records.as_ref(), ..issue };
        // What the whole submission writes, and may not read: before any of its parts.
        let mut touches: SmallVec<[Touches; 4]> = SmallVec::new();
        for (subspace, part) in placed.subspaces() {
            let of_part = self.touches(&issue, subspace, &(0..phases), &buffers);
            if let (true, Some(target)) = (part.changes(), placed.targets[subspace]) {
                // A buffer that grew from phase to phase would be copied each time.
                self.reserve_all(&targets[target as usize..][..1], &of_part);
            }
            touches.extend(of_part);
        }
        self.promise(plan, &touches, &buffers)?;
        let mut issue = issue;
        if placed.targets.contains(&None) {
            issue.streams = !self.fit(targets, &touches);
            if !issue.streams {
                self.reserve_all(targets, &touches);
            }
        }
        let issue = issue;
        let mut alone = Some(touches).filter(|_| !by_phase && !placed.is_cut());
        // The last device of each part.
        let mut ran: SmallVec<[u32; 4]> = smallvec![0; placed.targets.len()];
        for round in 0..if by_phase { phases } else { 1 } {
            let phases = if by_phase { round..round + 1 } else { 0..phases };
            let partials = if merges { self.partials(&issue, round)? } else { SmallVec::new() };
            for (subspace, _) in placed.subspaces() {
                // The only part touches what the submission does.
                let touches = alone.take();
                let touches = touches.unwrap_or_else(|| self.touches(&issue, subspace, &phases, &buffers));
                let part = PartTouches { subspace, touches, buffers: &buffers };
                ran[subspace] = self.issue_part(&issue, part, phases.clone(), &partials)?;
            }
            if placed.is_cut() {
                self.turn(&issue, &mut buffers, &ran)?;
            }
            for partial in &partials {
                self.merge(&issue, partial, round == 0)?;
            }
        }
        self.back(&issue, &buffers, &ran)?;
        match check {
            Some(check) => self.end_check(node, plan, check),
            None => Ok(()),
        }
    }

    /// Puts a part of a submission into the lane of its device, and returns the index of that target.
    fn issue_part(
        &mut self,
        issue: &PartRequest<'r, '_>,
        part: PartTouches<'_>,
        phases: Range<u64>,
        partials: &[Partial<'r>],
    ) -> Result<u32, Error> {
        let subspace = part.subspace;
        let number = match issue.placed.targets[subspace] {
            Some(number) => number,
            None => self.wait_for_one(issue.targets),
        };
        let target = &issue.targets[number as usize];
        let (memory, place) = place_of(target);
        if let (true, Some(memory)) = (issue.streams, memory) {
            self.begin_batch(issue, &part, &phases, memory)?;
        }
        let mut touches = part.touches;
        if !partials.is_empty() {
            touches.retain(|t| issue.plan.arguments[t.argument as usize].view != View::Reduce);
            touches.extend(partials.iter().map(|partial| partial.touches(issue, subspace)));
        }
        self.make_current(memory, &touches)?;
        let PartRequest { node, plan, placed, .. } = *issue;
        let chosen = Chosen { node, plan, target };
        let mut part = KernelPart::new(self.list, self.runtime, chosen, placed, subspace, phases);
        part.by_phase = issue.by_phase.cloned();
        for touched in &touches {
            let (_, offset) = self.array_of(node, touched.argument as usize);
            let array = &self.arrays[touched.array as usize];
            if let Some(partial) = partials.iter().find(|p| p.array == touched.array) {
                part.place_partials(
                    touched.argument,
                    array,
                    place,
                    partial.first(issue, subspace),
                    partial.rows,
                );
            } else if touched.second {
                part.place_second(touched.argument, array, place, offset, placed.is_cut());
            } else {
                part.place(touched.argument, array, place, offset, placed.is_cut());
            }
        }
        let effort = part.effort();
        let is_noted = effort.flies && issue.placed.targets[subspace].is_some();
        if let Some(notes) = self.notes.as_mut().filter(|_| is_noted) {
            part.note(notes, node, self.runtime, number, &touches);
        }
        self.put(chosen, number, &touches, place, effort, move |stop, begin| part.run(stop, begin));
        Ok(number)
    }

    /// Puts a kernel into the lane of its device. Its data is there, or on its way there.
    pub fn put(
        &mut self,
        Chosen { node, plan, target }: Chosen<'r>,
        number: u32,
        touches: &[Touches],
        place: Place,
        effort: Effort,
        work: impl FnOnce(StopFlag<'_>, Begin<'_>) -> Result<Option<Flight<'r>>, Error> + 'r,
    ) {
        // A thread watches over one that has a limit.
        let is_limited = device_launch::timeout(node, self.runtime).is_some();
        let effort = Effort { flies: effort.flies && !is_limited, ..effort };
        let waits = self.waits(touches, place);
        let arrays = &mut self.arrays;
        let pins = touches.iter().filter_map(|touched| arrays[touched.array as usize].unpin(place));
        let pins: SmallVec<[Arc<DeviceBuffer>; 2]> = pins.collect();
        // Most have none, and their work is as small as possible: it is allocated here and freed elsewhere.
        let work = match pins.is_empty() {
            true => self.limited(node, plan, work),
            false => self.limited(node, plan, move |stop, begin| {
                let flight = work(stop, begin)?;
                // They go when the device is done.
                Ok(flight.map(|Flight { work, end }| {
                    let end = move |before| {
                        let outcome = end(before);
                        drop(pins);
                        outcome
                    };
                    Flight { work, end: Box::new(end) }
                }))
            }),
        };
        // SAFETY: the work borrows the recording and the plan, which live until the run is over, and its
        // buffers are held until then; kernels may run on any thread.
        let task = unsafe { self.tasks.add(waits, effort, work) };
        self.touched(touches, place, task);
        self.latest().tasks.push((task, number));
        self.ways().push(&Lanes::of(target.device).kernels, task);
    }

    /// Work that is limited by the submission's `Timeout`.
    fn limited<'w>(
        &mut self,
        node: &'w Node,
        plan: &'w Plan,
        work: impl FnOnce(StopFlag<'_>, Begin<'_>) -> Result<Option<Flight<'w>>, Error> + 'w,
    ) -> Work<'w>
    where
        'r: 'w,
    {
        let watch = self.watch;
        let work = move |stop: StopFlag<'_>, begin: Begin<'_>| match watch.and_then(|watch| watch.stopped()) {
            Some(reason) => Err(reason.clone()),
            None => work(stop, begin),
        };
        let Some(limit) = device_launch::timeout(node, self.runtime) else {
            return Box::new(move |begin: Begin<'_>| Ok(work(watch.and_then(|watch| watch.flag()), begin)?));
        };
        let latest = self.latest();
        let (position, begun) = (latest.position, latest.begun.get_or_insert_default().clone());
        Box::new(move |_| {
            let blame = |source| device_launch::blame(node, plan, position, source);
            let mut runs = false;
            let work = |stop: StopFlag<'_>| {
                runs = true;
                work(stop, Begin { may_fly: MayFly::No, after: &[], is_behind: false }).map(|_| ())
            };
            let outcome = timed(limit, *begun.get_or_init(Instant::now), watch, blame, work);
            outcome.map(|()| None).map_err(|error| match error {
                Error::Timeout { .. } if runs => Outcome::Late(error),
                _ => Outcome::Error(error),
            })
        })
    }

    /// The device for a part without one: one that is nearly idle.
    fn wait_for_one(&mut self, targets: &[Target]) -> u32 {
        let lane = |target: &Target| &Lanes::of(target.device).kernels;
        // Helpers do the work: a thread that drives a lane of kernels itself would not see when another is
        // idle. All other lanes are driven, since the kernels may wait for them. Helpers may not come: all
        // workers may be here.
        // Each is left to helpers, whatever became of the others.
        let left: SmallVec<[bool; 8]> =
            targets.iter().map(|target| lane(target).leave_to_helpers()).collect();
        let served = left.iter().all(|served| *served);
        let mut lanes = self.lanes.clone();
        if served {
            lanes.retain(|other| !targets.iter().any(|target| std::ptr::eq(*other, lane(target))));
        }
        let is_near_idle = || targets.iter().any(|target| lane(target).waiting() < 2);
        // A part that this thread runs may take long, and meanwhile nobody gives out others: helpers get the
        // time that they need to wake up.
        let mut patience = served.then(|| self.patience.begin());
        let mut is_patient = || {
            let awaited = || targets.iter().any(|target| lane(target).awaits_helper());
            let at_work = || targets.iter().filter(|target| lane(target).is_at_work()).count();
            // Where all workers are at work, none comes.
            let may_come = || at_work() < workers::count();
            patience.as_mut().is_some_and(|patience| awaited() && may_come() && patience.wait())
        };
        let drive = || targets.iter().any(|target| lane(target).drive_ready());
        drive_until_or(&lanes, is_near_idle, || is_patient() || drive());
        drop(patience);
        targets.iter().for_each(|target| lane(target).come_back());
        placement::first_free(targets)
    }

    /// The tasks that a task with these uses waits for.
    fn waits(&mut self, touches: &[Touches], place: Place) -> Waits {
        let mut waits = Waits::default();
        for touched in touches {
            let array = &mut self.arrays[touched.array as usize];
            if touched.touch.reads() {
                array.wait_to_read(place, &touched.region, touched.argument, &mut waits);
            }
            if touched.touch.writes() {
                array.wait_to_write(place, &touched.region, &mut waits);
            }
        }
        waits
    }

    /// Records that a task has these uses.
    fn touched(&mut self, touches: &[Touches], place: Place, task: TaskRef) {
        for touched in touches {
            let array = &mut self.arrays[touched.array as usize];
            if !touched.touch.writes() {
                array.has_read(place, &touched.region, task);
                continue;
            }
            array.has_written(place, &touched.region, task);
            let mut directory = array.directory_mut();
            let kept = match touched.touch {
                Touch::WriteSome => directory.poison_in(&touched.region),
                _ => Region::empty(),
            };
            directory.written(place, &touched.region);
            directory.poison(&kept);
        }
    }

    /// Nothing implements the kernel: its failsafe runs here, on the host's arrays.
    fn on_host(&mut self, node: &'r Node, plan: &'r Plan, error: Error) -> Result<(), Error> {
        let Some(body) = node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) else {
            return Err(error);
        };
        let mut touches: SmallVec<[Touches; 4]> = SmallVec::new();
        for (i, spec) in plan.arguments.iter().enumerate().filter(|(_, s)| s.view != View::Scalar) {
            let (array, region) = self.range_of(node, i);
            let touch = match spec.access {
                Access::Read => Touch::Read,
                Access::ReadWrite => Touch::ReadWrite,
                // A host task writes all of it; a failsafe writes what the kernel would.
                Access::Write if spec.view == View::Whole => Touch::Write,
                Access::Write => Touch::WriteSome,
            };
            touches.push(Touches { argument: i as u32, array, region, touch, second: false });
        }
        self.promise(plan, &touches, &[])?;
        self.prepare(None, &touches)?;
        let waits = self.waits(&touches, Place::HOST);
        let (args, dims) = (self.list.args_of(node), self.list.dims_of(node));
        let suspends = self.suspends && device_launch::timeout(node, self.runtime).is_none();
        let postponed = Arc::new(OnceLock::new());
        let later = postponed.clone();
        let work = self.limited(node, plan, move |_, _| {
            match suspends {
                true => failsafe::begin(body, plan, args, dims)?.map(|result| later.set(result)),
                false => failsafe::call(body, plan, args, dims).map(|()| None)?,
            };
            Ok(None)
        });
        // SAFETY: the recording lives until the run is over; the function is Send and Sync.
        let task = unsafe { self.tasks.add(waits, Effort::of_thread(0), work) };
        self.touched(&touches, Place::HOST, task);
        self.latest().tasks.push((task, u32::MAX));
        drive_until(&self.lanes, || task.get().is_ready());
        // Meanwhile others run the tasks that wait in the lanes.
        for lane in &self.lanes {
            lane.leave_to_helpers();
        }
        // The function may block: users of elements that it does not write need not wait for it.
        if self.beside {
            self.arrays.iter_mut().filter(|array| array.has_copied()).for_each(Array::leave);
        }
        let away = self.runtime.has_device_memory();
        if away {
            ROOM.is_away();
        }
        task.run_here();
        self.lanes.iter().for_each(|lane| lane.come_back());
        if away {
            ROOM.goes();
        }
        self.arrays.iter_mut().for_each(Array::lock);
        changed().notify();
        self.postponed = postponed.get().cloned();
        Ok(())
    }

    /// Everything is issued: waits for it, and settles failures. What it has noted is kept, if the next run
    /// would do the same.
    pub fn finish(mut self, failures: Vec<LaunchError>, kept: Option<&KeptRuns>) -> Vec<LaunchError> {
        self.fetch_slices();
        if self.beside {
            // Guards of elements that this run leaves alone need not wait for its kernels, once no copy is in
            // flight.
            drive_until(&self.lanes, || self.arrays.iter().all(Array::has_copied));
            self.arrays.iter_mut().for_each(Array::leave);
        }
        self.ways().drain();
        self.arrays.iter_mut().for_each(Array::lock);
        let (list, tasks) = (self.list, self.tasks.len());
        let notes = self.notes.take();
        let run = notes.and_then(|notes| notes.end(list, tasks, &self.launched, &self.arrays));
        let failures = super::settle::settle(&mut self, failures);
        if let (Some(kept), Some(run)) = (kept, run)
            && failures.is_empty()
            && run.leaves_as_found(&self.arrays)
        {
            kept.keep(run);
        }
        failures
    }

    /// Slices of the host have their final contents when the run is over, including those of a launch that
    /// took too long.
    fn fetch_slices(&mut self) {
        self.tasks.bring_home();
        for at in 0..self.of_slice.len() {
            let array = &mut self.arrays[self.of_slice[at].1 as usize];
            let all = Region::all(&array.grid());
            let mut ways = TaskSink { tasks: &mut self.tasks, lanes: &mut self.lanes };
            if let Err(error) = array.prepare(None, &all, Touch::Read, &mut ways)
                && let Some(last) = self.launched.last_mut()
            {
                last.error.get_or_insert(error);
            }
        }
    }
}

impl Drop for Scheduler<'_> {
    /// Also on a panic: tasks point into data that is about to be dropped.
    fn drop(&mut self) {
        self.ways().drain();
    }
}
