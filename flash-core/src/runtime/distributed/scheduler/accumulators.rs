//! Accumulators of launches whose parts do not share them: partial results per block of rows, merged on the
//! host after each phase.

use super::{PartRequest, Scheduler, Touches};
use crate::error::Error;
use crate::kernel::views::Operation;
use crate::memory::directory::Place;
use crate::memory::region::{Grid, Region};
use crate::runtime::distributed::arrays::{Array, Touch};
use crate::runtime::distributed::lanes::Lanes;
use crate::runtime::distributed::task::Effort;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::reduce;
use crate::runtime::submissions::Node;
use flash_types::descriptor::Access;
use smallvec::SmallVec;

/// The partial results of an accumulator in one phase.
pub(super) struct Partial<'r> {
    argument: u32,
    operation: &'r Operation,
    /// Array with one accumulator per block of rows.
    pub array: u32,
    /// Elements of an accumulator.
    len: u64,
    /// Rows of the phase, and of a block.
    all: u64,
    pub rows: u64,
}

impl Partial<'_> {
    /// The first element of a subspace's accumulators.
    pub fn first(&self, issue: &PartRequest<'_, '_>, subspace: usize) -> u64 {
        self.until(issue, issue.placed.parts.subspaces[subspace].positions.start)
    }

    /// The element after those of all rows before a position.
    fn until(&self, issue: &PartRequest<'_, '_>, position: u64) -> u64 {
        let positions = match issue.placed.parts.dimension {
            Some(dimension) => issue.positions[dimension],
            None => return 0,
        };
        (position * (self.all / positions)).div_ceil(self.rows) * self.len
    }

    pub fn touches(&self, issue: &PartRequest<'_, '_>, subspace: usize) -> Touches {
        let end = match issue.placed.parts.dimension {
            Some(_) => self.until(issue, issue.placed.parts.subspaces[subspace].positions.end),
            None => self.all.div_ceil(self.rows) * self.len,
        };
        let grid = Grid::new(&[], self.all.div_ceil(self.rows) * self.len);
        let region = Region::of_range(&grid, self.first(issue, subspace)..end);
        Touches { argument: self.argument, array: self.array, region, touch: Touch::ReadWrite, second: false }
    }
}

impl<'r> Scheduler<'r> {
    /// Accumulators for the blocks of a phase, filled with identities.
    pub(super) fn partials(
        &mut self,
        issue: &PartRequest<'r, '_>,
        phase: u64,
    ) -> Result<SmallVec<[Partial<'r>; 2]>, Error> {
        let rows = self.list.order_of(issue.node).phase(phase);
        let all = rows.end - rows.start;
        let mut partials = SmallVec::new();
        for (i, arg) in self.list.args_of(issue.node).iter().enumerate() {
            let Some(operation) = &issue.plan.arguments[i].operation else { continue };
            let blocks = reduce::blocks(all, arg.len, u64::from(arg.element_size));
            let elements = blocks.count * arg.len;
            let bytes = elements as usize * arg.element_size as usize;
            let data = self.scratch(bytes + operation.align);
            let data = data.wrapping_add(data.align_offset(operation.align));
            // SAFETY: there is room for that many elements, aligned.
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
    pub(super) fn identities(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        target: &'r Target,
    ) -> Result<(), Error> {
        for (i, spec) in plan.arguments.iter().enumerate().filter(|(_, a)| a.access == Access::Write) {
            let Some(operation) = &spec.operation else { continue };
            let (array, region) = self.range_of(node, i);
            let touches = [Touches { argument: i as u32, array, region, touch: Touch::Write, second: false }];
            self.promise(plan, &touches, &[])?;
            self.prepare(None, &touches)?;
            let waits = self.waits(&touches, Place::HOST);
            let to = self.on_the_host(node, i);
            let len = self.list.args_of(node)[i].len as usize;
            // SAFETY: the argument's own elements, which are held and which nothing else touches before this
            // is done.
            let work = move || unsafe { reduce::fill(operation, to, len) };
            // SAFETY: operations live as long as the plan; the array lives until the run is over.
            let task = unsafe {
                self.tasks.add(
                    waits,
                    Effort::of_thread(0),
                    Box::new(move |_| {
                        work()?;
                        Ok(None)
                    }),
                )
            };
            self.touched(&touches, Place::HOST, task);
            self.latest().tasks.push((task, 0));
            self.ways().push(&Lanes::of(target.device).copies, task);
        }
        Ok(())
    }

    /// The address of an argument's first element on the host.
    pub(super) fn on_the_host(&mut self, node: &Node, argument: usize) -> *mut u8 {
        let (array, offset) = self.array_of(node, argument);
        let array = &self.arrays[array as usize];
        array.header().data().wrapping_add((offset * array.size()) as usize)
    }

    /// After a phase: merges its partial results on the host, and combines them with the result.
    pub(super) fn merge(
        &mut self,
        issue: &PartRequest<'r, '_>,
        partial: &Partial<'r>,
        first: bool,
    ) -> Result<(), Error> {
        let i = partial.argument as usize;
        let (result, region) = self.range_of(issue.node, i);
        let access = issue.plan.arguments[i].access;
        let fresh = first && access == Access::Write;
        let all = Region::all(&self.arrays[partial.array as usize].grid());
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
            // SAFETY: filled when they were made, and the kernels no longer use them; the result is the
            // argument's own elements, which are held and which nothing else touches before this is done.
            unsafe {
                if fresh {
                    reduce::fill(operation, to, len)?;
                }
                reduce::merge(operation, partials, count, len)?;
                reduce::fold(operation, to, partials, len)
            }
        };
        // SAFETY: operations live as long as the plan; the arrays live until the run is over.
        let task = unsafe {
            self.tasks.add(
                waits,
                Effort::of_thread(partial.len * count as u64),
                Box::new(move |_| {
                    work()?;
                    Ok(None)
                }),
            )
        };
        self.touched(&touches, Place::HOST, task);
        self.latest().tasks.push((task, 0));
        self.ways().push(&Lanes::of(issue.targets[0].device).copies, task);
        Ok(())
    }
}
