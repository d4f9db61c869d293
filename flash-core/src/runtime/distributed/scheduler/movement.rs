//! Submissions that move elements, see [`movement`](crate::runtime::movement).
//!
//! A copy runs at one place: where most of its source is current, with what that place lacks brought there
//! first, or on the host if a device has no room. Afterwards the destination is current there, and nowhere
//! else.

use super::{Scheduler, Touches};
use crate::devices::DeviceHandle;
use crate::error::Error;
use crate::memory::device::{DeviceBuffer, DeviceMemory, memory_of};
use crate::memory::directory::Place;
use crate::memory::region::{Grid, GridBox, Region};
use crate::memory::transfer::BoxTransfer;
use crate::runtime::distributed::arrays::Touch;
use crate::runtime::distributed::lanes::Lanes;
use crate::runtime::distributed::task::Effort;
use crate::runtime::movement::{self, Movement, Side};
use crate::runtime::plan::Plan;
use crate::runtime::submissions::Node;
use smallvec::SmallVec;
use std::sync::Arc;

impl<'r> Scheduler<'r> {
    /// Puts a submission that moves elements into a lane.
    pub(super) fn issue_movement(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        movement: Movement,
    ) -> Result<(), Error> {
        if movement == Movement::Copy {
            return self.issue_copy(node, plan);
        }
        let number = movement::device_of(self.list.args_of(node));
        // It was proved that there is one of this number.
        let Some(&device) = self.runtime.devices.get(number) else { return Ok(()) };
        match movement {
            Movement::Evict => self.evict(node, device),
            _ => self.prefetch(node, plan, device),
        }
    }

    fn prefetch(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        device: &'static DeviceHandle,
    ) -> Result<(), Error> {
        let (array, region) = self.range_of(node, 0);
        let touches = [Touches { argument: 0, array, region, touch: Touch::Read, second: false }];
        self.promise(plan, &touches, &[])?;
        let memory = device.memory();
        let place = memory.map_or(Place::HOST, DeviceMemory::place);
        self.make_current(memory, &touches)?;
        // It fails if a copy does.
        self.put_movement(node, plan, &touches, place, device, || Ok(()));
        Ok(())
    }

    fn evict(&mut self, node: &'r Node, device: &'static DeviceHandle) -> Result<(), Error> {
        let Some(memory) = device.memory() else { return Ok(()) };
        let (array, _) = self.range_of(node, 0);
        self.arrays.iter_mut().for_each(|array| array.pins.clear());
        self.ways().drain();
        self.arrays[array as usize].spill(memory, &self.lanes)
    }

    fn issue_copy(&mut self, node: &'r Node, plan: &'r Plan) -> Result<(), Error> {
        let shape = movement::shape_of(self.list.args_of(node));
        let (extent, from, to) = movement::parts_of(&shape);
        if movement::is_empty(extent) {
            return Ok(());
        }
        let (source, from_offset) = self.array_of(node, 0);
        let (destination, to_offset) = self.array_of(node, 1);
        let (read, _) = self.box_region((source, from_offset), extent, from, &mut []);
        let mut read =
            Touches { argument: 0, array: source, region: read, touch: Touch::Read, second: false };
        let before = std::slice::from_mut(&mut read);
        let (written, just) = self.box_region((destination, to_offset), extent, to, before);
        let write = if just { Touch::Write } else { Touch::WriteSome };
        let written =
            Touches { argument: 1, array: destination, region: written, touch: write, second: false };
        let touches = [read, written];
        self.promise(plan, &touches, &[])?;
        let mut place = self.place_of_copy(&touches);
        match self.make_current(memory_of(place), &touches) {
            Err(Error::DeviceMemory(_)) => {
                place = Place::HOST;
                self.make_current(None, &touches)?;
            }
            other => other?,
        }
        let (source, destination) = (&self.arrays[source as usize], &self.arrays[destination as usize]);
        let ends = [source.part_end(place)?, destination.part_end(place)?];
        let bytes = movement::bytes_of(&shape, source.size(), [from_offset, to_offset]);
        let transfer = BoxTransfer::new(ends, bytes, source.size());
        let device = memory_of(place).map_or(self.runtime.devices[0], DeviceMemory::device);
        // SAFETY: the box was proved to lie in both arguments, whose buffers at this place stay until the
        // task is done; it comes after all that writes the one or touches the other.
        let work = move || unsafe { transfer.run() };
        self.put_movement(node, plan, &touches, place, device, work);
        Ok(())
    }

    /// Where a copy runs.
    fn place_of_copy(&self, touches: &[Touches; 2]) -> Place {
        let devices = self.runtime.devices.iter().filter_map(|device| device.memory());
        let places = std::iter::once(Place::HOST).chain(devices.map(DeviceMemory::place));
        let elements = |touched: &Touches, place| {
            let directory = self.arrays[touched.array as usize].directory();
            directory.elements_at(place, &touched.region)
        };
        let [from, to] = touches;
        // What is overwritten whole need not be there.
        let kept = |place| if to.touch == Touch::WriteSome { elements(to, place) } else { 0 };
        // Of equal ones the last: a device rather than the host, whose memory may have been given back.
        let best = places.max_by_key(|&place| (elements(from, place), kept(place)));
        best.unwrap_or(Place::HOST)
    }

    /// The elements of a copy's box in its array, and whether the region is just these. `before`: see
    /// [`seen_region`](Self::seen_region).
    fn box_region(
        &mut self,
        (array, offset): (u32, u64),
        extent: [u64; 3],
        side: Side,
        before: &mut [Touches],
    ) -> (Region, bool) {
        let of = &self.arrays[array as usize];
        let (len, grid) = (of.header().len() as u64, of.grid());
        let first = side.first + offset;
        let rows = extent[1] == 1 || side.stride[0] == extent[0];
        let planes = extent[2] == 1 || side.stride[1] == extent[0] * extent[1];
        let end = first + extent[0] + (extent[1] - 1) * side.stride[0] + (extent[2] - 1) * side.stride[1];
        if rows && planes {
            return (Region::of_range(&grid, first..end), true);
        }
        // In a grid in which it is a box, if there is one.
        let extent = if extent[1] > 1 { extent } else { [extent[0], extent[2], 1] };
        let [row, plane] = match extent[2] {
            1 if rows => [side.stride[1], len],
            1 => [side.stride[0], len],
            _ => side.stride,
        };
        if row > 0 && plane >= row && plane.is_multiple_of(row) && len.is_multiple_of(plane) {
            let seen = Grid::new(&[row, plane / row, len / plane], len);
            let begin = [first % row, first % plane / row, first / plane];
            let block = GridBox { begin, end: [0, 1, 2].map(|axis| begin[axis] + extent[axis]) };
            if block.end[0] <= row && block.end[1] <= plane / row {
                return self.seen_region(array, (&block, &seen), 0, before);
            }
        }
        (Region::of_range(&grid, first..end), false)
    }

    /// Puts the work of such a submission into a device's lane of copies.
    fn put_movement(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        touches: &[Touches],
        place: Place,
        device: &'static DeviceHandle,
        work: impl FnOnce() -> Result<(), Error> + 'r,
    ) {
        let waits = self.waits(touches, place);
        let arrays = &mut self.arrays;
        let pins = touches.iter().filter_map(|touched| arrays[touched.array as usize].unpin(place));
        let pins: SmallVec<[Arc<DeviceBuffer>; 2]> = pins.collect();
        let bytes =
            |touched: &Touches| touched.region.elements() * self.arrays[touched.array as usize].size();
        let expected = touches.iter().map(bytes).sum::<u64>() / 10;
        let work = self.limited(node, plan, move |_, _| {
            let outcome = work();
            drop(pins);
            outcome.map(|()| None)
        });
        // SAFETY: the work borrows the recording and the plan, which live until the run is over; its buffers
        // are held until then, and copies may run on any thread.
        let task = unsafe { self.tasks.add(waits, Effort::of_thread(expected), work) };
        self.touched(touches, place, task);
        self.latest().tasks.push((task, 0));
        self.ways().push(&Lanes::of(device).copies, task);
    }
}
