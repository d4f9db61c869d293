//! Room on devices for what parts touch, and the data in it.
//!
//! A device gets room for as much as possible in one piece, as each growth of a buffer copies it. What has no
//! room is written back first: of arrays of this run by the walk itself, which waits for its own tasks then;
//! for that of others it waits in `distributed/room.rs`.

use super::{PartRequest, PartTouches, Scheduler, Touches};
use crate::error::Error;
use crate::memory::device::DeviceMemory;
use crate::memory::fast_path::FastPathFence;
use crate::runtime::distributed::active_run::ROOM;
use crate::runtime::distributed::arrays::TaskSink;
use crate::runtime::plan::Target;
use flash_types::descriptor::View;
use smallvec::SmallVec;
use std::ops::Range;

/// Per array, the elements from the first to the last that are touched.
type Hulls = SmallVec<[(u32, Range<u64>); 4]>;

impl<'r> Scheduler<'r> {
    /// Makes room on each device for all of this, if it has that much: an idle device takes the next part,
    /// and a part may touch more in later phases. To make more room later, the run would have to wait for the
    /// parts that the device runs.
    pub(super) fn reserve_all(&mut self, targets: &[Target], touches: &[Touches]) {
        let hulls = self.hulls(touches);
        for memory in targets.iter().filter_map(|target| target.device.memory()) {
            self.reserve(memory, &hulls);
        }
    }

    fn reserve(&mut self, memory: &'static DeviceMemory, hulls: &Hulls) {
        let mut ways = TaskSink { tasks: &mut self.tasks, lanes: &mut self.lanes };
        for (array, hull) in hulls {
            // Otherwise the parts get room one by one, or fail with the reason.
            let _ = self.arrays[*array as usize].make_room(memory, hull.clone(), &mut ways);
        }
    }

    /// For each array once.
    fn hulls(&self, touches: &[Touches]) -> Hulls {
        let mut hulls = Hulls::new();
        for touched in touches {
            let hull = touched.region.hull(&self.arrays[touched.array as usize].grid());
            add(&mut hulls, touched.array, hull);
        }
        hulls
    }

    fn bytes(&self, hulls: &Hulls) -> u64 {
        let bytes = |(array, hull): &(u32, Range<u64>)| {
            (hull.end - hull.start).saturating_mul(self.arrays[*array as usize].size())
        };
        hulls.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// True if every device has memory enough for all of this.
    pub(super) fn fit(&self, targets: &[Target], touches: &[Touches]) -> bool {
        let budgets = targets.iter().filter_map(|target| target.device.memory()).map(DeviceMemory::budget);
        budgets.min().is_none_or(|room| self.bytes(&self.hulls(touches)) <= room)
    }

    /// For a launch that streams: if a device has no room for a part, evicts its data, and makes room for
    /// that part and as many of the next ones as fit, in one piece.
    pub(super) fn begin_batch(
        &mut self,
        issue: &PartRequest<'r, '_>,
        PartTouches { subspace, touches, buffers }: &PartTouches<'_>,
        phases: &Range<u64>,
        memory: &'static DeviceMemory,
    ) -> Result<(), Error> {
        // Each part has accumulators of its own.
        let accumulates = |t: &Touches| issue.plan.arguments[t.argument as usize].view == View::Reduce;
        let of_part = |mut touches: SmallVec<[Touches; 4]>| {
            touches.retain(|touched| !accumulates(touched));
            touches
        };
        let mut hulls = self.hulls(touches);
        hulls.retain(|(array, _)| touches.iter().any(|t| t.array == *array && !accumulates(t)));
        let has_room = |(array, hull): &(u32, Range<u64>)| {
            let directory = self.arrays[*array as usize].directory();
            directory.copy(memory.place()).is_some_and(|copy| copy.has_room(hull))
        };
        if hulls.iter().all(has_room) {
            return Ok(());
        }
        self.spill(memory)?;
        // Not to the last byte: buffers are a little larger than their contents.
        let room = memory.budget() - memory.budget() / 16;
        for next in *subspace + 1..issue.placed.parts.subspaces.len() {
            let more = of_part(self.touches(issue, next, phases, buffers));
            let mut larger = hulls.clone();
            self.hulls(&more).into_iter().for_each(|(array, hull)| add(&mut larger, array, hull));
            if self.bytes(&larger) > room {
                break;
            }
            hulls = larger;
        }
        self.reserve(memory, &hulls);
        Ok(())
    }

    /// Makes room at a place for what is touched there, and copies the missing data. If its memory is full of
    /// arrays of this run, they are evicted; if others use it, waits until they are done.
    pub fn make_current(
        &mut self,
        memory: Option<&'static DeviceMemory>,
        touches: &[Touches],
    ) -> Result<(), Error> {
        match (self.prepare(memory, touches), memory) {
            (Err(Error::DeviceMemory(_)), Some(memory)) => self.make_room(memory, touches),
            (other, _) => other,
        }
    }

    #[cold]
    fn make_room(&mut self, memory: &'static DeviceMemory, touches: &[Touches]) -> Result<(), Error> {
        self.spill(memory)?;
        let mut fence: Option<FastPathFence> = None;
        loop {
            if let Some(fence) = &mut fence {
                fence.settle();
            }
            let before = ROOM.before();
            let error = match self.prepare(Some(memory), touches) {
                Err(error @ Error::DeviceMemory(_)) => error,
                other => return other,
            };
            if self.bytes(&self.hulls(touches)) > memory.budget() {
                return Err(error);
            }
            for memory in self.runtime.devices.iter().filter_map(|device| device.memory()) {
                self.spill(memory)?;
            }
            if !ROOM.wait(before) {
                // Some launches are not counted: it tries once more without them.
                match &fence {
                    Some(fence) if fence.was_undisturbed() => return Err(error),
                    Some(_) => {}
                    None => fence = Some(FastPathFence::begin()),
                }
            }
        }
    }

    /// Makes room at a place for what is touched there, and copies the missing data.
    pub(super) fn prepare(
        &mut self,
        memory: Option<&'static DeviceMemory>,
        touches: &[Touches],
    ) -> Result<(), Error> {
        for touched in touches {
            let array = &mut self.arrays[touched.array as usize];
            let mut ways = TaskSink { tasks: &mut self.tasks, lanes: &mut self.lanes };
            array.prepare(memory, &touched.region, touched.touch, &mut ways)?;
        }
        Ok(())
    }

    /// A device's memory is full, of arrays of this run, too: evicts them, to make room. So a launch whose
    /// parts fit one by one runs out of core.
    #[cold]
    fn spill(&mut self, memory: &'static DeviceMemory) -> Result<(), Error> {
        self.arrays.iter_mut().for_each(|array| array.pins.clear());
        self.ways().drain();
        let lanes = &self.lanes;
        self.arrays.iter_mut().try_for_each(|array| array.spill(memory, lanes))
    }
}

/// Adds elements of an array to those that are touched.
fn add(hulls: &mut Hulls, array: u32, hull: Range<u64>) {
    match hulls.iter_mut().find(|(known, _)| *known == array) {
        _ if hull.is_empty() => {}
        Some((_, all)) => *all = all.start.min(hull.start)..all.end.max(hull.end),
        None => hulls.push((array, hull)),
    }
}
