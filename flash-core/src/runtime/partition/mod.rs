//! The elements of each array that each part of a launch touches.
//!
//! Three steps, all pure. [`PartRule::cut`] finds the dimension and the positions at which a launch is cut.
//! [`evaluate`] makes boxes of elements from that and proves them. [`Cache`] keeps the result, so that a
//! repeated launch is not evaluated again. Boxes are in the *launch's* grid of an array: its shape as the
//! launch sees it, folded to three axes, axis 0 contiguous.

mod cache;
mod footprint;
mod grid;
mod rule;
#[cfg(test)]
mod tests;

pub(crate) use cache::Cache;
pub(crate) use footprint::{ArgumentFootprint, Footprint};
pub(crate) use grid::{ElementBox, LaunchGrid};
pub(crate) use rule::PartRule;

use super::facts::{ArgumentFacts, KernelFacts};
use super::proof::{argument_error, index_error, item_grid};
use crate::error::{Error, PartError, PartProblem};
use crate::kernel::{Boxes, Candidate, PartitionMap};
use crate::memory::ArrayLayout;
use flash_types::abi;
use flash_types::descriptor::{Access, View};
use flash_types::index::{Cut, Dim, DimList, Order, restrict, value_range};
use smallvec::SmallVec;
use std::ops::Range;

/// A recorded launch.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub kernel: &'a KernelFacts,
    pub rule: &'a PartRule,
    /// Some implementation has the same slices of its own elements in all phases.
    pub whole: bool,
    pub order: &'a Order,
    pub dims: &'a [Dim],
    /// As recorded: addresses are the host's. Scalars, and arrays that are marked as structure, are current
    /// there and not written meanwhile.
    pub args: &'a [abi::Arg],
    /// Per argument its shape as the launch sees it, if it has one.
    pub layouts: &'a [ArrayLayout<'a>],
}

/// A launch in parts. Every item of it belongs to exactly one.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The dimension of the cut; `None`: there is one part.
    pub dimension: Option<usize>,
    /// Per argument, the launch's grid of the array; meaningless for scalars.
    pub grids: SmallVec<[LaunchGrid; 8]>,
    pub subspaces: Vec<Subspace>,
}

/// One part of a launch.
#[derive(Debug)]
pub(crate) struct Subspace {
    /// Its share, by position in the weights.
    pub share: usize,
    /// Positions along the dimension of the cut.
    pub positions: Range<u64>,
    pub dims: DimList,
    /// It has the phases of the whole launch, each with its share of the items.
    pub order: Order,
    /// Per argument, over all phases.
    pub touched: SmallVec<[PartFootprint; 8]>,
    /// The same for each phase, if phases differ.
    by_phase: Vec<SmallVec<[PartFootprint; 8]>>,
}

/// The elements of one array that one part of a launch touches. For a scalar: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartFootprint {
    /// Elements that it may read.
    pub read: Option<Extent>,
    /// Elements that it may write; disjoint from those of every other part.
    pub written: Option<Extent>,
    /// Every element of `written` is some item's own.
    pub covered: bool,
    /// The same holds in each single phase.
    pub covered_by_phase: bool,
}

/// Elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All, also those beyond the shape.
    All,
    Box(ElementBox),
}

impl Subspace {
    /// The elements that it touches of an argument in these phases: one of them, or all.
    pub fn touched_in(&self, argument: usize, phases: &Range<u64>) -> &PartFootprint {
        match self.by_phase.get(phases.start as usize) {
            Some(one) if phases.end - phases.start == 1 => &one[argument],
            _ => &self.touched[argument],
        }
    }

    /// True if it touches different elements in different phases.
    pub fn changes(&self) -> bool {
        !self.by_phase.is_empty()
    }
}

impl PartFootprint {
    /// The union over phases.
    fn or(&self, other: &PartFootprint) -> PartFootprint {
        let either = |a: Option<Extent>, b: Option<Extent>| match (a, b) {
            (Some(Extent::Box(a)), Some(Extent::Box(b))) => Some(Extent::Box(a.hull(&b))),
            (Some(Extent::All), _) | (_, Some(Extent::All)) => Some(Extent::All),
            (one, None) | (None, one) => one,
        };
        PartFootprint {
            read: either(self.read, other.read),
            written: either(self.written, other.written),
            covered: self.covered && other.covered,
            covered_by_phase: self.covered_by_phase && other.covered_by_phase,
        }
    }

    /// The smallest box that contains all touched elements; `None`: all of the array, or none.
    pub fn hull(&self) -> Option<ElementBox> {
        match (self.read, self.written) {
            (Some(Extent::Box(a)), Some(Extent::Box(b))) => Some(a.hull(&b)),
            (Some(Extent::Box(a)), None) | (None, Some(Extent::Box(a))) => Some(a),
            _ => None,
        }
    }
}

impl Parts {
    /// Whether every part's own elements are adjacent, in every array that the index names. A `whole`
    /// implementation gets them as a slice, which must contain no element of another part. With stages, one
    /// part may read elements that are in another part's slice.
    pub fn lie_without_gaps(&self, kernel: &KernelFacts) -> bool {
        kernel.arguments.iter().enumerate().all(|(i, spec)| {
            let own = |part: &Subspace| match spec.view {
                View::Item => part.touched[i].hull(),
                View::Phased => part.touched[i].written.and_then(|written| match written {
                    Extent::Box(own) => Some(own),
                    Extent::All => None,
                }),
                _ => Some(ElementBox::EMPTY),
            };
            let solid = |part| own(part).is_some_and(|own| self.grids[i].is_solid(&own));
            spec.stages.is_none() && self.subspaces.iter().all(solid)
        })
    }
}

/// Makes the parts of a launch that is cut at these positions. Without a dimension there is one part, of the
/// first share.
pub(crate) fn evaluate(launch: &Launch<'_>, dimension: Option<usize>, cut: &Cut) -> Result<Parts, Error> {
    let kernel = launch.kernel;
    let mut parts = Parts { dimension, grids: SmallVec::new(), subspaces: Vec::new() };
    if launch.order.items() == 0 {
        return Ok(parts);
    }
    let mut shapes: SmallVec<[SmallVec<[u64; 4]>; 8]> = SmallVec::new();
    for (i, spec) in kernel.arguments.iter().enumerate() {
        let extents = extents(launch, i, spec).map_err(|text| argument_error(kernel, i, text))?;
        let strides = launch.layouts[i].strides;
        parts.grids.push(LaunchGrid::of_layout(&ArrayLayout { extents: &extents, strides }));
        shapes.push(extents);
    }
    let whole = Cut::from_iter([(0, 0..0)]);
    for (share, positions) in if dimension.is_some() { cut } else { &whole } {
        let dims = match dimension {
            Some(dim) => restrict(launch.dims, dim, positions.clone()),
            None => launch.dims.iter().cloned().collect(),
        };
        let order = Order::new(&dims, &kernel.traits()).map_err(|e| index_error(kernel, e))?;
        let all = MapQuery { dimension, dims: &dims, order: &order, shapes: &shapes, phase: None };
        let by_phase = match dimension {
            Some(_) if cut.len() as u64 * order.phases() <= MANY_PHASES => by_phase(launch, &all)?,
            _ => Vec::new(),
        };
        let touched = match by_phase.split_first() {
            Some((first, rest)) => over_all(launch, &all, first, rest),
            None => touched(launch, &all)?.0,
        };
        let positions = positions.clone();
        parts.subspaces.push(Subspace { share: *share, positions, dims, order, touched, by_phase });
    }
    prove_apart(launch, &parts)?;
    Ok(parts)
}

/// The axes of an array, not folded.
fn extents(launch: &Launch<'_>, i: usize, spec: &ArgumentFacts) -> Result<SmallVec<[u64; 4]>, String> {
    let (arg, shape) = (&launch.args[i], launch.layouts[i].extents);
    match spec.view {
        View::Scalar => Ok(SmallVec::new()),
        View::Item | View::Phased => {
            let grid = item_grid(launch.dims, spec, shape, arg.len)?;
            Ok(spec.row.then_some(grid.row_len).into_iter().chain(grid.extents).collect())
        }
        View::Whole | View::Scatter | View::Window | View::Reduce if shape.is_empty() => {
            Ok(SmallVec::from_slice(&[arg.len]))
        }
        View::Whole | View::Scatter | View::Window | View::Reduce => Ok(SmallVec::from_slice(shape)),
    }
}

/// Up to this many phases of all parts together, each phase is evaluated by itself.
const MANY_PHASES: u64 = 4096;

/// A subspace, or one phase of it.
struct MapQuery<'a> {
    /// The dimension of the cut.
    dimension: Option<usize>,
    dims: &'a [Dim],
    order: &'a Order,
    /// Per argument.
    shapes: &'a [SmallVec<[u64; 4]>],
    phase: Option<u64>,
}

impl MapQuery<'_> {
    /// True if the values of a dimension differ from phase to phase.
    fn changes(&self, dim: usize) -> bool {
        self.dims[dim].len() > 1 && self.order.constant_within_phases(dim)
    }

    /// The dimensions with their values in this phase. Those that are neither constant in a phase nor
    /// complete in each phase are given in full.
    fn own_dims(&self) -> DimList {
        let Some(phase) = self.phase else { return self.dims.iter().cloned().collect() };
        let mut positions: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.dims.len());
        self.order.position(self.order.phase(phase).start, &mut positions);
        let own = |(dim, at): (usize, u64)| match self.changes(dim) {
            true => restrict(self.dims, dim, at..at + 1).swap_remove(dim),
            false => self.dims[dim].clone(),
        };
        positions.into_iter().enumerate().map(own).collect()
    }
}

/// The elements that a subspace touches in each of its phases; empty, if all phases are equal.
fn by_phase(launch: &Launch<'_>, all: &MapQuery<'_>) -> Result<Vec<SmallVec<[PartFootprint; 8]>>, Error> {
    let phases = all.order.phases();
    // A `whole` implementation has the same slices in all phases.
    if phases < 2 || launch.whole || !(0..all.dims.len()).any(|dim| all.changes(dim)) {
        return Ok(Vec::new());
    }
    let (first, differs) = touched(launch, &MapQuery { phase: Some(0), ..*all })?;
    if !differs {
        return Ok(Vec::new());
    }
    let mut by_phase = vec![first];
    for phase in 1..phases {
        by_phase.push(touched(launch, &MapQuery { phase: Some(phase), ..*all })?.0);
    }
    Ok(by_phase)
}

/// The elements that a subspace touches in all of its phases together.
fn over_all(
    launch: &Launch<'_>,
    all: &MapQuery<'_>,
    first: &[PartFootprint],
    rest: &[SmallVec<[PartFootprint; 8]>],
) -> SmallVec<[PartFootprint; 8]> {
    let over_all = |(i, first): (usize, &PartFootprint)| match &launch.kernel.arguments[i] {
        // Phases together may cover what no single phase does.
        spec if spec.view == View::Item => own(spec, all.dims, all, &all.shapes[i], None),
        _ => rest.iter().fold(first.clone(), |touched, phase| touched.or(&phase[i])),
    };
    first.iter().enumerate().map(over_all).collect()
}

/// The elements that a subspace touches of each argument, and whether they differ in another phase.
fn touched(launch: &Launch<'_>, asked: &MapQuery<'_>) -> Result<(SmallVec<[PartFootprint; 8]>, bool), Error> {
    let (kernel, dimension, shapes) = (launch.kernel, asked.dimension, asked.shapes);
    let dims = &asked.own_dims()[..];
    let values: SmallVec<[Range<u64>; 4]> = dims.iter().map(|dim| value_range(dim).0).collect();
    let mut differs = launch.rule.names(|dim| asked.changes(dim));
    let said = match launch.rule.function() {
        Some(_) => {
            let (said, looked) = ask(launch, dimension, &values, |dim| asked.changes(dim))?;
            differs |= looked;
            Some(said)
        }
        None => None,
    };
    let mut all = SmallVec::new();
    for (i, spec) in kernel.arguments.iter().enumerate() {
        let mapped = match &said {
            Some(said) => said_of(launch, dimension, &values, said, i)?,
            None => None,
        };
        let mapped = match mapped {
            Some(axes) => Some(axes),
            None => launch.rule.axes(launch, i, &values, &shapes[i])?,
        };
        let mapped = match mapped {
            Some(axes) => Some(inside(launch, dimension, &values, i, axes, &shapes[i])?),
            None => None,
        };
        all.push(match spec.view {
            View::Scalar => PartFootprint::default(),
            View::Item => {
                differs |= spec.along.iter().any(|&dim| asked.changes(dim));
                own(spec, dims, asked, &shapes[i], None)
            }
            // Its buffers change roles with all own elements, whichever of them a phase writes.
            View::Phased => own(spec, asked.dims, asked, &shapes[i], mapped),
            View::Whole => PartFootprint { read: Some(Extent::All), ..PartFootprint::default() },
            View::Window => PartFootprint { read: mapped.or(Some(Extent::All)), ..PartFootprint::default() },
            // All of it, by every part, into accumulators of their own that are merged.
            View::Reduce => PartFootprint {
                read: (spec.access != Access::Write).then_some(Extent::All),
                written: Some(Extent::All),
                covered: true,
                covered_by_phase: true,
            },
            View::Scatter => {
                let extent = mapped.or(Some(Extent::All));
                PartFootprint { read: extent, written: extent, ..PartFootprint::default() }
            }
        });
    }
    Ok((all, differs))
}

/// The own elements of an `Item` or a `Phased`, for these values of the dimensions. `mapped`: the elements
/// that a `Phased` reads beside them.
fn own(
    spec: &ArgumentFacts,
    dims: &[Dim],
    asked: &MapQuery<'_>,
    extents: &[u64],
    mapped: Option<Extent>,
) -> PartFootprint {
    let (mut axes, mut covered): (SmallVec<[Range<u64>; 4]>, bool) = (SmallVec::new(), true);
    axes.extend(spec.row.then(|| 0..extents[0]));
    for (axis, &dim) in spec.along.iter().enumerate() {
        let (values, every) = value_range(&dims[dim]);
        covered &= every;
        let (tile, extent) = (spec.tile_along(axis), extents[axis + usize::from(spec.row)]);
        axes.push(values.start.saturating_mul(tile)..values.end.saturating_mul(tile).min(extent));
    }
    let (elements, exact) = ElementBox::folded(&axes, extents);
    let own = Extent::Box(elements);
    let spanned = |dim: &usize| asked.order.every_phase_spans(*dim);
    // In one phase, dimensions with only some of their values do not have each combination with the others.
    let in_phase = |dim: &usize| asked.phase.is_none() || spanned(dim) || asked.changes(*dim);
    let covered = covered && exact && (spec.view == View::Phased || spec.along.iter().all(in_phase));
    let covered_by_phase = covered && spec.along.iter().all(spanned);
    let read = match (spec.view, mapped) {
        (View::Phased, Some(Extent::Box(around))) => Some(Extent::Box(around.hull(&elements))),
        (View::Phased, _) => Some(Extent::All),
        _ => (spec.access != Access::Write).then_some(own),
    };
    match spec.access {
        Access::Read => PartFootprint { read, ..PartFootprint::default() },
        _ => PartFootprint { read, written: Some(own), covered, covered_by_phase },
    }
}

/// Calls the rule's function for the boxes of a subspace. Also returns whether it used one of these
/// dimensions.
fn ask(
    launch: &Launch<'_>,
    dimension: Option<usize>,
    values: &[Range<u64>],
    changes: impl Fn(usize) -> bool,
) -> Result<(Boxes, bool), Error> {
    let boxes = |function: &PartitionMap, candidate: &Candidate<'_>| {
        let boxes = function.boxes(candidate);
        (boxes, (0..values.len()).any(|dim| changes(dim) && candidate.was_asked_for(dim)))
    };
    launch.rule.call(launch, values, boxes).map_err(|(map, text)| {
        part_error(launch, PartProblem::Panicked { map, subspace: subspace(launch, dimension, values), text })
    })
}

/// The function's result for an argument: a range per axis.
fn said_of(
    launch: &Launch<'_>,
    dimension: Option<usize>,
    values: &[Range<u64>],
    said: &Boxes,
    i: usize,
) -> Result<Option<Axes>, Error> {
    let descriptor = &launch.kernel.descriptor;
    if i == 0 {
        for (name, _) in said.iter() {
            // All arguments of a group are alike.
            let argument = descriptor.called(name).next().map(|number| &descriptor.arguments[number]);
            let why = match argument {
                None => format!("the kernel has no argument `{name}`"),
                Some(a) => match rule::refusal(a) {
                    Some(why) => why,
                    None => continue,
                },
            };
            let subspace = subspace(launch, dimension, values);
            return Err(part_error(
                launch,
                PartProblem::NotMapped { argument: name.to_owned(), subspace, why },
            ));
        }
    }
    let of_it = said.iter().filter(|(name, _)| descriptor.called(name).contains(&i));
    Ok(of_it.last().map(|(_, axes)| axes.iter().cloned().collect()))
}

/// A range per axis of an array.
type Axes = SmallVec<[Range<u64>; 4]>;

/// A box of an array, if it lies inside it.
fn inside(
    launch: &Launch<'_>,
    dimension: Option<usize>,
    values: &[Range<u64>],
    i: usize,
    mut axes: Axes,
    extents: &[u64],
) -> Result<Extent, Error> {
    let argument = || launch.kernel.descriptor.arguments[i].name.clone();
    if axes.is_empty() {
        return Ok(Extent::All);
    }
    if axes.len() > extents.len() {
        let (axes, shape) = (axes.len(), extents.to_vec());
        return Err(part_error(launch, PartProblem::Axes { argument: argument(), axes, shape }));
    }
    axes.extend(extents[axes.len()..].iter().map(|&extent| 0..extent));
    let bad = |(range, &extent): (&Range<u64>, &u64)| range.start > range.end || range.end > extent;
    if axes.iter().zip(extents).any(bad) {
        return Err(part_error(
            launch,
            PartProblem::Outside {
                argument: argument(),
                found: axes.to_vec(),
                shape: extents.to_vec(),
                subspace: subspace(launch, dimension, values),
            },
        ));
    }
    Ok(Extent::Box(ElementBox::folded(&axes, extents).0))
}

/// Proves that no two subspaces write the same element.
fn prove_apart(launch: &Launch<'_>, parts: &Parts) -> Result<(), Error> {
    for (i, spec) in launch.kernel.arguments.iter().enumerate() {
        if matches!(spec.view, View::Scalar | View::Reduce) || spec.access == Access::Read {
            continue;
        }
        for (s, first) in parts.subspaces.iter().enumerate() {
            for second in &parts.subspaces[s + 1..] {
                let Ok(clash) = clash(first, second, i) else {
                    let argument = launch.kernel.descriptor.arguments[i].name.clone();
                    return Err(part_error(launch, PartProblem::NoMap { argument }));
                };
                if let Some(boxes) = clash {
                    let name = |part: &Subspace| {
                        let values: Axes = part.dims.iter().map(|dim| value_range(dim).0).collect();
                        subspace(launch, parts.dimension, &values)
                    };
                    return Err(part_error(
                        launch,
                        PartProblem::Overlap {
                            argument: launch.kernel.descriptor.arguments[i].name.clone(),
                            boxes: boxes.map(|b| b.ranges().to_vec()),
                            shape: parts.grids[i].extents.to_vec(),
                            subspaces: [name(first), name(second)],
                        },
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The elements that two subspaces both write of an argument in one phase. An error: one of them writes all.
fn clash(first: &Subspace, second: &Subspace, i: usize) -> Result<Option<[ElementBox; 2]>, ()> {
    let pair = |a: &PartFootprint, b: &PartFootprint| match (a.written, b.written) {
        (Some(Extent::Box(a)), Some(Extent::Box(b))) => Ok(a.meets(&b).then_some([a, b])),
        (Some(_), Some(_)) => Err(()),
        _ => Ok(None),
    };
    if !first.changes() && !second.changes() {
        return pair(&first.touched[i], &second.touched[i]);
    }
    for phase in 0..first.order.phases() {
        let one = phase..phase + 1;
        if let Some(clash) = pair(first.touched_in(i, &one), second.touched_in(i, &one))? {
            return Ok(Some(clash));
        }
    }
    Ok(None)
}

/// A subspace in messages: `` `y` 0..50 ``.
fn subspace(launch: &Launch<'_>, dimension: Option<usize>, values: &[Range<u64>]) -> String {
    match dimension {
        Some(dim) => format!("`{}` {:?}", launch.kernel.descriptor.dimensions[dim], values[dim]),
        None => "the whole space".to_owned(),
    }
}

#[cold]
fn part_error(launch: &Launch<'_>, problem: PartProblem) -> Error {
    Error::Partition { kernel: launch.kernel.descriptor.name.clone(), source: Box::new(PartError(problem)) }
}

/// # Safety
/// As [`Launch::args`] requires.
unsafe fn candidate<'a>(
    launch: &Launch<'a>,
    values: &'a [Range<u64>],
    shapes: &'a [&'a [u64]],
) -> Candidate<'a> {
    // SAFETY: the caller vouches.
    unsafe { Candidate::new(&launch.kernel.descriptor, values, launch.args, shapes) }
}
