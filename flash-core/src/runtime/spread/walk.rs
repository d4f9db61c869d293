//! The walk through a pipeline's submissions: each becomes parts, with the copies that they lack before
//! them, in the lanes of devices.

use super::arrays::{Array, Touch, Ways};
use super::lane::{Lane, Lanes, drive_until};
use super::part::{KernelPart, OrderOf};
use super::place::{self, Piece};
use super::task::{TaskRef, Tasks, Waits};
use crate::abi;
use crate::descriptor::{Access, Use, View};
use crate::error::Error;
use crate::memory::device::DeviceMemory;
use crate::memory::directory::Place;
use crate::memory::region::{Grid, Region};
use crate::runtime::plan::{Plan, Target};
use crate::runtime::record::{Hold, Node, Slots};
use crate::runtime::{HostArgs, Runtime};
use smallvec::SmallVec;
use std::ops::Range;

/// When so many tasks wait, the walk helps to run them before it goes on.
const RUN_AHEAD: usize = 256;

/// The walk.
pub(super) struct Walk<'r> {
    pub slots: &'r Slots,
    pub runtime: &'r Runtime,
    pub arrays: Vec<Array<'r>>,
    /// By index among the memories touched.
    of_memory: Vec<Option<u32>>,
    /// By address.
    of_slice: Vec<(*mut u8, u32)>,
    pub tasks: Tasks,
    pub lanes: SmallVec<[&'static Lane; 8]>,
    pub launched: Vec<Launched>,
    /// Second buffers of slices.
    scratch: Vec<Box<[u128]>>,
}

/// What became of a submission so far.
pub(super) struct Launched {
    pub position: usize,
    /// With the target that runs it.
    pub tasks: SmallVec<[(TaskRef, u32); 4]>,
    /// It failed before it was put into a lane.
    pub error: Option<Error>,
    /// What it writes: array, region, and whether all of that is written.
    pub writes: SmallVec<[(u32, Region, bool); 4]>,
}

/// How a piece touches an array.
struct Touches {
    argument: u32,
    array: u32,
    region: Region,
    touch: Touch,
    /// It is the second buffer of the argument.
    second: bool,
}

/// The two buffers of a phased argument.
#[derive(Clone, Copy)]
struct Buffers {
    argument: u32,
    /// The array as a phase finds it, and the one that takes its writes; they change roles.
    now: u32,
    next: u32,
    /// Every element is some item's own in every phase.
    covered: bool,
}

impl<'r> Walk<'r> {
    pub fn new(slots: &'r Slots, runtime: &'r Runtime) -> Walk<'r> {
        let mut walk = Walk {
            slots,
            runtime,
            arrays: Vec::new(),
            of_memory: (0..slots.memories()).map(|_| None).collect(),
            of_slice: Vec::new(),
            tasks: Tasks::default(),
            lanes: SmallVec::new(),
            launched: Vec::new(),
            scratch: Vec::new(),
        };
        // In the order of addresses, in which everybody locks directories.
        let own_memory = runtime.has_device_memory();
        let _ = slots.visit_memories(|index, memory, written| {
            walk.of_memory[index as usize] = Some(walk.arrays.len() as u32);
            walk.arrays.push(Array::of_memory(memory, written || own_memory));
            Ok(())
        });
        walk
    }

    /// Puts a submission into lanes.
    pub fn issue(&mut self, position: usize, node: &'r Node) {
        self.launched.push(Launched {
            position,
            tasks: SmallVec::new(),
            error: None,
            writes: SmallVec::new(),
        });
        if let Err(error) = self.try_issue(node) {
            self.fail(error);
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
    fn fail(&mut self, error: Error) {
        let writes = std::mem::take(&mut self.latest().writes);
        for (array, region, _) in &writes {
            self.arrays[*array as usize].directory_mut().poison(region);
        }
        let latest = self.latest();
        latest.writes = writes;
        latest.error.get_or_insert(error);
    }

    fn try_issue(&mut self, node: &'r Node) -> Result<(), Error> {
        let (plan, order) = (node.plan(), self.slots.order_of(node));
        let targets = match plan.targets() {
            Ok(targets) => targets,
            Err(error) => return self.on_host(node, plan, error),
        };
        if order.items() == 0 {
            return Ok(());
        }
        let pieces = place::pieces(self, node, plan, targets)?;
        let (cut, phases) = (pieces.len() > 1, order.phases());
        let mut buffers = self.buffers(node, plan, &pieces, targets)?;
        let rounds = if cut && phases > 1 { phases } else { 1 };
        for round in 0..rounds {
            let phases = if rounds > 1 { round..round + 1 } else { 0..phases };
            for piece in &pieces {
                self.issue_piece(node, plan, &targets[piece.target as usize], piece, phases.clone(), cut, &buffers)?;
            }
            if cut {
                self.turn(node, plan, targets, &pieces, &mut buffers)?;
            }
        }
        self.back(&buffers, targets, &pieces)
    }

    /// The array of an argument, and its element that is the argument's first.
    fn array_of(&mut self, arg: &abi::Arg, hold: &Hold) -> (u32, u64) {
        let size = u64::from(arg.element_size);
        if hold.touched != Hold::NONE {
            let array = self.of_memory[hold.touched as usize].expect("every memory of the recording has one");
            let bytes = (arg.data as usize).wrapping_sub(self.arrays[array as usize].host as usize) as u64;
            return (array, bytes.checked_div(size).unwrap_or(0));
        }
        let host = arg.data.cast();
        if let Some((_, array)) = self.of_slice.iter().find(|(known, array)| {
            *known == host && self.arrays[*array as usize].directory().grid().elements() >= arg.len
        }) {
            return (*array, 0);
        }
        let array = self.arrays.len() as u32;
        self.arrays.push(Array::of_host(host, arg.len, size, None));
        self.of_slice.push((host, array));
        (array, 0)
    }

    /// What a piece touches in some phases. `buffers`: roles of phased arguments that are cut.
    fn touches(
        &mut self,
        node: &Node,
        plan: &Plan,
        piece: &Piece<'r>,
        phases: &Range<u64>,
        cut: bool,
        buffers: &[Buffers],
    ) -> SmallVec<[Touches; 8]> {
        let mut all = SmallVec::new();
        let args = self.slots.args_of(node);
        for (i, (arg, spec)) in args.iter().zip(&plan.arguments).enumerate() {
            if spec.view == View::Scalar {
                continue;
            }
            let hold = &self.slots.holds_of(node)[i];
            let (array, offset) = self.array_of(arg, hold);
            let of = &piece.boxes[i];
            let mut add = |walk: &mut Self, array: u32, block, touch, second| {
                let (region, just) = walk.arrays[array as usize].region_of(block, &of.grid, offset);
                let touch = if touch == Touch::Write && !(just && of.exact) { Touch::WriteSome } else { touch };
                all.push(Touches { argument: i as u32, array, region, touch, second });
            };
            match (spec.view, spec.access) {
                (View::Phased, _) if spec.stages.is_some() => {
                    let touch = self.stage_touch(node, spec.stages.as_ref(), phases);
                    let block = if touch == Touch::Read || !cut { &of.reads } else { &of.own };
                    add(self, array, block, touch, false);
                }
                (View::Phased, _) => {
                    match buffers.iter().find(|b| b.argument == i as u32) {
                        Some(&Buffers { now, next, .. }) if cut => {
                            add(self, now, &of.reads, Touch::Read, false);
                            add(self, next, &of.own, Touch::Write, true);
                        }
                        Some(&Buffers { now, next, .. }) => {
                            add(self, now, &of.reads, Touch::ReadWrite, false);
                            add(self, next, &of.reads, Touch::Write, true);
                        }
                        None => {}
                    };
                }
                (_, Access::Read) => add(self, array, &of.reads, Touch::Read, false),
                (View::Scatter, _) | (_, Access::ReadWrite) => {
                    add(self, array, &of.own, Touch::ReadWrite, false)
                }
                (_, Access::Write) => add(self, array, &of.own, Touch::Write, false),
            }
        }
        all
    }

    /// What the declared use of a phased argument means for some phases.
    fn stage_touch(
        &self,
        node: &Node,
        stages: Option<&(usize, Vec<Use>)>,
        phases: &Range<u64>,
    ) -> Touch {
        let (Some((dimension, uses)), true) = (stages, phases.end - phases.start == 1) else {
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

    /// Puts a piece of a submission into the lane of its device.
    #[allow(clippy::too_many_arguments)] // what a piece is
    fn issue_piece(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        target: &'r Target,
        piece: &Piece<'r>,
        phases: Range<u64>,
        cut: bool,
        buffers: &[Buffers],
    ) -> Result<(), Error> {
        let touches = self.touches(node, plan, piece, &phases, cut, buffers);
        let memory = DeviceMemory::of(target.device);
        let place = memory.map_or(Place::HOST, DeviceMemory::place);
        self.promise(plan, &touches)?;
        for touched in &touches {
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            let array = &mut self.arrays[touched.array as usize];
            array.prepare(memory, &touched.region, touched.touch, &mut ways)?;
        }
        let mut waits = Waits::default();
        for touched in &touches {
            let array = &mut self.arrays[touched.array as usize];
            if touched.touch.reads() {
                array.wait_to_read(place, &touched.region, touched.argument, &mut waits);
            }
            if touched.touch.writes() {
                array.wait_to_write(place, &touched.region, &mut waits);
            }
        }
        let mut part = KernelPart::new(self.slots, self.runtime, node, plan, target, piece, phases);
        for touched in &touches {
            let args = self.slots.args_of(node);
            let hold = &self.slots.holds_of(node)[touched.argument as usize];
            let (_, offset) = self.array_of(&args[touched.argument as usize], hold);
            part.place(touched.argument, touched.second, &self.arrays[touched.array as usize], place, offset, cut);
        }
        let expected = part.expected();
        let work = move || part.run();
        // SAFETY: the part borrows the recording and the plan, which live until the run is over, and its
        // buffers are held until then; kernels may run on any thread.
        let task = unsafe { self.tasks.add(waits, expected, Box::new(work)) };
        for touched in &touches {
            self.touched(touched, place, task);
        }
        self.latest().tasks.push((task, piece.target));
        let lane = &Lanes::of(target.device.id()).kernels;
        Ways { tasks: &mut self.tasks, lanes: &mut self.lanes }.push(lane, task);
        Ok(())
    }

    /// Writes down what is about to be written, and refuses what would read poison.
    fn promise(&mut self, plan: &Plan, touches: &[Touches]) -> Result<(), Error> {
        for touched in touches.iter().filter(|t| t.touch.writes() && !t.second) {
            let complete = touched.touch != Touch::WriteSome;
            self.latest().writes.push((touched.array, touched.region.clone(), complete));
        }
        let poisoned = touches.iter().find(|t| {
            t.touch.reads() && self.arrays[t.array as usize].directory().poisoned(&t.region)
        });
        match poisoned {
            Some(t) => Err(Error::Skipped {
                argument: plan.descriptor.arguments[t.argument as usize].name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// A task touches an array as said.
    fn touched(&mut self, touched: &Touches, place: Place, task: TaskRef) {
        let array = &mut self.arrays[touched.array as usize];
        if touched.touch.writes() {
            array.has_written(place, &touched.region, task);
            let directory = array.directory_mut();
            let kept = match touched.touch {
                Touch::WriteSome => directory.poison_of(&touched.region),
                _ => Region::empty(),
            };
            directory.written(place, &touched.region);
            directory.poison(&kept);
        } else {
            array.has_read(place, &touched.region, task);
        }
    }

    /// Second buffers for phased arguments.
    fn buffers(
        &mut self,
        node: &Node,
        plan: &Plan,
        pieces: &[Piece<'r>],
        _targets: &[Target],
    ) -> Result<SmallVec<[Buffers; 2]>, Error> {
        let mut all = SmallVec::new();
        if !plan.phased {
            return Ok(all);
        }
        for (i, arg) in self.slots.args_of(node).iter().enumerate() {
            if arg.kind != abi::ARG_PHASED || arg.flags & abi::ARG_FLAG_STAGED != 0 {
                continue;
            }
            let hold = &self.slots.holds_of(node)[i];
            let (now, offset) = self.array_of(arg, hold);
            let host = match self.slots.memory(hold.touched) {
                // SAFETY: the memory is held as a writer; the argument lies in it, and so does the same place
                // of the second buffer.
                Some(header) => unsafe { header.second() },
                None => {
                    let bytes = arg.len as usize * arg.element_size as usize;
                    self.scratch.push(vec![0u128; bytes.div_ceil(16)].into_boxed_slice());
                    self.scratch.last_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr().cast())
                }
            };
            debug_assert!(offset == 0 || hold.touched != Hold::NONE);
            let next = match self.arrays.iter().position(|a| a.host == host && a.header.is_none()) {
                Some(known) => known as u32,
                None => {
                    let array = &self.arrays[now as usize];
                    let grid = *array.directory().grid();
                    let size = array.size;
                    self.arrays.push(Array::of_host(host, grid.elements(), size, Some(grid)));
                    self.arrays.len() as u32 - 1
                }
            };
            let covered = arg.flags & abi::ARG_FLAG_COVERED != 0
                && pieces.iter().all(|piece| piece.boxes[i].exact)
                && offset == 0
                && arg.len == self.arrays[now as usize].directory().grid().elements();
            all.push(Buffers { argument: i as u32, now, next, covered });
        }
        Ok(all)
    }

    /// After a phase that was cut: the buffers change roles, or what was written is copied over.
    fn turn(
        &mut self,
        node: &Node,
        _plan: &Plan,
        targets: &[Target],
        pieces: &[Piece<'r>],
        buffers: &mut [Buffers],
    ) -> Result<(), Error> {
        for buffer in buffers {
            if buffer.covered {
                std::mem::swap(&mut buffer.now, &mut buffer.next);
                continue;
            }
            let i = buffer.argument as usize;
            let (_, offset) = self.array_of(&self.slots.args_of(node)[i], &self.slots.holds_of(node)[i]);
            for piece in pieces {
                let of = &piece.boxes[i];
                let (region, _) = self.arrays[buffer.next as usize].region_of(&of.own, &of.grid, offset);
                let memory = DeviceMemory::of(targets[piece.target as usize].device);
                self.carry(buffer.next, buffer.now, &region, memory, targets[piece.target as usize].device.id())?;
            }
        }
        Ok(())
    }

    /// After the last phase: what is in a second buffer goes to the array itself.
    fn back(&mut self, buffers: &[Buffers], targets: &[Target], pieces: &[Piece<'r>]) -> Result<(), Error> {
        for buffer in buffers.iter().filter(|b| self.arrays[b.now as usize].header.is_none() && b.covered) {
            // The roles are swapped if the array itself is `next`.
            if self.is_second(buffer.now) {
                for piece in pieces {
                    let target = &targets[piece.target as usize];
                    let memory = DeviceMemory::of(target.device);
                    let place = memory.map_or(Place::HOST, DeviceMemory::place);
                    let from = &self.arrays[buffer.now as usize];
                    let here = from.directory().only_at(place);
                    self.carry(buffer.now, buffer.next, &here, memory, target.device.id())?;
                }
            }
        }
        Ok(())
    }

    fn is_second(&self, array: u32) -> bool {
        self.arrays[array as usize].header.is_none() && !self.of_slice.iter().any(|(_, known)| *known == array)
    }

    /// Copies a region from one array to another at one place, in the kernels' lane of a device.
    fn carry(
        &mut self,
        from: u32,
        to: u32,
        region: &Region,
        memory: Option<&'static DeviceMemory>,
        device: &'static str,
    ) -> Result<(), Error> {
        if region.is_empty() {
            return Ok(());
        }
        let place = memory.map_or(Place::HOST, DeviceMemory::place);
        let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
        self.arrays[to as usize].prepare(memory, region, Touch::Write, &mut ways)?;
        let mut waits = Waits::default();
        self.arrays[from as usize].wait_to_read(place, region, 0, &mut waits);
        self.arrays[to as usize].wait_to_write(place, region, &mut waits);
        let (source, target) = (self.arrays[from as usize].side(place), self.arrays[to as usize].side(place));
        let (grid, size) = (*self.arrays[to as usize].directory().grid(), self.arrays[to as usize].size);
        let moved = region.clone();
        let expected = moved.elements() * size / 10;
        let work = move || DeviceMemory::copy(&source, &target, &grid, &moved, size);
        // SAFETY: both are buffers of arrays that are held until the run is over; the task waits for all that
        // writes the one or touches the other.
        let task = unsafe { self.tasks.add(waits, expected, Box::new(work)) };
        self.arrays[from as usize].has_read(place, region, task);
        let to = &mut self.arrays[to as usize];
        to.has_written(place, region, task);
        to.directory_mut().written(place, region);
        self.latest().tasks.push((task, 0));
        Ways { tasks: &mut self.tasks, lanes: &mut self.lanes }.push(&Lanes::of(device).kernels, task);
        Ok(())
    }

    /// Nothing implements the kernel: its failsafe runs here, on the host's arrays.
    fn on_host(&mut self, node: &'r Node, plan: &'r Plan, error: Error) -> Result<(), Error> {
        let Some(body) = node.extra.as_ref().and_then(|e| e.failsafe.as_ref()) else {
            return Err(error);
        };
        let args = self.slots.args_of(node);
        let mut touches: SmallVec<[Touches; 8]> = SmallVec::new();
        for (i, (arg, spec)) in args.iter().zip(&plan.arguments).enumerate() {
            if spec.view == View::Scalar {
                continue;
            }
            let (array, offset) = self.array_of(arg, &self.slots.holds_of(node)[i]);
            let grid = *self.arrays[array as usize].directory().grid();
            let region = Region::of_range(&grid, offset..offset + arg.len);
            let touch = match spec.access {
                Access::Read => Touch::Read,
                Access::ReadWrite => Touch::ReadWrite,
                Access::Write => Touch::WriteSome,
            };
            touches.push(Touches { argument: i as u32, array, region, touch, second: false });
        }
        self.promise(plan, &touches)?;
        for touched in &touches {
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            self.arrays[touched.array as usize].prepare(None, &touched.region, touched.touch, &mut ways)?;
        }
        let mut waits = Waits::default();
        for touched in &touches {
            let array = &mut self.arrays[touched.array as usize];
            if touched.touch.reads() {
                array.wait_to_read(Place::HOST, &touched.region, touched.argument, &mut waits);
            }
            if touched.touch.writes() {
                array.wait_to_write(Place::HOST, &touched.region, &mut waits);
            }
        }
        let dims = self.slots.dims_of(node);
        let work = move || body(&mut HostArgs::new(plan, args, dims));
        // SAFETY: the recording lives until the run is over; the function is Send and Sync.
        let task = unsafe { self.tasks.add(waits, 0, Box::new(work)) };
        for touched in &touches {
            self.touched(touched, Place::HOST, task);
        }
        self.latest().tasks.push((task, u32::MAX));
        drive_until(&self.lanes, || task.get().is_ready());
        task.run();
        super::lane::CHANGED.notify();
        Ok(())
    }

    /// Where most bytes of what a submission reads are current, among some places.
    pub fn bytes_at(&mut self, node: &Node, plan: &Plan, place: Place) -> u64 {
        let mut bytes = 0;
        for (i, (arg, spec)) in self.slots.args_of(node).iter().zip(&plan.arguments).enumerate() {
            if spec.view == View::Scalar || spec.access == Access::Write {
                continue;
            }
            let (array, offset) = self.array_of(arg, &self.slots.holds_of(node)[i]);
            let array = &self.arrays[array as usize];
            let region = Region::of_range(array.directory().grid(), offset..offset + arg.len);
            bytes += array.directory().elements_at(place, &region) * array.size;
        }
        bytes
    }

    /// Everything is issued: waits for it, and settles what failed.
    pub fn finish(mut self, failures: Vec<crate::error::LaunchError>) -> Vec<crate::error::LaunchError> {
        self.fetch_slices();
        self.drain();
        super::settle::settle(&mut self, failures)
    }

    pub fn drain(&mut self) {
        Ways { tasks: &mut self.tasks, lanes: &mut self.lanes }.drain();
    }

    /// Slices of the host are the host's again when the run is over.
    fn fetch_slices(&mut self) {
        for at in 0..self.of_slice.len() {
            let array = &mut self.arrays[self.of_slice[at].1 as usize];
            let all = Region::all(array.directory().grid());
            let mut ways = Ways { tasks: &mut self.tasks, lanes: &mut self.lanes };
            // Errors of copies from a device are the tasks', which `settle` sees.
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
        self.drain();
    }
}

/// The order of a piece.
pub(super) fn order_of<'r>(slots: &'r Slots, node: &Node) -> OrderOf<'r> {
    OrderOf::Whole(slots.order_of(node))
}

/// The grid of an argument that is taken as it lies.
pub(super) fn flat(len: u64) -> Grid {
    Grid::new(&[], len)
}
