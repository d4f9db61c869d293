//! Work items that own blocks and tiles: each element once, through every door, however a launch is cut.

use flash::kernel::prelude::*;
use flash::prelude::*;
use proptest::prelude::*;

/// Each element by its place and by its item; what is read is added.
#[derive(KernelDefinition)]
#[kernel(name = "tiles.places", dims(i, j, z), part_by(j))]
struct Places<'a> {
    width: u64,
    height: u64,
    from: Item<'a, Read<Tile<u64, 5, 3>>>,
    both: Item<'a, ReadWrite<Tile<u64, 5, 3>>>,
    to: Item<'a, Write<Tile<u64, 5, 3>>>,
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel(devices)]
impl CpuItem<Places<'_>> for ByItem {
    fn item(ix: Index<3>, mut k: PlacesItem<'_>) {
        for y in 0..k.to.rows() {
            for x in 0..k.to.columns() {
                let place =
                    (ix[2] as u64 * k.height + (3 * ix[1] + y) as u64) * k.width + (5 * ix[0] + x) as u64;
                k.both.row_mut(y)[x] += 2 * k.from.row(y)[x];
                k.to.row_mut(y)[x] = 7 * place + k.both.row(y)[x];
            }
        }
    }
}

#[kernel(priority = -1)]
impl CpuSpan<Places<'_>> for BySpan {
    fn span(run: Span<3>, mut k: PlacesSpan<'_>) {
        let first = run.first();
        for i in 0..run.len() {
            let (from, mut both, mut to) = (k.from.tile(i), k.both.tile(i), k.to.tile(i));
            for y in 0..to.rows() {
                let row = (first[2] as u64 * k.height + (3 * first[1] + y) as u64) * k.width;
                for x in 0..to.columns() {
                    both.row_mut(y)[x] += 2 * from.row(y)[x];
                    to.row_mut(y)[x] = 7 * (row + (5 * (first[0] + i) + x) as u64) + both.row(y)[x];
                }
            }
        }
    }
}

#[kernel(priority = -1)]
impl CpuWhole<Places<'_>> for ByWhole {
    const PARTS: bool = true;
    fn whole(space: Space<'_, Index<3>>, k: PlacesWhole<'_>, _: Threads<'_>) {
        // Whole rows and planes: the first is that of the first tile.
        let first = (space.values(2).start as u64 * k.height + 3 * space.values(1).start as u64) * k.width;
        for (i, ((to, both), from)) in k.to.iter_mut().zip(k.both).zip(k.from).enumerate() {
            *both += 2 * from;
            *to = 7 * (first + i as u64) + *both;
        }
    }
}

fn places(door: Option<&'static str>, [w, h, depth]: [usize; 3]) {
    let rt = flash_tests::runtime();
    let count = w * h * depth;
    let numbers = |by: u64| {
        let numbers: FlashMemory<u64> = (0..count as u64).map(|i| i * by % 1001).collect();
        numbers.with_shape([w, h, depth]).unwrap()
    };
    let (from, both, to) = (numbers(3), numbers(7), numbers(1));
    let submission = rt.submit(Places::of(w as u64, h as u64, &from, &both, &to));
    let submission = match door {
        Some(door) => submission.options(Implementation::named(door)),
        None => submission,
    };
    submission.exec([w.div_ceil(5), h.div_ceil(3), depth]).unwrap();
    let added = |i: u64| i * 7 % 1001 + 2 * (i * 3 % 1001);
    let expected: Vec<u64> = (0..count as u64).map(|i| 7 * i + added(i)).collect();
    assert_eq!(to.to_vec().unwrap(), expected, "{door:?} {w} {h} {depth}");
    assert_eq!(both.to_vec().unwrap(), (0..count as u64).map(added).collect::<Vec<u64>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn each_element_is_one_items(w in 1_usize..23, h in 1_usize..14, depth in 1_usize..4) {
        places(None, [w, h, depth]);
        if flash_tests::runs_functions() {
            places(Some("by_span"), [w, h, depth]);
            // What lies between the tiles of a part is another's, if planes are cut.
            if depth == 1 {
                places(Some("by_whole"), [w, h, depth]);
            }
        }
    }
}

#[test]
fn tiles_on_devices_of_another_process() {
    for variables in [
        &[("FLASH_TEST_KEY", "ALL_CPU@agent")][..],
        &[("FLASH_TEST_KEY", "TEST@agent"), ("FLASH_TEST", "devices=2")],
    ] {
        flash_tests::in_process(variables, || {
            for shape in [[1, 1, 1], [5, 3, 2], [22, 13, 3]] {
                places(None, shape);
            }
        });
    }
}

/// Blocks along the rows of a matrix; only some of them.
#[derive(KernelDefinition)]
#[kernel(name = "tiles.blocks", dims(row, block), part_by(row))]
struct Blocks<'a> {
    #[along(block, row)]
    x: Item<'a, ReadWrite<Block<u32, 4>>>,
}

#[kernel(devices)]
impl CpuItem<Blocks<'_>> for ByItem {
    fn item(ix: Index<2>, k: BlocksItem<'_>) {
        for i in 0..k.x.len() {
            k.x[i] += (100 * ix[0] + 10 * ix[1] + i + 1) as u32;
        }
    }
}

#[kernel(priority = -1)]
impl CpuSpan<Blocks<'_>> for BySpan {
    fn span(run: Span<2>, mut k: BlocksSpan<'_>) {
        for row in 0..run.len() {
            for (i, x) in k.x.tile(row).iter_mut().enumerate() {
                *x += (100 * (run.first()[0] + row) + 10 * run.first()[1] + i + 1) as u32;
            }
        }
    }
}

#[test]
fn blocks_that_are_not_launched_keep_their_values() {
    let rt = flash_tests::runtime();
    let run = |door: Option<&'static str>| {
        let x = FlashMemory::from(vec![1_u32; 10 * 6]).with_shape([10, 6]).unwrap();
        let submission = rt.submit(Blocks::of(&x));
        let submission = match door {
            Some(door) => submission.options(Implementation::named(door)),
            None => submission,
        };
        // The last block of a row has two elements.
        submission.exec((1..5, 1..3)).unwrap();
        let expected = (0..60).map(|at| {
            let (row, block, i) = (at / 10, at % 10 / 4, at % 10 % 4);
            if (1..5).contains(&row) && block >= 1 { 1 + (100 * row + 10 * block + i + 1) as u32 } else { 1 }
        });
        assert_eq!(x.to_vec().unwrap(), expected.collect::<Vec<u32>>(), "{door:?}");
    };
    run(None);
    if flash_tests::runs_functions() {
        run(Some("by_span"));
    }
}

#[test]
fn a_launch_beyond_the_tiles_is_an_error_with_their_number() {
    let rt = flash_tests::runtime();
    let x = FlashMemory::from(vec![1_u32; 10 * 6]).with_shape([10, 6]).unwrap();
    let text = rt.submit(Blocks::of(&x)).exec([6, 4]).expect_err("three blocks a row").to_string();
    assert!(text.contains("`block` reaches the value 3") && text.contains("3 tiles of 4"), "{text}");
    let flat = FlashMemory::from(vec![1_u32; 60]);
    let text = rt.submit(Blocks::of(&flat)).exec([6, 3]).expect_err("no shape").to_string();
    assert!(text.contains("memory.view("), "{text}");
    assert_eq!(x.to_vec().unwrap(), [1; 60]);
}

/// Sum and difference of two elements that are far apart: neighbours along axis 1 of a view.
#[derive(KernelDefinition)]
#[kernel(name = "tiles.butterflies", dims(i, pair), part_by(pair))]
struct Butterflies<'a> {
    x: Item<'a, ReadWrite<Tile<i64, 1, 2>>>,
}

#[kernel(devices)]
impl CpuItem<Butterflies<'_>> for ByItem {
    fn item(_: Index<2>, mut k: ButterfliesItem<'_>) {
        let (a, b) = (k.x.row(0)[0], k.x.row(1)[0]);
        k.x.row_mut(0)[0] = a + b;
        k.x.row_mut(1)[0] = a - b;
    }
}

#[test]
fn butterflies_own_elements_that_are_apart() {
    let rt = flash_tests::runtime();
    let n = 64_usize;
    let given: Vec<i64> = (0..n as i64).map(|i| i * i % 17 - 5).collect();
    let x = FlashMemory::from(given.clone());
    for half in [1, 2, 4, 8, 16, 32] {
        let seen = x.view([half, n / half]).unwrap();
        rt.submit(Butterflies::of(seen)).exec([half, n / (2 * half)]).unwrap();
    }
    // The transform of Walsh and Hadamard.
    let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1 } else { -1 };
    let sum = |j: usize| given.iter().enumerate().map(|(i, x)| sign(i, j) * x).sum::<i64>();
    assert_eq!(x.to_vec().unwrap(), (0..n).map(sum).collect::<Vec<i64>>());
}

/// Tiles of two axes along one dimension.
#[derive(KernelDefinition)]
#[kernel(name = "tiles.one_axis", dims(i, j))]
struct OneAxis<'a> {
    #[along(i)]
    from: Item<'a, Read<Tile<u32, 4, 2>>>,
    to: Item<'a, Write<u32>>,
}

#[kernel(devices)]
impl CpuItem<OneAxis<'_>> for ByItem {
    fn item(_: Index<2>, k: OneAxisItem<'_>) {
        k.to.set(k.from.row(0)[0]);
    }
}

#[test]
fn a_tile_along_one_dimension_is_an_error() {
    let (from, to) = (FlashMemory::<u32>::zeroed(8), FlashMemory::<u32>::zeroed([2, 2]));
    let error = flash_tests::runtime().submit(OneAxis::of(&from, &to)).exec([2, 2]).expect_err("one axis");
    let text = error.to_string();
    assert!(text.contains("have 2 axes, and its index names 1") && text.contains("`from`"), "{text}");
}

/// A block of an array without a shape.
#[derive(KernelDefinition)]
#[kernel(name = "tiles.flat", dims(block))]
struct Flat<'a> {
    x: Item<'a, Write<Block<u32, 16>>>,
}

#[kernel(devices)]
impl CpuItem<Flat<'_>> for ByItem {
    fn item(ix: Index<1>, k: FlatItem<'_>) {
        for i in 0..k.x.len() {
            k.x[i] = (16 * ix[0] + i) as u32;
        }
    }
}

#[test]
fn blocks_of_an_array_without_a_shape() {
    let rt = flash_tests::runtime();
    for len in [1_usize, 15, 16, 17, 100] {
        let x = FlashMemory::<u32>::zeroed(len);
        rt.submit(Flat::of(&x)).exec([len.div_ceil(16)]).unwrap();
        assert_eq!(x.to_vec().unwrap(), (0..len as u32).collect::<Vec<u32>>());
    }
    let mut slice = [0_u32; 20];
    rt.submit(Flat::of(&mut slice[..])).exec([2]).unwrap();
    assert_eq!(slice[17], 17);
}
