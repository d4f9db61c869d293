//! Cutting index spaces: nothing lost, nothing twice, the same phases.

use flash_core::index::{
    Dim, Group, Order, OrderTraits, count_by, cut, cut_by, cut_dimension, may_cut, restrict, value_range,
};
use proptest::prelude::*;

fn any_dim() -> impl Strategy<Value = Dim> {
    prop_oneof![
        3 => (0u64..6).prop_map(Dim::Count),
        1 => (0u64..4, 1i64..3, 1u64..5).prop_map(|(start, step, count)| Dim::Range { start, step, count }),
        1 => (8u64..12, -2i64..0, 1u64..5).prop_map(|(start, step, count)| Dim::Range { start, step, count }),
        4 => prop::collection::vec(0u64..4, 1..6).prop_map(count_by),
    ]
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
    weights: Vec<f64>,
    multiple: u64,
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

fn any_case() -> impl Strategy<Value = Case> {
    (1usize..=4).prop_flat_map(|n| {
        let group = prop_oneof![
            2 => Just(AnyGroup::None),
            3 => prop::collection::vec(0..n, 0..3).prop_map(AnyGroup::Dims),
            1 => prop::collection::vec(0..n, 0..3).prop_map(AnyGroup::Only),
            3 => (0..n, prop::collection::vec(0u64..6, 0..4)).prop_map(|(d, v)| AnyGroup::Into(d, v)),
        ];
        let sort = prop::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=n);
        let weights = prop::collection::vec(prop_oneof![4 => 0.1f64..9.0, 1 => Just(0.0)], 1..5);
        (prop::collection::vec(any_dim(), n), sort, group, weights, 1u64..4)
            .prop_map(|(dims, sort, group, weights, multiple)| Case { dims, sort, group, weights, multiple })
    })
}

/// The index values of the items of each phase, sorted.
fn phases(order: &Order, dims: usize) -> Vec<Vec<Vec<u64>>> {
    let values = |row| {
        let mut at = vec![0; dims];
        order.value(row, &mut at);
        at
    };
    (0..order.phases())
        .map(|phase| {
            let mut items: Vec<_> = order.phase(phase).map(values).collect();
            items.sort();
            items
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn subspaces_have_the_phases_of_the_whole(case in any_case()) {
        let traits = case.traits();
        let order = Order::new(&case.dims, &traits).unwrap();
        let whole = phases(&order, case.dims.len());
        let chosen = cut_dimension(&order, &case.dims, &traits);
        prop_assert!(chosen.is_none_or(|dim| may_cut(&order, dim, &traits)));
        for dim in (0..case.dims.len()).filter(|&dim| may_cut(&order, dim, &traits)) {
            let mut union = vec![Vec::new(); whole.len()];
            for (_, positions) in cut(case.dims[dim].len(), &case.weights, case.multiple) {
                let part = restrict(&case.dims, dim, positions.clone());
                for (i, position) in positions.enumerate() {
                    prop_assert_eq!(part[dim].value(i as u64), case.dims[dim].value(position));
                }
                let part = phases(&Order::new(&part, &traits).unwrap(), case.dims.len());
                prop_assert_eq!(part.len(), whole.len(), "phases, cut along {}", dim);
                union.iter_mut().zip(part).for_each(|(all, items)| all.extend(items));
            }
            union.iter_mut().for_each(|items| items.sort());
            prop_assert_eq!(&union, &whole, "cut along {}", dim);
        }
    }

    #[test]
    fn shares_are_in_proportion_on_multiples_and_complete(
        count in 0u64..5000,
        weights in prop::collection::vec(prop_oneof![5 => 0.01f64..10.0, 1 => Just(0.0), 1 => Just(f64::NAN)], 1..9),
        multiple in 1u64..70,
    ) {
        let parts = cut(count, &weights, multiple);
        let ends: Vec<u64> = parts.iter().map(|(_, range)| range.end).collect();
        let starts: Vec<u64> = parts.iter().map(|(_, range)| range.start).collect();
        prop_assert_eq!([&[0], &ends[..]].concat(), [&starts[..], &[count]].concat(), "{:?}", parts);
        prop_assert!(parts.iter().all(|(_, range)| range.start < range.end));
        prop_assert!(parts.windows(2).all(|w| w[0].0 < w[1].0));
        prop_assert!(starts.iter().all(|start| start % multiple == 0));
        let usable = |w: f64| if w > 0.0 { w } else { 0.0 };
        let sum: f64 = weights.iter().map(|&w| usable(w)).sum();
        for (share, range) in &parts {
            if sum > 0.0 {
                let ideal = count as f64 * usable(weights[*share]) / sum;
                let got = (range.end - range.start) as f64;
                prop_assert!((got - ideal).abs() <= multiple as f64 + 1e-6, "{} of {}: {:?}", ideal, count, parts);
            }
        }
    }

    #[test]
    fn shares_of_equal_cost_differ_by_less_than_two_rows(
        lengths in prop::collection::vec(0u64..50, 1..200),
        shares in 1usize..6,
    ) {
        let mut starts = vec![0];
        for length in &lengths {
            starts.push(starts[starts.len() - 1] + length);
        }
        let (count, total) = (lengths.len() as u64, starts[lengths.len()]);
        let parts = cut_by(count, &vec![1.0; shares], 1, total, |i| starts[i as usize]);
        prop_assert_eq!(parts.iter().map(|(_, r)| r.end - r.start).sum::<u64>(), count);
        let most = lengths.iter().max().copied().unwrap_or(0) as f64;
        for (_, rows) in parts {
            let cost = (starts[rows.end as usize] - starts[rows.start as usize]) as f64;
            prop_assert!(cost <= total as f64 / shares as f64 + most + 1e-6, "{} of {}", cost, total);
        }
    }

    #[test]
    fn value_ranges_are_those_of_the_values(dim in any_dim()) {
        let mut values: Vec<u64> = (0..dim.len()).map(|p| dim.value(p)).collect();
        values.sort_unstable();
        values.dedup();
        let (range, every) = value_range(&dim);
        let expected = values.first().map_or(0..0, |first| *first..values[values.len() - 1] + 1);
        prop_assert_eq!(every, values.len() as u64 == expected.end - expected.start);
        prop_assert_eq!(range, expected);
    }
}

#[test]
fn the_slowest_dimension_without_barriers_is_chosen() {
    let chosen = |counts: &[u64], traits: OrderTraits<'_>| {
        let dims: Vec<Dim> = counts.iter().map(|&n| Dim::Count(n)).collect();
        cut_dimension(&Order::new(&dims, &traits).unwrap(), &dims, &traits)
    };
    let none = OrderTraits::default();
    let group = |dims| OrderTraits { sort: &[], group: Some(Group::Dims(dims)) };
    assert_eq!(chosen(&[8, 4, 2], none), Some(2));
    assert_eq!(chosen(&[8, 4, 1], none), Some(1));
    assert_eq!(chosen(&[1], none), None);
    assert_eq!(chosen(&[8, 2, 10], group(&[1])), Some(0));
    assert_eq!(chosen(&[8, 4], group(&[0])), None);
}

/// The barrier before each 3 stands between the sweeps, where the dimension itself makes none.
#[test]
fn a_dimension_that_makes_barriers_outside_is_not_cut() {
    let dims = [count_by([3u64, 1, 2]), Dim::Count(4)];
    let traits = OrderTraits { sort: &[], group: Some(Group::Into { dim: 0, values: &[3] }) };
    let order = Order::new(&dims, &traits).unwrap();
    assert_eq!((order.phases(), order.every_phase_spans(0)), (4, true));
    assert!(!may_cut(&order, 0, &traits));
}

#[test]
fn large_counts_are_cut_without_loss() {
    let parts = cut(u64::MAX, &[1.0, 1.0, 1.0], 64);
    assert_eq!((parts[0].1.start, parts[parts.len() - 1].1.end), (0, u64::MAX));
    assert!(parts.windows(2).all(|w| w[0].1.end == w[1].1.start && w[1].1.start % 64 == 0));
}
