//! Implementations by the `whole` door over several devices. Those that take parts get parts, with the result
//! of one device; others get all of a launch, on one device.

use flash::kernel;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Row, Sum, Window, Write};
use flash::kernel::{CpuItem, CpuWhole, Index, Space, Threads};
use flash::prelude::*;
use flash_tests::{APART, id, in_process, key};
use std::collections::BTreeSet;

const SHARING: &[(&str, &str)] = &[("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2")];
const COPYING: &[(&str, &str)] = APART[2];

#[derive(KernelDefinition)]
#[kernel(name = "whole.mix", dims(x, y), part_by(y, from = stencil(x = 0, y = 1)))]
struct Mix<'a> {
    width: u64,
    from: Window<'a, Read<u64>>,
    #[along(y)]
    rows: Item<'a, Read<Row<u64>>>,
    both: Item<'a, ReadWrite<u64>>,
    to: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "whole.tally", dims(i), part_by(i))]
struct Tally<'a> {
    values: Item<'a, Read<f64>>,
    sum: Reduce<'a, Write<f64>, Sum>,
    bins: Reduce<'a, Write<[u32]>, Sum>,
}

#[derive(KernelDefinition)]
#[kernel(name = "whole.steps", dims(i, step), group_by(step), part_by(i))]
struct Steps<'a> {
    #[along(i)]
    values: Phased<'a, u64>,
}

struct ByItem;
/// Takes parts.
struct ByPart;
/// Takes whole arrays only.
struct ByAll;

fn mixed(at: [usize; 2], around: u64, row: &[u64], both: u64) -> u64 {
    (both.wrapping_mul(5) ^ around).wrapping_add(row.iter().sum::<u64>() + (at[0] + 100 * at[1]) as u64)
}

/// What lies above and below.
fn around(from: impl Fn(usize, usize) -> u64, height: usize, [x, y]: [usize; 2]) -> u64 {
    from(x, y.saturating_sub(1)) + 3 * from(x, (y + 1).min(height - 1))
}

fn next(values: &[u64], i: usize, step: usize) -> u64 {
    values[i].wrapping_mul(3) ^ values[(i * 7 + step) % values.len()]
}

#[kernel]
impl CpuItem<Mix<'_>> for ByItem {
    fn item(ix: Index<2>, k: MixItem<'_>) {
        let height = k.from.len() / k.width as usize;
        let around = around(|x, y| k.from.at([x, y, 0]), height, ix.values());
        *k.both = mixed(ix.values(), around, k.rows, *k.both);
        k.to.set(*k.both + 1);
    }
}

/// The loop of both `whole` implementations: `x` and `y` are the indices of the slices' first elements.
fn mix(space: &Space<'_, Index<2>>, k: MixWhole<'_>, [x, y]: [usize; 2]) {
    let (width, height) = (k.width as usize, k.from.len() / k.width as usize);
    space.for_each(|ix| {
        let at = ix[0] - x + (ix[1] - y) * width;
        let row = &k.rows[(ix[1] - y) * ROW..][..ROW];
        let around = around(|x, y| k.from.at([x, y, 0]), height, ix.values());
        k.both[at] = mixed(ix.values(), around, row, k.both[at]);
        k.to[at] = k.both[at] + 1;
    });
}

#[kernel]
impl CpuWhole<Mix<'_>> for ByPart {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<2>>, k: MixWhole<'_>, threads: Threads<'_>) {
        let [x, y] = [space.values(0), space.values(1)];
        // From the first to the last element of the space, and no more.
        let len = (y.len() - 1) * k.width as usize + x.len();
        assert_eq!([k.both.len(), k.to.len(), k.rows.len()], [len, len, y.len() * ROW]);
        threads.install(|| mix(&space, k, [x.start, y.start]));
    }
}

#[kernel(priority = -1)]
impl CpuWhole<Mix<'_>> for ByAll {
    fn whole(space: Space<'_, Index<2>>, k: MixWhole<'_>, _: Threads<'_>) {
        mix(&space, k, [0, 0]);
    }
}

#[kernel]
impl CpuItem<Tally<'_>> for ByItem {
    fn item(_: Index<1>, mut k: TallyItem<'_>) {
        k.sum.put(*k.values);
        k.bins.put(k.values.to_bits() as usize % k.bins.len(), 1);
    }
}

#[kernel]
impl CpuWhole<Tally<'_>> for ByPart {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: TallyWhole<'_>, _: Threads<'_>) {
        let first = space.values(0).start;
        for (rows, mut sum) in k.sum.into_blocks() {
            space.part(rows).for_each(|i| sum.put(k.values[i[0] - first]));
        }
        for (rows, mut bins) in k.bins.into_blocks() {
            let bin = |i: usize| k.values[i - first].to_bits() as usize;
            space.part(rows).for_each(|i| bins.put(bin(i[0]) % bins.len(), 1));
        }
    }
}

#[kernel]
impl CpuItem<Steps<'_>> for ByItem {
    fn item(ix: Index<2>, mut k: StepsItem<'_>) {
        let value = next(k.values.was(), ix[Steps::I], ix[Steps::STEP]);
        k.values.set(value);
    }
}

#[kernel]
impl CpuWhole<Steps<'_>> for ByPart {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<2>>, mut k: StepsWhole<'_>, _: Threads<'_>) {
        let first = space.values(0).start;
        let (was, own) = k.values.split();
        space.for_each(|ix| own[ix[0] - first] = next(was, ix[0], ix[1]));
    }
}

const ROW: usize = 3;
const WIDTH: usize = 20;
const HEIGHT: usize = 50;

/// A runtime and an implementation to run a kernel with.
struct On {
    rt: RuntimeObj,
    profile: Profile,
}

impl On {
    fn new(key: &str, name: &str) -> On {
        let (rt, profile) = (get_runtime(key).unwrap(), Profile::new());
        let shares = weights([3, 2].into_iter().take(rt.devices().len()));
        On { rt: rt.options(shares).options(Implementation::named(name)).options(&profile), profile }
    }

    /// The devices that ran the last submission, each once per part of it.
    fn parts(&self) -> Vec<String> {
        let launches = self.profile.take();
        let last = launches.iter().map(|launch| launch.submission).max();
        let of_last = launches.into_iter().filter(|launch| Some(launch.submission) == last);
        of_last.map(|launch| launch.device).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn mix(&self, dims: &[flash_core::index::Dim; 2]) -> [Vec<u64>; 2] {
        let shaped = |seed: u64| {
            let numbers = (0..(WIDTH * HEIGHT) as u64).map(|i| (i + seed).wrapping_mul(2_654_435_761) >> 7);
            numbers.collect::<FlashMemory<u64>>().with_shape([WIDTH, HEIGHT]).unwrap()
        };
        let (from, both, to) = (shaped(1), shaped(2), shaped(3));
        let rows: FlashMemory<u64> = (0..(ROW * HEIGHT) as u64).collect();
        let rows = rows.with_shape([ROW, HEIGHT]).unwrap();
        // Twice: what the second reads is where the first left it.
        let mix = || Mix::of(WIDTH as u64, &from, &rows, &both, &to);
        let both_submitted = self.rt.submit(mix()).defer(&dims[..]).submit(mix()).defer(&dims[..]);
        both_submitted.exec().unwrap();
        [both, to].map(|memory| memory.read().unwrap().to_vec())
    }

    fn tally(&self, n: usize) -> (u64, Vec<u32>) {
        let values: FlashMemory<f64> = (0..n).map(|i| 1.0 / (i + 1) as f64).collect();
        let (sum, bins) = (FlashMemory::zeroed(1), FlashMemory::zeroed(7));
        self.rt.submit(Tally::of(&values, &sum, &bins)).exec([n]).unwrap();
        (sum.get(0).unwrap().to_bits(), bins.read().unwrap().to_vec())
    }

    /// Elements 8 to 100 of 120, in `steps` steps.
    fn steps(&self, steps: u64) -> Vec<u64> {
        let values: FlashMemory<u64> = (0..120).map(|i| i * i + 1).collect();
        self.rt.submit(Steps::of(&values)).exec((8..100, steps)).unwrap();
        values.read().unwrap().to_vec()
    }
}

/// Everything, on two devices, against one item after the other on one.
fn two_devices(copying: bool) {
    let reference = On::new(&id(0), "by_item");
    let full = || flash_core::index::Dim::from(WIDTH as u64);
    for (what, dims, devices) in [
        ("all", [full(), (HEIGHT as u64).into()], 2),
        ("some rows", [full(), (3..HEIGHT as u64 - 4).into()], 2),
        ("every third row", [full(), (1..HEIGHT as u64).step_by(3).into()], 2),
        ("a row", [full(), (7..8).into()], 1),
        ("rows with gaps between them", [(1..WIDTH as u64 - 1).into(), (HEIGHT as u64).into()], 1),
    ] {
        let expected = reference.mix(&dims);
        for (key, name, devices) in [(key(), "by_part", devices), (id(0), "by_part", 1), (key(), "by_all", 1)]
        {
            let on = On::new(&key, name);
            assert!(on.mix(&dims) == expected, "{what}, {name} on {key}");
            let parts = on.parts();
            assert_eq!(parts.len(), devices, "{what}, {name} on {key}: {parts:?}");
        }
    }
    let (two, one) = (On::new(&key(), "by_part"), On::new(&id(0), "by_part"));
    for n in [1, 1000, 100_000] {
        let expected = reference.tally(n);
        assert_eq!((two.tally(n), one.tally(n)), (expected.clone(), expected), "{n} values");
    }
    assert_eq!(two.parts().len(), 2);
    for steps in [1, 2, 5] {
        let expected = reference.steps(steps);
        assert_eq!((two.steps(steps), one.steps(steps)), (expected.clone(), expected), "{steps} steps");
        assert_eq!(two.parts().len(), 2);
    }
    let moved = two.rt.devices().iter().map(|device| device.transfers().to_device.bytes > 0);
    assert_eq!(moved.collect::<Vec<_>>(), [copying; 2]);
}

#[test]
fn parts_of_whole_arrays_give_what_single_items_give() {
    in_process(SHARING, || two_devices(false));
    in_process(COPYING, || two_devices(true));
}
