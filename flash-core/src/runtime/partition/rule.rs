//! The rule by which launches of one kernel are cut: `part_by` with its names looked up.
//!
//! A [`PartRule`] is made once per plan, and a name that is not there is an error then. Afterwards it only
//! reads: a launch, and row pointers in arrays that are current on the host and not written meanwhile. If
//! an option asks for a cut that is not possible, that is an error; if only the definition does, the
//! launch runs whole.
//!
//! The boxes that maps give are not checked here: `evaluate` proves that they lie in their arrays and,
//! where written, apart. A map function is the user's. It runs with the mark of a kernel, so that it
//! cannot take guards or launch, and its panic is an error with its name.

use super::{Axes, Launch, candidate, part_error};
use crate::error::{Error, PartProblem};
use crate::kernel::{Candidate, PartitionMap};
use crate::nested::KernelMark;
use flash_backend::caught;
use flash_types::descriptor::{ArgumentDescriptor, AxisMap, KernelDescriptor, PartBy, View};
use flash_types::index::{Cut, Dim, cut, cut_by, cut_dimension, may_cut, value_range};
use smallvec::SmallVec;
use std::ops::Range;

/// A plan's `part_by`.
#[derive(Debug, Default)]
pub(crate) struct PartRule {
    dimension: Option<usize>,
    /// An option asks for it, and not only the definition.
    asked: bool,
    /// Per argument; `None`: by its view.
    maps: Vec<Option<Vec<Axis>>>,
    function: Option<&'static PartitionMap>,
    /// Some map reads the contents of an array.
    looks_inside: bool,
}

#[derive(Clone, Copy, Debug)]
enum Axis {
    All,
    Along { dim: usize, scale: u64, before: u64, after: u64 },
    Pointers { dim: usize, argument: usize },
}

/// The reason why a map cannot name an argument, if there is one.
pub(super) fn refusal(argument: &ArgumentDescriptor) -> Option<String> {
    let name = &argument.name;
    if argument.rows.is_some() {
        return Some(format!("`{name}` is a `Ragged`, whose elements follow from its rows"));
    }
    match argument.view {
        View::Window | View::Phased | View::Scatter => None,
        View::Scalar => Some(format!("`{name}` is a scalar")),
        View::Reduce => Some(format!("`{name}` is a `Reduce`, whose parts are merged")),
        View::Item => Some(format!("`{name}` is an `Item`, whose elements follow from its index")),
        View::Whole => Some(format!("`{name}` is a `Whole`, which is never cut: make it a `Window`")),
    }
}

impl PartRule {
    /// Looks up the names. `asked`: an option of the launch gives the rule, or of its runtime.
    pub fn new(descriptor: &KernelDescriptor, by: Option<&PartBy>, asked: bool) -> Result<PartRule, Error> {
        let arguments = &descriptor.arguments;
        // A plugin may say anything.
        let is_starts = |at: &usize| arguments.get(*at).is_some_and(|a| a.structure && a.element.is::<u64>());
        let own = |a: &ArgumentDescriptor| {
            let dim = a.along.first().copied().filter(|dim| *dim < descriptor.dimensions.len())?;
            Some(vec![Axis::Pointers { dim, argument: a.rows.filter(is_starts)? }])
        };
        let maps: Vec<_> = arguments.iter().map(own).collect();
        let looks_inside = maps.iter().any(Option::is_some);
        let Some(by) = by else {
            return Ok(PartRule { maps, looks_inside, ..PartRule::default() });
        };
        let error = |text: String| Error::Option {
            option: "part_by".to_owned(),
            text: format!("kernel `{}`: {text}", descriptor.name),
        };
        let dimension = |name: &String| {
            descriptor.dimensions.iter().position(|d| d == name).ok_or_else(|| {
                error(format!("no dimension `{name}`; it has {}", descriptor.dimensions.join(", ")))
            })
        };
        let called = |name: &String| match descriptor.called(name) {
            none if none.is_empty() => {
                let names: Vec<&str> = arguments.iter().map(|a| a.name.as_str()).collect();
                Err(error(format!("no argument `{name}`; it has {}", names.join(", "))))
            }
            numbers => Ok(numbers),
        };
        let mut rule = PartRule {
            dimension: by.dimension.as_ref().map(dimension).transpose()?,
            asked,
            maps,
            function: None,
            looks_inside,
        };
        for (name, map) in &by.arguments {
            let numbers = called(name)?;
            if let Some(why) = refusal(&arguments[numbers.start]) {
                return Err(error(format!("{why}: leave it out, or map a `Window`, `Phased` or `Scatter`")));
            }
            let axis = |axis: &AxisMap| {
                Ok(match axis {
                    AxisMap::All => Axis::All,
                    AxisMap::Along { dimension: name, scale, before, after } => {
                        let dim = dimension(name)?;
                        Axis::Along { dim, scale: *scale, before: *before, after: *after }
                    }
                    AxisMap::Pointers { dimension: name, pointers } => {
                        let numbers = called(pointers)?;
                        if numbers.len() > 1 {
                            return Err(error(format!("`{pointers}` is a group: name one of its arguments")));
                        }
                        let number = numbers.start;
                        let spec = &arguments[number];
                        if !spec.structure || !POINTERS.contains(&spec.element.name.as_str()) {
                            return Err(error(format!(
                                "row pointers are a `Whole` of {} that is marked `#[structure]`, `{pointers}` is `{spec}`{}",
                                POINTERS.join(", "),
                                if spec.structure { "" } else { " without that mark" }
                            )));
                        }
                        Axis::Pointers { dim: dimension(name)?, argument: number }
                    }
                })
            };
            let axes = map.0.iter().map(axis).collect::<Result<Vec<Axis>, Error>>()?;
            rule.looks_inside |= axes.iter().any(|axis| matches!(axis, Axis::Pointers { .. }));
            rule.maps[numbers].fill(Some(axes));
        }
        if let Some(name) = &by.function {
            let function = PartitionMap::find(name).map_err(|known| {
                error(format!(
                    "no map `{name}` in this program, expected one of [{}]: register it with `partition_map!`",
                    known.join(", ")
                ))
            })?;
            rule.function = Some(function);
            rule.looks_inside |= arguments.iter().any(|a| a.structure);
        }
        Ok(rule)
    }

    /// The map function, if it has one.
    pub fn function(&self) -> Option<&'static PartitionMap> {
        self.function
    }

    /// Whether some map is of a dimension for which `is_so` holds.
    pub fn names(&self, is_so: impl Fn(usize) -> bool) -> bool {
        self.maps.iter().flatten().flatten().any(|axis| match *axis {
            Axis::All => false,
            Axis::Along { dim, .. } | Axis::Pointers { dim, .. } => is_so(dim),
        })
    }

    /// Whether boxes depend on the contents of arrays, so that they cannot be kept.
    pub fn looks_inside(&self) -> bool {
        self.looks_inside
    }

    /// The cut of a launch for shares of these weights: the dimension and the positions, on multiples of
    /// `multiple` positions. `None`: it runs whole.
    ///
    /// # Errors
    /// If an option names a dimension along which the launch cannot be cut, or a map fails. Where only the
    /// definition does, the launch runs whole.
    pub fn cut(
        &self,
        launch: &Launch<'_>,
        weights: &[f64],
        multiple: u64,
    ) -> Result<Option<(usize, Cut)>, Error> {
        let traits = launch.kernel.traits();
        if launch.order.items() == 0 {
            return Ok(None);
        }
        // A whole run is as good, where a cut was not asked for.
        if !self.asked && self.has_unmapped_scatter(launch) {
            return Ok(None);
        }
        let dim = match self.dimension {
            Some(dim) if launch.dims[dim].len() < 2 => return Ok(None),
            Some(dim) if may_cut(launch.order, dim, &traits) => dim,
            Some(_) if !self.asked => return Ok(None),
            Some(dim) => {
                let dimension = launch.kernel.descriptor.dimensions[dim].clone();
                return Err(part_error(launch, PartProblem::Barrier { dimension }));
            }
            None if self.has_unmapped_scatter(launch) => return Ok(None),
            None => match cut_dimension(launch.order, launch.dims, &traits) {
                Some(dim) => dim,
                None => return Ok(None),
            },
        };
        let count = launch.dims[dim].len();
        let positions = match self.cost(launch, dim)? {
            Some(cost) => {
                let failed = std::cell::Cell::new(None);
                let of = |positions: u64| {
                    cost.of(launch, dim, positions).unwrap_or_else(|error| {
                        failed.set(Some(error));
                        0
                    })
                };
                let positions = cut_by(count, weights, multiple, of(count), of);
                match failed.take() {
                    Some(error) => return Err(error),
                    None => positions,
                }
            }
            None => cut(count, weights, multiple),
        };
        Ok(Some((dim, positions)))
    }

    fn has_unmapped_scatter(&self, launch: &Launch<'_>) -> bool {
        let arguments = launch.kernel.arguments.iter().zip(&self.maps);
        self.function.is_none()
            && arguments.into_iter().any(|(a, map)| a.view == View::Scatter && map.is_none())
    }

    /// The cost of positions, if it is not uniform.
    fn cost(&self, launch: &Launch<'_>, dim: usize) -> Result<Option<CutCost>, Error> {
        // Costs are of ranges of values: the first positions have to form one.
        let first = match launch.dims[dim] {
            Dim::Count(_) => 0,
            Dim::Range { start, step: 1, .. } => start,
            _ => return Ok(None),
        };
        if self.function.is_some_and(|function| function.cost().is_some()) {
            return Ok(Some(CutCost::Function));
        }
        let mut axes = self.maps.iter().flatten().flatten();
        let pointers = axes.find_map(|axis| match *axis {
            Axis::Pointers { dim: along, argument } if along == dim => Some(argument),
            _ => None,
        });
        Ok(pointers.map(|argument| CutCost::Pointers { argument, first }))
    }

    /// The ranges that a map gives for an argument; `None`: none does.
    pub(super) fn axes(
        &self,
        launch: &Launch<'_>,
        i: usize,
        values: &[Range<u64>],
        extents: &[u64],
    ) -> Result<Option<Axes>, Error> {
        let Some(map) = &self.maps[i] else { return Ok(None) };
        let axis = |(a, axis): (usize, &Axis)| {
            // A map with too many axes is refused later, with a message that names all.
            let extent = extents.get(a).copied().unwrap_or(0);
            Ok(match *axis {
                Axis::All => 0..extent,
                // One element per value: if there are more values than elements, the map is of another array.
                Axis::Along { dim, scale: 1, before: 0, after: 0 } => values[dim].clone(),
                Axis::Along { dim, scale, before, after } => {
                    let first = values[dim].start.saturating_mul(scale).saturating_sub(before).min(extent);
                    let last = values[dim].end.saturating_mul(scale).saturating_add(after).min(extent);
                    first..last
                }
                Axis::Pointers { dim, argument } => {
                    let first = pointer(launch, argument, values[dim].start)?;
                    first..pointer(launch, argument, values[dim].end)?
                }
            })
        };
        map.iter().enumerate().map(axis).collect::<Result<Axes, Error>>().map(Some)
    }

    /// Calls the function. If it panics, the error has its name and the panic's text.
    pub(super) fn call<R>(
        &self,
        launch: &Launch<'_>,
        values: &[Range<u64>],
        body: impl FnOnce(&'static PartitionMap, &Candidate<'_>) -> R,
    ) -> Result<R, (String, String)> {
        let function = self.function.unwrap_or_else(|| unreachable!("only rules with a function call it"));
        // Without a shape, the function gets the length.
        let lengths: SmallVec<[[u64; 1]; 8]> = launch.args.iter().map(|arg| [arg.len]).collect();
        let shapes = launch.layouts.iter().map(|layout| layout.extents).zip(&lengths);
        let shapes: SmallVec<[&[u64]; 8]> =
            shapes.map(|(shape, len)| if shape.is_empty() { &len[..] } else { shape }).collect();
        // SAFETY: the conditions of `Launch::args` hold for as long as the launch is borrowed.
        let candidate = unsafe { candidate(launch, values, &shapes) };
        let marked = || {
            // The launch holds its memories already: a guard taken here would wait for itself.
            let _mark = KernelMark::set();
            body(function, &candidate)
        };
        caught(marked).map_err(|panic| (function.name().to_owned(), panic))
    }
}

/// The cost of positions of the dimension of a cut.
enum CutCost {
    /// The difference of row pointers, for values from `first` on.
    Pointers { argument: usize, first: u64 },
    /// The result of the function.
    Function,
}

impl CutCost {
    /// The cost of the first `positions`.
    fn of(&self, launch: &Launch<'_>, dim: usize, positions: u64) -> Result<u64, Error> {
        match *self {
            CutCost::Pointers { argument, first } => {
                let begin = pointer(launch, argument, first)?;
                Ok(pointer(launch, argument, first + positions)?.saturating_sub(begin))
            }
            CutCost::Function => {
                let rule = &launch.rule;
                let mut values: Axes = launch.dims.iter().map(|d| value_range(d).0).collect();
                values[dim].end = values[dim].start + positions;
                let cost = rule.call(launch, &values, |function, candidate| {
                    function.cost().map_or(0, |cost| cost(candidate))
                });
                cost.map_err(|(map, text)| {
                    let subspace = super::subspace(launch, Some(dim), &values);
                    part_error(launch, PartProblem::Panicked { map, subspace, text })
                })
            }
        }
    }
}

/// Types of row pointers.
const POINTERS: [&str; 4] = ["u32", "u64", "i32", "i64"];

/// A row pointer, by the index value of the row.
fn pointer(launch: &Launch<'_>, argument: usize, row: u64) -> Result<u64, Error> {
    let (arg, spec) = (&launch.args[argument], &launch.kernel.descriptor.arguments[argument]);
    let error =
        |text: String| part_error(launch, PartProblem::Pointers { argument: spec.name.clone(), text });
    if row >= arg.len {
        return Err(error(format!(
            "row pointers of {} elements, expected {} at least: one more than there are rows",
            arg.len,
            row + 1
        )));
    }
    // SAFETY: `Launch::args` requires that the array is present and not written; `row` lies inside, and
    // `PartRule::new` has checked that the elements are one of these types.
    let value = unsafe {
        match spec.element.name.as_str() {
            "u32" => u64::from(*arg.data.cast::<u32>().add(row as usize)),
            "u64" => *arg.data.cast::<u64>().add(row as usize),
            "i32" => i64::from(*arg.data.cast::<i32>().add(row as usize)) as u64,
            _ => *arg.data.cast::<i64>().add(row as usize) as u64,
        }
    };
    if value > i64::MAX as u64 {
        return Err(error(format!("row pointer {row} is below zero")));
    }
    Ok(value)
}
