//! The devices that run submissions: in turn, where their data is, in proportion to measured rates; and
//! products and sums that have one value however they are cut.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Reduce, Scatter, Sum, Window, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::descriptor::{Attributes, part_by};
use flash_core::runtime::LaunchProfile;
use flash_tests::{APART, id, in_process};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SHARING: &[(&str, &str)] = &[("FLASH_CPU_DEVICES", "3"), ("FLASH_CPU_THREADS", "3")];
const COPYING: &[(&str, &str)] = APART[3];

/// to += 1; item 0 takes its time.
#[derive(KernelDefinition)]
#[kernel(name = "placement.count", dims(x, y))]
struct Count<'a> {
    milliseconds: u64,
    to: Item<'a, ReadWrite<u32>>,
}

/// Only for the test of probes: what is measured is the process's.
#[derive(KernelDefinition)]
#[kernel(name = "placement.probed", dims(i), part_by(i))]
struct Probed<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

/// Only for the test of devices that get nothing; each item takes its time.
#[derive(KernelDefinition)]
#[kernel(name = "placement.rare", dims(i), part_by(i))]
struct Rare<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

/// Only for the test of devices that are too slow to wait for.
#[derive(KernelDefinition)]
#[kernel(name = "placement.alone", dims(i))]
struct Alone<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

/// c = a b; arrays are `[columns, rows]`.
#[derive(KernelDefinition)]
#[kernel(name = "placement.product", dims(x, y), part_by(y, a = rows(y), b = columns(x)))]
struct Product<'a> {
    inner: usize,
    a: Window<'a, Read<f64>>,
    b: Window<'a, Read<f64>>,
    c: Item<'a, Write<f64>>,
}

/// The same by tiles of 4 by 2, of which an item is one.
#[derive(KernelDefinition)]
#[kernel(name = "placement.tiled", dims(tx, ty), part_by(ty, c = tiles(tx = 4, ty = 2)))]
struct Tiled<'a> {
    inner: usize,
    a: Window<'a, Read<u64>>,
    b: Window<'a, Read<u64>>,
    c: Scatter<'a, u64>,
}

#[derive(KernelDefinition)]
#[kernel(name = "placement.sum", dims(i), part_by(i))]
struct Total<'a> {
    values: Item<'a, Read<f32>>,
    bins: Reduce<'a, ReadWrite<[f32]>, Sum>,
    total: Reduce<'a, Write<f32>, Sum>,
}

struct Plain;

#[kernel]
impl CpuItem<Count<'_>> for Plain {
    fn item(ix: Index<2>, k: CountItem<'_>) {
        if ix.values() == [0, 0] {
            std::thread::sleep(Duration::from_millis(k.milliseconds));
        }
        *k.to += 1;
    }
}

#[kernel(devices)]
impl CpuItem<Probed<'_>> for Plain {
    fn item(_: Index<1>, k: ProbedItem<'_>) {
        *k.to += 1;
    }
}

#[kernel]
impl CpuItem<Rare<'_>> for Plain {
    fn item(_: Index<1>, k: RareItem<'_>) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(20) {}
        *k.to += 1;
    }
}

#[kernel]
impl CpuItem<Alone<'_>> for Plain {
    fn item(_: Index<1>, k: AloneItem<'_>) {
        std::thread::sleep(Duration::from_millis(5));
        *k.to += 1;
    }
}

#[kernel(devices)]
impl CpuItem<Product<'_>> for Plain {
    fn item(ix: Index<2>, k: ProductItem<'_>) {
        let (x, y) = (ix[Product::X], ix[Product::Y]);
        let mut sum = 0.0;
        for i in 0..k.inner {
            sum += k.a.at([i, y, 0]) * k.b.at([x, i, 0]);
        }
        k.c.set(sum);
    }
}

#[kernel(devices)]
impl CpuItem<Tiled<'_>> for Plain {
    fn item(ix: Index<2>, k: TiledItem<'_>) {
        let width = k.b.end()[0];
        for element in 0..8 {
            let (x, y) = (4 * ix[Tiled::TX] + element % 4, 2 * ix[Tiled::TY] + element / 4);
            let mut value = 0;
            for i in 0..k.inner {
                value += k.a.at([i, y, 0]) * k.b.at([x, i, 0]);
            }
            k.c.add(x + width * y, value);
        }
    }
}

#[kernel(devices)]
impl CpuItem<Total<'_>> for Plain {
    fn item(i: Index<1>, mut k: TotalItem<'_>) {
        k.total.put(*k.values);
        k.bins.put(i[0] % k.bins.len(), *k.values);
    }
}

fn all() -> RuntimeObj {
    flash_tests::runtime()
}

/// Launches, and their items, by device.
fn by_device(launches: &[LaunchProfile]) -> BTreeMap<&str, (usize, u64)> {
    let mut all = BTreeMap::new();
    for launch in launches {
        let (launches, items) = all.entry(&*launch.device).or_insert((0, 0));
        *launches += 1;
        *items += launch.items;
    }
    all
}

#[flash_tests::test]
fn submissions_that_do_not_depend_on_each_other_go_round_the_devices() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let (rt, profile) = (all(), Profile::new());
            let rt = rt.options(&profile);
            // A device that the system keeps from running is rightly passed over, until it is known to be
            // quick again.
            let evenly = (0..20).any(|_| {
                let memories: Vec<_> = (0..60).map(|_| FlashMemory::<u32>::zeroed(1)).collect();
                let chain = memories.iter().fold(rt.pipeline(), |chain, memory| {
                    // Long enough to be still in the way when the next one looks.
                    chain.submit(Count::of(2, memory)).defer([1, 1])
                });
                chain.exec().unwrap();
                assert!(memories.iter().all(|memory| memory.get(0).unwrap() == 1));
                let launches = profile.take();
                let devices = by_device(&launches);
                eprintln!("{devices:?}");
                devices.len() == 3 && devices.values().all(|(n, _)| (10..=30).contains(n))
            });
            assert!(evenly, "the launches of each device and their items are above");
        });
    }
}

#[flash_tests::test]
fn what_depends_on_something_goes_where_its_data_is() {
    // Launches of 0.4 ms: small ones would all go to one device.
    in_process(&paced("devices=3 ns=400"), || {
        let (profile, n) = (Profile::new(), 1000usize);
        let rt = all().options(&profile);
        let memories: Vec<_> = (0..4).map(|_| FlashMemory::<u32>::zeroed(n)).collect();
        let mut chain = rt.pipeline();
        for _ in 0..10 {
            for memory in &memories {
                chain = chain.submit(Count::of(0, memory)).defer((n, 1));
            }
        }
        chain.exec().unwrap();
        // Also in a pipeline that comes later.
        chain.exec().unwrap();
        let launches = profile.take();
        for number in 0..memories.len() {
            let own = launches.iter().filter(|l| l.submission % memories.len() == number);
            let devices: std::collections::BTreeSet<&str> = own.map(|l| &*l.device).collect();
            assert_eq!(devices.len(), 1, "memory {number} stays where it is: {devices:?}");
        }
        let moved: u64 = rt.devices().iter().map(|device| device.transfers().to_device.bytes).sum();
        assert_eq!(moved, 4 * 4 * n as u64, "each came to a device once");
        assert!(memories.iter().all(|memory| *memory.read().unwrap() == vec![20; n]));
    });
}

/// What others finished while one part slept.
fn ran_meanwhile(parts: u32) {
    let (profile, memory) = (Profile::new(), FlashMemory::<u32>::zeroed([4, 64]));
    let options = (part_by("y"), Subspaces(parts), &profile);
    all().submit(Count::of(500, &memory)).options(options).exec([4, 64]).unwrap();
    assert_eq!(*memory.read().unwrap(), [1; 256]);
    let launches = profile.take();
    assert_eq!(launches.len(), parts as usize);
    let slow = launches.iter().enumerate().max_by_key(|(_, launch)| launch.wall_nanoseconds);
    let (before, _) = slow.expect("there are some");
    // Two more may be in its device's queue.
    assert!(before + 4 >= launches.len(), "others finished {before} of {parts} parts while one slept");
}

#[flash_tests::test]
fn with_more_subspaces_than_devices_who_has_nothing_to_do_takes_the_next() {
    in_process(SHARING, || ran_meanwhile(32));
}

#[flash_tests::test]
fn so_it_is_on_devices_with_memories_of_their_own() {
    in_process(COPYING, || ran_meanwhile(32));
}

#[flash_tests::test]
fn a_device_whose_rate_is_unknown_gets_a_probe_while_others_are_known() {
    in_process(&[("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2")], || {
        let (profile, n) = (Profile::new(), 1_000_000u64);
        let (rt, memory) = (all().options(&profile), FlashMemory::<u32>::zeroed(n));
        let first = Devices::key(id(0));
        // Cut, so that the distributed path measures it.
        for _ in 0..3 {
            let options = (first.clone(), Subspaces(2));
            rt.submit(Probed::of(&memory)).options(options).exec([n]).unwrap();
        }
        profile.take();
        rt.submit(Probed::of(&memory)).exec([n]).unwrap();
        let launches = profile.take();
        let (_, items) = by_device(&launches)[&*id(1)];
        assert!(items > 0 && items <= n / 100 + 16, "a probe of {items} of {n} items");
        // Then it is known.
        rt.submit(Probed::of(&memory)).exec([n]).unwrap();
        let launches = profile.take();
        let (_, items) = by_device(&launches)[&*id(1)];
        assert!(items > n / 50, "{items} of {n} items");
        assert_eq!(*memory.read().unwrap(), vec![5; n as usize]);
    });
}

/// Test devices whose work items take this many nanoseconds.
const fn paced(settings: &'static str) -> [(&'static str, &'static str); 2] {
    [("FLASH_TEST_KEY", "TEST"), ("FLASH_TEST", settings)]
}

#[flash_tests::test]
fn a_slower_device_gets_less_as_soon_as_that_is_known() {
    in_process(&paced("devices=2 space=0 ns=1000,10000"), || {
        let (profile, n) = (Profile::new(), 40_000u64);
        let (rt, memory) = (all().options(&profile), FlashMemory::<u32>::zeroed(n));
        let mut shares = Vec::new();
        for _ in 0..7 {
            rt.submit(Probed::of(&memory)).exec([n]).unwrap();
            let launches = profile.take();
            shares.push(by_device(&launches).get(&*id(1)).map_or(0, |(_, items)| *items));
        }
        // A tenth of the speed is an eleventh of the work; the machine may do other things, too.
        assert_eq!(shares[0], n / 2, "nothing is known");
        assert!(shares[6] < n / 4, "{shares:?}");
        // Fixed shares stay fixed.
        rt.submit(Probed::of(&memory)).options(weights([1, 3])).exec([n]).unwrap();
        assert_eq!(by_device(&profile.take())[&*id(1)].1, n / 4 * 3);
    });
}

#[flash_tests::test]
fn a_device_whose_share_is_nothing_is_measured_again_now_and_then() {
    in_process(&paced("devices=2 space=0 ns=0,2000000"), || {
        let (profile, n) = (Profile::new(), 64u32);
        let (rt, memory) = (all().options(&profile), FlashMemory::<u32>::zeroed(n));
        let mut launches = 0;
        // Launches of which the second device has a part.
        let mut of_both = |rounds: u32| {
            launches += rounds;
            let one = |_: &u32| {
                rt.submit(Rare::of(&memory)).exec([n]).unwrap();
                by_device(&profile.take()).contains_key(&*id(1))
            };
            (0..rounds).filter(one).count()
        };
        assert_eq!(of_both(5), 5, "one launch may have been an outlier");
        let later = of_both(130);
        assert!((2..10).contains(&later), "{later} of 130 launches");
        assert_eq!(*memory.read().unwrap(), vec![launches; n as usize]);
    });
}

#[flash_tests::test]
fn a_submission_does_not_go_where_it_would_take_more_than_twice_as_long() {
    in_process(&paced("devices=2 space=0 ns=0,50000000"), || {
        let (profile, memory) = (Profile::new(), FlashMemory::<u32>::zeroed(1));
        let rt = all().options(&profile);
        let devices_of = |rounds: u32| {
            (0..rounds).for_each(|_| rt.submit(Alone::of(&memory)).exec([1]).unwrap());
            let launches = profile.take();
            launches.iter().map(|launch| launch.device.to_string()).collect::<Vec<_>>()
        };
        // Each is tried once.
        let mut first = devices_of(2);
        first.sort();
        assert_eq!(first, [id(0), id(1)]);
        assert_eq!(devices_of(12), vec![id(0); 12]);
        // Where there is a queue at the quick one, the slow one helps.
        let memories: Vec<_> = (0..40).map(|_| FlashMemory::<u32>::zeroed(1)).collect();
        let chain = memories.iter().fold(rt.pipeline(), |chain, m| chain.submit(Alone::of(m)).defer([1]));
        chain.exec().unwrap();
        let launches = profile.take();
        let slow = by_device(&launches).get(&*id(1)).map_or(0, |(launches, _)| *launches);
        assert!((1..20).contains(&slow), "{slow} of 40 launches");
    });
}

/// Ways to cut a launch over three devices; none of them, too.
fn cuts(dimensions: &[&str]) -> Vec<Attributes> {
    let mut all = vec![Attributes::default()];
    for dimension in dimensions {
        for parts in [1, 2, 5, 64] {
            let mut options = Attributes::default();
            options.set(part_by(*dimension));
            options.set(Subspaces(parts));
            all.push(options);
        }
    }
    for shares in [[1, 1, 1], [1, 0, 7], [0, 0, 1], [100, 1, 1]] {
        let mut options = Attributes::default();
        options.set(weights(shares));
        all.push(options);
    }
    all
}

/// Numbers that have nothing to do with each other.
fn noise(n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
}

#[flash_tests::test]
fn matrix_products_by_rows_columns_and_tiles_are_those_of_a_plain_loop() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let (columns, rows, inner) = (20usize, 14usize, 9usize);
            let (a, b): (Vec<u64>, Vec<u64>) =
                (noise(inner * rows).collect(), noise(columns * inner).collect());
            let at = |x: usize, y: usize| (0..inner).map(move |i| (i + inner * y, x + columns * i));
            let cell = |c: usize| (c % columns, c / columns);
            let exact: Vec<u64> = (0..columns * rows)
                .map(cell)
                .map(|(x, y)| at(x, y).map(|(i, j)| a[i] * b[j]).sum())
                .collect();
            let real = |v: &u64| *v as f64 / 3.0;
            let (fa, fb): (Vec<f64>, Vec<f64>) = (a.iter().map(real).collect(), b.iter().map(real).collect());
            let floats: Vec<u64> = (0..columns * rows)
                .map(cell)
                .map(|(x, y)| at(x, y).map(|(i, j)| fa[i] * fb[j]).sum::<f64>().to_bits())
                .collect();
            let shaped = |v: Vec<u64>, shape: [usize; 2]| FlashMemory::from(v).with_shape(shape).unwrap();
            let (a, b) = (shaped(a, [inner, rows]), shaped(b, [columns, inner]));
            let fa = FlashMemory::from(fa).with_shape([inner, rows]).unwrap();
            let fb = FlashMemory::from(fb).with_shape([columns, inner]).unwrap();
            let rt = all();
            for options in cuts(&["y"]) {
                let c = FlashMemory::<f64>::zeroed([columns, rows]);
                let product = rt.submit(Product::of(inner, &fa, &fb, &c)).options(options.clone());
                product.exec([columns, rows]).unwrap();
                let bits: Vec<u64> = c.read().unwrap().iter().map(|v| v.to_bits()).collect();
                assert_eq!(bits, floats, "{options:?}");
            }
            // `part_by` with a dimension alone would replace the map of the tiles.
            let whole = Attributes::default();
            for options in cuts(&[]).into_iter().chain([whole]) {
                let c = FlashMemory::<u64>::zeroed([columns, rows]);
                let tiled = rt.submit(Tiled::of(inner, &a, &b, &c)).options(options.clone());
                tiled.exec([columns / 4, rows / 2]).unwrap();
                assert_eq!(*c.read().unwrap(), exact[..], "{options:?}");
            }
        });
    }
}

#[flash_tests::test]
fn the_bits_of_a_sum_do_not_depend_on_cuts() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let n = 70_001usize;
            let values: FlashMemory<f32> = noise(n).map(|v| v as f32 / 1e3).collect();
            let run = |rt: &RuntimeObj, options: Attributes| {
                let (total, bins) = (FlashMemory::<f32>::zeroed(1), FlashMemory::from(vec![0.1f32; 3]));
                rt.submit(Total::of(&values, &bins, &total)).options(options).exec([n]).unwrap();
                let (total, bins) = (total.get(0).unwrap(), bins.read().unwrap());
                (total.to_bits(), bins.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            };
            let one = get_runtime(&flash_tests::id(0)).unwrap();
            let expected = run(&one, Attributes::default());
            for options in cuts(&["i"]) {
                let text = format!("{options:?}");
                assert_eq!(run(&all(), options), expected, "{text}");
            }
        });
    }
}
