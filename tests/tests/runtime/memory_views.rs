//! Views of memories as arguments: other shapes of an array, and some of its rows.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Reduce, Row, Sum, Whole, Window, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, MemoryView, RuntimeObj};
use flash_core::descriptor::{part_by, stencil};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

/// One of each view.
#[derive(KernelDefinition)]
#[kernel(name = "memory_views.all", dims(x, y), part_by(y, near = stencil(x = 1, y = 1)))]
struct All<'a> {
    near: Window<'a, Read<u64>>,
    whole: Whole<'a, Read<u64>>,
    own: Item<'a, Read<u64>>,
    #[along(y)]
    row: Item<'a, Read<Row<u64>>>,
    bins: Reduce<'a, ReadWrite<[u64]>, Sum>,
    #[along(y, x)]
    turned: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "memory_views.add", dims(x, y))]
struct Add<'a> {
    value: u64,
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<All<'_>> for Plain {
    fn item(ix: Index<2>, mut k: AllItem<'_>) {
        let [x, y] = ix.values();
        let [_, end_y, _] = k.near.end();
        let near = k.near.at([x, y, 0]) + if y + 1 < end_y { k.near.at([x, y + 1, 0]) } else { 0 };
        let flat = k.near.get(x + y * k.near.strides()[0]);
        let mut row = 0;
        for i in 0..k.row.len() {
            row += k.row[i] * (i as u64 + 1);
        }
        let value = near + 3 * flat + 5 * k.whole[(x + 2 * y) % k.whole.len()] + 7 * *k.own + 11 * row;
        k.bins.put((x + y) % k.bins.len(), value);
        k.turned.set(value + k.near.len() as u64 + 100 * k.whole.len() as u64);
    }
}

#[kernel(devices)]
impl CpuItem<Add<'_>> for Plain {
    fn item(ix: Index<2>, k: AddItem<'_>) {
        *k.to += k.value + 10 * ix[0] as u64 + 100 * ix[1] as u64;
    }
}

/// The sum of an element and its neighbours along x and y.
#[derive(KernelDefinition)]
#[kernel(name = "memory_views.around", dims(x, y, z), part_by(y, from = stencil(x = 1, y = 1)))]
struct Around<'a> {
    from: Window<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

#[kernel(devices)]
impl CpuItem<Around<'_>> for Plain {
    fn item(ix: Index<3>, k: AroundItem<'_>) {
        let [x, y, z] = ix.values();
        let mut sum = k.from.at([x, y, z]);
        if x > 0 {
            sum = sum.wrapping_mul(3) ^ k.from.at([x - 1, y, z]);
        }
        if y > 0 {
            sum = sum.wrapping_mul(5) ^ k.from.at([x, y - 1, z]);
        }
        *k.to = k.to.wrapping_mul(7).wrapping_add(sum);
    }
}

fn counted(n: usize) -> FlashMemory<u64> {
    (0..n as u64).map(|i| i * i % 251).collect()
}

const W: usize = 6;
const H: usize = 10;

/// What every view of a definition gives, for arguments that are views or copies.
fn results(rt: &RuntimeObj, copies: bool, first: usize, rows: usize) -> [Vec<u64>; 2] {
    let memories: [FlashMemory<u64>; 6] = std::array::from_fn(|i| counted(2 * W * H + i));
    let [near, whole, own, row, bins, turned] = &memories;
    let rows_of = |memory: &FlashMemory<u64>, w: usize, rows: std::ops::Range<usize>| {
        let range = w * rows.start..w * rows.end;
        FlashMemory::from(&memory.read().unwrap()[range]).with_shape([w, rows.len()]).unwrap()
    };
    let wanted = first..first + rows;
    match copies {
        true => {
            let [near, own] = [near, own].map(|memory| rows_of(memory, W, wanted.clone()));
            let row = rows_of(row, 3, wanted.clone());
            let [whole, bins] = [whole, bins].map(|memory| FlashMemory::from(&memory.read().unwrap()[4..9]));
            let turned = rows_of(turned, rows, 1..W + 1);
            rt.submit(All::of(&near, &whole, &own, &row, &bins, &turned)).exec([W, rows]).unwrap();
            [bins.read().unwrap().to_vec(), turned.read().unwrap().to_vec()]
        }
        false => {
            let view = |memory: &'_ FlashMemory<u64>, w: usize| -> MemoryView<'static, u64> {
                let whole_rows = memory.len() / w * w;
                let range = memory.clone().into_range(..whole_rows).unwrap();
                range.view([w, whole_rows / w]).unwrap().rows(wanted.clone()).unwrap()
            };
            let (whole, some) = (whole.range(4..9).unwrap(), bins.range(4..9).unwrap());
            let to = turned.range(rows..rows * (W + 1)).unwrap().view([rows, W]).unwrap();
            let kernel = All::of(view(near, W), whole, view(own, W), view(row, 3), some, to);
            rt.submit(kernel).exec([W, rows]).unwrap();
            for (memory, touched, i) in [(bins, 4..9, 4), (turned, rows..rows * (W + 1), 5)] {
                let (before, now) = (counted(2 * W * H + i), memory.read().unwrap());
                let others = (0..now.len()).filter(|i| !touched.contains(i));
                others.for_each(|i| assert_eq!(now[i], before.get(i).unwrap(), "element {i} was not passed"));
            }
            [bins.read().unwrap()[4..9].to_vec(), turned.read().unwrap()[rows..rows * (W + 1)].to_vec()]
        }
    }
}

#[flash_tests::test]
fn every_argument_sees_a_view_as_it_sees_a_copy() {
    let rt = flash_tests::runtime();
    for (first, rows) in [(0, H), (0, 3), (4, 5), (H - 1, 1), (2, 0)] {
        for rt in [rt.clone(), rt.options(Subspaces(3))] {
            let found = results(&rt, false, first, rows);
            assert_eq!(found, results(&rt, true, first, rows), "rows {first}.. {rows}");
        }
    }
}

/// One launch of [`Around`]: views of two memories, as many elements and the same shape.
#[derive(Clone, Debug)]
struct Step {
    from: usize,
    /// The first elements of the views.
    first: [usize; 2],
    shape: [usize; 3],
    items: [std::ops::Range<usize>; 3],
    /// The view is made of rows of a view of all, if that has just such rows there.
    by_rows: bool,
    /// The dimension of the cut, and the number of parts.
    cut: Option<(usize, u32)>,
}

const SHAPES: [[usize; 3]; 4] = [[240, 1, 1], [12, 20, 1], [5, 6, 8], [60, 4, 1]];

fn step() -> impl Strategy<Value = Step> {
    let shape = prop_oneof![
        (1..13usize, 1..9usize, 1..5usize).prop_filter("few", |(x, y, z)| x * y * z <= 240),
        prop_oneof![Just(12), Just(5), Just(60)].prop_flat_map(|x| (Just(x), 1..=(240 / x).min(9), Just(1))),
    ];
    let axis = |n: usize| (0..=n, 0..=n).prop_map(|(a, b)| a.min(b)..a.max(b));
    shape.prop_flat_map(move |(x, y, z)| {
        let room = 240 - x * y * z;
        let first = prop_oneof![
            [0..=room, 0..=room],
            // At the beginning of a row.
            [0..=room / x, 0..=room / x].prop_map(move |rows| rows.map(|row| row * x)),
        ];
        let cut = proptest::option::of((0..3usize, 1..5u32));
        (0..2usize, first, (axis(x), axis(y), axis(z)), any::<bool>(), cut).prop_map(
            move |(from, first, (a, b, c), by_rows, cut)| {
                let (shape, items) = ([x, y, z], [a, b, c]);
                Step { from, first, shape, items, by_rows, cut }
            },
        )
    })
}

impl Step {
    fn view<'m>(&self, memory: &'m FlashMemory<u64>, first: usize) -> MemoryView<'m, u64> {
        let [x, y, z] = self.shape;
        if self.by_rows && z == 1 && 240 % x == 0 && first.is_multiple_of(x) {
            let rows = memory.view([x, 240 / x]).unwrap().rows(first / x..first / x + y).unwrap();
            return rows.view([x, y, 1]).unwrap();
        }
        memory.range(first..).unwrap().range(..x * y * z).unwrap().view([x, y, z]).unwrap()
    }

    fn model(&self, memories: &mut [Vec<u64>; 2]) {
        let at = |first: usize, [x, y, z]: [usize; 3]| first + x + self.shape[0] * (y + self.shape[1] * z);
        let [xs, ys, zs] = self.items.clone();
        let from = memories[self.from].clone();
        for z in zs {
            for (x, y) in ys.clone().flat_map(|y| xs.clone().map(move |x| (x, y))) {
                let near = |ix: [usize; 3]| from[at(self.first[0], ix)];
                let mut sum = near([x, y, z]);
                if x > 0 {
                    sum = sum.wrapping_mul(3) ^ near([x - 1, y, z]);
                }
                if y > 0 {
                    sum = sum.wrapping_mul(5) ^ near([x, y - 1, z]);
                }
                let to = &mut memories[1 - self.from][at(self.first[1], [x, y, z])];
                *to = to.wrapping_mul(7).wrapping_add(sum);
            }
        }
    }
}

#[flash_tests::test]
fn random_launches_of_random_views_are_as_a_serial_program() {
    let rt = flash_tests::runtime();
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in vec((step(), 0..3u8), 1..8), shapes in [0..4usize, 0..4usize])| {
        let memories = shapes.map(|shape| counted(240).with_shape(SHAPES[shape]).unwrap());
        let mut model = [counted(240).to_vec().unwrap(), counted(240).to_vec().unwrap()];
        let mut pipeline = rt.pipeline();
        for (step, then) in &steps {
            step.model(&mut model);
            let from = step.view(&memories[step.from], step.first[0]);
            let submitted = pipeline.submit(Around::of(from, step.view(&memories[1 - step.from], step.first[1])));
            let submitted = match step.cut {
                None => submitted,
                Some((axis, parts)) => {
                    let by = part_by(["x", "y", "z"][axis]).map("from", stencil([("x", 1), ("y", 1), ("z", 0)]));
                    submitted.options((by, Subspaces(parts)))
                }
            };
            let [x, y, z] = step.items.clone();
            pipeline = submitted.defer((x, y, z));
            // Together with the next one, alone, or alone and with a look of the host.
            if *then > 0 {
                pipeline.exec().unwrap();
                pipeline = rt.pipeline();
            }
            if *then > 1 {
                prop_assert_eq!(&memories[1].read_range(7..50).unwrap()[..], &model[1][7..50]);
            }
        }
        pipeline.exec().unwrap();
        for (memory, model) in memories.iter().zip(&model) {
            prop_assert_eq!(&memory.read().unwrap()[..], &model[..]);
        }
    });
}

#[flash_tests::test]
fn a_view_is_the_same_whether_sizes_or_the_view_gives_the_shape() {
    let rt = flash_tests::runtime();
    let (a, b) = (counted(24), counted(24));
    rt.submit(Add::of(1, a.range(4..20).unwrap())).sizes([[4, 4]]).exec([3, 4]).unwrap();
    rt.submit(Add::of(1, b.range(4..20).unwrap().view([4, 4]).unwrap())).exec([3, 4]).unwrap();
    assert_eq!(*a.read().unwrap(), *b.read().unwrap());
    // What is given for the submission goes before the view's own shape.
    rt.submit(Add::of(1, b.view([24]).unwrap())).sizes([[4, 6]]).exec([4, 6]).unwrap();
    rt.submit(Add::of(1, a.view([4, 6]).unwrap())).sizes([[0u64; 0]]).exec([4, 6]).unwrap();
    assert_eq!(*a.read().unwrap(), *b.read().unwrap());
    // By name, and in a copy of a box.
    let add = rt.kernel("memory_views.add").unwrap();
    rt.submit(add.args((1u64, b.view([3, 8]).unwrap().rows(2..5).unwrap())).unwrap()).exec([3, 3]).unwrap();
    rt.submit(Add::of(1, a.range(6..15).unwrap())).sizes([[3, 3]]).exec([3, 3]).unwrap();
    assert_eq!(*a.read().unwrap(), *b.read().unwrap());
    rt.pipeline()
        .copy_box(a.view([6, 4]).unwrap(), [1..3, 0..2], b.view([2, 12]).unwrap(), [0..2, 10..12])
        .exec()
        .unwrap();
    let (a, b) = (a.read().unwrap(), b.read().unwrap());
    assert_eq!(b[20..], [a[1], a[2], a[7], a[8]]);
}

/// The same elements of two shapes of one memory.
#[derive(KernelDefinition)]
#[kernel(name = "memory_views.twice", dims(x, y))]
struct Twice<'a> {
    one: Item<'a, Read<u64>>,
    other: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Twice<'_>> for Plain {
    fn item(_: Index<2>, k: TwiceItem<'_>) {
        k.to.set(3 * *k.one + *k.other);
    }
}

#[flash_tests::test]
fn one_launch_sees_a_memory_in_two_shapes() {
    let rt = flash_tests::runtime();
    for (w, h) in [(20, 64), (3, 60), (32, 40)] {
        for rt in [rt.clone(), rt.options(Subspaces(2))] {
            let memory = counted(64 * 64).with_shape([64, 64]).unwrap();
            let to = FlashMemory::<u64>::zeroed([w, h]);
            rt.submit(Twice::of(&memory, memory.view([32, 128]).unwrap(), &to)).exec([w, h]).unwrap();
            let (memory, to) = (memory.read().unwrap(), to.read().unwrap());
            for (x, y) in (0..h).flat_map(|y| (0..w).map(move |x| (x, y))) {
                assert_eq!(to[x + y * w], 3 * memory[x + 64 * y] + memory[x + 32 * y], "{x}, {y}");
            }
        }
    }
}

#[flash_tests::test]
fn launches_and_guards_of_other_rows_do_not_wait() {
    let rt = flash_tests::runtime();
    let grid = FlashMemory::<u64>::zeroed([W, H]);
    let guard = grid.read_range(..W * 4).unwrap();
    let handle = rt.pipeline().submit(Add::of(1, grid.clone().into_view([W, H]).unwrap().rows(4..).unwrap()));
    handle
        .defer([W, H - 4])
        .exec_async()
        .wait_timeout(Duration::from_secs(20))
        .expect("no guard has these")
        .unwrap();
    assert!(guard.iter().all(|v| *v == 0));
    // The guard's rows are refused to this thread.
    let error = rt.submit(Add::of(1, grid.rows(3..5).unwrap())).exec([W, 2]).unwrap_err();
    assert!(matches!(error, Error::Borrowed { .. }), "{error}");
    drop(guard);
    // Two parts of one memory are two arguments if they are apart.
    let [above, below] = [grid.rows(..4).unwrap(), grid.rows(4..).unwrap()];
    rt.pipeline().copy(below.clone().range(..W * 4).unwrap(), above).exec().unwrap();
    assert_eq!(grid.read_range(..W * 4).unwrap()[..], grid.read_range(W * 4..W * 8).unwrap()[..]);
    let error =
        rt.pipeline().copy(below.range(..W * 4).unwrap(), grid.rows(3..7).unwrap()).exec().unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
}

#[test]
fn a_view_that_does_not_fit_says_what_was_expected_what_was_found_and_the_way_out() {
    let rt = flash_tests::runtime();
    let memory = counted(24).with_shape([4, 6]).unwrap();
    let says = |error: Error, words: &[&str]| {
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    };
    says(
        memory.view([5, 5]).unwrap_err(),
        &["expected a shape of 24 elements", "[5, 5]", "25", ".range(..)?.view(..)"],
    );
    says(memory.view([1u64 << 40; 2]).unwrap_err(), &["more than 2^64"]);
    says(memory.view([1, 2, 3, 2, 2]).unwrap_err(), &["1 to 4 axes", "`.sizes(..)`"]);
    says(memory.rows(4..7).unwrap_err(), &["rows inside 0..6", "[4, 6]", "4..7"]);
    says(memory.rows(1..4).unwrap().rows(2..4).unwrap_err(), &["rows inside 0..3", "2..4"]);
    says(memory.rows(1..4).unwrap().range(3..13).unwrap_err(), &["3..13", "12"]);
    says(counted(7).rows(8..).unwrap_err(), &["rows inside 0..7"]);
    says(
        rt.submit(Add::of(1, memory.view([24]).unwrap())).exec([4, 6]).unwrap_err(),
        &["2 axes", "[24]", "`memory.view([..])?`", "`.sizes(..)`"],
    );
    says(
        rt.submit(Add::of(1, memory.rows(2..4).unwrap())).exec([4, 3]).unwrap_err(),
        &["dimension `y` reaches the value 2", "2 elements"],
    );
    assert_eq!(*memory.read().unwrap(), *counted(24).read().unwrap(), "nothing ran");
}

#[test]
fn nothing_is_a_view_too() {
    let rt = flash_tests::runtime();
    let memory = counted(12);
    for view in
        [memory.range(5..5).unwrap().view([0, 3]).unwrap(), memory.view([3, 4]).unwrap().rows(4..).unwrap()]
    {
        assert!(view.is_empty() && view.shape().contains(&0));
        rt.submit(Add::of(1, view)).exec([0, 0]).unwrap();
    }
    let large = FlashMemory::<u64>::zeroed([0u64, 1 << 40, 1 << 40]);
    assert_eq!(large.rows(..).unwrap().shape(), [0, 1 << 40, 1 << 40]);
}
