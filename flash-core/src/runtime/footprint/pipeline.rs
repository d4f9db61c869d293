//! The footprint of a pipeline: the region of each memory that it touches. The pipeline enters it in the
//! order.
//!
//! For an `Item` that is the box of its elements. All other views can reach any element of the argument, on
//! one path of execution or another, so the footprint is all of the argument.

use super::{argument_of, items};
use crate::memory::ArrayInner;
use crate::memory::order::{ORDER, Touch};
use crate::memory::region::Region;
use crate::runtime::partition::Parts;
use crate::runtime::state::Runtime;
use crate::runtime::submissions::{Node, SubmissionList};
use flash_types::abi;
use flash_types::descriptor::{Access, View};

/// Pipelines with more submissions are not examined one by one.
const MANY: usize = 64;

/// A region of more boxes is replaced by all elements.
const BOXES: usize = 16;

/// The region that a pipeline touches of each of its memories.
pub(in crate::runtime) struct PipelineFootprint(Vec<Touch<Region>>);

impl PipelineFootprint {
    pub fn of(list: &SubmissionList, runtime: &Runtime) -> PipelineFootprint {
        let mut touches = Vec::with_capacity(list.memories_touched());
        let mut place = vec![usize::MAX; list.memories_touched()];
        // The check of writes reads all of an argument.
        let coarse = list.nodes().len() > MANY || runtime.check_writes;
        for (index, memory, written) in list.memories() {
            place[index as usize] = touches.len();
            let region = || if coarse { Region::all(&memory.grid()) } else { Region::empty() };
            let written = written.then(region);
            touches.push(Touch { memory: memory.id(), touched: region(), written });
        }
        if !coarse {
            for node in list.nodes() {
                let parts = items(list, node);
                for (i, hold) in list.holds_of(node).iter().enumerate() {
                    let Some(memory) = list.memory(hold.touched) else { continue };
                    let region = region(list, node, i, memory, parts.as_deref());
                    let touch = &mut touches[place[hold.touched as usize]];
                    if node.plan().arguments[i].access != Access::Read
                        && let Some(written) = &mut touch.written
                    {
                        add(written, &region, memory);
                    }
                    add(&mut touch.touched, &region, memory);
                }
            }
        }
        PipelineFootprint(touches)
    }

    pub fn touches(&self) -> &[Touch<Region>] {
        &self.0
    }

    /// The written region of a memory that is written.
    pub fn written(&self, memory: &ArrayInner) -> &Region {
        let touch = self.0.iter().find(|touch| touch.memory == memory.id());
        let written = touch.and_then(|touch| touch.written.as_ref());
        written.unwrap_or_else(|| unreachable!("the recording has not changed since it was looked at"))
    }

    /// True if no other pipeline touches any of the memories meanwhile, or all only read.
    pub fn is_alone(&self, list: &SubmissionList) -> bool {
        list.memories().zip(&self.0).all(|((_, memory, _), touch)| {
            touch.written.as_ref().unwrap_or(&touch.touched).contains(&Region::all(&memory.grid()))
        })
    }

    /// Waits until no other run walks the memories that this pipeline will walk.
    pub fn walk(&self) -> SharedWalk {
        let memories = self.0.iter().map(|touch| (touch.memory, touch.written.is_some())).collect();
        let shared_walk = SharedWalk(memories);
        ORDER.walk(&shared_walk.0);
        shared_walk
    }
}

/// A run that walks memories while others may use other elements of them; until it is dropped.
pub(in crate::runtime) struct SharedWalk(Vec<(u64, bool)>);

impl Drop for SharedWalk {
    fn drop(&mut self) {
        ORDER.end_walk(&self.0);
    }
}

fn add(to: &mut Region, region: &Region, memory: &ArrayInner) {
    if !to.contains(region) {
        to.add(region);
        if to.blocks().len() > BOXES {
            *to = Region::all(&memory.grid());
        }
    }
}

/// The region that a submission touches of an argument's memory; `parts`: its [`items`], if they are known.
pub(in crate::runtime) fn region(
    list: &SubmissionList,
    node: &Node,
    i: usize,
    memory: &ArrayInner,
    parts: Option<&Parts>,
) -> Region {
    let arg: &abi::Arg = &list.args_of(node)[i];
    let grid = memory.grid();
    let bytes = (arg.data as usize).saturating_sub(memory.data() as usize) as u64;
    let first = bytes / memory.element_size().max(1);
    let all = || Region::of_range(&grid, first..first + arg.len);
    let Some(parts) = parts.filter(|_| node.plan().arguments[i].view == View::Item) else {
        return all();
    };
    let touched = argument_of(list, node, i, parts);
    if touched.nothing {
        return Region::empty();
    }
    if touched.all && touched.seen == grid {
        return Region::from(touched.block);
    }
    if touched.solid {
        return Region::of_range(&grid, touched.hull.start + first..touched.hull.end + first);
    }
    Region::of_block(&touched.block, &touched.seen, first, &grid).unwrap_or_else(all)
}
