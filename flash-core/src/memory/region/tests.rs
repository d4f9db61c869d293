use super::*;
use proptest::prelude::*;

/// One bit per element.
type Bits = Vec<bool>;

fn bits(grid: &Grid, region: &Region) -> Bits {
    let mut bits = vec![false; grid.elements() as usize];
    for block in region.blocks() {
        assert!(!block.is_empty() && grid.block().contains(block), "{block:?} in {grid:?}");
        for z in block.begin[2]..block.end[2] {
            for y in block.begin[1]..block.end[1] {
                for x in block.begin[0]..block.end[0] {
                    let bit = &mut bits[grid.flat([x, y, z]) as usize];
                    assert!(!*bit, "two boxes of {region:?} have ({x}, {y}, {z})");
                    *bit = true;
                }
            }
        }
    }
    assert_eq!(bits.iter().filter(|b| **b).count() as u64, region.elements());
    bits
}

fn combined(a: &Bits, b: &Bits, op: impl Fn(bool, bool) -> bool) -> Bits {
    a.iter().zip(b).map(|(&a, &b)| op(a, b)).collect()
}

pub(crate) fn grids() -> impl Strategy<Value = Grid> {
    (1usize..4, 1u64..8, 1u64..7, 1u64..6).prop_map(|(axes, x, y, z)| {
        let shape = &[x, y, z][..axes];
        Grid::new(shape, shape.iter().product())
    })
}

/// A box, perhaps empty.
pub(crate) fn blocks(grid: Grid) -> impl Strategy<Value = GridBox> {
    let axis = |n: u64| (0..=n, 0..=n).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let [x, y, z] = grid.extent();
    (axis(x), axis(y), axis(z)).prop_map(|(x, y, z)| GridBox { begin: [x.0, y.0, z.0], end: [x.1, y.1, z.1] })
}

#[derive(Clone, Debug)]
enum Op {
    Add(GridBox),
    Subtract(GridBox),
    AddRange(u64, u64),
}

fn ops(grid: Grid) -> impl Strategy<Value = Vec<Op>> {
    let n = grid.elements();
    proptest::collection::vec(
        prop_oneof![
            3 => blocks(grid).prop_map(Op::Add),
            2 => blocks(grid).prop_map(Op::Subtract),
            1 => (0..=n, 0..=n).prop_map(|(a, b)| Op::AddRange(a, b)),
        ],
        0..10,
    )
}

fn made(grid: &Grid, ops: &[Op]) -> (Region, Bits) {
    let (mut region, mut model) = (Region::empty(), vec![false; grid.elements() as usize]);
    for op in ops {
        match op {
            Op::Add(block) => {
                region.add_block(block);
                model = combined(&model, &bits(grid, &(*block).into()), |a, b| a || b);
            }
            Op::Subtract(block) => {
                region.subtract_block(block);
                model = combined(&model, &bits(grid, &(*block).into()), |a, b| a && !b);
            }
            Op::AddRange(a, b) => {
                let part = Region::of_range(grid, *a..*b);
                assert!(part.blocks().len() <= 5);
                region.add(&part);
                (*a..*b).for_each(|i| model[i as usize] = true);
            }
        }
        assert_eq!(bits(grid, &region), model, "after {op:?}");
    }
    (region, model)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2_000 }, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn regions_are_sets_of_elements(
        (grid, a, b) in grids().prop_flat_map(|g| (Just(g), ops(g), ops(g)))
    ) {
        let ((a, a_bits), (b, b_bits)) = (made(&grid, &a), made(&grid, &b));
        let both = combined(&a_bits, &b_bits, |a, b| a && b);
        prop_assert_eq!(bits(&grid, &a.intersection(&b)), both.clone());
        prop_assert_eq!(a.overlaps(&b), both.contains(&true));
        prop_assert_eq!(a.contains(&b), both == b_bits);
        prop_assert_eq!(a == b, a_bits == b_bits);
        prop_assert_eq!(a.is_empty(), !a_bits.contains(&true));
        prop_assert_eq!(bits(&grid, &a.without(&b)), combined(&a_bits, &b_bits, |a, b| a && !b));
        let mut sum = a.clone();
        sum.add(&b);
        prop_assert_eq!(bits(&grid, &sum), combined(&a_bits, &b_bits, |a, b| a || b));
        let hull = a.hull(&grid);
        let first = a_bits.iter().position(|b| *b).unwrap_or(0) as u64;
        let end = a_bits.iter().rposition(|b| *b).map_or(0, |i| i as u64 + 1);
        prop_assert_eq!(hull, first..end);
        prop_assert!(Region::all(&grid).contains(&a));
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn boxes_of_another_shape_are_exact_or_refused(
        (from, block, to) in (1u64..5, 1u64..5, 1u64..5, 0usize..6).prop_flat_map(|(x, y, z, way)| {
            let to: [u64; 3] = [[x * y * z, 1, 1], [x, y * z, 1], [x * y, z, 1], [y, x, z], [z, y, x], [x, y, z]][way];
            let from = Grid::new(&[x, y, z], x * y * z);
            (Just(from), blocks(from), Just(Grid::new(&to, x * y * z)))
        })
    ) {
        for (from, to, block) in [(from, to, block), (to, from, GridBox {
            begin: [0, 1, 2].map(|a| block.begin[a].min(to.extent()[a])),
            end: [0, 1, 2].map(|a| block.end[a].min(to.extent()[a])),
        })] {
            if let Some(region) = Region::of_block(&block, &from, 0, &to) {
                prop_assert_eq!(bits(&to, &region), bits(&from, &block.into()));
                prop_assert!(region.blocks().len() <= FEW_BLOCKS);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn boxes_of_a_view_are_exact_or_refused(
        (from, block) in grids().prop_flat_map(|g| (Just(g), blocks(g))),
        to in [1u64..6, 1u64..6, 1u64..6],
        rows in 0u64..4,
        more in 0u64..4,
    ) {
        // As many planes as the view has elements after the offset, which is some rows, or rows and a bit.
        let [x, y, _] = to;
        let x = if rows == 0 { x } else { from.extent()[0].max(1) };
        let offset = rows * x + more % 2 * more;
        let z = (offset + from.elements()).div_ceil(x * y).max(1);
        let to = Grid::new(&[x, y, z], x * y * z);
        if let Some(region) = Region::of_block(&block, &from, offset, &to) {
            let mut expected = vec![false; offset as usize];
            expected.extend(bits(&from, &block.into()));
            expected.resize(to.elements() as usize, false);
            prop_assert_eq!(bits(&to, &region), expected);
            prop_assert!(region.blocks().len() <= FEW_BLOCKS);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn runs_are_the_elements_of_a_box(
        (grid, block) in grids().prop_flat_map(|g| (Just(g), blocks(g)))
    ) {
        let runs = runs(&block.extent(), &grid);
        let mut found = vec![false; grid.elements() as usize];
        if !block.is_empty() {
            for z in 0..runs.count[1] {
                for y in 0..runs.count[0] {
                    let at = grid.flat(block.begin) + y * runs.stride[0] + z * runs.stride[1];
                    for i in at..at + runs.length {
                        prop_assert!(!std::mem::replace(&mut found[i as usize], true));
                    }
                }
            }
        }
        prop_assert_eq!(found, bits(&grid, &block.into()));
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn shapes_of_more_axes_are_folded_into_the_last() {
    assert_eq!(Grid::new(&[2, 3, 4, 5], 120).extent(), [2, 3, 20]);
    assert_eq!(Grid::new(&[], 7).extent(), [7, 1, 1]);
    assert!(Region::all(&Grid::new(&[4, 0], 0)).is_empty());
    assert!(Region::of_range(&Grid::new(&[], 0), 0..0).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn rows_of_a_flat_array_and_tiles_of_many_rows() {
    let (flat, grid) = (Grid::new(&[], 1 << 40), Grid::new(&[1 << 20, 1 << 20], 1 << 40));
    let rows = GridBox { begin: [0, 7, 0], end: [1 << 20, 9, 1] };
    let region = Region::of_block(&rows, &grid, 0, &flat).unwrap();
    assert_eq!(region.blocks(), [GridBox { begin: [7 << 20, 0, 0], end: [9 << 20, 1, 1] }]);
    let tile = GridBox { begin: [0, 0, 0], end: [4, 4_000, 1] };
    assert!(Region::of_block(&tile, &grid, 0, &flat).is_none());
    let cube = Grid::new(&[1 << 20, 1 << 10, 1 << 10], 1 << 40);
    let part = GridBox { begin: [5, 0, 3], end: [9, 1 << 10, 900] };
    assert_eq!(Region::of_block(&part, &cube, 0, &grid).unwrap().blocks().len(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
fn strips_that_come_one_by_one_become_one_box() {
    let grid = Grid::new(&[64, 64], 4096);
    let mut region = Region::empty();
    for k in [3u64, 0, 2, 1] {
        region.add_block(&GridBox { begin: [0, 16 * k, 0], end: [64, 16 * k + 16, 1] });
    }
    assert_eq!(region.blocks(), Region::all(&grid).blocks());
}

#[test]
fn a_grid_without_elements_may_have_any_extents() {
    let large = 1 << 40;
    for shape in [[0, 1, large, large], [1, 0, large, large], [large, 0, large, large]] {
        let grid = Grid::new(&shape, 0);
        assert_eq!((grid.elements(), Region::all(&grid).elements()), (0, 0), "{shape:?}");
        assert!(grid.block().is_empty() && grid.block().hull(&grid).is_empty());
    }
}

/// A view with gaps of a grid: a box, steps, an order of axes. Its own grid, strides and first element.
fn views(grid: Grid) -> impl Strategy<Value = (GridBox, [u64; 3], u64)> {
    let orders = [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]];
    (blocks(grid), [1..3u64, 1..3u64, 1..3u64], proptest::sample::select(orders.to_vec())).prop_map(
        move |(block, steps, order)| {
            let apart = [1, grid.stride()[0], grid.stride()[1]];
            let extent: [u64; 3] = std::array::from_fn(|axis| block.extent()[axis].div_ceil(steps[axis]));
            let strides: [u64; 3] = std::array::from_fn(|axis| apart[axis] * steps[axis]);
            let all = GridBox { begin: [0; 3], end: order.map(|axis| extent[axis]) };
            (all, order.map(|axis| strides[axis]), grid.flat(block.begin))
        },
    )
}

fn bits_of_view(grid: &Grid, (block, strides, offset): &(GridBox, [u64; 3], u64)) -> Bits {
    let mut bits = vec![false; grid.elements() as usize];
    let [x, y, z] = block.extent();
    for (z, y, x) in (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| (z, y, x)))) {
        bits[(offset + x * strides[0] + y * strides[1] + z * strides[2]) as usize] = true;
    }
    bits
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many cases")]
    fn the_region_of_a_view_with_gaps_has_its_elements_and_says_whether_it_has_others(
        (grid, seen, one, other) in (grids(), grids()).prop_flat_map(|(grid, seen)| {
            (Just(grid), Just(seen), views(grid), views(grid))
        }),
    ) {
        // In its own grid, and in one of another shape.
        let flat = Grid::new(&[], grid.elements());
        let same = seen.elements() == grid.elements();
        for to in [grid, flat].into_iter().chain(same.then_some(seen)) {
            let (region, is_exact) = Region::of_strided(&one.0, &one.1, one.2, &to);
            let (all, own) = (bits(&to, &region), bits_of_view(&to, &one));
            prop_assert!(own.iter().zip(&all).all(|(own, all)| *all || !own));
            prop_assert!(!is_exact || own == all);
        }
        let lattice = |view: &(GridBox, [u64; 3], u64)| Lattice::of(&view.0, &view.1, view.2, &grid);
        let common = combined(&bits_of_view(&grid, &one), &bits_of_view(&grid, &other), |a, b| a && b);
        match (lattice(&one), lattice(&other)) {
            // For steps of one and two nothing is left open.
            (Some(a), Some(b)) => prop_assert_eq!(a.is_apart(&b), !common.contains(&true)),
            (a, b) => prop_assert!(a.is_none() && one.0.is_empty() || b.is_none() && other.0.is_empty()),
        }
    }
}
