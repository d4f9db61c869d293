//! The elements that submissions and pipelines touch, found from what was recorded.
//!
//! [`FootprintCache`] has those of single submissions, [`pipeline`] those of a whole pipeline, with which it
//! lines up in the order. Both are computed from the [parts](Parts) of a launch that is not cut, and read the
//! recording only.

pub(super) mod pipeline;

use crate::error::Error;
use crate::memory::ArrayLayout;
use crate::memory::region::{Grid, GridBox};
use crate::runtime::partition::{ArgumentFootprint, Footprint, Launch, LaunchGrid, PartFootprint, Parts};
use crate::runtime::plan::Plan;
use crate::runtime::submissions::{Node, SubmissionList};
use flash_types::abi;
use flash_types::index::{Cut, Order};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A cache of footprints for submissions that are alike, as most of a pipeline are.
#[derive(Default)]
pub(crate) struct FootprintCache(Vec<Entry>);

/// A footprint, and everything that it depends on.
struct Entry {
    plan: *const Plan,
    order: *const Order,
    /// Per argument.
    arrays: SmallVec<[ArgumentKey; 4]>,
    footprint: Arc<Footprint>,
}

/// The length of an argument, whether it is all of its memory, its extents and its strides.
type ArgumentKey = (u64, bool, SmallVec<[u64; 4]>, SmallVec<[u64; 3]>);

/// Number of entries.
const KNOWN: usize = 8;

impl FootprintCache {
    /// The footprint of a submission. `None`: it is not one box of each array, or some array is no memory, or
    /// has another shape for this submission only.
    pub fn footprint(&mut self, list: &SubmissionList, node: &Node) -> Option<Arc<Footprint>> {
        let (plan, order) = (node.plan(), std::ptr::from_ref(list.order_of(node)));
        let (args, holds) = (list.args_of(node), list.holds_of(node));
        let layout = |i: usize| match list.memory(holds[i].touched) {
            Some(_) => (!list.is_part(node, i), list.layout_of(node, i)),
            None => (false, ArrayLayout::default()),
        };
        let same = |known: &Entry| {
            std::ptr::eq(known.plan, plan)
                && std::ptr::eq(known.order, order)
                && known.arrays.iter().enumerate().all(|(i, (len, all, extents, strides))| {
                    *len == args[i].len && (*all, ArrayLayout { extents, strides }) == layout(i)
                })
        };
        if let Some(known) = self.0.iter().rev().find(|known| same(known)) {
            return Some(known.footprint.clone());
        }
        if !has_footprint(list, node) {
            return None;
        }
        let footprint = Arc::new(of(list, node, plan)?);
        let arrays = (0..args.len()).map(|i| {
            let (all, ArrayLayout { extents, strides }) = layout(i);
            (args[i].len, all, extents.into(), strides.into())
        });
        let arrays = arrays.collect();
        if self.0.len() == KNOWN {
            self.0.remove(0);
        }
        self.0.push(Entry { plan, order, arrays, footprint: footprint.clone() });
        Some(footprint)
    }
}

/// False if some array is no memory, or has another shape for this submission only.
fn has_footprint(list: &SubmissionList, node: &Node) -> bool {
    let mut arguments = list.args_of(node).iter().zip(list.holds_of(node));
    node.extra.as_ref().is_none_or(|extra| extra.sizes.is_none())
        && arguments.all(|(arg, hold)| arg.kind == abi::ARG_SCALAR || list.memory(hold.touched).is_some())
}

/// The part that says which elements a submission's items touch, on any path. `None`: it is not known.
pub(super) fn items(list: &SubmissionList, node: &Node) -> Option<Arc<Parts>> {
    let plan = node.plan();
    // The arrays that such a map looks into are not held yet. A check reads more than the items do.
    let looks_inside = plan.part.looks_inside() || plan.check.is_some();
    let is_known = !plan.whole && !looks_inside && plan.targets().is_ok() && has_footprint(list, node);
    let parts = if is_known { whole_parts(list, node, plan).ok()? } else { return None };
    (parts.subspaces.len() == 1).then_some(parts)
}

fn of(list: &SubmissionList, node: &Node, plan: &Plan) -> Option<Footprint> {
    let parts = whole_parts(list, node, plan).ok()?;
    let [subspace] = &parts.subspaces[..] else { return None };
    let arguments = || list.args_of(node).iter().enumerate();
    let part = |(i, arg)| part_of(arg, &parts.grids[i], &subspace.touched[i], plan.whole);
    let touched = |(i, _)| argument_of(list, node, i, &parts);
    Some(Footprint { parts: arguments().map(part).collect(), touched: arguments().map(touched).collect() })
}

/// The elements of an argument that a submission touches, of which there is one part.
pub(super) fn argument_of(list: &SubmissionList, node: &Node, i: usize, parts: &Parts) -> ArgumentFootprint {
    let (plan, arg) = (node.plan(), &list.args_of(node)[i]);
    let (touched, grid) = (&parts.subspaces[0].touched[i], &parts.grids[i]);
    let (seen, block) = match touched.hull().filter(|_| !plan.whole) {
        Some(hull) => match grid.as_grid() {
            Some(seen) => (seen, hull.block()),
            // With gaps: all from the first element to the last.
            None => {
                let Range { start, end } = grid.range(&hull);
                (Grid::new(&[], arg.len), GridBox { begin: [start, 0, 0], end: [end, 1, 1] })
            }
        },
        None if touched.read.is_none() && touched.written.is_none() => {
            (Grid::new(&[], 0), GridBox { begin: [0; 3], end: [0; 3] })
        }
        None => {
            let seen = Grid::new(&[], arg.len);
            (seen, seen.block())
        }
    };
    let memory = list.memory(list.holds_of(node)[i].touched);
    let all = memory.is_some_and(|memory| memory.len() as u64 == arg.len) && seen.elements() == arg.len;
    let hull = block.hull(&seen);
    let solid = hull.end - hull.start == block.elements();
    let covered = touched.covered && !plan.whole && !grid.has_gaps();
    ArgumentFootprint { nothing: block.is_empty(), block, seen, all, hull, solid, covered }
}

/// The only part of a submission that is not cut.
pub(super) fn whole_parts(list: &SubmissionList, node: &Node, plan: &Plan) -> Result<Arc<Parts>, Error> {
    let layouts = list.layouts_of(node);
    plan.parts.parts(&launch_of(list, node, plan, &layouts), None, &Cut::new(), &[])
}

/// A submission as a launch whose parts can be asked for.
pub(super) fn launch_of<'a>(
    list: &'a SubmissionList,
    node: &'a Node,
    plan: &'a Plan,
    layouts: &'a [ArrayLayout<'a>],
) -> Launch<'a> {
    Launch {
        kernel: plan,
        rule: &plan.part,
        whole: plan.whole,
        order: list.order_of(node),
        dims: list.dims_of(node),
        args: list.args_of(node),
        layouts,
    }
}

/// The [`abi::Part`] of an argument. `all`: every element is present, whatever is touched.
pub(super) fn part_of(arg: &abi::Arg, grid: &LaunchGrid, touched: &PartFootprint, all: bool) -> abi::Part {
    match touched.hull() {
        Some(hull) if !all => grid.part(&hull),
        // A launch may see less of an array than exists.
        _ if !grid.has_gaps() && grid.extents.iter().product::<u64>() < arg.len => {
            let flat = LaunchGrid::of(&[arg.len]);
            flat.part(&flat.all())
        }
        // SAFETY: the part of a window is in the recording's arena.
        _ => unsafe { arg.part.as_ref() }.copied().unwrap_or(grid.part(&grid.all())),
    }
}
