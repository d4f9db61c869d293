//! Placement: the devices of submissions, and their cuts.

use super::lanes::Lanes;
use super::out_of_core;
use super::scheduler::Scheduler;
use crate::error::Error;
use crate::memory::device::DeviceMemory;
use crate::memory::directory::Place;
#[cfg(feature = "recordings")]
use crate::recording;
use crate::runtime::footprint::{launch_of, whole_parts};
#[cfg(feature = "recordings")]
use crate::runtime::partition::Extent;
use crate::runtime::partition::{Launch, Parts, Subspace};
use crate::runtime::plan::{Plan, Target, multiple_of_both};
use crate::runtime::rate;
use crate::runtime::reduce::blocks;
use crate::runtime::submissions::{Node, SubmissionList};
use flash_types::descriptor::View;
use flash_types::index::{self, Cut};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Along dimension 0, cuts fall on multiples of this many positions, so that two devices that share the
/// host's memory rarely write one cache line.
const ALIGN: u64 = 16;

/// The parts of a submission, and the device of each.
pub(super) struct Placement {
    pub parts: Arc<Parts>,
    /// Per subspace, index of the target; `None`: the next idle one.
    pub targets: SmallVec<[Option<u32>; 4]>,
}

impl Placement {
    /// It runs in several parts.
    pub fn is_cut(&self) -> bool {
        self.parts.subspaces.len() > 1
    }

    /// The only part needs an argument in full, whatever it touches of it. A `whole` implementation sees all
    /// of every array, including the elements between its own; and a backend copies between the buffers of a
    /// `Phased`.
    pub fn takes_all(&self, plan: &Plan, argument: usize) -> bool {
        !self.is_cut() && (plan.whole || plan.arguments[argument].view == View::Phased)
    }

    pub fn subspaces(&self) -> impl Iterator<Item = (usize, &Subspace)> {
        self.parts.subspaces.iter().enumerate()
    }
}

/// The memory of a target, and its place.
pub(super) fn place_of(target: &Target) -> (Option<&'static DeviceMemory>, Place) {
    let memory = target.device.memory();
    (memory, memory.map_or(Place::HOST, DeviceMemory::place))
}

/// Cuts and places a submission, in the parts that [`check`] returned, if any.
pub(super) fn place(
    walk: &mut Scheduler<'_>,
    node: &Node,
    plan: &Plan,
    targets: &[Target],
    checked: Option<Arc<Parts>>,
) -> Result<Placement, Error> {
    let parts = match checked {
        None if plan.part.looks_inside() => {
            let parts = match wants_cut(plan, targets) {
                true => parts(walk.list, node, plan, targets)?,
                false => None,
            };
            out_of_core::streamed(walk.list, node, plan, targets, parts.as_deref()).or(parts)
        }
        checked => checked,
    };
    if let Some(parts) = parts {
        // Shares beyond the number of devices go to any device.
        let free = plan.subspaces as usize > targets.len()
            || parts.subspaces.iter().any(|part| part.share >= targets.len());
        let targets = parts.subspaces.iter().map(|s| (!free).then_some(s.share as u32)).collect();
        return Ok(Placement { parts, targets });
    }
    let target = if targets.len() == 1 { 0 } else { choose(walk, node, plan, targets) };
    let parts = whole_parts(walk.list, node, plan)?;
    Ok(Placement { parts, targets: smallvec![Some(target as u32)] })
}

/// Proves, before anything runs, that a submission can be cut by its map. `None`: it will not be cut, or its
/// map looks into arrays, and is evaluated when they have their final contents.
pub(super) fn check(list: &SubmissionList, node: &Node) -> Result<Option<Arc<Parts>>, Error> {
    let (plan, parts) = (node.plan(), parts_if(list, node, false)?);
    match plan.targets() {
        Ok(targets) if !plan.part.looks_inside() => {
            Ok(out_of_core::streamed(list, node, plan, targets, parts.as_deref()).or(parts))
        }
        _ => Ok(parts),
    }
}

/// The parts of a submission. `known`: the arrays that its map looks into are on the host, have their final
/// contents, and are not written meanwhile.
fn parts_if(list: &SubmissionList, node: &Node, known: bool) -> Result<Option<Arc<Parts>>, Error> {
    let plan = node.plan();
    match plan.targets() {
        Ok(targets) if wants_cut(plan, targets) && (known || !plan.part.looks_inside()) => {
            parts(list, node, plan, targets)
        }
        _ => Ok(None),
    }
}

#[cfg(feature = "recordings")]
/// The current cut of a submission, for a recording. `None`: it runs whole, or its map looks into arrays that
/// are not `known`, see [`parts_if`].
pub(in crate::runtime) fn parts_of(
    list: &SubmissionList,
    node: &Node,
    known: bool,
) -> Result<Option<recording::Parts>, Error> {
    let plan = node.plan();
    let Some(parts) = parts_if(list, node, known)? else { return Ok(None) };
    let targets = plan.targets()?;
    let Some(dimension) = parts.dimension.filter(|_| parts.subspaces.len() > 1) else { return Ok(None) };
    let elements = |extent: Option<Extent>| match extent {
        None => recording::Elements::None,
        Some(Extent::All) => recording::Elements::All,
        Some(Extent::Box(of)) => recording::Elements::Box { begin: of.begin, end: of.end },
    };
    let free = plan.subspaces as usize > targets.len();
    let subspaces = parts.subspaces.iter().map(|part| recording::Subspace {
        device: (!free).then(|| targets[part.share].device.id().to_owned()),
        positions: part.positions.clone(),
        read: part.touched.iter().map(|touched| elements(touched.read)).collect(),
        written: part.touched.iter().map(|touched| elements(touched.written)).collect(),
    });
    Ok(Some(recording::Parts {
        dimension: dimension as u32,
        grids: parts.grids.iter().map(|grid| grid.extents).collect(),
        subspaces: subspaces.collect(),
    }))
}

/// True if the parts of a submission go to several devices, or are several.
pub(in crate::runtime) fn wants_cut(plan: &Plan, targets: &[Target]) -> bool {
    plan.cut && (targets.len() > 1 || plan.subspaces > 1)
}

/// The multiple, in positions of a dimension, at which a launch with accumulators may be cut, so that no
/// block of rows is in two parts. `None`: nowhere.
fn whole_blocks(launch: &Launch<'_>, dimension: usize) -> Option<u64> {
    let (order, positions) = (launch.order, launch.dims[dimension].len());
    let rows = order.phase(0).end;
    let view = order.view();
    // The rows of a part are adjacent only if nothing that varies in a phase is slower; and a position must
    // have the same number of rows in every phase.
    let uniform = order.phases() == 1 || view.get().raw().phase_items == rows;
    let varies = |dim: &usize| order.every_phase_spans(*dim) && launch.dims[*dim].len() > 1;
    let slowest = order.dims_by_speed().find(varies);
    if !uniform || slowest != Some(dimension) || rows % positions != 0 {
        return None;
    }
    let per_position = rows / positions;
    let accumulators = launch.kernel.arguments.iter().zip(launch.args).filter(|(a, _)| a.operation.is_some());
    let most = accumulators.map(|(_, arg)| blocks(rows, arg.len, u64::from(arg.element_size)).rows).max()?;
    // Blocks are powers of two: the power of two in the rows of a position reduces the multiple.
    let multiple = most >> per_position.trailing_zeros().min(most.trailing_zeros());
    (multiple < positions).then_some(multiple)
}

/// The parts of a submission that is to be cut; `None`: it cannot be, and runs whole.
fn parts(
    list: &SubmissionList,
    node: &Node,
    plan: &Plan,
    targets: &[Target],
) -> Result<Option<Arc<Parts>>, Error> {
    let layouts = list.layouts_of(node);
    let launch = launch_of(list, node, plan, &layouts);
    // There are never more parts than items.
    let free = launch.order.items().min(u64::from(plan.subspaces)) as usize;
    let weights: SmallVec<[f64; 8]> = match &plan.weights {
        _ if plan.subspaces as usize > targets.len() => smallvec![1.0; free],
        Some(weights) => weights[..].into(),
        None => rate::weights(targets.iter().map(|target| target.rate.get())),
    };
    if weights.is_empty() {
        return Ok(None);
    }
    let Some(parts) = by_weights(plan, &launch, &weights)? else { return Ok(None) };
    let measured = plan.weights.is_none() && weights.len() == targets.len();
    let parts = if measured { with_probes(plan, &launch, parts)? } else { parts };
    Ok((!plan.whole || parts.lie_without_gaps(plan)).then_some(parts))
}

/// The parts of a launch in proportion to weights; `None`: it cannot be cut.
pub(super) fn by_weights(
    plan: &Plan,
    launch: &Launch<'_>,
    weights: &[f64],
) -> Result<Option<Arc<Parts>>, Error> {
    if let Some(parts) = plan.parts.cut_for(launch, weights) {
        return Ok(Some(parts));
    }
    let Some((dimension, cut)) = plan.part.cut(launch, weights, 1)? else { return Ok(None) };
    let Some(multiple) = multiple(plan, launch, dimension) else { return Ok(None) };
    let aligned = match multiple {
        1 => cut,
        _ => plan.part.cut(launch, weights, multiple)?.map_or(cut, |(_, cut)| cut),
    };
    plan.parts.parts(launch, Some(dimension), &aligned, weights).map(Some)
}

/// The multiple, in positions, at which a launch may be cut; `None`: nowhere.
fn multiple(plan: &Plan, launch: &Launch<'_>, dimension: usize) -> Option<u64> {
    let own = match (plan.reduces, dimension) {
        (true, _) => whole_blocks(launch, dimension)?,
        (false, 0) => ALIGN,
        (false, _) => 1,
    };
    Some(multiple_of_both(own, plan.alignment))
}

/// The same parts, with a small one for each device with an empty share that is to be measured.
fn with_probes(plan: &Plan, launch: &Launch<'_>, parts: Arc<Parts>) -> Result<Arc<Parts>, Error> {
    let targets = plan.targets()?;
    let is_left_out = |share: &usize| !parts.subspaces.iter().any(|part| part.share == *share);
    let probes = (0..targets.len()).filter(is_left_out).filter(|share| targets[*share].rate.wants_probe());
    let probes: SmallVec<[usize; 8]> = probes.collect();
    let Some(dimension) = parts.dimension.filter(|_| !probes.is_empty()) else { return Ok(parts) };
    let Some(multiple) = multiple(plan, launch, dimension) else { return Ok(parts) };
    let cut: Cut = parts.subspaces.iter().map(|part| (part.share, part.positions.clone())).collect();
    let cut = index::with_probes(cut, launch.dims[dimension].len(), multiple, &probes);
    // Not stored for any weights: the next launch gets the other parts again.
    plan.parts.parts(launch, Some(dimension), &cut, &[])
}

/// The device for a submission that is not cut: the one that has most of what earlier submissions made for
/// it, or else the next in turn, without devices that are busy for longer than the submission would take
/// elsewhere.
pub(super) fn choose(walk: &mut Scheduler<'_>, node: &Node, plan: &Plan, targets: &[Target]) -> usize {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let items = walk.list.order_of(node).items() as f64;
    let finish = |target: &Target| {
        let lane = Lanes::of(target.device).kernels.expected() as f64;
        lane + target.rate.get().unwrap_or(0.0) * items
    };
    // Device, its place, and the time when it would be done.
    let all = targets.iter().enumerate().map(|(i, target)| (i, place_of(target).1, finish(target)));
    let mut near: SmallVec<[(usize, Place, f64); 8]> = all.collect();
    // Devices that share the host's memory are equally near.
    if near.iter().any(|(_, place, _)| *place != near[0].1) {
        let mut bytes: SmallVec<[u64; 8]> = SmallVec::new();
        bytes.extend(near.iter().map(|(_, place, _)| walk.bytes_made_at(node, plan, *place)));
        let most = bytes.iter().max().copied();
        near.retain(|(i, ..)| Some(bytes[*i]) == most);
    }
    let best = near.iter().map(|(.., finish)| *finish).fold(f64::INFINITY, f64::min);
    // Below a microsecond no device counts as late.
    near.retain(|(.., finish)| *finish <= (2.0 * best).max(1_000.0));
    match near.len() {
        0 => 0,
        n => near[TURN.fetch_add(1, Relaxed) % n].0,
    }
}

/// The device that is expected to be free first.
pub(super) fn first_free(targets: &[Target]) -> u32 {
    let expected = |i: &u32| Lanes::of(targets[*i as usize].device).kernels.expected();
    (0..targets.len() as u32).min_by_key(expected).unwrap_or(0)
}
