//! The walk through a pipeline's submissions: each becomes parts, with the copies that they lack before
//! them, in the lanes of devices.

use super::Lanes;
use super::arrays::{Array, Touch, Ways};
use super::lane::{Lane, drive_until};
use super::part::KernelPart;
use super::place::{self, Placed, place_of};
use super::sync::changed;
use super::task::{TaskRef, Tasks, Waits, Work};
use crate::abi;
use crate::descriptor::{Access, Use, View};
use crate::error::{Error, LaunchError};
use crate::kernel::views::Operation;
use crate::memory::device::DeviceMemory;
use crate::memory::directory::Place;
use crate::memory::region::{Block, Grid, Region};
use crate::memory::transfer::Transfer;
use crate::runtime::asynchronous::{self, Watch};
use crate::runtime::boxes::{Extent, LaunchGrid, Parts};
use crate::runtime::plan::{Plan, Target};
use crate::runtime::record::{Hold, Node, Slots};
use crate::runtime::reduce;
use crate::runtime::{Runtime, failsafe, launch};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// When so many tasks wait, the walk helps to run them before it goes on.
const RUN_AHEAD: usize = 256;

/// The walk.
pub(super) struct Walk<'r> {
    pub slots: &'r Slots,
    runtime: &'r Runtime,
    watch: Option<&'r Watch>,
    pub arrays: Vec<Array<'r>>,
    /// By index among the memories touched.
    of_memory: Vec<Option<u32>>,
    /// Slices of the host, by address.
    of_slice: Vec<(*mut u8, u32)>,
    /// Second buffers, by the array that they belong to.
    of_second: Vec<(u32, u32)>,
    tasks: Tasks,
    lanes: SmallVec<[&'static Lane; 8]>,
    pub launched: Vec<Launched>,
    /// What second buffers of slices are in.
    scratch: Vec<Box<[u128]>>,
}

/// What became of a submission so far.
pub(super) struct Launched {
    pub position: usize,
    /// With the target that runs it.
    pub tasks: SmallVec<[(TaskRef, u32); 1]>,
    /// It failed before it was put into a lane.
    pub error: Option<Error>,
    /// What it reads: argument, array and region.
    pub reads: SmallVec<[(u32, u32, Region); 4]>,
    /// What it writes: array, region, and whether all of that is written.
    pub writes: SmallVec<[(u32, Region, bool); 1]>,
}

/// How a part touches an array.
struct Touches {
    argument: u32,
    array: u32,
    region: Region,
    touch: Touch,
    /// It is the buffer that takes the writes of a phase.
    second: bool,
}

/// The two buffers of a phased argument.
#[derive(Clone, Copy)]
struct Buffers {
    argument: u32,
    /// The argument's own array.
    own: u32,
    /// As a phase finds it, and what takes its writes; these two change roles.
    now: u32,
    next: u32,
    /// Every element is some item's own in every phase.
    covered: bool,
}

/// The partial results of an accumulator in one phase.
struct Partial<'r> {
    argument: u32,
    operation: &'r Operation,
    /// One accumulator per block of rows.
    array: u32,
    /// Elements of an accumulator.
    len: u64,
    /// Rows of the phase, and of a block.
    all: u64,
    rows: u64,
}

impl Partial<'_> {
    /// The first element of a subspace's accumulators.
    fn first(&self, issue: &Issue<'_, '_>, subspace: usize) -> u64 {
        self.until(issue, issue.placed.parts.subspaces[subspace].positions.start)
    }

    /// The element behind those of all rows before a position.
    fn until(&self, issue: &Issue<'_, '_>, position: u64) -> u64 {
        let positions = match issue.placed.parts.dimension {
            Some(dimension) => issue.positions[dimension],
            None => return 0,
        };
        (position * (self.all / positions)).div_ceil(self.rows) * self.len
    }

    fn touches(&self, issue: &Issue<'_, '_>, subspace: usize) -> Touches {
        let end = match issue.placed.parts.dimension {
            Some(_) => self.until(issue, issue.placed.parts.subspaces[subspace].positions.end),
            None => self.all.div_ceil(self.rows) * self.len,
        };
        let grid = Grid::new(&[], self.all.div_ceil(self.rows) * self.len);
        let region = Region::of_range(&grid, self.first(issue, subspace)..end);
        Touches { argument: self.argument, array: self.array, region, touch: Touch::ReadWrite, second: false }
    }
}

/// A submission that is being issued.
#[derive(Clone, Copy)]
struct Issue<'r, 'i> {
    node: &'r Node,
    plan: &'r Plan,
    targets: &'r [Target],
    placed: &'i Placed,
    /// Of every dimension.
    positions: &'i [u64],
}

impl Issue<'_, '_> {
    /// Memory and place of the first part's device.
    fn alone(&self) -> (Option<&'static DeviceMemory>, Place) {
        place_of(&self.targets[self.placed.targets.first().copied().flatten().unwrap_or(0) as usize])
    }
}

impl<'r> Walk<'r> {
    pub fn new(slots: &'r Slots, runtime: &'r Runtime, watch: Option<&'r Watch>) -> Walk<'r> {
        let mut walk = Walk {
            slots,
            runtime,
            watch,
            arrays: Vec::with_capacity(slots.memories()),
            of_memory: (0..slots.memories()).map(|_| None).collect(),
            of_slice: Vec::new(),
            of_second: Vec::new(),
            tasks: Tasks::new(runtime.priority),
            lanes: SmallVec::new(),
            launched: Vec::with_capacity(slots.nodes().len()),
            scratch: Vec::new(),
        };
        // In the order of addresses, in which everybody locks directories.
        let own_memory = runtime.has_device_memory();
        let _ = slots.visit_memories(|index, memory, written| {
            walk.of_memory[index as usize] = Some(walk.arrays.len() as u32);
            // SAFETY: the memory outlives the recording, which outlives the walk.
            let memory = unsafe { &*std::ptr::from_ref(memory) };
            walk.arrays.push(Array::of_memory(memory, written || own_memory));
            Ok(())
        });
        walk
    }

    fn ways(&mut self) -> Ways<'_> {
        Ways { tasks: &mut self.tasks, lanes: &mut self.lanes }
    }

    /// Puts a submission into lanes.
    pub fn issue(&mut self, position: usize, node: &'r Node, checked: Option<Arc<Parts>>) {
        let (tasks, writes) = (SmallVec::new(), SmallVec::new());
        self.launched.push(Launched { position, tasks, error: None, writes, reads: SmallVec::new() });
        if let Err(error) = self.try_issue(node, checked) {
            self.fail(node, error);
        }
        if self.tasks.waiting() > RUN_AHEAD {
            let tasks = &mut self.tasks;
            drive_until(&self.lanes, || tasks.waiting() <= RUN_AHEAD / 2);
        }
    }

    fn latest(&mut self) -> &mut Launched {
        self.launched.last_mut().expect("a submission was begun")
    }

    /// The latest submission failed: what it writes is poisoned for those that come.
    fn fail(&mut self, node: &Node, error: Error) {
        if self.latest().writes.is_empty() {
            // It did not come to cutting: all that it could have written.
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
    }

    fn try_issue(&mut self, node: &'r Node, checked: Option<Arc<Parts>>) -> Result<(), Error> {
        let (plan, order) = (node.plan(), self.slots.order_of(node));
        let targets = match plan.targets() {
            Ok(targets) => targets,
            Err(error) => return self.on_host(node, plan, error),
        };
        if order.items() == 0 {
            return self.identities(node, plan, &targets[0]);
        }
        self.fetch_structure(node, plan)?;
        let placed = &place::place(self, node, plan, targets, checked)?;
        let positions: SmallVec<[u64; 4]> = self.slots.dims_of(node).iter().map(|dim| dim.len()).collect();
        let issue = Issue { node, plan, targets, placed, positions: &positions };
        let mut buffers = self.buffers(&issue);
        let phases = order.phases();
        // One device that uses the host's memory merges its own accumulators.
        let merges = plan.reduces && (placed.is_cut() || issue.alone().1 != Place::HOST);
        let by_phase = merges || placed.is_cut() && phases > 1;
        // What the whole submission writes, and may not read: before any of its parts.
        let mut touches: SmallVec<[Touches; 4]> = SmallVec::new();
        for (subspace, _) in placed.subspaces() {
            touches.extend(self.touches(&issue, subspace, &(0..phases), &buffers));
        }
        self.promise(plan, &touches, &buffers)?;
        let mut alone = Some(touches).filter(|_| !by_phase && !placed.is_cut());
        for round in 0..if by_phase { phases } else { 1 } {
            let phases = if by_phase { round..round + 1 } else { 0..phases };
            let partials = if merges { self.partials(&issue, round)? } else { SmallVec::new() };
            for (subspace, _) in placed.subspaces() {
                // The only part touches what the submission does.
                let touches = alone.take();
                let touches = touches.unwrap_or_else(|| self.touches(&issue, subspace, &phases, &buffers));
                self.issue_part(&issue, subspace, phases.clone(), touches, &partials)?;
            }
            if placed.is_cut() {
                self.turn(&issue, &mut buffers)?;
            }
            for partial in &partials {
                self.merge(&issue, partial, round == 0)?;
            }
        }
        self.back(&issue, &buffers)
    }

    /// Row pointers and the like are on the host before a map looks at them.
    fn fetch_structure(&mut self, node: &Node, plan: &Plan) -> Result<(), Error> {
        if !plan.part.looks_inside() {
            return Ok(());
        }
        let mut any = false;
        for (i, argument) in plan.descriptor.arguments.iter().enumerate().filter(|(_, a)| a.structure) {
            let (array, region) = self.range_of(node, i);
            let array = &mut self.arrays[array as usize];
            if array.directory().poisoned(&region) {
                return Err(Error::Skipped { argument: argument.name.clone() });
            }
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            array.prepare(None, &region, Touch::Read, &mut ways)?;
            any |= array.is_written(Place::HOST, &region);
        }
        if any {
            self.ways().drain();
        }
        Ok(())
    }

    /// The array of an argument, and its element that is the argument's first.
    fn array_of(&mut self, node: &Node, argument: usize) -> (u32, u64) {
        let arg = &self.slots.args_of(node)[argument];
        let hold = &self.slots.holds_of(node)[argument];
        let size = u64::from(arg.element_size);
        if hold.touched != Hold::NONE {
            let array = self.of_memory[hold.touched as usize].expect("every memory of the recording has one");
            let first = self.arrays[array as usize].header().data() as usize;
            let bytes = (arg.data as usize).wrapping_sub(first) as u64;
            // Mostly it is all of the memory: divisions are slow.
            return (array, if bytes == 0 { 0 } else { bytes.checked_div(size).unwrap_or(0) });
        }
        let data: *mut u8 = arg.data.cast();
        let known = self.of_slice.iter().find(|(known, array)| {
            let header = self.arrays[*array as usize].header();
            *known == data && header.len() as u64 == arg.len && header.element_size() == size
        });
        if let Some((_, array)) = known {
            return (*array, 0);
        }
        let array = self.arrays.len() as u32;
        self.arrays.push(Array::lent(data, arg.len, size, &[]));
        self.of_slice.push((data, array));
        (array, 0)
    }

    /// The array of an argument, and all that the argument is of it.
    fn range_of(&mut self, node: &Node, argument: usize) -> (u32, Region) {
        let (array, offset) = self.array_of(node, argument);
        let len = self.slots.args_of(node)[argument].len;
        let grid = self.arrays[array as usize].directory().grid();
        (array, Region::of_range(grid, offset..offset + len))
    }

    /// What a part of an argument is in its array, and whether it is just that.
    fn region(
        &mut self,
        issue: &Issue<'_, '_>,
        argument: usize,
        array: u32,
        extent: &Extent,
    ) -> (Region, bool) {
        let (_, offset) = self.array_of(issue.node, argument);
        match extent {
            Extent::All => {
                let len = self.slots.args_of(issue.node)[argument].len;
                let grid = self.arrays[array as usize].directory().grid();
                (Region::of_range(grid, offset..offset + len), true)
            }
            Extent::Box(elements) => {
                let block = Block { begin: elements.begin, end: elements.end };
                let seen = grid_of(&issue.placed.parts.grids[argument]);
                self.arrays[array as usize].region_of(&block, &seen, offset)
            }
        }
    }

    /// What a part touches in some phases.
    fn touches(
        &mut self,
        issue: &Issue<'_, '_>,
        subspace: usize,
        phases: &Range<u64>,
        buffers: &[Buffers],
    ) -> SmallVec<[Touches; 4]> {
        let mut all = SmallVec::new();
        let cut = issue.placed.is_cut();
        for (i, spec) in issue.plan.arguments.iter().enumerate().filter(|(_, s)| s.view != View::Scalar) {
            let of = &issue.placed.parts.subspaces[subspace].touched[i];
            let (array, _) = self.array_of(issue.node, i);
            let mut add = |walk: &mut Self, array: u32, extent: &Extent, touch, second| {
                let (region, just) = walk.region(issue, i, array, extent);
                let complete = just && of.covered;
                let touch = if touch == Touch::Write && !complete { Touch::WriteSome } else { touch };
                all.push(Touches { argument: i as u32, array, region, touch, second });
            };
            let all = issue.placed.takes_all(issue.plan, i);
            let hull = || of.hull().filter(|_| !all).map_or(Extent::All, Extent::Box);
            match (spec.view, of.read, of.written) {
                (View::Phased, ..) if spec.stages.is_some() => {
                    let touch = self.stage_touch(issue.node, spec.stages.as_ref(), phases);
                    match (touch, of.written) {
                        (Touch::ReadWrite, Some(own)) if cut && phases.end - phases.start == 1 => {
                            add(self, array, &own, touch, false)
                        }
                        _ => add(self, array, &hull(), touch, false),
                    }
                }
                (View::Phased, ..) => {
                    let Some(&Buffers { now, next, .. }) = buffers.iter().find(|b| b.argument == i as u32)
                    else {
                        continue;
                    };
                    if let (true, Some(own)) = (cut, of.written) {
                        add(self, now, &hull(), Touch::Read, false);
                        add(self, next, &own, Touch::Write, true);
                    } else {
                        // The backend copies between the two as it likes: they are there in full.
                        add(self, now, &Extent::All, Touch::ReadWrite, false);
                        add(self, next, &Extent::All, Touch::WriteSome, true);
                    }
                }
                (_, Some(_), Some(_)) => add(self, array, &hull(), Touch::ReadWrite, false),
                (_, Some(_), None) => add(self, array, &hull(), Touch::Read, false),
                (_, None, Some(_)) if all => add(self, array, &Extent::All, Touch::WriteSome, false),
                (_, None, Some(own)) => add(self, array, &own, Touch::Write, false),
                (_, None, None) => {}
            }
        }
        all
    }

    /// What the declared use of a phased argument means for some phases.
    fn stage_touch(&self, node: &Node, stages: Option<&(usize, Vec<Use>)>, phases: &Range<u64>) -> Touch {
        let (Some((dimension, uses)), 1) = (stages, phases.end - phases.start) else {
            return Touch::ReadWrite;
        };
        let order = self.slots.order_of(node);
        let mut values: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.slots.dims_of(node).len());
        order.value(order.phase(phases.start).start, &mut values);
        match uses.get(values[*dimension] as usize) {
            Some(Use::Read) => Touch::Read,
            _ => Touch::ReadWrite,
        }
    }

    /// Puts a part of a submission into the lane of its device.
    fn issue_part(
        &mut self,
        issue: &Issue<'r, '_>,
        subspace: usize,
        phases: Range<u64>,
        mut touches: SmallVec<[Touches; 4]>,
        partials: &[Partial<'r>],
    ) -> Result<(), Error> {
        let number = match issue.placed.targets[subspace] {
            Some(number) => number,
            None => self.wait_for_one(issue.targets),
        };
        let target = &issue.targets[number as usize];
        let (memory, place) = place_of(target);
        if !partials.is_empty() {
            touches.retain(|t| issue.plan.arguments[t.argument as usize].view != View::Reduce);
            touches.extend(partials.iter().map(|partial| partial.touches(issue, subspace)));
        }
        match (self.prepare(memory, &touches), memory) {
            (Err(Error::DeviceMemory(_)), Some(memory)) => {
                self.spill(memory)?;
                self.prepare(Some(memory), &touches)?;
            }
            (other, _) => other?,
        }
        let waits = self.waits(&touches, place);
        let Issue { node, plan, placed, .. } = *issue;
        let mut part =
            KernelPart::new((self.slots, self.runtime), (node, plan, target), (placed, subspace), phases);
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
        let expected = part.expected();
        // SAFETY: the part borrows the recording and the plan, which live until the run is over, and its
        // buffers are held until then; kernels may run on any thread.
        let task = unsafe { self.tasks.add(waits, expected, self.limited(node, plan, move || part.run())) };
        self.touched(&touches, place, task);
        self.latest().tasks.push((task, number));
        self.ways().push(&Lanes::of(target.device).kernels, task);
        Ok(())
    }

    /// Gives a place room for what is touched there, and what it lacks of it.
    fn prepare(&mut self, memory: Option<&'static DeviceMemory>, touches: &[Touches]) -> Result<(), Error> {
        for touched in touches {
            let array = &mut self.arrays[touched.array as usize];
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            array.prepare(memory, &touched.region, touched.touch, &mut ways)?;
        }
        Ok(())
    }

    /// A device's memory is full, of arrays of this run, too: what it has of them goes, for what comes next.
    /// So a launch whose parts fit one by one runs out of core.
    #[cold]
    fn spill(&mut self, memory: &'static DeviceMemory) -> Result<(), Error> {
        self.ways().drain();
        self.arrays.iter_mut().try_for_each(|array| array.spill(memory))
    }

    /// Work that may take as long as the submission's `Timeout` says.
    fn limited<'w>(
        &self,
        node: &'w Node,
        plan: &'w Plan,
        work: impl FnOnce() -> Result<(), Error> + 'w,
    ) -> Work<'w>
    where
        'r: 'w,
    {
        let (watch, position) = (self.watch, self.launched.last().map_or(0, |latest| latest.position));
        match launch::timeout(node, self.runtime) {
            None => Box::new(work),
            Some(limit) => Box::new(move || {
                let blame = |source| launch::blame(node, plan, position, source);
                asynchronous::timed(limit, watch, blame, work)
            }),
        }
    }

    /// The device for a part that nobody has yet: one with hardly anything to do.
    fn wait_for_one(&mut self, targets: &[Target]) -> u32 {
        let lane = |target: &Target| &Lanes::of(target.device).kernels;
        // The lanes' threads do the work: who drives a lane of kernels itself would not see when another is
        // free. All other lanes are driven, for what the kernels wait for.
        let served = targets.iter().all(|target| lane(target).wake());
        let mut lanes = self.lanes.clone();
        if served {
            lanes.retain(|other| !targets.iter().any(|target| std::ptr::eq(*other, lane(target))));
        }
        drive_until(&lanes, || targets.iter().any(|target| lane(target).waiting() < 2));
        place::first_free(targets)
    }

    /// What a task waits for.
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

    /// Writes down what is about to be written, and refuses what would read poison.
    fn promise(&mut self, plan: &Plan, touches: &[Touches], buffers: &[Buffers]) -> Result<(), Error> {
        for touched in touches.iter().filter(|t| t.touch.reads()) {
            let read = (touched.argument, touched.array, touched.region.clone());
            self.latest().reads.push(read);
        }
        for touched in touches.iter().filter(|t| t.touch.writes()) {
            let own = buffers.iter().find(|b| b.argument == touched.argument).map(|b| b.own);
            let complete = touched.touch == Touch::Write && own.is_none();
            let array = own.unwrap_or(touched.array);
            self.latest().writes.push((array, touched.region.clone(), complete));
        }
        let poisoned = touches
            .iter()
            .find(|t| t.touch.reads() && self.arrays[t.array as usize].directory().poisoned(&t.region));
        match poisoned {
            Some(t) => {
                let argument = plan.descriptor.arguments[t.argument as usize].name.clone();
                Err(Error::Skipped { argument })
            }
            None => Ok(()),
        }
    }

    /// A task touches arrays as said.
    fn touched(&mut self, touches: &[Touches], place: Place, task: TaskRef) {
        for touched in touches {
            let array = &mut self.arrays[touched.array as usize];
            if !touched.touch.writes() {
                array.has_read(place, &touched.region, task);
                continue;
            }
            array.has_written(place, &touched.region, task);
            let directory = array.directory_mut();
            let kept = match touched.touch {
                Touch::WriteSome => directory.poison_in(&touched.region),
                _ => Region::empty(),
            };
            directory.written(place, &touched.region);
            directory.poison(&kept);
        }
    }

    /// Second buffers for phased arguments.
    fn buffers(&mut self, issue: &Issue<'r, '_>) -> SmallVec<[Buffers; 2]> {
        let mut all = SmallVec::new();
        if !issue.plan.phased {
            return all;
        }
        for (i, arg) in self.slots.args_of(issue.node).iter().enumerate() {
            if arg.kind != abi::ARG_PHASED || arg.flags & abi::ARG_FLAG_STAGED != 0 {
                continue;
            }
            let (own, _) = self.array_of(issue.node, i);
            let next = match self.of_second.iter().find(|(of, _)| *of == own) {
                Some((_, second)) => *second,
                None => self.add_second(issue.node, i, own),
            };
            let len = self.arrays[own as usize].header().len() as u64;
            let mut subspaces = issue.placed.subspaces();
            let covered = arg.flags & abi::ARG_FLAG_COVERED != 0
                && arg.len == len
                && subspaces.all(|(_, s)| s.touched[i].covered_by_phase);
            all.push(Buffers { argument: i as u32, own, now: own, next, covered });
        }
        all
    }

    fn add_second(&mut self, node: &Node, i: usize, own: u32) -> u32 {
        let header = self.arrays[own as usize].header();
        let (len, size, shape) = (header.len(), header.element_size(), header.shape().to_vec());
        let data = match self.slots.memory(self.slots.holds_of(node)[i].touched) {
            // SAFETY: the memory is held as a writer.
            Some(memory) => unsafe { memory.second() },
            None => {
                self.scratch.push(vec![0u128; (len * size as usize).div_ceil(16)].into_boxed_slice());
                self.scratch.last_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast())
            }
        };
        let mut second = Array::lent(data, len as u64, size, &shape);
        second.directory_mut().regrid(*self.arrays[own as usize].directory().grid());
        self.arrays.push(second);
        let second = self.arrays.len() as u32 - 1;
        self.of_second.push((own, second));
        second
    }

    /// After a phase that was cut: the buffers change roles, or what was written is copied over.
    fn turn(&mut self, issue: &Issue<'r, '_>, buffers: &mut [Buffers]) -> Result<(), Error> {
        for buffer in buffers {
            match buffer.covered {
                true => std::mem::swap(&mut buffer.now, &mut buffer.next),
                false => self.carry_own(issue, buffer, buffer.next, buffer.now)?,
            }
        }
        Ok(())
    }

    /// After the last phase: what ended in a second buffer goes to the array itself.
    fn back(&mut self, issue: &Issue<'r, '_>, buffers: &[Buffers]) -> Result<(), Error> {
        for buffer in buffers.iter().filter(|b| b.now != b.own) {
            self.carry_own(issue, buffer, buffer.now, buffer.own)?;
        }
        Ok(())
    }

    /// Copies every part's own elements of a phased argument from one of its buffers to the other.
    fn carry_own(
        &mut self,
        issue: &Issue<'r, '_>,
        buffer: &Buffers,
        from: u32,
        to: u32,
    ) -> Result<(), Error> {
        let i = buffer.argument as usize;
        for (subspace, part) in issue.placed.subspaces() {
            let Some(own) = part.touched[i].written else { continue };
            let (region, _) = self.region(issue, i, to, &own);
            let number = issue.placed.targets[subspace].unwrap_or(0);
            let (memory, place) = place_of(&issue.targets[number as usize]);
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            self.arrays[from as usize].prepare(memory, &region, Touch::Read, &mut ways)?;
            self.arrays[to as usize].prepare(memory, &region, Touch::Write, &mut ways)?;
            let mut waits = Waits::default();
            self.arrays[from as usize].wait_to_read(place, &region, buffer.argument, &mut waits);
            self.arrays[to as usize].wait_to_write(place, &region, &mut waits);
            let (source, target) = (&self.arrays[from as usize], &self.arrays[to as usize]);
            let (source_end, target_end) = (source.end(place)?, target.end(place)?);
            let grid = target.directory().grid();
            let transfer = Transfer::between(target.header(), grid, source_end, target_end);
            let expected = region.elements() * target.size() / 10;
            let moved = region.clone();
            // SAFETY: both are buffers of arrays that are held until the run is over; the task waits for all
            // that writes the one or touches the other.
            let work = move || unsafe { transfer.run(&moved) };
            // SAFETY: it borrows nothing, and copies may run on any thread.
            let task = unsafe { self.tasks.add(waits, expected, Box::new(work)) };
            self.arrays[from as usize].has_read(place, &region, task);
            self.arrays[to as usize].has_written(place, &region, task);
            self.arrays[to as usize].directory_mut().written(place, &region);
            self.latest().tasks.push((task, number));
            self.ways().push(&Lanes::of(issue.targets[number as usize].device).kernels, task);
        }
        Ok(())
    }

    /// Accumulators for the blocks of a phase, filled with identities.
    fn partials(&mut self, issue: &Issue<'r, '_>, phase: u64) -> Result<SmallVec<[Partial<'r>; 2]>, Error> {
        let rows = self.slots.order_of(issue.node).phase(phase);
        let all = rows.end - rows.start;
        let mut partials = SmallVec::new();
        for (i, arg) in self.slots.args_of(issue.node).iter().enumerate() {
            let Some(operation) = &issue.plan.arguments[i].operation else { continue };
            let blocks = reduce::blocks(all, arg.len, u64::from(arg.element_size));
            let elements = blocks.count * arg.len;
            let bytes = elements as usize * arg.element_size as usize;
            let lines = bytes.div_ceil(16) + operation.align.div_ceil(16);
            self.scratch.push(vec![0u128; lines].into_boxed_slice());
            let data: *mut u8 =
                self.scratch.last_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast());
            let data = data.wrapping_add(data.align_offset(operation.align));
            // SAFETY: there is room for so many elements, aligned.
            unsafe { reduce::fill(operation, data, elements as usize)? };
            self.arrays.push(Array::lent(data, elements, u64::from(arg.element_size), &[]));
            let array = self.arrays.len() as u32 - 1;
            partials.push(Partial {
                argument: i as u32,
                operation,
                array,
                len: arg.len,
                all,
                rows: blocks.rows,
            });
        }
        Ok(partials)
    }

    /// A launch without items: accumulators that are only written become the identity.
    fn identities(&mut self, node: &'r Node, plan: &'r Plan, target: &'r Target) -> Result<(), Error> {
        for (i, spec) in plan.arguments.iter().enumerate().filter(|(_, a)| a.access == Access::Write) {
            let Some(operation) = &spec.operation else { continue };
            let (array, region) = self.range_of(node, i);
            let touches = [Touches { argument: i as u32, array, region, touch: Touch::Write, second: false }];
            self.promise(plan, &touches, &[])?;
            let waits = self.waits(&touches, Place::HOST);
            let to = self.on_the_host(node, i);
            let len = self.slots.args_of(node)[i].len as usize;
            // SAFETY: the argument's own elements, which are held and which nobody touches before this is done.
            let work = move || unsafe { reduce::fill(operation, to, len) };
            // SAFETY: operations live as long as the plan; the array is there until the run is over.
            let task = unsafe { self.tasks.add(waits, 0, Box::new(work)) };
            self.touched(&touches, Place::HOST, task);
            self.latest().tasks.push((task, 0));
            self.ways().push(&Lanes::of(target.device).copies, task);
        }
        Ok(())
    }

    /// Where an argument's first element is on the host.
    fn on_the_host(&mut self, node: &Node, argument: usize) -> *mut u8 {
        let (array, offset) = self.array_of(node, argument);
        let array = &self.arrays[array as usize];
        array.header().data().wrapping_add((offset * array.size()) as usize)
    }

    /// After a phase: its partial results become one, on the host, which is taken into the result.
    fn merge(&mut self, issue: &Issue<'r, '_>, partial: &Partial<'r>, first: bool) -> Result<(), Error> {
        let i = partial.argument as usize;
        let (result, region) = self.range_of(issue.node, i);
        let access = issue.plan.arguments[i].access;
        let fresh = first && access == Access::Write;
        let all = Region::all(self.arrays[partial.array as usize].directory().grid());
        let touches = [
            Touches {
                argument: i as u32,
                array: partial.array,
                region: all,
                touch: Touch::ReadWrite,
                second: false,
            },
            Touches {
                argument: i as u32,
                array: result,
                region,
                touch: if fresh { Touch::Write } else { Touch::ReadWrite },
                second: false,
            },
        ];
        self.prepare(None, &touches)?;
        let waits = self.waits(&touches, Place::HOST);
        let partials = self.arrays[partial.array as usize].header().data();
        let to = self.on_the_host(issue.node, i);
        let (operation, len) = (partial.operation, partial.len as usize);
        let count = partial.all.div_ceil(partial.rows) as usize;
        let work = move || {
            // SAFETY: filled when they were made, and the kernels are done with them; the result is the
            // argument's own elements, which are held and which nobody touches before this is done.
            unsafe {
                if fresh {
                    reduce::fill(operation, to, len)?;
                }
                reduce::merge(operation, partials, count, len)?;
                reduce::fold(operation, to, partials, len)
            }
        };
        // SAFETY: operations live as long as the plan; the arrays are there until the run is over.
        let task = unsafe { self.tasks.add(waits, partial.len * count as u64, Box::new(work)) };
        self.touched(&touches, Place::HOST, task);
        self.latest().tasks.push((task, 0));
        self.ways().push(&Lanes::of(issue.targets[0].device).copies, task);
        Ok(())
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
                // A host task writes all of it; a failsafe what the kernel would.
                Access::Write if spec.view == View::Whole => Touch::Write,
                Access::Write => Touch::WriteSome,
            };
            touches.push(Touches { argument: i as u32, array, region, touch, second: false });
        }
        self.promise(plan, &touches, &[])?;
        self.prepare(None, &touches)?;
        let waits = self.waits(&touches, Place::HOST);
        let (args, dims) = (self.slots.args_of(node), self.slots.dims_of(node));
        let work = move || failsafe::call(body, plan, args, dims);
        // SAFETY: the recording lives until the run is over; the function is Send and Sync.
        let task = unsafe { self.tasks.add(waits, 0, self.limited(node, plan, work)) };
        self.touched(&touches, Place::HOST, task);
        self.latest().tasks.push((task, u32::MAX));
        drive_until(&self.lanes, || task.get().is_ready());
        task.run();
        changed().notify();
        Ok(())
    }

    /// Bytes of what a submission reads that are at a place because earlier launches put them there.
    pub fn bytes_made_at(&mut self, node: &Node, plan: &Plan, place: Place) -> u64 {
        let mut bytes = 0;
        for (i, spec) in plan.arguments.iter().enumerate() {
            if spec.view == View::Scalar || spec.access == Access::Write {
                continue;
            }
            let (array, region) = self.range_of(node, i);
            let array = &self.arrays[array as usize];
            if place != Place::HOST || array.is_written(place, &region) {
                bytes += array.directory().elements_at(place, &region) * array.size();
            }
        }
        bytes
    }

    /// Everything is issued: waits for it, and settles what failed.
    pub fn finish(mut self, failures: Vec<LaunchError>) -> Vec<LaunchError> {
        self.fetch_slices();
        self.ways().drain();
        super::settle::settle(&mut self, failures)
    }

    /// Slices of the host are the host's again when the run is over.
    fn fetch_slices(&mut self) {
        for at in 0..self.of_slice.len() {
            let array = &mut self.arrays[self.of_slice[at].1 as usize];
            let all = Region::all(array.directory().grid());
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            if let Err(error) = array.prepare(None, &all, Touch::Read, &mut ways)
                && let Some(last) = self.launched.last_mut()
            {
                last.error.get_or_insert(error);
            }
        }
    }
}

impl Drop for Walk<'_> {
    /// Also when something panics: tasks point into what is about to go.
    fn drop(&mut self) {
        self.ways().drain();
    }
}

/// A launch's grid, for regions.
fn grid_of(seen: &LaunchGrid) -> Grid {
    Grid::new(&seen.extents, seen.extents.iter().product())
}
