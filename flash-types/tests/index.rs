//! Order and phases against a naive table that builds and sorts its rows.

use std::ops::Range;

use flash_core::abi::space;
use flash_core::index::{
    Dim, DimList, DynRuns, Group, IndexError, IntoDims, Order, OrderTraits, Patch, ProofFailure, Runs,
    SpaceRef, count_by, count_by_fn, item_is_exclusive,
};
use proptest::prelude::*;

/// The table of semantics.md, section 5, literally.
struct Naive {
    /// Positions of every row, in order.
    rows: Vec<Vec<u64>>,
    values: Vec<Vec<u64>>,
    phases: Vec<Range<u64>>,
}

impl Naive {
    fn new(dims: &[Dim], traits: &OrderTraits<'_>) -> Self {
        let mut rows = vec![vec![]];
        for dim in dims.iter().rev() {
            // Dimension 0 varies fastest, so it is appended last, in front.
            rows = rows
                .iter()
                .flat_map(|row: &Vec<u64>| {
                    (0..dim.len()).map(|p| std::iter::once(p).chain(row.iter().copied()).collect())
                })
                .collect();
        }
        let value =
            |row: &[u64]| -> Vec<u64> { row.iter().zip(dims).map(|(&p, dim)| dim.value(p)).collect() };
        let mut sort = traits.sort.to_vec();
        sort.sort_unstable_by(|a, b| b.cmp(a));
        rows.sort_by_key(|row| sort.iter().map(|&d| value(row)[d]).collect::<Vec<_>>());
        let values: Vec<Vec<u64>> = rows.iter().map(|row| value(row)).collect();

        let unsorted = (0..dims.len()).rev().filter(|d| !sort.contains(d));
        let table: Vec<usize> = sort.iter().copied().chain(unsorted).collect();
        let barrier = |a: &[u64], b: &[u64]| match traits.group {
            None => sort.first().is_some_and(|&d| a[d] != b[d]),
            Some(Group::Dims(listed)) => table
                .iter()
                .enumerate()
                .any(|(i, &d)| a[d] != b[d] && table[i..].iter().any(|below| listed.contains(below))),
            Some(Group::Only(listed)) => listed.iter().any(|&d| a[d] != b[d]),
            Some(Group::Into { dim, values }) => a[dim] != b[dim] && values.contains(&b[dim]),
        };
        let mut starts: Vec<u64> = (0..rows.len() as u64)
            .filter(|&r| r == 0 || barrier(&values[r as usize - 1], &values[r as usize]))
            .collect();
        starts.push(rows.len() as u64);
        let phases = starts.windows(2).map(|w| w[0]..w[1]).collect();
        Naive { rows, values, phases }
    }

    fn phase_rows(&self) -> impl Iterator<Item = &[Vec<u64>]> {
        self.phases.iter().map(|p| &self.rows[p.start as usize..p.end as usize])
    }

    fn constant(&self, dim: usize) -> bool {
        self.phase_rows().all(|rows| rows.iter().all(|row| row[dim] == rows[0][dim]))
    }

    fn spans(&self, dim: usize, len: u64) -> bool {
        self.phase_rows().all(|rows| (0..len).all(|p| rows.iter().any(|row| row[dim] == p)))
    }

    fn exclusive(&self, along: &[usize]) -> bool {
        self.phases.iter().all(|p| {
            let rows = &self.values[p.start as usize..p.end as usize];
            let mut elements: Vec<Vec<u64>> =
                rows.iter().map(|row| along.iter().map(|&d| row[d]).collect()).collect();
            elements.sort();
            elements.windows(2).all(|w| w[0] != w[1])
        })
    }
}

#[derive(Clone, Debug)]
enum AnyGroup {
    None,
    Dims(Vec<usize>),
    Only(Vec<usize>),
    Into(usize, Vec<u64>),
}

#[derive(Clone, Debug)]
struct Case {
    dims: Vec<Dim>,
    sort: Vec<usize>,
    group: AnyGroup,
    along: Vec<usize>,
    cuts: Vec<u64>,
}

impl Case {
    fn traits(&self) -> OrderTraits<'_> {
        let group = match &self.group {
            AnyGroup::None => None,
            AnyGroup::Dims(listed) => Some(Group::Dims(listed)),
            AnyGroup::Only(listed) => Some(Group::Only(listed)),
            AnyGroup::Into(dim, values) => Some(Group::Into { dim: *dim, values }),
        };
        OrderTraits { sort: &self.sort, group }
    }
}

fn any_dim() -> impl Strategy<Value = Dim> {
    prop_oneof![
        3 => prop_oneof![1 => Just(0u64), 2 => Just(1), 9 => 2u64..5].prop_map(Dim::Count),
        1 => (0u64..4, 1i64..3, 1u64..5)
            .prop_map(|(start, step, count)| Dim::Range { start, step, count }),
        1 => (8u64..12, -2i64..0, 1u64..5)
            .prop_map(|(start, step, count)| Dim::Range { start, step, count }),
        4 => prop::collection::vec(0u64..4, 1..6).prop_map(count_by),
    ]
}

fn any_case() -> impl Strategy<Value = Case> {
    (1usize..=5)
        .prop_flat_map(|n| {
            let some = move || prop::collection::vec(0..n, 0..3);
            let group = prop_oneof![
                2 => Just(AnyGroup::None),
                3 => some().prop_map(AnyGroup::Dims),
                1 => some().prop_map(AnyGroup::Only),
                2 => (0..n, prop::collection::vec(0u64..6, 0..4))
                    .prop_map(|(d, v)| AnyGroup::Into(d, v)),
            ];
            let sort = prop::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=n).prop_shuffle();
            let along = prop::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=n);
            let dims = prop::collection::vec(any_dim(), n);
            (dims, sort, group, along, prop::collection::vec(any::<u64>(), 0..4))
        })
        .prop_map(|(dims, sort, group, along, cuts)| Case { dims, sort, group, along, cuts })
}

/// The values of all items of some rows, by runs.
fn items_of<const N: usize>(order: &Order, rows: Range<u64>) -> Vec<Vec<u64>> {
    let (view, mut items) = (order.view(), Vec::new());
    let mut dynamic = DynRuns::new(view.get(), rows.clone());
    for run in Runs::<N>::new(view.get(), rows.clone()) {
        let same = dynamic.next_run().expect("as many runs");
        assert_eq!(
            (same.index, same.dim, same.step, same.count),
            (&run.index[..], run.dim, run.step, run.count)
        );
        assert!(run.count > 0 && run.step != 0);
        for i in 0..run.count {
            let mut item = run.index.to_vec();
            item[run.dim] = item[run.dim].wrapping_add_signed(run.step * i as i64);
            items.push(item);
        }
    }
    assert!(dynamic.next_run().is_none());
    assert_eq!(items_of_patches::<N>(view.get(), rows), items);
    items
}

/// The same, by runs side by side.
fn items_of_patches<const N: usize>(space: SpaceRef<'_>, rows: Range<u64>) -> Vec<Vec<u64>> {
    let (mut patches, mut items) = (Runs::<N>::new(space, rows), Vec::new());
    while let Some(Patch { run, across, stride, runs }) = patches.next_patch() {
        assert!(runs > 0);
        for row in 0..runs {
            for i in 0..run.count {
                let mut item = run.index.to_vec();
                item[across] = item[across].wrapping_add_signed(stride * row as i64);
                item[run.dim] = item[run.dim].wrapping_add_signed(run.step * i as i64);
                items.push(item);
            }
        }
    }
    items
}

fn items(order: &Order, dims: usize, rows: Range<u64>) -> Vec<Vec<u64>> {
    match dims {
        1 => items_of::<1>(order, rows),
        2 => items_of::<2>(order, rows),
        3 => items_of::<3>(order, rows),
        4 => items_of::<4>(order, rows),
        _ => items_of::<5>(order, rows),
    }
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let traits = case.traits();
    let naive = Naive::new(&case.dims, &traits);
    let order = Order::new(&case.dims, &traits).expect("a valid space");
    let n = case.dims.len();
    prop_assert_eq!(order.items(), naive.rows.len() as u64);
    let mut found = vec![0; n];
    for (r, (row, values)) in naive.rows.iter().zip(&naive.values).enumerate() {
        order.position(r as u64, &mut found);
        prop_assert_eq!(&found, row, "position of row {}", r);
        order.value(r as u64, &mut found);
        prop_assert_eq!(&found, values, "value of row {}", r);
    }
    prop_assert_eq!(order.phases(), naive.phases.len() as u64);
    for (k, rows) in naive.phases.iter().enumerate() {
        prop_assert_eq!(&order.phase(k as u64), rows, "phase {}", k);
        for row in rows.clone() {
            prop_assert_eq!(order.phase_of(row), k as u64, "phase of row {}", row);
        }
        let mut cuts: Vec<u64> =
            case.cuts.iter().map(|c| rows.start + c % (rows.end - rows.start + 1)).collect();
        cuts.extend([rows.start, rows.end]);
        cuts.sort_unstable();
        let split: Vec<_> = cuts.windows(2).flat_map(|w| items(&order, n, w[0]..w[1])).collect();
        let expected = &naive.values[rows.start as usize..rows.end as usize];
        prop_assert_eq!(&split[..], expected, "runs of phase {} split at {:?}", k, cuts);
    }
    prop_assert_eq!(items(&order, n, 0..order.items()), naive.values.clone());

    for (dim, values) in case.dims.iter().enumerate() {
        prop_assert_eq!(order.constant_within_phases(dim), naive.constant(dim), "dim {}", dim);
        let spans = order.every_phase_spans(dim);
        prop_assert!(!spans || naive.spans(dim, values.len()), "dim {}", dim);
    }
    let proved = item_is_exclusive(&order, &case.dims, &case.along).is_ok();
    let exclusive = naive.exclusive(&case.along);
    prop_assert!(!proved || exclusive, "accepts a collision");
    if matches!(case.group, AnyGroup::None | AnyGroup::Dims(_)) {
        prop_assert!(proved || !exclusive, "rejects without a collision");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn order_phases_runs_and_proofs_are_those_of_the_naive_table(case in any_case()) {
        check(&case)?;
    }

    #[test]
    fn an_order_can_be_set_again(first in any_case(), second in any_case()) {
        let mut order = Order::new(&first.dims, &first.traits()).unwrap();
        order.set(&second.dims, &second.traits()).unwrap();
        let fresh = Order::new(&second.dims, &second.traits()).unwrap();
        prop_assert_eq!((order.items(), order.phases()), (fresh.items(), fresh.phases()));
        let n = second.dims.len();
        let all = 0..fresh.items();
        prop_assert_eq!(items(&order, n, all.clone()), items(&fresh.clone(), n, all));
    }

    #[test]
    fn a_dimension_knows_its_values(dim in any_dim(), as_text in any::<bool>()) {
        let dim: Dim = if as_text {
            serde_json::from_str(&serde_json::to_string(&dim).unwrap()).unwrap()
        } else {
            dim
        };
        let values: Vec<u64> = (0..dim.len()).map(|p| dim.value(p)).collect();
        prop_assert_eq!(dim.max_value(), values.iter().copied().max());
        prop_assert_eq!(dim.min_value(), values.iter().copied().min());
        let mut sorted = values.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(dim.distinct(), sorted.len() == values.len());
    }
}

fn dims(list: impl IntoDims) -> DimList {
    let mut dims = DimList::new();
    list.push_into(&mut dims);
    dims
}

fn values(dim: impl Into<Dim>) -> Vec<u64> {
    let dim = dim.into();
    dim.check(0).expect("a valid dimension");
    (0..dim.len()).map(|p| dim.value(p)).collect()
}

fn error(list: impl IntoDims, traits: OrderTraits<'_>) -> IndexError {
    Order::new(&dims(list), &traits).expect_err("an error")
}

const NONE: OrderTraits<'static> = OrderTraits { sort: &[], group: None };
const BY_STAGE: OrderTraits<'static> = OrderTraits { sort: &[], group: Some(Group::Dims(&[1])) };

#[test]
fn stages_of_steps_are_phases_in_that_order() {
    let order = Order::new(&dims([100, 2, 10]), &BY_STAGE).unwrap();
    assert_eq!(order.phases(), 20);
    let mut at = [0; 3];
    for phase in 0..20 {
        assert_eq!(order.phase(phase), phase * 100..(phase + 1) * 100);
        order.position(phase * 100, &mut at);
        assert_eq!(at, [0, phase % 2, phase / 2]);
    }
    assert!(!order.constant_within_phases(0) && order.every_phase_spans(0));
    assert!(order.constant_within_phases(1) && order.constant_within_phases(2));
}

#[test]
fn one_stage_of_ten_steps_gives_ten_phases() {
    assert_eq!(Order::new(&dims([100, 1, 10]), &BY_STAGE).unwrap().phases(), 10);
}

#[test]
fn only_drops_the_more_significant_dimensions() {
    let only = OrderTraits { sort: &[], group: Some(Group::Only(&[1])) };
    assert_eq!(Order::new(&dims([100, 1, 10]), &only).unwrap().phases(), 1);
    assert_eq!(Order::new(&dims([100, 2, 10]), &only).unwrap().phases(), 20);
}

#[test]
fn a_value_set_gives_barriers_where_the_dimension_changes_into_it() {
    let into = OrderTraits { sort: &[], group: Some(Group::Into { dim: 1, values: &[1, 3] }) };
    let order = Order::new(&dims((5, 4, 2)), &into).unwrap();
    let phases: Vec<_> = (0..order.phases()).map(|k| order.phase(k)).collect();
    assert_eq!(phases, [0..5, 5..15, 15..25, 25..35, 35..40]);
}

#[test]
fn equal_neighbours_are_no_change() {
    let order = Order::new(&dims((3, count_by([4, 4, 2, 4]))), &BY_STAGE).unwrap();
    let phases: Vec<_> = (0..order.phases()).map(|k| order.phase(k)).collect();
    assert_eq!(phases, [0..6, 6..9, 9..12]);
}

#[test]
fn sorting_by_colour_gives_a_phase_per_colour() {
    let colours = count_by([2, 0, 1, 0, 2, 0]);
    let order = Order::new(&dims([colours]), &OrderTraits { sort: &[0], group: None }).unwrap();
    assert_eq!(order.phases(), 3);
    assert_eq!([order.phase(0), order.phase(1), order.phase(2)], [0..3, 3..4, 4..6]);
    let mut at = [0];
    let rows: Vec<u64> = (0..6).map(|r| (order.position(r, &mut at), at[0]).1).collect();
    assert_eq!(rows, [1, 3, 5, 2, 0, 4]);
}

#[test]
fn an_empty_dimension_runs_nothing_however_large_the_others() {
    for traits in [NONE, BY_STAGE] {
        let space = dims([1u64 << 63, 0, 1 << 63]);
        let order = Order::new(&space, &traits).unwrap();
        assert_eq!((order.items(), order.phases()), (0, 0));
        assert!(DynRuns::new(order.view().get(), 0..0).next_run().is_none());
        assert!(item_is_exclusive(&order, &space, &[]).is_ok());
        assert!(!order.every_phase_spans(0));
    }
}

#[test]
fn a_space_of_10_to_the_12_sorted_items_is_a_few_loops() {
    let traits = OrderTraits { sort: &[2, 0], group: None };
    let order = Order::new(&dims([10_000u64, 10_000, 10_000]), &traits).unwrap();
    assert!(size_of::<Order>() <= 1024);
    assert_eq!((order.items(), order.phases()), (1_000_000_000_000, 10_000));
    assert_eq!(order.phase(9_999), 999_900_000_000..1_000_000_000_000);
    let mut at = [0; 3];
    order.position(123_456_789_012, &mut at);
    assert_eq!(at, [5678, 9012, 1234]);
    assert_eq!(order.phase_of(123_456_789_012), 1234);
}

#[test]
fn counts_ranges_and_sequences_convert() {
    assert_eq!(values(3), [0, 1, 2]);
    assert_eq!(values(3usize), values(0..3u64));
    assert_eq!(values(2..=4i64), [2, 3, 4]);
    assert_eq!(values((1..10).step_by(4)), [1, 5, 9]);
    assert_eq!(values((1..=9u64).step_by(4)), [1, 5, 9]);
    assert_eq!(values((0..3usize).rev()), [2, 1, 0]);
    assert_eq!(values((0..6u32).step_by(2).rev()), [4, 2, 0]);
    assert_eq!(values((0..6i64).rev().step_by(2)), [5, 3, 1]);
    assert_eq!(values(count_by(vec![3i32, 1, 1])), [3, 1, 1]);
    assert_eq!(values(count_by([7u32, 5, 9].as_slice())), [7, 5, 9]);
    assert_eq!(values(count_by_fn(4, |i| i * i)), [0, 1, 4, 9]);
    assert_eq!(values(count_by_fn(3, |_| 6)), [6, 6, 6]);
    assert_eq!(values(count_by([0u64, u64::MAX])), [0, u64::MAX]);
    assert_eq!(values((1..=u64::MAX).step_by(usize::MAX - 1)), [1, u64::MAX]);
    let (five, two) = (5, 2);
    assert!(values(five..two).is_empty() && values(-five..-9).is_empty());
    assert!(values(4..4u32).is_empty() && values(count_by(Vec::<i32>::new())).is_empty());
    assert_eq!(Dim::from(0..u64::MAX), Dim::Count(u64::MAX));
    assert!(matches!(count_by([4, 2, 0]), Dim::Range { start: 4, step: -2, count: 3 }));
    assert!(matches!(dims((1, 0..2, count_by([1]), 4u64)).as_slice(), [_, _, _, Dim::Count(4)]));
    assert!(size_of::<Dim>() <= 32);
}

#[test]
fn errors_name_the_dimension_and_what_was_found() {
    assert_eq!(error((1, -3), NONE), IndexError::NegativeCount { dim: 1, found: -3 });
    assert_eq!(error((-2..4,), NONE), IndexError::NegativeValue { dim: 0, position: 0, found: -2 });
    assert_eq!(error([(-2..4i64).rev()], NONE), IndexError::NegativeValue { dim: 0, position: 5, found: -2 });
    assert_eq!(
        error((1, count_by([5, -7])), NONE),
        IndexError::NegativeValue { dim: 1, position: 1, found: -7 }
    );
    assert_eq!(error((0..=u64::MAX,), NONE), IndexError::TooLong { dim: 0 });
    let step = |step| Dim::Range { start: 4, step, count: 3 };
    assert_eq!(error([step(0)], NONE), IndexError::ZeroStep { dim: 0 });
    for leaves in [-3, i64::MAX] {
        let found = error((1, step(leaves)), BY_STAGE);
        assert_eq!(found, IndexError::RangeOverflow { dim: 1, start: 4, step: leaves, count: 3 });
    }
    let extents = vec![1 << 32, 1 << 31, 2];
    assert_eq!(error([1u64 << 32, 1 << 31, 2], NONE), IndexError::TooManyItems { extents });
    assert!(Order::new(&dims([1u64 << 32, (1 << 32) - 1]), &NONE).is_ok());
    let text = error([1u64 << 32, 1 << 32], NONE).to_string();
    assert!(text.contains("[4294967296, 4294967296]") && text.contains("fewer"), "{text}");

    let sort = |sort| OrderTraits { sort, group: None };
    assert_eq!(error([1, 2], sort(&[2])), IndexError::NoSuchDim { named_by: "sort_by", dim: 2, dims: 2 });
    assert_eq!(error([1, 2], sort(&[1, 0, 1])), IndexError::SortedTwice { dim: 1 });
    for group in [Group::Only(&[0, 7]), Group::Dims(&[7]), Group::Into { dim: 7, values: &[] }] {
        let traits = OrderTraits { sort: &[], group: Some(group) };
        assert_eq!(error([1, 2], traits), IndexError::NoSuchDim { named_by: "group_by", dim: 7, dims: 2 });
    }
}

#[test]
fn a_failed_proof_names_the_dimension() {
    let prove = |space: &[Dim], traits, along: &[usize]| {
        item_is_exclusive(&Order::new(space, &traits).unwrap(), space, along)
    };
    let nbody = dims([8, 2, 3]);
    assert_eq!(prove(&nbody, BY_STAGE, &[0]), Ok(()));
    assert_eq!(prove(&nbody, NONE, &[0]), Err(ProofFailure::NotIndexed { dim: 1 }));
    let repeats = dims((count_by([1, 1]), 2));
    assert_eq!(prove(&repeats, NONE, &[0, 1]), Err(ProofFailure::Repeats { dim: 0 }));
}

#[test]
fn runs_cover_as_much_as_the_innermost_loop_allows() {
    let runs = |list: DimList, rows| {
        let order = Order::new(&list, &NONE).unwrap();
        let view = order.view();
        let mut runs = DynRuns::new(view.get(), rows);
        let mut found = Vec::new();
        while let Some(run) = runs.next_run() {
            found.push((run.index.to_vec(), run.dim, run.step, run.count));
        }
        found
    };
    assert_eq!(
        runs(dims([10, 3]), 8..23),
        [(vec![8, 0], 0, 1, 2), (vec![0, 1], 0, 1, 10), (vec![0, 2], 0, 1, 3)]
    );
    // A dimension of one position does not break them.
    assert_eq!(runs(dims([1, 50]), 10..40), [(vec![0, 10], 1, 1, 30)]);
    assert_eq!(
        runs(dims([count_by([4, 5, 6, 6, 4, 2, 9])]), 0..7),
        [(vec![4], 0, 1, 3), (vec![6], 0, -2, 3), (vec![9], 0, 1, 1)]
    );
    assert_eq!(runs(dims([1, 1]), 0..1), [(vec![0, 0], 0, 1, 1)]);
    assert_eq!(runs(dims([1u64 << 63]), 5..1 << 63), [(vec![5], 0, 1, (1 << 63) - 5)]);
}

#[test]
fn runs_side_by_side_come_together() {
    let patches = |list: DimList, traits, rows| {
        let order = Order::new(&list, traits).unwrap();
        let view = order.view();
        let mut patches = Runs::<3>::new(view.get(), rows);
        let mut found = Vec::new();
        while let Some(Patch { run, across, stride, runs }) = patches.next_patch() {
            found.push((run.index, run.count, (runs > 1).then_some((across, stride)), runs));
        }
        found
    };
    // The rest of a row, the rest of a plane, a plane, whole rows of the last one, and a part of one.
    let down = Some((1, 1));
    assert_eq!(
        patches(dims([10, 5, 3]), &NONE, 8..137),
        [
            ([8, 0, 0], 2, None, 1),
            ([0, 1, 0], 10, down, 4),
            ([0, 0, 1], 10, down, 5),
            ([0, 0, 2], 10, down, 3),
            ([0, 3, 2], 7, None, 1)
        ]
    );
    assert_eq!(
        patches(dims([4, 1, 3]), &NONE, 0..12),
        [([0, 0, 0], 4, Some((2, 1)), 3)],
        "a dimension of one position lies in no loop"
    );
    let listed = (count_by([0, 1, 2]), count_by([5, 3, 4]), 1);
    assert_eq!(
        patches(dims(listed), &NONE, 0..9),
        [([0, 5, 0], 3, None, 1), ([0, 3, 0], 3, None, 1), ([0, 4, 0], 3, None, 1)],
        "the outer values are listed"
    );
}

#[test]
#[should_panic(expected = "a space of 2 dimensions, not 1")]
fn runs_refuse_another_number_of_dimensions() {
    let order = Order::new(&dims([4, 4]), &NONE).unwrap();
    let _ = Runs::<1>::new(order.view().get(), 0..1);
}

#[test]
#[should_panic(expected = "rows 3..17 of 16")]
fn runs_refuse_rows_that_are_not_there() {
    let order = Order::new(&dims([4, 4]), &NONE).unwrap();
    let _ = Runs::<2>::new(order.view().get(), 3..17);
}

#[test]
fn the_layout_at_the_plugin_boundary_stays() {
    assert_eq!(size_of::<space::Space>(), 56);
    assert_eq!(size_of::<space::SpaceDim>(), 40);
    assert_eq!(size_of::<space::Loop>(), 56);
}
