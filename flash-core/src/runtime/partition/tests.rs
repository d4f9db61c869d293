//! Boxes of random launches against sets of elements, and refused maps.

use super::*;
use crate::kernel::partition_map;
use crate::runtime::plan::{Plan, PlannedKernel};
use flash_types::descriptor::{
    ArgumentDescriptor, ArrayMap, Attributes, AxisMap, ElementType, GroupBy, KernelDescriptor, PartBy, Use,
    columns, csr_rows, part_by, rows, stencil, tiles,
};
use flash_types::index::{OrderTraits, count_by};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn argument(name: &str, view: View, access: Access, along: &[usize]) -> ArgumentDescriptor {
    ArgumentDescriptor {
        name: name.to_owned(),
        view,
        access,
        element: ElementType::of::<u32>(),
        row: false,
        along: along.to_vec(),
        stages: None,
        tile: Vec::new(),
        rows: None,
        structure: false,
        reduce: None,
    }
}

fn plan(dims: usize, arguments: Vec<ArgumentDescriptor>, by: Option<PartBy>) -> Result<Plan, Error> {
    grouped_plan(dims, arguments, by, None)
}

fn grouped_plan(
    dims: usize,
    arguments: Vec<ArgumentDescriptor>,
    by: Option<PartBy>,
    group: Option<GroupBy>,
) -> Result<Plan, Error> {
    let mut attributes = Attributes::default();
    by.into_iter().for_each(|by| attributes.set(by));
    group.into_iter().for_each(|group| attributes.set(group));
    let names = ["x", "y", "z", "w"];
    let descriptor = KernelDescriptor {
        name: "k".into(),
        dimensions: names[..dims].iter().map(|n| (*n).to_owned()).collect(),
        arguments,
        attributes: Attributes::default(),
    };
    let kernel = PlannedKernel { type_id: None, descriptor: &descriptor, operations: &[], own: None };
    Plan::new(kernel, &attributes, |_, _| Err(crate::runtime::choose::none(&descriptor, &[], Vec::new())))
}

/// A launch with arrays of these shapes, without addresses.
struct Recorded {
    plan: Plan,
    dims: Vec<Dim>,
    order: Order,
    args: Vec<abi::Arg>,
    shapes: Vec<Vec<u64>>,
}

impl Recorded {
    fn new(plan: Plan, dims: Vec<Dim>, shapes: Vec<Vec<u64>>) -> Recorded {
        let order = Order::new(&dims, &plan.traits()).unwrap();
        let len = |shape: &Vec<u64>| shape.iter().product();
        let args = plan.template.iter().zip(&shapes).map(|(arg, shape)| abi::Arg { len: len(shape), ..*arg });
        Recorded { args: args.collect(), plan, dims, order, shapes }
    }

    fn with<R>(&self, body: impl FnOnce(&Launch<'_>) -> R) -> R {
        let layouts: Vec<ArrayLayout<'_>> = self.shapes.iter().map(|shape| ArrayLayout::of(shape)).collect();
        let (plan, order, dims) = (&self.plan, &self.order, &self.dims[..]);
        body(&Launch {
            kernel: plan,
            rule: &plan.part,
            whole: plan.whole,
            order,
            dims,
            args: &self.args,
            layouts: &layouts,
        })
    }

    fn cut(&self, weights: &[f64]) -> Result<Option<(usize, Cut)>, Error> {
        self.with(|launch| self.plan.part.cut(launch, weights, 1))
    }

    fn parts(&self, weights: &[f64]) -> Result<std::sync::Arc<Parts>, Error> {
        let cut = self.cut(weights)?;
        let (dimension, cut) = cut.map_or((None, Cut::new()), |(dim, cut)| (Some(dim), cut));
        self.with(|launch| self.plan.parts.parts(launch, dimension, &cut, weights))
    }

    fn refused(&self, weights: &[f64]) -> (PartProblem, String) {
        let error = self.parts(weights).unwrap_err();
        let text = error.to_string();
        match error {
            Error::Partition { source, .. } => (source.0, text),
            other => panic!("{other}"),
        }
    }
}

/// The index values of all items.
fn items(order: &Order, dims: usize) -> Vec<Vec<u64>> {
    let value = |row| {
        let mut at = vec![0; dims];
        order.value(row, &mut at);
        at
    };
    (0..order.items()).map(value).collect()
}

fn any_dim() -> impl Strategy<Value = Dim> {
    prop_oneof![
        4 => (1u64..6).prop_map(Dim::Count),
        1 => (0u64..4, 1i64..3, 1u64..5).prop_map(|(start, step, count)| Dim::Range { start, step, count }),
        1 => (8u64..12, -2i64..0, 1u64..5).prop_map(|(start, step, count)| Dim::Range { start, step, count }),
        2 => prop::collection::btree_set(0u64..9, 1..5).prop_map(count_by),
        2 => prop::collection::btree_set(0u64..9, 1..5)
            .prop_map(|s| s.into_iter().collect::<Vec<_>>()).prop_shuffle().prop_map(count_by),
    ]
}

/// A map of one axis: a dimension, scale, before, after.
type AnyAxis = Option<(usize, u64, u64, u64)>;

#[derive(Clone, Debug)]
struct Case {
    dims: Vec<Dim>,
    along: Vec<usize>,
    /// Extra elements of the written array beyond the largest values.
    margin: Vec<u64>,
    window: Vec<AnyAxis>,
    window_shape: Vec<u64>,
    named: Option<usize>,
    weights: Vec<f64>,
}

fn any_case() -> impl Strategy<Value = Case> {
    (1usize..=4).prop_flat_map(|n| {
        let along = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
        let axis = prop_oneof![1 => Just(None), 4 => (0..n, 0u64..3, 0u64..3, 0u64..3).prop_map(Some)];
        let window = (1usize..=4).prop_flat_map(move |axes| {
            (prop::collection::vec(axis.clone(), 1..=axes), prop::collection::vec(1u64..12, axes))
        });
        let weights = prop::collection::vec(0.1f64..3.0, 1..5);
        let named = prop_oneof![Just(None), (0..n).prop_map(Some)];
        (
            prop::collection::vec(any_dim(), n),
            along,
            prop::collection::vec(0u64..3, n),
            window,
            named,
            weights,
        )
            .prop_map(|(dims, along, margin, (window, window_shape), named, weights)| Case {
                dims,
                along,
                margin,
                window,
                window_shape,
                named,
                weights,
            })
    })
}

/// The number of an element of an array, along its first two axes and along all others.
fn folded(at: &[u64], shape: &[u64]) -> [u64; 3] {
    let axis = |a: usize| at.get(a).copied().unwrap_or(0);
    let (mut rest, mut stride) = (0, 1);
    for (i, extent) in at.iter().zip(shape).skip(2) {
        rest += i * stride;
        stride *= extent;
    }
    [axis(0), axis(1), rest]
}

/// The smallest box that contains some elements.
fn hull(elements: impl IntoIterator<Item = [u64; 3]>) -> ElementBox {
    elements
        .into_iter()
        .fold(ElementBox::EMPTY, |hull, at| hull.hull(&ElementBox { begin: at, end: at.map(|i| i + 1) }))
}

fn size(b: &ElementBox) -> u64 {
    b.ranges().iter().map(|r| r.end - r.start).product()
}

/// All combinations of a value of each range.
fn product(ranges: &[Range<u64>]) -> Vec<Vec<u64>> {
    ranges.iter().fold(vec![vec![]], |all, range| {
        all.iter().flat_map(|at: &Vec<u64>| range.clone().map(|i| [&at[..], &[i]].concat())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 1500 }))]

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn boxes_hold_just_what_the_items_touch(case in any_case()) {
        let n = case.dims.len();
        let shape: Vec<u64> = case.along.iter().zip(&case.margin)
            .map(|(&dim, margin)| case.dims[dim].max_value().unwrap() + 1 + margin).collect();
        let names = ["x", "y", "z", "w"];
        let axes = case.window.iter().map(|axis| match axis {
            None => AxisMap::All,
            Some((dim, scale, before, after)) => AxisMap::Along {
                dimension: names[*dim].to_owned(), scale: *scale, before: *before, after: *after,
            },
        });
        let by = PartBy { dimension: case.named.map(|dim| names[dim].to_owned()), ..PartBy::default() }
            .map("window", ArrayMap(axes.collect()));
        let arguments = vec![
            argument("window", View::Window, Access::Read, &[]),
            argument("both", View::Item, Access::ReadWrite, &case.along),
            argument("own", View::Phased, Access::ReadWrite, &case.along),
        ];
        let plan = plan(n, arguments, Some(by)).unwrap();
        let shapes = vec![case.window_shape.clone(), shape.clone(), shape.clone()];
        let launch = Recorded::new(plan, case.dims.clone(), shapes);
        let cut = launch.cut(&case.weights).unwrap();
        let cuts = match &cut {
            Some((dim, cut)) => cut.iter().map(|(_, p)| restrict(&case.dims, *dim, p.clone())).collect(),
            None => vec![case.dims.iter().cloned().collect::<DimList>()],
        };
        let orders: Vec<Order> = cuts.iter().map(|d| Order::new(d, &OrderTraits::default()).unwrap()).collect();
        let own = |at: &Vec<u64>| {
            folded(&case.along.iter().map(|&dim| at[dim]).collect::<Vec<_>>(), &shape)
        };
        let written: Vec<BTreeSet<[u64; 3]>> =
            orders.iter().map(|order| items(order, n).iter().map(own).collect()).collect();
        let boxes: Vec<ElementBox> = written.iter().map(|set| hull(set.iter().copied())).collect();
        let meet = (0..boxes.len()).any(|a| (0..a).any(|b| boxes[a].meets(&boxes[b])));
        // Only the values themselves, each of which is an element.
        let outside = case.window.iter().zip(&case.window_shape).any(|(axis, &extent)| {
            axis.is_some_and(|(dim, ..)| *axis == Some((dim, 1, 0, 0)) && case.dims[dim].max_value() >= Some(extent))
        });
        let parts = match launch.parts(&case.weights) {
            Err(error) => {
                prop_assert!(meet || outside, "{}", error);
                return Ok(());
            }
            Ok(parts) => parts,
        };
        prop_assert!(!meet && !outside, "{:?}", boxes);
        prop_assert_eq!(parts.subspaces.len(), orders.len());
        for ((part, order), (set, around)) in
            parts.subspaces.iter().zip(&orders).zip(written.iter().zip(&boxes))
        {
            prop_assert_eq!(items(&part.order, n), items(order, n));
            let [window, both, phased] = &part.touched[..] else { panic!("three arguments") };
            let covered = set.len() as u64 == size(around);
            let own = Some(Extent::Box(*around));
            let expected = PartFootprint { read: own, written: own, covered, covered_by_phase: covered };
            prop_assert_eq!(both, &expected);
            prop_assert_eq!(phased, &PartFootprint { read: Some(Extent::All), ..expected });
            // Each item touches the neighbours of its values along each axis.
            let mut elements = BTreeSet::new();
            let all = items(order, n);
            let per_axis: Vec<Range<u64>> = case.window_shape.iter().enumerate().map(|(a, &extent)| {
                let Some(&Some((dim, scale, before, after))) = case.window.get(a) else { return 0..extent };
                let first = all.iter().map(|at| (at[dim] * scale).saturating_sub(before)).min().unwrap();
                let last = all.iter().map(|at| (at[dim] + 1) * scale + after).max().unwrap();
                first.min(extent)..last.min(extent)
            }).collect();
            elements.extend(product(&per_axis).iter().map(|at| folded(at, &case.window_shape)));
            prop_assert_eq!(window.read, Some(Extent::Box(hull(elements))));
            prop_assert_eq!(&window.written, &None);
        }
        // A second request gives the same object.
        let again = launch.parts(&case.weights).unwrap();
        prop_assert!(std::sync::Arc::ptr_eq(&parts, &again));
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn boxes_of_a_phase_hold_what_its_items_touch(
        dims in prop::collection::vec(any_dim(), 3),
        along in prop::sample::subsequence(vec![0usize, 1, 2], 1..=3).prop_shuffle(),
        window in (0usize..3, 0u64..2, 0u64..2),
        group in prop_oneof![
            Just(GroupBy::Dims(vec!["z".into()])),
            Just(GroupBy::Dims(vec!["y".into()])),
            Just(GroupBy::Only(vec!["y".into()])),
            Just(GroupBy::Only(vec!["z".into(), "x".into()])),
            Just(GroupBy::Into("z".into(), vec![1, 3])),
        ],
        weights in prop::collection::vec(0.1f64..2.0, 1..4),
    ) {
        let shape: Vec<u64> = along.iter().map(|&dim| dims[dim].max_value().unwrap() + 1).collect();
        let (dim, before, after) = window;
        let names = ["x", "y", "z"];
        let map = AxisMap::Along { dimension: names[dim].to_owned(), scale: 1, before, after };
        let arguments = vec![
            argument("window", View::Window, Access::Read, &[]),
            argument("both", View::Item, Access::ReadWrite, &along),
        ];
        let by = PartBy::default().map("window", ArrayMap(vec![map]));
        let plan = grouped_plan(3, arguments, Some(by), Some(group)).unwrap();
        let launch = Recorded::new(plan, dims, vec![vec![20], shape.clone()]);
        let Ok(parts) = launch.parts(&weights) else { return Ok(()) };
        for part in &parts.subspaces {
            for phase in 0..part.order.phases() {
                let all = items(&part.order, 3);
                let rows = part.order.phase(phase);
                let all = &all[rows.start as usize..rows.end as usize];
                let inside = |touched: Option<Extent>, around: &ElementBox| match touched {
                    Some(Extent::Box(touched)) => touched.hull(around) == touched,
                    _ => false,
                };
                let own: BTreeSet<[u64; 3]> = all.iter()
                    .map(|at| folded(&along.iter().map(|&dim| at[dim]).collect::<Vec<_>>(), &shape))
                    .collect();
                let touched = part.touched_in(1, &(phase..phase + 1));
                prop_assert!(inside(touched.written, &hull(own.iter().copied())), "{:?} {:?}", touched, own);
                if let (true, Some(Extent::Box(written))) = (touched.covered && part.changes(), touched.written) {
                    prop_assert_eq!(size(&written), own.len() as u64);
                }
                let reads = all.iter().map(|at| ElementBox {
                    begin: [at[dim].saturating_sub(before), 0, 0],
                    end: [(at[dim] + 1 + after).min(20), 1, 1],
                });
                let read = part.touched_in(0, &(phase..phase + 1)).read;
                prop_assert!(reads.into_iter().all(|reads| inside(read, &reads)), "{:?}", read);
                if part.order.constant_within_phases(dim) && part.changes() {
                    let Some(Extent::Box(read)) = read else { panic!("a box") };
                    prop_assert!(read.end[0] - read.begin[0] <= 1 + before + after);
                }
            }
        }
    }
}

fn reads(part: &Subspace, argument: usize) -> [Range<u64>; 3] {
    match part.touched[argument].read {
        Some(Extent::Box(b)) => b.ranges(),
        ref other => panic!("{other:?}"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn a_matrix_product_reads_rows_and_columns() {
    let arguments = vec![
        argument("a", View::Window, Access::Read, &[]),
        argument("b", View::Window, Access::Read, &[]),
        argument("c", View::Item, Access::Write, &[0, 1]),
    ];
    let by = part_by("y").map("a", rows("y")).map("b", columns("x"));
    let shapes = vec![vec![5, 8], vec![6, 5], vec![6, 8]];
    let launch = Recorded::new(plan(2, arguments, Some(by)).unwrap(), vec![6u64.into(), 8u64.into()], shapes);
    let parts = launch.parts(&[1.0, 3.0]).unwrap();
    let [first, second] = &parts.subspaces[..] else { panic!("two") };
    assert_eq!((reads(first, 0), reads(second, 0)), ([0..5, 0..2, 0..1], [0..5, 2..8, 0..1]));
    assert_eq!((reads(first, 1), reads(second, 1)), ([0..6, 0..5, 0..1], [0..6, 0..5, 0..1]));
    let written = second.touched[2].clone();
    assert_eq!(written.hull().unwrap().ranges(), [0..6, 2..8, 0..1]);
    assert!(written.covered && written.read.is_none());
    assert_eq!(parts.grids[0].part(&written.hull().unwrap()).stride, [5, 40]);
}

#[test]
fn rows_and_columns_that_are_not_there_are_refused() {
    let launch = |map: ArrayMap, [x, y]: [u64; 2]| {
        let arguments = vec![
            argument("a", View::Window, Access::Read, &[]),
            argument("c", View::Item, Access::Write, &[0, 1]),
        ];
        let plan = plan(2, arguments, Some(part_by("y").map("a", map))).unwrap();
        Recorded::new(plan, vec![x.into(), y.into()], vec![vec![5, 7], vec![x, y]])
    };
    let shape = vec![5, 7];
    for (map, dims, found, what) in [
        (rows("y"), [6, 8], vec![0..5, 4..8], "`y` 4..8"),
        (columns("x"), [6, 8], vec![0..6, 0..7], "`y` 0..4"),
        (stencil([("x", 0), ("y", 1)]), [6, 8], vec![0..6, 0..5], "`y` 0..4"),
    ] {
        let (error, text) = launch(map, dims).refused(&[1.0, 1.0]);
        assert_eq!(
            error,
            PartProblem::Outside { argument: "a".into(), found, shape: shape.clone(), subspace: what.into() },
            "{text}"
        );
    }
    // With as many, and where the map declares it, they are.
    launch(rows("y"), [6, 7]).parts(&[1.0, 1.0]).unwrap();
    launch(stencil([("x", 1), ("y", 1)]), [6, 8]).parts(&[1.0, 1.0]).unwrap();
    launch(tiles([("x", 2), ("y", 4)]), [6, 8]).parts(&[1.0, 1.0]).unwrap();
}

#[test]
fn parts_lie_without_gaps_where_slices_of_them_have_no_elements_of_others() {
    let item = |name, along: &[usize]| argument(name, View::Item, Access::ReadWrite, along);
    let to = || argument("to", View::Item, Access::Write, &[1]);
    let phased = |stages: Option<(usize, Vec<Use>)>| ArgumentDescriptor {
        stages,
        ..argument("was", View::Phased, Access::ReadWrite, &[1])
    };
    let window = argument("from", View::Window, Access::Read, &[]);
    let by = |dimension| part_by(dimension).map("from", columns("x"));
    let (part, all) = (Dim::from(1..7), Dim::from(8u64));
    for (arguments, dimension, x, solid) in [
        (vec![window.clone(), item("a", &[0, 1]), to()], "y", &all, true),
        // Rows that are not full, and columns.
        (vec![window.clone(), item("a", &[0, 1]), to()], "y", &part, false),
        (vec![window.clone(), item("a", &[0, 1])], "x", &all, false),
        // With the axes exchanged they are its rows.
        (vec![window.clone(), item("a", &[1, 0])], "x", &all, true),
        (vec![window.clone(), phased(None)], "y", &part, true),
        (vec![window, phased(Some((0, vec![Use::Read; 8])))], "y", &part, false),
    ] {
        let shapes = arguments.iter().map(|a| vec![8; a.along.len().max(1)]).collect();
        let text = format!("{arguments:?} along {dimension}, {x:?}");
        let plan = plan(2, arguments, Some(by(dimension))).unwrap();
        let launch = Recorded::new(plan, vec![x.clone(), 8u64.into()], shapes);
        let parts = launch.parts(&[1.0, 1.0]).unwrap();
        assert_eq!(parts.subspaces.len(), 2, "{text}");
        assert_eq!(parts.lie_without_gaps(&launch.plan), solid, "{text}");
    }
    let grid = LaunchGrid::of(&[4, 3, 5]);
    for (begin, end, solid) in [
        ([0, 0, 1], [4, 3, 3], true),
        ([0, 1, 1], [4, 2, 3], false),
        ([0, 1, 1], [4, 3, 2], true),
        ([2, 1, 1], [4, 2, 2], true),
        ([2, 1, 1], [3, 3, 2], false),
        ([2, 1, 1], [2, 3, 2], true),
    ] {
        assert_eq!(grid.is_solid(&ElementBox { begin, end }), solid, "{begin:?} to {end:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn csr_rows_are_cut_by_equal_non_zeros() {
    let start = [0u32, 90, 92, 94, 96, 98, 100];
    let mut arguments = vec![
        argument("start", View::Whole, Access::Read, &[]).as_structure(),
        argument("value", View::Window, Access::Read, &[]),
        argument("y", View::Item, Access::Write, &[0]),
    ];
    let by = part_by("x").map("value", csr_rows("x", "start"));
    let shapes = vec![vec![7], vec![100], vec![6]];
    let mut launch =
        Recorded::new(plan(1, arguments.clone(), Some(by.clone())).unwrap(), vec![6u64.into()], shapes);
    launch.args[0].data = start.as_ptr().cast_mut().cast();
    let parts = launch.parts(&[1.0, 1.0]).unwrap();
    let found: Vec<_> =
        parts.subspaces.iter().map(|p| (p.positions.clone(), reads(p, 1)[0].clone())).collect();
    assert_eq!(found, [(0..1, 0..90), (1..6, 90..100)]);
    // Changed contents are seen.
    let even = [0u32, 10, 20, 30, 40, 50, 60];
    launch.args[0].data = even.as_ptr().cast_mut().cast();
    assert_eq!(reads(&launch.parts(&[1.0, 1.0]).unwrap().subspaces[1], 1)[0], 30..60);
    launch.shapes[1] = vec![50];
    let (error, text) = launch.refused(&[1.0, 1.0]);
    assert!(matches!(error, PartProblem::Outside { .. }) && text.contains("[30..60]"), "{text}");
    launch.args[0].len = 6;
    let (error, text) = launch.refused(&[1.0, 1.0]);
    assert!(matches!(error, PartProblem::Pointers { .. }) && text.contains("expected 7 at least"), "{text}");
    arguments[0].structure = false;
    let text = plan(1, arguments, Some(by)).err().unwrap().to_string();
    assert!(text.contains("marked `#[structure]`") && text.contains("without that mark"), "{text}");
}

#[test]
fn rows_are_those_of_an_argument_that_says_where_they_begin() {
    let start = [0u64, 90, 92, 94, 96, 98, 100];
    let reads_of = |rows: usize, along: &[usize], is_structure: bool| {
        let starts = argument("start", View::Whole, Access::Read, &[]);
        let starts = if is_structure { starts.as_structure() } else { starts };
        let starts = ArgumentDescriptor { element: ElementType::of::<u64>(), ..starts };
        let value = argument("value", View::Window, Access::Read, along);
        let arguments = vec![
            starts,
            ArgumentDescriptor { rows: Some(rows), ..value },
            argument("y", View::Item, Access::Write, &[0]),
        ];
        let by = Some(part_by("x"));
        let shapes = vec![vec![7], vec![100], vec![6]];
        let mut launch = Recorded::new(plan(1, arguments, by).unwrap(), vec![6u64.into()], shapes);
        launch.args[0].data = start.as_ptr().cast_mut().cast();
        let parts = launch.parts(&[1.0, 1.0]).unwrap();
        let read = |p: &Subspace| match p.touched[1].read {
            Some(Extent::All) => 0..100,
            _ => reads(p, 1)[0].clone(),
        };
        parts.subspaces.iter().map(read).collect::<Vec<_>>()
    };
    // Parts of equal numbers of elements, without a map that says so.
    assert_eq!(reads_of(0, &[0], true), [0..90, 90..100]);
    // What a plugin says, and is not so, is not followed: each part has all.
    for (rows, along, is_structure) in
        [(99, &[0][..], true), (2, &[0], true), (0, &[], true), (0, &[0], false)]
    {
        assert_eq!(reads_of(rows, along, is_structure), [0..100, 0..100], "{rows} {along:?} {is_structure}");
    }
}

partition_map! {
    static DOUBLE = "boxes.double": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let x = at.values("x");
        match at.scalar::<u32>("mode") {
            0 => boxes.set("from", x.start * 2..x.end * 2),
            1 => boxes.set("from", x.start..at.shape("from")[0] + 1),
            2 => boxes.set("to", x),
            3 => boxes.set("bins", 0..4),
            4 => panic!("mode 4"),
            _ => boxes.set("bins", x),
        }
    }, cost: |at: &Candidate<'_>| at.values("x").end.pow(2);
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn a_function_is_asked_and_what_it_says_is_checked() {
    let arguments = vec![
        argument("mode", View::Scalar, Access::Read, &[]),
        argument("from", View::Window, Access::Read, &[]),
        argument("bins", View::Scatter, Access::ReadWrite, &[]),
        argument("to", View::Item, Access::Write, &[0]),
    ];
    let by = part_by("x").by(&DOUBLE);
    let shapes = vec![vec![], vec![200], vec![100], vec![100]];
    let mut launch =
        Recorded::new(plan(1, arguments.clone(), Some(by)).unwrap(), vec![100u64.into()], shapes);
    let mut mode = 5u32;
    launch.args[0].data = (&raw mut mode).cast();
    // Equal cost where it grows with the square: at 100 / sqrt(2).
    let parts = launch.parts(&[1.0, 1.0]).unwrap();
    assert_eq!(parts.subspaces.iter().map(|p| p.positions.clone()).collect::<Vec<_>>(), [0..71, 71..100]);
    assert_eq!(parts.subspaces[1].touched[2].written, parts.subspaces[1].touched[2].read);
    assert_eq!(reads(&parts.subspaces[1], 2)[0], 71..100);
    assert_eq!(parts.subspaces[1].touched[1].read, Some(Extent::All));
    let mut refused = |set: u32| {
        mode = set;
        launch.args[0].data = (&raw mut mode).cast();
        launch.refused(&[1.0, 1.0])
    };
    let (error, text) = refused(0);
    assert!(matches!(error, PartProblem::NoMap { .. }) && text.contains("`bins` is a `Scatter`"), "{text}");
    let (error, text) = refused(1);
    assert!(matches!(error, PartProblem::Outside { .. }), "{text}");
    assert!(text.contains("`from`") && text.contains("`x` 0..71") && text.contains("[0..201]"), "{text}");
    let (error, text) = refused(2);
    assert!(matches!(error, PartProblem::NotMapped { .. }) && text.contains("`to` is an `Item`"), "{text}");
    let (error, text) = refused(3);
    assert!(matches!(error, PartProblem::Overlap { .. }), "{text}");
    assert!(text.contains("`x` 0..71") && text.contains("`x` 71..100") && text.contains("`bins`"), "{text}");
    let (error, text) = refused(4);
    assert!(
        matches!(error, PartProblem::Panicked { .. }) && text.contains("`boxes.double` panicked"),
        "{text}"
    );
    assert!(text.contains("mode 4"), "{text}");
    let unknown = plan(1, arguments, Some(part_by("x").by("boxes.nothing"))).err().unwrap().to_string();
    assert!(unknown.contains("no map `boxes.nothing`") && unknown.contains("boxes.double"), "{unknown}");
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn what_cannot_be_cut_runs_whole_unless_it_was_named() {
    let arguments = || vec![argument("bins", View::Scatter, Access::ReadWrite, &[])];
    let dims = || vec![Dim::Count(10), Dim::Count(4)];
    let whole = Recorded::new(plan(2, arguments(), None).unwrap(), dims(), vec![vec![3]]);
    assert_eq!(whole.cut(&[1.0, 1.0]).unwrap(), None);
    let parts = whole.parts(&[1.0, 1.0]).unwrap();
    assert_eq!((parts.subspaces.len(), parts.subspaces[0].order.items()), (1, 40));
    let named = Recorded::new(plan(2, arguments(), Some(part_by("x"))).unwrap(), dims(), vec![vec![3]]);
    assert!(matches!(named.refused(&[1.0, 1.0]).0, PartProblem::NoMap { .. }));
    assert_eq!(named.parts(&[1.0]).unwrap().subspaces.len(), 1);

    let group = flash_types::descriptor::group_by(["y"]);
    let barrier = grouped_plan(2, arguments(), Some(part_by("y")), Some(group)).unwrap();
    let barrier = Recorded::new(barrier, dims(), vec![vec![3]]);
    let (error, text) = barrier.refused(&[1.0, 1.0]);
    assert!(
        matches!(error, PartProblem::Barrier { .. })
            && text.starts_with("kernel `k`, part_by: dimension `y` cannot be cut"),
        "{text}"
    );
    let axes = part_by("y").map("bins", stencil([("x", 1), ("y", 1)]));
    let axes = Recorded::new(plan(2, arguments(), Some(axes)).unwrap(), dims(), vec![vec![3]]);
    let (error, text) = axes.refused(&[1.0, 1.0]);
    assert!(matches!(error, PartProblem::Axes { axes: 2, .. }) && text.contains("shape [3]"), "{text}");
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn an_item_a_whole_and_what_is_not_there_have_no_map() {
    let arguments = || {
        vec![
            argument("table", View::Whole, Access::Read, &[]),
            argument("to", View::Item, Access::Write, &[0]),
        ]
    };
    for (by, expected) in [
        (part_by("x").map("to", rows("x")), "`to` is an `Item`, whose elements follow"),
        (
            part_by("x").map("table", rows("x")),
            "`table` is a `Whole`, which is never cut: make it a `Window`",
        ),
        (part_by("q"), "no dimension `q`; it has x"),
        (part_by("x").map("tofu", rows("x")), "no argument `tofu`; it has table, to"),
    ] {
        let text = plan(1, arguments(), Some(by)).err().unwrap().to_string();
        assert!(text.contains(expected) && text.contains("part_by"), "{text}");
    }
}

/// `cargo xtask bench partition` measures the time that this takes.
#[test]
#[cfg_attr(miri, ignore = "others do the same in less time")]
fn a_billion_items_are_cut_over_4_devices_without_a_look_at_each() {
    let arguments = vec![
        argument("from", View::Window, Access::Read, &[]),
        argument("to", View::Item, Access::Write, &[0, 1, 2]),
    ];
    let by = part_by("z").map("from", stencil([("x", 1), ("y", 1), ("z", 1)]));
    let shapes = vec![vec![1000; 3]; 2];
    let launch = Recorded::new(plan(3, arguments, Some(by)).unwrap(), vec![Dim::Count(1000); 3], shapes);
    for _ in 0..200 {
        let parts = launch.parts(&[1.0; 4]).unwrap();
        let planes = |begin: u64, end: u64| {
            Some(Extent::Box(ElementBox { begin: [0, 0, begin], end: [1000, 1000, end] }))
        };
        for (part, k) in parts.subspaces.iter().zip(0..4) {
            let (begin, end) = (250 * k, 250 * (k + 1));
            assert_eq!(part.touched[0].read, planes(begin.max(1) - 1, (end + 1).min(1000)));
            assert_eq!(part.touched[1].written, planes(begin, end));
        }
        assert_eq!(parts.subspaces.len(), 4);
    }
}

#[test]
fn an_array_without_elements_may_have_any_extents() {
    let arguments = || {
        let from = argument("from", View::Window, Access::Read, &[]);
        vec![from, argument("to", View::Item, Access::Write, &[0])]
    };
    let by = part_by("x").map("from", stencil([("x", 1)]));
    let large = 1 << 40;
    for shape in [vec![0, 1, large, large], vec![1, 0, large, large], vec![0, large, large]] {
        let recorded = Recorded::new(
            plan(1, arguments(), Some(by.clone())).unwrap(),
            vec![Dim::Count(4)],
            vec![shape, vec![4]],
        );
        for subspace in &recorded.parts(&[1.0, 1.0]).unwrap().subspaces {
            assert_eq!(subspace.touched[0].read, Some(Extent::Box(ElementBox::EMPTY)), "{subspace:?}");
        }
    }
}
