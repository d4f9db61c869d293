//! Groups of equal arguments: what they mean is what as many single ones do.

use flash::kernel::views::{Item, Max, Phased, Read, ReadWrite, Reduce, Scatter, Sum, Whole, Window, Write};
use flash::kernel::{
    Boxes, Candidate, CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads, partition_map,
};
use flash::prelude::*;
use flash::{Context, kernel};
use flash_core::descriptor::{Attributes, part_by, rows, stencil};
use flash_tests::{APART, in_process};
use std::array::from_fn;

/// Where the value of each direction comes from.
const FROM: [[usize; 2]; 9] = [[1, 1], [0, 1], [1, 0], [2, 1], [1, 2], [0, 0], [2, 0], [2, 2], [0, 2]];

/// A step of streaming, in which the directions mix.
#[derive(KernelDefinition)]
#[kernel(name = "groups.stream", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
struct Stream<'a> {
    from: [Window<'a, Read<f32>>; 9],
    to: [Item<'a, Write<f32>>; 9],
}

/// The same without groups.
#[derive(KernelDefinition)]
#[kernel(name = "groups.nine", dims(x, y), part_by(y,
    f0 = stencil(x = 1, y = 1), f1 = stencil(x = 1, y = 1), f2 = stencil(x = 1, y = 1),
    f3 = stencil(x = 1, y = 1), f4 = stencil(x = 1, y = 1), f5 = stencil(x = 1, y = 1),
    f6 = stencil(x = 1, y = 1), f7 = stencil(x = 1, y = 1), f8 = stencil(x = 1, y = 1)))]
struct Nine<'a> {
    f0: Window<'a, Read<f32>>,
    f1: Window<'a, Read<f32>>,
    f2: Window<'a, Read<f32>>,
    f3: Window<'a, Read<f32>>,
    f4: Window<'a, Read<f32>>,
    f5: Window<'a, Read<f32>>,
    f6: Window<'a, Read<f32>>,
    f7: Window<'a, Read<f32>>,
    f8: Window<'a, Read<f32>>,
    t0: Item<'a, Write<f32>>,
    t1: Item<'a, Write<f32>>,
    t2: Item<'a, Write<f32>>,
    t3: Item<'a, Write<f32>>,
    t4: Item<'a, Write<f32>>,
    t5: Item<'a, Write<f32>>,
    t6: Item<'a, Write<f32>>,
    t7: Item<'a, Write<f32>>,
    t8: Item<'a, Write<f32>>,
}

struct Plain;

fn mixed(f: [f32; 9]) -> [f32; 9] {
    let sum: f32 = f.iter().sum();
    f.map(|f| f + 0.3 * (sum / 9.0 - f))
}

#[kernel]
impl CpuItem<Stream<'_>> for Plain {
    fn item(ix: Index<2>, k: StreamItem<'_>) {
        let at = |q: usize| k.from[q].at([ix[0] + FROM[q][0] - 1, ix[1] + FROM[q][1] - 1, 0]);
        let f = mixed(from_fn(at));
        k.to.iter().zip(f).for_each(|(to, f)| to.set(f));
    }
}

#[kernel]
impl CpuItem<Nine<'_>> for Plain {
    fn item(ix: Index<2>, k: NineItem<'_>) {
        let from = [k.f0, k.f1, k.f2, k.f3, k.f4, k.f5, k.f6, k.f7, k.f8];
        let at = |q: usize| from[q].at([ix[0] + FROM[q][0] - 1, ix[1] + FROM[q][1] - 1, 0]);
        let f = mixed(from_fn(at));
        let to = [k.t0, k.t1, k.t2, k.t3, k.t4, k.t5, k.t6, k.t7, k.t8];
        to.into_iter().zip(f).for_each(|(to, f)| to.set(f));
    }
}

fn fields(w: usize, h: usize) -> [FlashMemory<f32>; 9] {
    let value = |q: usize, i: usize| ((i * 7919 + q * 31) % 1013) as f32 / 1013.0;
    from_fn(|q| {
        let values: Vec<f32> = (0..w * h).map(|i| value(q, i)).collect();
        FlashMemory::from(values).with_shape([w, h]).unwrap()
    })
}

fn bits(fields: &[FlashMemory<f32>; 9]) -> Vec<Vec<u32>> {
    fields.iter().map(|field| field.read().unwrap().iter().map(|value| value.to_bits()).collect()).collect()
}

/// What the devices of the process's key give, with groups and without, and one device of them alone.
fn same_bits(rt: &RuntimeObj) {
    let (w, h) = (23, 31);
    let inside = [1..w as u64 - 1, 1..h as u64 - 1];
    let steps = |rt: &RuntimeObj, groups: bool| {
        let (mut f, mut g) = (fields(w, h), fields(w, h));
        for _ in 0..3 {
            match groups {
                true => rt.submit(Stream::of(&f, &g)).exec(inside.clone()).unwrap(),
                false => {
                    let [a, b, c, d, e, i, j, k, l] = &f;
                    let [m, n, o, p, q, r, s, t, u] = &g;
                    let nine = Nine::of(a, b, c, d, e, i, j, k, l, m, n, o, p, q, r, s, t, u);
                    rt.submit(nine).exec(inside.clone()).unwrap()
                }
            };
            std::mem::swap(&mut f, &mut g);
        }
        bits(&f)
    };
    let one = get_runtime(&flash_tests::id(0)).unwrap();
    let expected = steps(&one, false);
    assert!(steps(rt, true) == expected && steps(rt, false) == expected && steps(&one, true) == expected);
}

#[flash_tests::test]
fn a_group_of_windows_has_the_bits_of_as_many_windows() {
    same_bits(&flash_tests::runtime_of_functions());
}

#[flash_tests::test]
fn groups_over_several_devices_have_the_bits_of_one_device() {
    in_process(APART[3], || same_bits(&flash_tests::runtime_of_functions()));
}

#[flash_tests::test]
fn groups_over_parts_of_the_processors_have_the_bits_of_one_device() {
    in_process(&[("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_COPY", "1")], || {
        same_bits(&flash_tests::runtime_of_functions());
    });
}

partition_map! {
    /// Pairs of both, and of one of them the next pair, too.
    static PAIRS = "groups.pairs": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let i = at.values("i");
        assert!(at.shape("pairs_1")[0] > 2 * i.end);
        boxes.set("pairs", 2 * i.start..2 * i.end);
        boxes.set("pairs_1", 2 * i.start..2 * i.end + 2);
    };
}

/// Every view that may be written, in groups.
#[derive(KernelDefinition)]
#[kernel(name = "groups.tally", dims(i), part_by(i, map = PAIRS, marks = tiles(i = 1)))]
struct Tally<'a> {
    scale: [u64; 2],
    table: [Whole<'a, Read<u64>>; 2],
    pairs: [Window<'a, Read<u64>>; 2],
    count: [Item<'a, ReadWrite<u64>>; 3],
    marks: [Scatter<'a, u64>; 2],
    sums: [Reduce<'a, ReadWrite<u64>, Sum>; 2],
    most: [Reduce<'a, Write<[u64]>, Max>; 2],
    to: [Item<'a, Write<u64>>; 2],
}

struct ByItem;
struct BySpan;
struct ByWhole;

/// What an item writes.
fn value(scale: u64, table: &[u64], pairs: &flash::kernel::views::WindowView<'_, u64>, i: usize) -> u64 {
    scale * (table[i % table.len()] + pairs.get(2 * i) + pairs.get(2 * i + 1))
}

#[kernel]
impl CpuItem<Tally<'_>> for ByItem {
    fn item(ix: Index<1>, mut k: TallyItem<'_>) {
        let i = ix[0];
        for count in k.count {
            *count += 1;
        }
        for q in 0..2 {
            k.marks[q].add(i, 1 + q as u64);
            k.sums[q].put(i as u64 + q as u64);
            k.most[q].put(i % 3, i as u64 + q as u64);
            k.to[q].set(value(k.scale[q], k.table[q], &k.pairs[q], i));
        }
    }
}

#[kernel]
impl CpuSpan<Tally<'_>> for BySpan {
    fn span(run: Span<1>, mut k: TallySpan<'_>) {
        k.count.into_iter().flatten().for_each(|count| *count += 1);
        for at in 0..run.len() {
            let i = run.first()[0] + at;
            for q in 0..2 {
                k.marks[q].add(i, 1 + q as u64);
                k.sums[q].put(i as u64 + q as u64);
                k.most[q].put(i % 3, i as u64 + q as u64);
                k.to[q][at] = value(k.scale[q], k.table[q], &k.pairs[q], i);
            }
        }
    }
}

#[kernel]
impl CpuWhole<Tally<'_>> for ByWhole {
    fn whole(space: Space<'_, Index<1>>, mut k: TallyWhole<'_>, _: Threads<'_>) {
        for (at, i) in space.values(0).enumerate() {
            for count in &mut k.count {
                count[at] += 1;
            }
            for q in 0..2 {
                k.marks[q].add(i, 1 + q as u64);
                k.sums[q].block(0).put(i as u64 + q as u64);
                k.most[q].block(0).put(i % 3, i as u64 + q as u64);
                k.to[q][at] = value(k.scale[q], k.table[q], &k.pairs[q], i);
            }
        }
    }
}

/// Each door's results against a loop.
fn each_item_once(doors: &[&str]) {
    let (n, rt) = (10_007_u64, flash_tests::runtime_of_functions());
    let table: [Vec<u64>; 2] = [(0..7).collect(), (0..11).map(|i| i * i).collect()];
    let pairs: [Vec<u64>; 2] = from_fn(|q| (0..2 * n + 2).map(|i| i * 3 + q as u64).collect());
    for door in doors {
        let count: [FlashMemory<u64>; 3] = from_fn(|q| FlashMemory::from(vec![q as u64; n as usize]));
        let [marks, to]: [[FlashMemory<u64>; 2]; 2] = from_fn(|_| from_fn(|_| FlashMemory::zeroed(n)));
        let mut sums = [5_u64, 6];
        let most: [FlashMemory<u64>; 2] = from_fn(|_| FlashMemory::zeroed(3));
        let [a, b] = &mut sums;
        let tally = Tally::of([2, 3], &table, &pairs, &count, &marks, [a, b], &most, &to);
        rt.submit(tally).options(Implementation::named(*door)).exec([n]).unwrap();
        let all = n * (n - 1) / 2;
        assert_eq!(sums, [5 + all, 6 + all + n], "{door}");
        for (q, count) in count.iter().enumerate() {
            assert!(count.read().unwrap().iter().all(|count| *count == q as u64 + 1), "{door}");
        }
        for q in 0..2 {
            assert!(marks[q].read().unwrap().iter().all(|mark| *mark == 1 + q as u64), "{door}");
            // The greatest index is 10006, which is 1 modulo 3.
            assert_eq!(*most[q].read().unwrap(), [n - 2, n - 1, n - 3].map(|i| i + q as u64), "{door}");
            for (i, to) in to[q].read().unwrap().iter().enumerate() {
                let of = table[q][i % table[q].len()] + pairs[q][2 * i] + pairs[q][2 * i + 1];
                assert_eq!(*to, [2, 3][q] * of, "{door} {i}");
            }
        }
    }
}

#[flash_tests::test]
fn each_item_of_groups_runs_once_in_every_door() {
    in_process(&[], || each_item_once(&["by_item", "by_span", "by_whole"]));
}

#[flash_tests::test]
fn each_item_of_groups_runs_once_on_several_devices() {
    in_process(APART[3], || each_item_once(&["by_item", "by_span"]));
}

/// Two of them, each by the last phase.
#[derive(KernelDefinition)]
#[kernel(name = "groups.drift", dims(i, step), group_by(step), part_by(i, of = stencil(i = 1)))]
struct Drift<'a> {
    #[along(i)]
    of: [Phased<'a, u64>; 2],
}

#[kernel]
impl CpuItem<Drift<'_>> for Plain {
    fn item(ix: Index<2>, mut k: DriftItem<'_>) {
        let i = ix[Drift::I];
        for q in 0..2 {
            let next = if i + 1 < k.of[q].len() { k.of[1 - q].get(i + 1) } else { 0 };
            k.of[q].set(next.wrapping_mul(3) ^ k.of[q].get(i));
        }
    }
}

fn drifts(rt: &RuntimeObj) {
    let of: [FlashMemory<u64>; 2] = from_fn(|q| (0..1000).map(|i| i * (q as u64 + 5)).collect());
    let mut expected = of.each_ref().map(|of| of.read().unwrap().to_vec());
    for _ in 0..3 {
        let was = expected.clone();
        for q in 0..2 {
            for i in 0..1000 {
                expected[q][i] = was[1 - q].get(i + 1).unwrap_or(&0).wrapping_mul(3) ^ was[q][i];
            }
        }
    }
    rt.submit(Drift::of(&of)).exec([1000, 3]).unwrap();
    assert_eq!(of.map(|of| of.read().unwrap().to_vec()), expected);
}

#[flash_tests::test]
fn phased_arguments_may_be_a_group() {
    drifts(&flash_tests::runtime_of_functions());
}

#[flash_tests::test]
fn phased_arguments_of_a_group_are_cut() {
    in_process(APART[3], || drifts(&flash_tests::runtime_of_functions()));
}

#[flash_tests::test]
fn a_memory_may_be_in_a_group_twice_only_if_it_is_read() {
    let (rt, f, g) = (flash_tests::runtime_of_functions(), fields(8, 8), fields(8, 8));
    let inside = [1..7, 1..7];
    rt.submit(Stream::of([&f[0]; 9], &g)).exec(inside.clone()).unwrap();
    let twice = from_fn(|q| &g[if q == 7 { 2 } else { q }]);
    let text = rt.submit(Stream::of(&f, twice)).exec(inside.clone()).unwrap_err().to_string();
    assert!(text.contains("`to_2`") && text.contains("`to_7`") && text.contains("overlap"), "{text}");
    let both = from_fn(|q| if q == 4 { &f[0] } else { &g[q] });
    let text = rt.submit(Stream::of(&f, both)).exec(inside).unwrap_err().to_string();
    assert!(text.contains("`from_0`") && text.contains("`to_4`") && text.contains("overlap"), "{text}");
}

#[flash_tests::test]
fn each_argument_of_a_group_has_its_own_shape() {
    let (rt, shaped, expected) = (flash_tests::runtime_of_functions(), fields(8, 8), fields(8, 8));
    rt.submit(Stream::of(&shaped, &expected)).exec([1..7, 1..7]).unwrap();
    let flat = fields(8, 8).map(|field| FlashMemory::from(field.read().unwrap().to_vec()));
    let to = fields(8, 8).map(|field| FlashMemory::from(field.read().unwrap().to_vec()));
    rt.submit(Stream::of(&flat, &to)).sizes([[8, 8]; 18]).exec([1..7, 1..7]).unwrap();
    assert_eq!(bits(&to), bits(&expected));
    let wrong = fields(8, 8);
    let to =
        from_fn(|q| if q == 3 { wrong[3].range(0..60).unwrap() } else { wrong[q].range(0..64).unwrap() });
    let text = rt.submit(Stream::of(&flat, to)).sizes([[8, 8]; 18]).exec([1..7, 1..7]).unwrap_err();
    assert!(text.to_string().contains("`to_3`"), "{text}");
}

#[flash_tests::test]
fn a_map_that_a_launch_asks_for_names_a_group_or_one_of_it() {
    in_process(APART[3], || {
        let (rt, inside) = (flash_tests::runtime_of_functions(), [1..22, 1..30]);
        let (f, g, h) = (fields(23, 31), fields(23, 31), fields(23, 31));
        rt.submit(Stream::of(&f, &g)).exec(inside.clone()).unwrap();
        let around = || stencil([("x", 1), ("y", 1)]);
        let mut options = Attributes::default();
        options.set(part_by("y").map("from", around()).map("from_8", around()));
        rt.submit(Stream::of(&f, &h)).options(options).exec(inside.clone()).unwrap();
        assert_eq!(bits(&h), bits(&g));
        for (name, why) in [("from_9", "no argument `from_9`"), ("to", "`to_0` is an `Item`")] {
            let mut options = Attributes::default();
            options.set(part_by("y").map(name, rows("y")));
            let text = rt.submit(Stream::of(&f, &h)).options(options).exec(inside.clone()).unwrap_err();
            assert!(text.to_string().contains(why), "{text}");
        }
    });
}

#[flash_tests::test]
fn a_context_of_two_devices_that_copy_finds_no_wrong_box() {
    let two = Context::builder().set("cpu.devices", 2).set("cpu.copy", true).build().unwrap();
    let (rt, f, g, h) = (two.runtime("ALL_CPU").unwrap(), fields(23, 31), fields(23, 31), fields(23, 31));
    rt.submit(Stream::of(&f, &g)).exec([1..22, 1..30]).unwrap();
    flash_tests::runtime_of_functions().submit(Stream::of(&f, &h)).exec([1..22, 1..30]).unwrap();
    assert_eq!(bits(&g), bits(&h));
}
