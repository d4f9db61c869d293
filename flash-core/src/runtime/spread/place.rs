//! Where submissions run, and how they are cut.

use super::part::OrderOf;
use super::walk::Walk;
use crate::abi;
use crate::memory::device::DeviceMemory;
use crate::memory::directory::Place;
use crate::memory::region::{Block, Grid};
use crate::error::Error;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::rate;
use crate::runtime::record::Node;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use super::lane::Lanes;

/// A subspace and the device that runs it.
pub(super) struct Piece<'r> {
    /// Index among the plan's targets.
    pub target: u32,
    pub order: OrderOf<'r>,
    /// One per argument.
    pub boxes: Arc<[Touched]>,
}

/// What a subspace touches of an argument.
pub(super) struct Touched {
    /// The array as the launch sees it.
    pub grid: Grid,
    /// What it reads, its own elements included.
    pub reads: Block,
    /// Its own elements.
    pub own: Block,
    /// Every element of `own` is some work item's.
    pub exact: bool,
}

impl Touched {
    /// For the kernel.
    pub fn part(&self) -> abi::Part {
        abi::Part { begin: self.reads.begin, end: self.reads.end, stride: self.grid.stride(), origin: 0 }
    }
}

/// The pieces of a submission, in the order in which they go into lanes.
pub(super) fn pieces<'r>(
    walk: &mut Walk<'r>,
    node: &'r Node,
    plan: &'r Plan,
    targets: &'r [Target],
) -> Result<SmallVec<[Piece<'r>; 4]>, Error> {
    let order = walk.slots.order_of(node);
    if let Some(cut) = cut::of(walk, node, plan, targets)? {
        return cut.pieces(walk, node, plan, targets);
    }
    let target = if targets.len() == 1 { 0 } else { choose(walk, node, plan, targets) };
    let boxes = cut::whole(walk, node, plan)?;
    Ok(smallvec![Piece { target: target as u32, order: OrderOf::Whole(order), boxes }])
}

/// The device for a submission that is not cut: where most of what it reads is, or else in turn, without
/// those that are busy for longer than it would take elsewhere.
fn choose(walk: &mut Walk<'_>, node: &Node, plan: &Plan, targets: &[Target]) -> usize {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let items = walk.slots.order_of(node).items() as f64;
    let finish = |target: &Target| {
        let lane = Lanes::of(target.device.id()).kernels.expected() as f64;
        lane + target.rate.get().unwrap_or(0.0) * items
    };
    let place = |target: &Target| DeviceMemory::of(target.device).map_or(Place::HOST, DeviceMemory::place);
    let mut near: SmallVec<[(u64, usize); 8]> = SmallVec::new();
    for (i, target) in targets.iter().enumerate() {
        near.push((walk.bytes_made_at(node, plan, place(target)), i));
    }
    let most = near.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    near.retain(|(bytes, _)| *bytes == most);
    let best = near.iter().map(|(_, i)| finish(&targets[*i])).fold(f64::INFINITY, f64::min);
    // Below a microsecond nobody is late.
    near.retain(|(_, i)| finish(&targets[*i]) <= (2.0 * best).max(1_000.0));
    match near.len() {
        0 => 0,
        n => near[TURN.fetch_add(1, Relaxed) % n].1,
    }
}
