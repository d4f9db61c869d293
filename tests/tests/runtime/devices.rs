//! One launch over several devices with memories of their own: the bits of one device, the copies that are
//! needed and no more, and clear words where it cannot be.

use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Scatter, Sum, Whole, Window, Write};
use flash::kernel::{Boxes, Candidate, CpuItem, Index, partition_map};
use flash::prelude::*;
use flash::{Error, kernel};
use flash_core::descriptor::part_by;
use flash_tests::{APART, in_process};

const FOUR: &[(&str, &str)] = APART[4];

#[derive(KernelDefinition)]
#[kernel(name = "devices.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
struct Heat<'a> {
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.heat3", dims(x, y, z), part_by(z, from = stencil(x = 1, y = 1, z = 1)))]
struct Heat3<'a> {
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.csr", dims(row), part_by(row, column = csr_rows(row, start), value = csr_rows(row, start)))]
struct Csr<'a> {
    #[structure]
    start: Whole<'a, Read<u64>>,
    column: Window<'a, Read<u32>>,
    value: Window<'a, Read<f64>>,
    x: Whole<'a, Read<f64>>,
    y: Item<'a, Write<f64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.tally", dims(i), part_by(i))]
struct Tally<'a> {
    values: Item<'a, Read<f32>>,
    sum: Reduce<'a, ReadWrite<f32>, Sum>,
    bins: Reduce<'a, Write<[u32]>, Sum>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.grow", dims(i), part_by(i))]
struct Grow<'a> {
    by: u64,
    of: Item<'a, ReadWrite<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.mark", dims(i))]
struct Mark<'a> {
    marks: Scatter<'a, u32>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.drift", dims(i, step), group_by(step), part_by(i, of = stencil(i = 1)))]
struct Drift<'a> {
    #[along(i)]
    of: Phased<'a, u64>,
}

struct Plain;

/// Of an element and its four neighbours.
#[kernel_fn]
fn cross(of: [f32; 5]) -> f32 {
    of[0] + 0.1 * (of[1] + of[2] + of[3] + of[4] - 4.0 * of[0])
}

#[kernel(devices)]
impl CpuItem<Heat<'_>> for Plain {
    fn item(at: Index<2>, k: HeatItem<'_>) {
        let near =
            |x: isize, y: isize| k.from.at([at[0].wrapping_add_signed(x), at[1].wrapping_add_signed(y), 0]);
        k.to.set(cross([near(0, 0), near(-1, 0), near(1, 0), near(0, -1), near(0, 1)]));
    }
}

#[kernel(devices)]
impl CpuItem<Heat3<'_>> for Plain {
    fn item(at: Index<3>, k: Heat3Item<'_>) {
        let near = |x: isize, y: isize, z: isize| {
            k.from.at([
                at[0].wrapping_add_signed(x),
                at[1].wrapping_add_signed(y),
                at[2].wrapping_add_signed(z),
            ])
        };
        let flat = [near(0, 0, 0), near(-1, 0, 0), near(1, 0, 0), near(0, -1, 0), near(0, 1, 0)];
        k.to.set(cross(flat) + 0.1 * (near(0, 0, -1) + near(0, 0, 1)));
    }
}

#[kernel(devices)]
impl CpuItem<Csr<'_>> for Plain {
    fn item(row: Index<1>, k: CsrItem<'_>) {
        let mut sum = 0.0;
        for e in k.start[row[0]] as usize..k.start[row[0] + 1] as usize {
            sum += k.value.get(e) * k.x[k.column.get(e) as usize];
        }
        k.y.set(sum);
    }
}

#[kernel(devices)]
impl CpuItem<Tally<'_>> for Plain {
    fn item(_: Index<1>, mut k: TallyItem<'_>) {
        k.sum.put(*k.values);
        k.bins.put(k.values.to_bits() as usize % k.bins.len(), 1);
    }
}

#[kernel(devices)]
impl CpuItem<Drift<'_>> for Plain {
    fn item(ix: Index<2>, mut k: DriftItem<'_>) {
        let (i, own) = (ix[Drift::I], k.of.own());
        let next = if i + 1 < k.of.len() { k.of.get(i + 1) } else { 0 };
        k.of.set(own.wrapping_mul(3) ^ next);
    }
}

/// As many steps of the first items of an array.
fn drifted(values: &[u64], items: usize, steps: usize) -> Vec<u64> {
    let mut values = values.to_vec();
    for _ in 0..steps {
        let was = values.clone();
        for i in 0..items {
            values[i] = was[i].wrapping_mul(3) ^ was.get(i + 1).unwrap_or(&0);
        }
    }
    values
}

#[kernel(devices)]
impl CpuItem<Grow<'_>> for Plain {
    fn item(i: Index<1>, k: GrowItem<'_>) {
        *k.of = *k.of * 3 + k.by + i[0] as u64;
    }
}

#[kernel(devices)]
impl CpuItem<Mark<'_>> for Plain {
    fn item(i: Index<1>, k: MarkItem<'_>) {
        k.marks.add(i[0], 1);
    }
}

/// Numbers that have nothing to do with each other.
fn noise(n: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| next()).collect()
}

/// Bytes that all devices have sent and got so far.
fn moved(rt: &RuntimeObj) -> u64 {
    let all = rt.devices().iter().map(|device| device.transfers());
    all.map(|t| t.to_device.bytes + t.from_device.bytes + t.between_devices.bytes).sum()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[flash_tests::test]
fn a_stencil_moves_its_halo_and_has_the_bits_of_one_device() {
    in_process(FOUR, || {
        let (rt, one) = (flash_tests::runtime(), get_runtime(&flash_tests::id(0)).unwrap());
        // Equal shares, so that the rows at the cuts are known.
        let rt = rt.options(weights([1, 1, 1, 1]));
        let (nx, ny) = (37usize, 42usize);
        let memory = || FlashMemory::from(noise(nx * ny)).with_shape([nx, ny]).unwrap();
        let run = |rt: &RuntimeObj, steps: usize, bytes: &mut Vec<u64>| {
            let (mut now, mut next) = (memory(), memory());
            for _ in 0..steps {
                let before = moved(rt);
                rt.submit(Heat::of(&now, &next)).exec((1..nx - 1, 1..ny - 1)).unwrap();
                bytes.push(moved(rt) - before);
                std::mem::swap(&mut now, &mut next);
            }
            bits(&now.read().unwrap())
        };
        let mut bytes = Vec::new();
        assert_eq!(run(&rt, 8, &mut bytes), run(&one, 8, &mut Vec::new()));
        // Three cuts, a row in either direction, of which the two elements at the rim never change. Each of
        // the two arrays comes to the devices once before.
        let halo = (3 * 2 * (nx - 2) * size_of::<f32>()) as u64;
        assert_eq!(bytes[2..], [halo; 6], "{bytes:?}");
        let shape = [19usize, 17, 22];
        let n = shape.iter().product();
        let memory = || FlashMemory::from(noise(n)).with_shape(shape).unwrap();
        let run = |rt: &RuntimeObj| {
            let (mut now, mut next) = (memory(), memory());
            let mut last = 0;
            for _ in 0..5 {
                let before = moved(rt);
                rt.submit(Heat3::of(&now, &next)).exec((1..18, 1..16, 1..21)).unwrap();
                last = moved(rt) - before;
                std::mem::swap(&mut now, &mut next);
            }
            (bits(&now.read().unwrap()), last)
        };
        let ((many, last), (alone, nothing)) = (run(&rt), run(&one));
        assert_eq!((many == alone, last, nothing), (true, 3 * 2 * 17 * 15 * 4, 0));
    });
}

#[flash_tests::test]
fn devices_that_share_the_hosts_memory_copy_nothing() {
    in_process(&[("FLASH_CPU_DEVICES", "4"), ("FLASH_CPU_THREADS", "4")], || {
        let rt = flash_tests::runtime();
        let values = FlashMemory::from(vec![1u64; 1000]);
        rt.submit(Grow::of(5, &values)).exec([1000]).unwrap();
        assert!(values.read().unwrap().iter().enumerate().all(|(i, v)| *v == 8 + i as u64));
        assert_eq!(moved(&rt), 0);
    });
}

#[flash_tests::test]
fn sparse_rows_and_reductions_have_the_bits_of_one_device() {
    in_process(FOUR, || {
        let (rt, one) = (flash_tests::runtime(), get_runtime(&flash_tests::id(0)).unwrap());
        let rows = 500;
        // Few long rows and many short ones.
        let start: Vec<u64> = (0..=rows).map(|r| if r < 20 { r * 50 } else { 1000 + (r - 20) * 2 }).collect();
        let elements = start[rows as usize] as usize;
        let column: Vec<u32> = (0..elements).map(|e| (e * 7 % rows as usize) as u32).collect();
        let value: Vec<f64> = noise(elements).into_iter().map(f64::from).collect();
        let x: Vec<f64> = noise(rows as usize).into_iter().map(f64::from).collect();
        let run = |rt: &RuntimeObj| {
            let y = FlashMemory::<f64>::zeroed(rows);
            let (start, column) = (FlashMemory::from(start.clone()), FlashMemory::from(column.clone()));
            let (value, x) = (FlashMemory::from(value.clone()), FlashMemory::from(x.clone()));
            rt.submit(Csr::of(&start, &column, &value, &x, &y)).exec([rows]).unwrap();
            y.read().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        let expected: Vec<u64> = (0..rows as usize)
            .map(|r| {
                (start[r] as usize..start[r + 1] as usize).map(|e| value[e] * x[column[e] as usize]).sum()
            })
            .map(f64::to_bits)
            .collect();
        assert_eq!(run(&rt), expected);
        assert_eq!(run(&one), expected);
        let values = noise(100_000);
        let tally = |rt: &RuntimeObj| {
            let (values, sum) = (FlashMemory::from(values.clone()), FlashMemory::from([0.25f32]));
            let bins = FlashMemory::from(vec![77u32; 16]);
            // Whole and cut ones, one after the other.
            rt.submit(Tally::of(&values, &sum, &bins))
                .defer([100_000])
                .submit(Tally::of(&values, &sum, &bins))
                .exec([99_999])
                .unwrap();
            (sum.get(0).unwrap().to_bits(), bins.read().unwrap().to_vec())
        };
        let (many, alone) = (tally(&rt), tally(&one));
        assert_eq!(many, alone);
        assert_eq!(many.1.iter().sum::<u32>(), 99_999);
    });
}

partition_map! {
    static OVERLAP = "devices.overlap": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let i = at.values("i");
        boxes.set("marks", i.start.saturating_sub(1)..i.end);
    };
}
partition_map! {
    static LEAVES = "devices.leaves": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let i = at.values("i");
        boxes.set("marks", i.start..i.end + 1);
    };
}
partition_map! {
    static PANICS = "devices.panics": |at: &Candidate<'_>, _: &mut Boxes| panic!("no map for {:?}", at.values("i"));
}
partition_map! {
    static FITS = "devices.fits": |at: &Candidate<'_>, boxes: &mut Boxes| {
        boxes.set("marks", at.values("i"));
    };
}

#[flash_tests::test]
fn what_cannot_be_cut_is_refused_before_anything_runs() {
    in_process(FOUR, || {
        let rt = flash_tests::runtime();
        let (marks, first) = (FlashMemory::<u32>::zeroed(100), FlashMemory::from(vec![1u64; 100]));
        for (map, words) in [
            (&OVERLAP, ["`marks`", "overlap"]),
            (&LEAVES, ["`marks`", "does not lie in the array"]),
            (&PANICS, ["devices.panics", "no map for"]),
        ] {
            let pipeline = rt.submit(Grow::of(1, &first)).defer([100]);
            let error = pipeline
                .submit(Mark::of(&marks))
                .options(part_by("i").by(map))
                .exec([100])
                .expect_err("this cannot be cut");
            assert!(matches!(error, Error::Partition { .. }), "{error:?}");
            assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        }
        assert!(first.read().unwrap().iter().all(|v| *v == 1), "the submission before has not run");
        rt.submit(Mark::of(&marks)).options(part_by("i").by(&FITS)).exec([100]).unwrap();
        assert!(marks.read().unwrap().iter().all(|v| *v == 1), "and what can be cut runs after all that");
    });
}

#[flash_tests::test]
fn an_array_larger_than_the_devices_memory_is_streamed_by_subspaces() {
    in_process(APART[1], || {
        let n = 1usize << 19;
        let rt = flash_tests::runtime().options(MemoryBudget(1 << 20));
        let values = FlashMemory::from(vec![1u64; n]);
        let launch = |parts| rt.submit(Grow::of(5, &values)).options(Subspaces(parts)).exec([n]);
        let error = launch(1).unwrap_err().to_string();
        assert!(error.contains("4194304") && error.contains("1048576"), "the sizes: {error}");
        // What failed had not begun: its memory is to be healed, and is.
        values.write().unwrap().fill(1);
        launch(16).unwrap();
        launch(16).unwrap();
        let expected = |i: u64| (3 + 5 + i) * 3 + 5 + i;
        assert!(values.read().unwrap().iter().enumerate().all(|(i, v)| *v == expected(i as u64)));
    });
}

#[flash_tests::test]
fn phases_of_an_array_larger_than_the_devices_memory_are_streamed_too() {
    in_process(APART[1], || {
        let n = 1usize << 19;
        let rt = flash_tests::runtime().options((MemoryBudget(1 << 20), Subspaces(16)));
        let start: Vec<u64> = (0..n as u64).collect();
        // An odd number of phases ends in the second buffer; where not every element has an item, every phase
        // does.
        for (items, steps) in [(n, 3), (n, 2), (n - 5, 2)] {
            let values = FlashMemory::from(start.clone()).with_shape([n]).unwrap();
            rt.submit(Drift::of(&values)).exec([items, steps]).unwrap();
            assert!(*values.read().unwrap() == drifted(&start, items, steps), "{items} items, {steps} steps");
        }
    });
}

#[flash_tests::test]
fn what_a_part_wrote_is_carried_over_where_it_ran() {
    in_process(FOUR, || {
        let n = 1usize << 18;
        let rt = flash_tests::runtime().options(Subspaces(32));
        let start: Vec<u64> = (0..n as u64).collect();
        let values = FlashMemory::from(start.clone()).with_shape([n]).unwrap();
        rt.submit(Drift::of(&values)).exec([n - 5, 1]).unwrap();
        for device in rt.devices() {
            let moved = device.transfers();
            assert_eq!((moved.from_device.bytes, moved.between_devices.bytes), (0, 0), "{moved}");
        }
        assert!(*values.read().unwrap() == drifted(&start, n - 5, 1));
    });
}
