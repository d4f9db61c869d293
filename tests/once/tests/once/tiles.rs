//! Work items that own blocks and tiles, which are smaller at the ends of their arrays.

use flash::kernel::prelude::*;
use flash::kernel::views::TileView;
use flash::prelude::*;
use flash_tests_once::{compare, devices};
use flash_twenty::Product;

struct Once;

fn matrix(columns: usize, rows: usize, by: u64) -> FlashMemory<f32> {
    let values = (1..=columns * rows).map(|i| ((i as u64).wrapping_mul(by) >> 7) % 17);
    let values: FlashMemory<f32> = values.map(|x| x as f32 - 8.0).collect();
    values.with_shape([columns, rows]).unwrap()
}

#[test]
fn products() {
    for (columns, inner, rows) in [(8, 8, 8), (1, 1, 1), (17, 5, 30), (40, 33, 9)] {
        compare("tiles::products", |rt| {
            let (a, b) = (matrix(inner, rows, 0x9E37_79B9), matrix(columns, inner, 0x85EB_CA6B));
            let c = FlashMemory::<f32>::zeroed([columns, rows]);
            let groups = [columns.div_ceil(8), rows.div_ceil(8)];
            rt.submit(Product::of(&a, &b, &c)).exec(groups).unwrap();
            let (a, b, c) = (a.to_vec().unwrap(), b.to_vec().unwrap(), c.to_vec().unwrap());
            for (i, found) in c.iter().enumerate() {
                let (row, column) = (i / columns, i % columns);
                let sum: f32 = (0..inner).map(|j| a[row * inner + j] * b[j * columns + column]).sum();
                assert_eq!(*found, sum, "{row}, {column}");
            }
            c
        });
    }
}

/// Rows for columns, through an item's own tile, without a team.
#[derive(KernelDefinition)]
#[kernel(name = "once.transpose_by_tiles", dims(i, j))]
struct Transpose<'a> {
    from: Item<'a, Read<Tile<u32, 7, 3>>>,
    all: Whole<'a, Read<u32>>,
    to: Item<'a, ReadWrite<Tile<u32, 7, 3>>>,
    last: Item<'a, Write<u32>>,
}

/// The last element of a tile.
#[kernel_fn]
fn last(tile: &TileView<'_, u32>) -> u32 {
    let row = tile.row(tile.rows() - 1);
    row[tile.columns() - 1]
}

#[kernel(devices)]
impl CpuItem<Transpose<'_>> for Once {
    fn item(ix: Index<2>, mut k: TransposeItem<'_>) {
        let mut sum = 0;
        for y in 0..k.to.rows() {
            for x in 0..k.to.columns() {
                sum += k.from.row(y)[x];
                k.to.row_mut(y)[x] += k.all[(7 * ix[0] + x) * 13 + 3 * ix[1] + y] + sum;
            }
        }
        k.last.set(last(&k.from));
    }
}

#[test]
fn transposes() {
    compare("tiles::transposes", |rt| {
        let (w, h) = (31_usize, 13_usize);
        let numbers = |by: usize| {
            let numbers: FlashMemory<u32> = (0..w * h).map(|i| (i * by % 1009) as u32).collect();
            numbers.with_shape([w, h]).unwrap()
        };
        let (from, all, to) = (numbers(31), numbers(7), numbers(13));
        let last = FlashMemory::<u32>::zeroed([w.div_ceil(7), h.div_ceil(3)]);
        rt.submit(Transpose::of(&from, &all, &to, &last)).exec([w.div_ceil(7), h.div_ceil(3)]).unwrap();
        [to.to_vec().unwrap(), last.to_vec().unwrap()].concat()
    });
}

/// Sums of blocks, and the numbers as sums of what is before them in their block.
#[derive(KernelDefinition)]
#[kernel(name = "once.scan_of_blocks", dims(block))]
struct Scan<'a> {
    x: Item<'a, ReadWrite<Block<u32, 100>>>,
    sum: Item<'a, Write<u32>>,
}

#[kernel(devices)]
impl CpuTeam<Scan<'_>, 32> for Once {
    fn team(_: Index<1>, k: ScanItem<'_>, team: &mut Team<32>) {
        let mut sums: [u32; 100] = team.shared(|[i]| if i < k.x.len() { k.x[i] } else { 0 });
        let mut by = 1;
        while by < 100 {
            team.update(&mut sums, |[i], old| if i >= by { old[i] + old[i - by] } else { old[i] });
            by *= 2;
        }
        team.map(k.x, |i, x| sums[i] - x);
        k.sum.set(sums[99]);
    }
}

#[test]
fn blocks() {
    for len in [1_usize, 100, 101, 2345] {
        compare("tiles::blocks", |rt| {
            let x: FlashMemory<u32> = (0..len).map(|i| (i * i % 97) as u32).collect();
            let sum = FlashMemory::<u32>::zeroed(len.div_ceil(100));
            rt.submit(Scan::of(&x, &sum)).exec([len.div_ceil(100)]).unwrap();
            let given: Vec<u32> = (0..len).map(|i| (i * i % 97) as u32).collect();
            let (x, sum) = (x.to_vec().unwrap(), sum.to_vec().unwrap());
            for (block, given) in given.chunks(100).enumerate() {
                assert_eq!(sum[block], given.iter().sum::<u32>());
                for i in 0..given.len() {
                    assert_eq!(x[100 * block + i], given[..i].iter().sum::<u32>());
                }
            }
            [x, sum].concat()
        });
    }
}

/// More turns of a thread than are unrolled, with conditional loads.
#[derive(KernelDefinition)]
#[kernel(name = "once.large_tiles", dims(i, j))]
struct Large<'a> {
    a: Window<'a, Read<u32>>,
    b: Window<'a, Read<u32>>,
    c: Item<'a, Write<Tile<u32, 24, 24>>>,
}

#[kernel(devices)]
impl CpuTeam<Large<'_>, 16> for Once {
    fn team(ix: Index<2>, mut k: LargeItem<'_>, team: &mut Team<16>) {
        let (left, top) = (24 * ix[0], 24 * ix[1]);
        let [w, h, _] = k.a.end();
        let a: [[u32; 24]; 24] = team
            .shared(|[y, x]| if left + x < w && top + y < h { k.a.at([left + x, top + y, 0]) } else { 0 });
        let mut b: [[u32; 24]; 24] = team
            .shared(|[y, x]| if left + x < w && top + y < h { k.b.at([left + x, top + y, 0]) } else { 0 });
        team.update(&mut b, |[y, x], old| if x > y { old[x][y] } else { a[x][y] + old[y][x] });
        team.set_tile(&mut k.c, |[y, x]| a[y][x] + 10 * b[y][x]);
    }
}

#[test]
fn many_turns() {
    let (w, h) = (45_usize, 30_usize);
    compare("tiles::many_turns", |rt| {
        let [a, b] = [7, 13].map(|by| {
            let numbers: FlashMemory<u32> = (1..=w * h).map(|i| (i * by % 1009) as u32).collect();
            numbers.with_shape([w, h]).unwrap()
        });
        let c = FlashMemory::<u32>::zeroed([w, h]);
        rt.submit(Large::of(&a, &b, &c)).exec([w.div_ceil(24), h.div_ceil(24)]).unwrap();
        c.to_vec().unwrap()
    });
}

/// An element beyond a tile that is smaller than the others.
#[derive(KernelDefinition)]
#[kernel(name = "once.tile_faults", dims(i, j))]
struct Faults<'a> {
    x: u64,
    y: u64,
    to: Item<'a, ReadWrite<Tile<u32, 8, 8>>>,
}

#[kernel(devices)]
impl CpuItem<Faults<'_>> for Once {
    fn item(_: Index<2>, mut k: FaultsItem<'_>) {
        k.to.row_mut(k.y as usize)[k.x as usize] = 1;
    }
}

#[test]
fn faults() {
    let run = |rt: &RuntimeObj, x: u64, y: u64| {
        let to = FlashMemory::<u32>::zeroed([12, 20]);
        rt.submit(Faults::of(x, y, &to)).exec([2, 3])?;
        to.to_vec()
    };
    let rts = devices("tiles::faults").into_iter().chain([("the CPU".into(), flash_tests_once::cpu())]);
    for (device, rt) in rts {
        assert_eq!(run(&rt, 3, 3).unwrap().iter().sum::<u32>(), 6, "{device}");
        for (x, y) in [(4, 3), (3, 4), (8, 0), (0, 8)] {
            assert!(run(&rt, x, y).is_err(), "{device}: {x}, {y}");
        }
    }
}
