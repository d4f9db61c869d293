//! Phased arguments: two buffers that change roles from phase to phase.

use super::{PartRequest, Scheduler, Touches};
use crate::error::Error;
use crate::memory::transfer::Transfer;
use crate::runtime::distributed::arrays::{Array, Touch};
use crate::runtime::distributed::lanes::Lanes;
use crate::runtime::distributed::placement::place_of;
use crate::runtime::distributed::task::{Effort, Waits};
use crate::runtime::submissions::Node;
use flash_types::abi;
use smallvec::SmallVec;

/// The two buffers of a phased argument.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    pub argument: u32,
    /// The argument's own array.
    pub own: u32,
    /// The buffer that a phase reads, and the one that takes its writes; these two change roles.
    pub now: u32,
    pub next: u32,
    /// Every element is some item's own in every phase.
    pub covered: bool,
}

impl<'r> Scheduler<'r> {
    /// Second buffers for phased arguments.
    pub(super) fn buffers(&mut self, issue: &PartRequest<'r, '_>) -> SmallVec<[Buffers; 2]> {
        let mut all = SmallVec::new();
        if !issue.plan.phased {
            return all;
        }
        for (i, arg) in self.list.args_of(issue.node).iter().enumerate() {
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

    pub(super) fn add_second(&mut self, node: &Node, i: usize, own: u32) -> u32 {
        let header = self.arrays[own as usize].header();
        let (len, size, shape) = (header.len(), header.element_size(), header.shape().to_vec());
        let data = match self.list.memory(self.list.holds_of(node)[i].touched) {
            Some(memory) => memory.second(),
            None => self.scratch(len * size as usize),
        };
        let mut second = Array::lent(data, len as u64, size, &shape);
        second.directory_mut().regrid(self.arrays[own as usize].grid());
        self.arrays.push(second);
        let second = self.arrays.len() as u32 - 1;
        self.of_second.push((own, second));
        second
    }

    /// After a phase that was cut: the buffers change roles, or the written elements are copied over.
    pub(super) fn turn(
        &mut self,
        issue: &PartRequest<'r, '_>,
        buffers: &mut [Buffers],
        ran: &[u32],
    ) -> Result<(), Error> {
        for buffer in buffers {
            match buffer.covered {
                true => std::mem::swap(&mut buffer.now, &mut buffer.next),
                false => self.carry_own(issue, buffer, [buffer.next, buffer.now], ran)?,
            }
        }
        Ok(())
    }

    /// After the last phase: copies what ended in a second buffer to the array itself.
    pub(super) fn back(
        &mut self,
        issue: &PartRequest<'r, '_>,
        buffers: &[Buffers],
        ran: &[u32],
    ) -> Result<(), Error> {
        for buffer in buffers.iter().filter(|b| b.now != b.own) {
            self.carry_own(issue, buffer, [buffer.now, buffer.own], ran)?;
        }
        Ok(())
    }

    /// Copies every part's own elements of a phased argument from one of its buffers to the other, on the
    /// last device of the part, which has them.
    fn carry_own(
        &mut self,
        issue: &PartRequest<'r, '_>,
        buffer: &Buffers,
        [from, to]: [u32; 2],
        ran: &[u32],
    ) -> Result<(), Error> {
        let i = buffer.argument as usize;
        for (subspace, part) in issue.placed.subspaces() {
            let Some(own) = part.touched[i].written else { continue };
            let (region, _) = self.region(issue, i, to, &own, &mut []);
            let number = ran[subspace];
            let (memory, place) = place_of(&issue.targets[number as usize]);
            let touches = |array, touch, second| {
                let (argument, region) = (buffer.argument, region.clone());
                Touches { argument, array, region, touch, second }
            };
            let both = [touches(from, Touch::Read, false), touches(to, Touch::Write, true)];
            self.make_current(memory, &both)?;
            let mut waits = Waits::default();
            self.arrays[from as usize].wait_to_read(place, &region, buffer.argument, &mut waits);
            self.arrays[to as usize].wait_to_write(place, &region, &mut waits);
            let (source, target) = (&self.arrays[from as usize], &self.arrays[to as usize]);
            let (source_end, target_end) = (source.end(place)?, target.end(place)?);
            let grid = target.grid();
            let transfer = Transfer::between(target.header(), &grid, source_end, target_end);
            let expected = region.elements() * target.size() / 10;
            let moved = region.clone();
            // SAFETY: both are buffers of arrays that are held until the run is over; the task waits for all
            // that writes the one or touches the other.
            let work = move || unsafe { transfer.run(&moved) };
            // SAFETY: it borrows nothing, and copies may run on any thread.
            let task = unsafe {
                self.tasks.add(
                    waits,
                    Effort::of_thread(expected),
                    Box::new(move |_| {
                        work()?;
                        Ok(None)
                    }),
                )
            };
            self.arrays[from as usize].has_read(place, &region, task);
            self.arrays[to as usize].has_written(place, &region, task);
            self.arrays[to as usize].directory_mut().written(place, &region);
            self.latest().tasks.push((task, number));
            self.ways().push(&Lanes::of(issue.targets[number as usize].device).kernels, task);
        }
        Ok(())
    }
}
