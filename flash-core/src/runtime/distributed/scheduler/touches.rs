//! The uses of arrays by a part of a submission: regions, and kinds of access.

use super::phased::Buffers;
use super::{PartRequest, Scheduler, Touches};
use crate::error::Error;
use crate::memory::directory::Place;
use crate::memory::region::{Grid, GridBox, Region};
use crate::runtime::distributed::arrays::{Array, TaskSink, Touch};
use crate::runtime::partition::Extent;
use crate::runtime::plan::Plan;
use crate::runtime::submissions::{Hold, Node};
use flash_types::descriptor::{Access, ArgumentDescriptor, Use, View};
use smallvec::SmallVec;
use std::ops::Range;

impl<'r> Scheduler<'r> {
    /// The array of an argument, and its element that is the argument's first.
    pub fn array_of(&mut self, node: &Node, argument: usize) -> (u32, u64) {
        let arg = &self.list.args_of(node)[argument];
        let hold = &self.list.holds_of(node)[argument];
        let size = u64::from(arg.element_size);
        if hold.touched != Hold::NONE {
            let array = self.of_memory[hold.touched as usize].expect("every memory of the recording has one");
            let first = self.arrays[array as usize].header().data() as usize;
            let bytes = (arg.data as usize).wrapping_sub(first) as u64;
            // Usually it is all of the memory: divisions are slow.
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

    /// The array of an argument, and the region of it that the argument is.
    pub(super) fn range_of(&mut self, node: &Node, argument: usize) -> (u32, Region) {
        let (array, offset) = self.array_of(node, argument);
        let len = self.list.args_of(node)[argument].len;
        let grid = self.arrays[array as usize].grid();
        (array, Region::of_range(&grid, offset..offset + len))
    }

    /// The region of a part of an argument in its array, and whether it is exact. `before`: see
    /// [`seen_region`](Self::seen_region).
    pub(super) fn region(
        &mut self,
        issue: &PartRequest<'_, '_>,
        argument: usize,
        array: u32,
        extent: &Extent,
        before: &mut [Touches],
    ) -> (Region, bool) {
        let (_, offset) = self.array_of(issue.node, argument);
        match extent {
            Extent::All => {
                let len = self.list.args_of(issue.node)[argument].len;
                let grid = self.arrays[array as usize].grid();
                (Region::of_range(&grid, offset..offset + len), true)
            }
            Extent::Box(elements) => {
                let seen = &issue.placed.parts.grids[argument];
                match seen.as_grid() {
                    Some(grid) => self.seen_region(array, (&elements.block(), &grid), offset, before),
                    None => {
                        let grid = self.arrays[array as usize].grid();
                        Region::of_strided(&elements.block(), &seen.strides, offset, &grid)
                    }
                }
            }
        }
    }

    /// The region of a box that a launch sees in a grid of its own, see [`Array::region_of`]. The array may
    /// get another grid by that: `before` are the uses by arguments of the same submission that were found
    /// before, which are taken over to it.
    pub fn seen_region(
        &mut self,
        array: u32,
        (block, seen): (&GridBox, &Grid),
        offset: u64,
        before: &mut [Touches],
    ) -> (Region, bool) {
        let of = &mut self.arrays[array as usize];
        let old = of.grid();
        let region = of.region_of(block, seen, offset);
        let now = of.grid();
        if now != old {
            // True if it has only the elements that it had.
            let take_over = |region: &mut Region| {
                let elements = region.elements();
                *region = region.regrid(&old, &now).unwrap_or_else(|| Region::all(&now));
                region.elements() == elements
            };
            // What has grown is not all written.
            for touched in before.iter_mut().filter(|touched| touched.array == array) {
                if !take_over(&mut touched.region) && touched.touch == Touch::Write {
                    touched.touch = Touch::WriteSome;
                }
            }
            for launched in &mut self.launched {
                for (.., read) in launched.reads.iter_mut().filter(|(_, a, _)| *a == array) {
                    take_over(read);
                }
                for (_, written, complete) in launched.writes.iter_mut().filter(|(a, ..)| *a == array) {
                    *complete &= take_over(written);
                }
            }
        }
        region
    }

    /// The uses of arrays by a part in some phases.
    pub(super) fn touches(
        &mut self,
        issue: &PartRequest<'_, '_>,
        subspace: usize,
        phases: &Range<u64>,
        buffers: &[Buffers],
    ) -> SmallVec<[Touches; 4]> {
        let mut all: SmallVec<[Touches; 4]> = SmallVec::new();
        let cut = issue.placed.is_cut();
        for (i, spec) in issue.plan.arguments.iter().enumerate().filter(|(_, s)| s.view != View::Scalar) {
            let of = issue.placed.parts.subspaces[subspace].touched_in(i, phases);
            let (array, _) = self.array_of(issue.node, i);
            let mut add = |walk: &mut Self, array: u32, extent: &Extent, touch, second| {
                let (region, just) = walk.region(issue, i, array, extent, &mut all);
                let complete = just && of.covered && !issue.keeps;
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
                        // The backend may copy any element between the two: both are present in full.
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

    /// The access of some phases by the declared use of a phased argument.
    pub(super) fn stage_touch(
        &self,
        node: &Node,
        stages: Option<&(usize, Vec<Use>)>,
        phases: &Range<u64>,
    ) -> Touch {
        let (Some((dimension, uses)), 1) = (stages, phases.end - phases.start) else {
            return Touch::ReadWrite;
        };
        let order = self.list.order_of(node);
        let mut values: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.list.dims_of(node).len());
        order.value(order.phase(phases.start).start, &mut values);
        match uses.get(values[*dimension] as usize) {
            Some(Use::Read) => Touch::Read,
            _ => Touch::ReadWrite,
        }
    }

    /// Row pointers and the like are on the host before a map or a check looks at them.
    pub(super) fn fetch_contents(&mut self, node: &Node, plan: &Plan) -> Result<(), Error> {
        let looks = |argument: &ArgumentDescriptor| {
            (argument.structure && plan.part.looks_inside())
                || plan.check.is_some_and(|check| check.reads(&argument.name))
        };
        let mut any = false;
        for (i, argument) in plan.descriptor.arguments.iter().enumerate().filter(|(_, a)| looks(a)) {
            let (array, region) = self.range_of(node, i);
            let array = &mut self.arrays[array as usize];
            if array.directory().poisoned(&region) {
                return Err(Error::Skipped { argument: argument.name.clone() });
            }
            let mut ways = TaskSink { tasks: &mut self.tasks, lanes: &mut self.lanes };
            array.prepare(None, &region, Touch::Read, &mut ways)?;
            any |= array.is_written(Place::HOST, &region);
        }
        if any {
            self.ways().drain();
        }
        Ok(())
    }

    /// Records the coming writes, and refuses a read of poison.
    pub(super) fn promise(
        &mut self,
        plan: &Plan,
        touches: &[Touches],
        buffers: &[Buffers],
    ) -> Result<(), Error> {
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
        self.refuse_poison(plan, touches)
    }

    /// Refuses a read of poison.
    pub fn refuse_poison(&self, plan: &Plan, touches: &[Touches]) -> Result<(), Error> {
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

    /// Bytes that a submission reads and that earlier launches put at a place.
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
}
