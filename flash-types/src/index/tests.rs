//! The decoders over plain data, for an interpreter that checks every access.

use super::*;
use crate::abi::space::*;

/// Everything in a space, three times.
fn walk<const N: usize>(space: SpaceRef<'_>) -> Vec<[u64; N]> {
    let mut all = Vec::new();
    for phase in 0..space.phases() {
        let rows = space.phase(phase);
        for row in rows.clone() {
            let mut value = [0; N];
            space.value(row, &mut value);
            assert_eq!(space.phase_of(row), phase);
            all.push(value);
        }
        let along = |index: [u64; N], dim: usize, step: i64, count: u64| {
            (0..count).map(move |i| {
                let mut index = index;
                index[dim] = index[dim].wrapping_add(i.wrapping_mul(step as u64));
                index
            })
        };
        let here = &all[rows.start as usize..];
        let runs: Vec<_> = Runs::<N>::new(space, rows.clone())
            .flat_map(|r| along(r.index, r.dim, r.step, r.count))
            .collect();
        assert_eq!(runs, here);
        let (mut runs, mut patches) = (Runs::<N>::new(space, rows.clone()), Vec::new());
        while let Some(Patch { run, across, stride, runs }) = runs.next_patch() {
            let firsts = along(run.index, across, stride, runs);
            patches.extend(firsts.flat_map(|first| along(first, run.dim, run.step, run.count)));
        }
        assert_eq!(patches, here);
        let (mut runs, mut found) = (DynRuns::new(space, rows), Vec::new());
        while let Some(run) = runs.next_run() {
            found.extend(along(run.index.try_into().unwrap(), run.dim, run.step, run.count));
        }
        assert_eq!(found, here);
    }
    assert_eq!(all.len() as u64, space.items());
    all
}

#[test]
fn orders_of_every_kind() {
    let x = count_by([5u64, 1, 5, 2]);
    let y = Dim::Range { start: 8, step: -2, count: 3 };
    let natural = Order::new(&[x.clone(), y.clone()], &OrderTraits::default()).unwrap();
    let plain = walk::<2>(natural.view().get());
    assert_eq!([0, 1].map(|dim| natural.view().get().value_range(dim)), [1..6, 4..9]);
    assert_eq!([&x, &y].map(|dim| value_range(dim).0), [1..6, 4..9]);
    assert_eq!((plain[0], plain[4], natural.phases()), ([5, 8], [5, 6], 1));
    let sort = |sort: &'static [usize], group| OrderTraits { sort, group };
    for (traits, phases) in [
        (sort(&[0], None), 3),
        (sort(&[1], None), 3),
        (sort(&[0, 1], None), 3),
        (sort(&[0, 1], Some(Group::Dims(&[0]))), 9),
        (sort(&[1, 0], Some(Group::Only(&[1]))), 3),
        (sort(&[0], Some(Group::Into { dim: 0, values: &[5] })), 2),
    ] {
        let order = Order::new(&[x.clone(), y.clone()], &traits).unwrap();
        let mut rows = walk::<2>(order.view().get());
        assert_eq!(order.phases(), phases, "{traits:?}");
        rows.sort_unstable();
        let mut expect = plain.clone();
        expect.sort_unstable();
        assert_eq!(rows, expect, "{traits:?}");
    }
    let empty = Order::new(&[Dim::Count(0), y], &OrderTraits::default()).unwrap();
    assert_eq!((walk::<2>(empty.view().get()).len(), empty.phases()), (0, 0));
}

#[test]
fn one_range_is_the_dimensions_of_a_line_and_the_box_of_one_axis() {
    fn dims(given: impl IntoDims) -> Vec<Dim> {
        let mut dims = DimList::new();
        given.push_into(&mut dims);
        dims.into_iter().collect()
    }
    assert_eq!(dims(2..7), [Dim::Range { start: 2, step: 1, count: 5 }]);
    assert_eq!(dims(2usize..=6), dims(2..7));
    assert_eq!(dims((2..7).rev()), [Dim::Range { start: 6, step: -1, count: 5 }]);
    assert_eq!(dims(2..7), dims((2..7,)));
    assert_eq!((2..7).into_box(), vec![2..7; 1]);
    assert_eq!([2..7, 0..1].into_box(), vec![2..7, 0..1]);
}

#[test]
fn a_space_made_by_hand() {
    let values = [7, 3, 7];
    let dims = [
        SpaceDim { kind: DIM_VALUES, reserved: 0, start: 0, step: 0, count: 3, values: values.as_ptr() },
        SpaceDim { kind: DIM_AFFINE, reserved: 0, start: 10, step: 5, count: 2, values: std::ptr::null() },
    ];
    let (order, barriers) = ([1, 0, 2], [0]);
    let plain = Loop {
        dim: 1,
        kind: LOOP_REVERSED,
        barrier: BARRIER_ALL,
        group_loop: 0,
        count: 2,
        barriers: std::ptr::null(),
        nbarriers: 0,
        order: std::ptr::null(),
        starts: std::ptr::null(),
    };
    let loops = [
        plain,
        Loop {
            dim: 0,
            kind: LOOP_ORDERED,
            barrier: BARRIER_LIST,
            count: 3,
            barriers: barriers.as_ptr(),
            nbarriers: 1,
            order: order.as_ptr(),
            ..plain
        },
    ];
    let space = Space {
        struct_size: size_of::<Space>() as u32,
        ndims: 2,
        items: 6,
        phases: 4,
        phase_items: 0,
        nloops: 2,
        reserved: 0,
        dims: dims.as_ptr(),
        loops: loops.as_ptr(),
    };
    // SAFETY: the arrays live to the end of the test.
    let space = unsafe { SpaceRef::new(&space) };
    assert_eq!(walk::<2>(space), [[3, 15], [7, 15], [7, 15], [3, 10], [7, 10], [7, 10]]);
    assert_eq!([0, 1, 2, 3].map(|phase| space.phase(phase)), [0..1, 1..3, 3..4, 4..6]);
}
