//! One device with a memory of its own, and all that a launch touches is there: nothing is to be copied, and
//! nothing to be written down. Submissions go to the device one after another, from the caller; a device whose
//! queue runs on without the host gets the next one before it is done with the last.
//!
//! The first submission for which that is not so, and all after it, go the long way (`spread/`).

use super::launch::{self, ToDevice, complete};
use super::plan::Plan;
use super::record::{Hold, Node, Slots};
use super::spread::{self, Lanes};
use super::{Runtime, asynchronous, asynchronous::Watch};
use crate::abi::{self, Arg};
use crate::backend::DeviceHandle;
use crate::descriptor::Access;
use crate::error::{Error, LaunchError};
use crate::index::{Order, SpaceRef, SpaceView};
use crate::memory::Header;
use crate::memory::device::{DeviceMemory, LastUse};
use crate::memory::home::{AtHome, Home};
use crate::memory::region::{Block, Grid};
use smallvec::SmallVec;
use std::ops::Range;
use std::time::Instant;

/// So many launches may be on a device before the host waits for the older half of them.
const RUN_AHEAD: usize = 256;

/// What a submission touches of an argument, when it runs whole.
pub(crate) struct Near {
    /// As the kernel is told of it, but for where the buffer begins.
    pub part: abi::Part,
    pub block: Block,
    /// The launch's grid, of `block`.
    pub seen: Grid,
    /// That grid is all of the argument's memory.
    all: bool,
    /// `block` without gaps: the elements, counted from the argument's first.
    range: Option<Range<u64>>,
    /// Every element of `block` is some item's own.
    pub covered: bool,
}

/// Runs submissions from the first on, as far as they can go this way. Returns how many were run, and which
/// of those failed.
pub(super) fn run(slots: &Slots, runtime: &Runtime, watch: Option<&Watch>) -> (usize, Vec<LaunchError>) {
    let [device] = &runtime.devices[..] else { return (0, Vec::new()) };
    let Some(memory) = device.memory() else { return (0, Vec::new()) };
    // Others' work has its place in the lane, before this or behind it.
    if !Lanes::of(device).kernels.is_idle() {
        return (0, Vec::new());
    }
    let mut run = Run { slots, runtime, device, memory, shared: SmallVec::new(), pending: SmallVec::new() };
    let mut failed = Vec::new();
    // Chains have few orders: mostly it is that of the submission before.
    let mut last: Option<(&Order, SpaceView<'_>)> = None;
    let mut done = 0;
    for (position, node) in slots.nodes().iter().enumerate() {
        let order = slots.order_of(node);
        let space = match &last {
            Some((before, view)) if std::ptr::eq(*before, order) => view.get(),
            _ => last.insert((order, order.view())).1.get(),
        };
        match run.launch(node, space, watch, position) {
            Some(Ok(())) => done += 1,
            Some(Err(error)) => {
                failed.push((position, error));
                done += 1;
                break;
            }
            None => break,
        }
        if run.pending.len() >= RUN_AHEAD {
            run.complete(RUN_AHEAD / 2, &mut failed);
        }
        if !failed.is_empty() {
            break;
        }
    }
    run.complete(run.pending.len(), &mut failed);
    (done, run.settle(done, failed))
}

struct Run<'a> {
    slots: &'a Slots,
    runtime: &'a Runtime,
    device: &'static DeviceHandle,
    memory: &'static DeviceMemory,
    /// Homes of memories that others may read meanwhile.
    shared: SmallVec<[&'a Home; 8]>,
    /// Launches that are not known to be done, by position.
    pending: SmallVec<[(usize, *mut abi::Event); 8]>,
}

impl<'a> Run<'a> {
    /// `None`: it cannot go this way, and nothing was done.
    fn launch(
        &mut self,
        node: &'a Node,
        space: SpaceRef<'_>,
        watch: Option<&Watch>,
        position: usize,
    ) -> Option<Result<(), Error>> {
        let plan = node.plan();
        let target = match plan.targets() {
            Ok([target]) if plan.runs_plainly() => target,
            _ => return None,
        };
        let touched = self.slots.near_of(node, || of(self.slots, node, plan))?;
        let mut args: SmallVec<[Arg; 8]> = SmallVec::from_slice(self.slots.args_of(node));
        let mut parts: SmallVec<[abi::Part; 8]> = touched.iter().map(|near| near.part).collect();
        let now = LastUse::now();
        let arguments = args.iter_mut().zip(&mut parts).zip(self.slots.holds_of(node)).zip(touched);
        for (((arg, part), hold), near) in arguments {
            if near.block.is_empty() {
                if arg.kind != abi::ARG_SCALAR {
                    return None;
                }
                continue;
            }
            let (header, home) = self.home_of(hold)?;
            let writes = arg.access != abi::ACCESS_READ;
            let first = first_of(arg, header);
            let in_range = |range: &Range<u64>| home.has_range(&(range.start + first..range.end + first));
            let there = *home.memory == *self.memory
                && (near.range.as_ref().is_some_and(in_range)
                    || (near.all && home.has(&near.block, &near.seen)));
            if !there || (writes && !home.only) {
                return None;
            }
            home.last_use.set(now);
            place(arg, part, first, home, header.element_size());
        }
        let (attributes, profile) = launch::extras(node, self.runtime);
        let phases = 0..space.phases();
        let launch = ToDevice { plan, target, space, phases, attributes, profile, position, cut: false };
        let limit = launch::timeout(node, self.runtime);
        let outcome = match (limit, profile) {
            (None, None) => launch.begin(&args).map(|event| match event {
                Some(event) => self.pending.push((position, event)),
                None if self.pending.is_empty() => self.end_shared(),
                None => {}
            }),
            _ => {
                let run = || {
                    launch.timed(|launch, nanoseconds| launch.send(&args, launch.phases.clone(), nanoseconds))
                };
                match limit {
                    None => run(),
                    Some(limit) => {
                        let blame = |source| launch::blame(node, plan, position, source);
                        asynchronous::timed(limit, Instant::now(), watch, blame, run)
                    }
                }
            }
        };
        Some(outcome)
    }

    fn home_of(&mut self, hold: &Hold) -> Option<(&'a Header, &'a AtHome)> {
        let header = self.slots.memory(hold.touched)?;
        if self.slots.is_written(hold.touched) {
            return Some((header, header.home.alone()?));
        }
        let home = header.home.share()?;
        self.shared.push(&header.home);
        Some((header, home))
    }

    /// Waits for the first `count` of the launches on their way.
    fn complete(&mut self, count: usize, failed: &mut Vec<(usize, Error)>) {
        // The last one first: with it all of them are done.
        let mut outcomes: SmallVec<[(usize, Error); 4]> = SmallVec::new();
        for (position, event) in self.pending.drain(..count).rev() {
            // SAFETY: an event of this device's backend, given back once.
            if let Err(error) = unsafe { complete(self.device, event, None) } {
                outcomes.push((position, error));
            }
        }
        failed.extend(outcomes);
        failed.sort_by_key(|(position, _)| *position);
        if self.pending.is_empty() {
            self.end_shared();
        }
    }

    fn end_shared(&mut self) {
        self.shared.drain(..).for_each(Home::end);
    }

    /// What failed poisons what it should have written. Who came after it and read that is left out after all.
    fn settle(&self, done: usize, failed: Vec<(usize, Error)>) -> Vec<LaunchError> {
        let Some((first, _)) = failed.first() else { return Vec::new() };
        let (first, mut failures) = (*first, Vec::new());
        let mut failed = failed.into_iter().peekable();
        for (position, node) in self.slots.nodes().iter().enumerate().take(done).skip(first) {
            let own = failed.next_if(|(at, _)| *at == position).map(|(_, error)| error);
            let error = own.or_else(|| self.reads_poison(node));
            if let Some(source) = error {
                failures.push(launch::failed(self.slots, node, position, source));
                continue;
            }
            for (header, range, i) in self.ranges(node) {
                if node.plan().arguments[i].access == Access::Write && self.slots.holds_of(node)[i].complete {
                    header.heal(range);
                }
            }
        }
        failures
    }

    fn reads_poison(&self, node: &'a Node) -> Option<Error> {
        let plan = node.plan();
        let mut read = self.ranges(node).filter(|(.., i)| plan.arguments[*i].access != Access::Write);
        let (.., i) = read.find(|(header, range, _)| header.poisoned(range.clone()))?;
        Some(Error::Skipped { argument: plan.descriptor.arguments[i].name.clone() })
    }

    /// The memories of a submission's arguments, what the arguments are of them, and their numbers.
    fn ranges(&self, node: &'a Node) -> impl Iterator<Item = (&'a Header, Range<u64>, usize)> {
        let (slots, args) = (self.slots, self.slots.args_of(node));
        slots.holds_of(node).iter().enumerate().filter_map(move |(i, hold)| {
            let header = slots.memory(hold.touched)?;
            let start = first_of(&args[i], header);
            Some((header, start..start + args[i].len, i))
        })
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        debug_assert!(self.pending.is_empty(), "a run ends after its launches");
        self.end_shared();
    }
}

/// The element of a memory that is an argument's first.
#[inline]
fn first_of(arg: &Arg, header: &Header) -> u64 {
    let bytes = (arg.data as usize).wrapping_sub(header.data() as usize) as u64;
    // Mostly it is all of the memory: divisions are slow.
    if bytes == 0 { 0 } else { bytes / header.element_size().max(1) }
}

/// Puts in where an argument finds its elements: from element `first` of the array on.
#[inline]
fn place(arg: &mut Arg, part: &mut abi::Part, first: u64, home: &AtHome, size: u64) {
    arg.space = home.buffer.space;
    arg.buffer = home.buffer.handle;
    // Modulo 2^64: the buffer may begin on either side of the argument's first element.
    part.origin = home.first.wrapping_sub(first);
    arg.data = match home.memory.has_addresses() {
        true => {
            let first = home.buffer.handle.wrapping_sub(part.origin.wrapping_mul(size));
            std::ptr::with_exposed_provenance_mut(first as usize)
        }
        false => std::ptr::null_mut(),
    };
    arg.part = part;
}

/// What a submission touches when it runs whole, per argument. `None`: that cannot be said.
#[cold]
pub(super) fn of(slots: &Slots, node: &Node, plan: &Plan) -> Option<Box<[Near]>> {
    let parts = spread::whole_parts(slots, node, plan).ok()?;
    let [subspace] = &parts.subspaces[..] else { return None };
    let near = slots.args_of(node).iter().enumerate().map(|(i, arg)| {
        let (touched, grid) = (&subspace.touched[i], &parts.grids[i]);
        let part = spread::part_of(arg, grid, touched, plan.whole);
        let (seen, block) = match touched.hull().filter(|_| !plan.whole) {
            Some(hull) => {
                let seen = Grid::new(&grid.extents, grid.extents.iter().product());
                (seen, Block { begin: hull.begin, end: hull.end })
            }
            None if touched.read.is_none() && touched.written.is_none() => {
                (Grid::new(&[], 0), Block { begin: [0; 3], end: [0; 3] })
            }
            None => {
                let seen = Grid::new(&[], arg.len);
                (seen, seen.block())
            }
        };
        let memory = slots.memory(slots.holds_of(node)[i].touched);
        let all = memory.is_some_and(|memory| memory.len() as u64 == arg.len) && seen.elements() == arg.len;
        let hull = block.hull(&seen);
        let range = (hull.end - hull.start == block.elements()).then_some(hull);
        Near { part, block, seen, all, range, covered: touched.covered && !plan.whole }
    });
    Some(near.collect())
}
