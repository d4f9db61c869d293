//! One launch repeated, on data that a device with a memory of its own has, until something is different.

use crate::{FOUR, ONE, TWO};
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Whole, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::MemoryBudget;
use flash_tests::{Random, in_process};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const LEN: usize = 64;

/// to = by to + from, or a panic in the middle.
#[derive(KernelDefinition)]
#[kernel(name = "again.scale", dims(i))]
struct Scale<'a> {
    by: u64,
    from: Item<'a, Read<u64>>,
    /// Panic at this item.
    panics: u32,
    to: Item<'a, ReadWrite<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "again.fill", dims(i))]
struct Fill<'a> {
    value: u64,
    to: Item<'a, Write<u64>>,
}

/// Whether all elements of an array are the same.
#[derive(KernelDefinition)]
#[kernel(name = "again.uniform", dims(i))]
struct Uniform<'a> {
    of: Whole<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Scale<'_>> for Plain {
    fn item(i: Index<1>, k: ScaleItem<'_>) {
        assert!(i[0] as u32 != k.panics, "item {} panics", i[0]);
        *k.to = k.to.wrapping_mul(k.by).wrapping_add(*k.from);
    }
}

#[kernel]
impl CpuItem<Fill<'_>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_>) {
        k.to.set(k.value);
    }
}

#[kernel]
impl CpuItem<Uniform<'_>> for Plain {
    fn item(_: Index<1>, k: UniformItem<'_>) {
        k.to.set(u64::from(k.of.iter().all(|value| *value == k.of[0])));
    }
}

/// The expected contents of an array; `None`: it is poisoned.
type Model = Option<Vec<u64>>;

fn launch(
    rt: &RuntimeObj,
    random: &mut Random,
    arrays: &[FlashMemory<u64>],
    model: &mut [Model],
    pair: [usize; 2],
) {
    let ([from, to], by) = (pair, random.next());
    let panics = if random.one_in(50) { random.below(LEN) as u32 } else { u32::MAX };
    let outcome = rt.submit(Scale::of(by, &arrays[from], panics, &arrays[to])).exec([LEN]);
    let (Some(read), Some(old)) = (&model[from], &model[to]) else {
        assert!(
            matches!(&outcome, Err(Error::Launch(e)) if matches!(e.cause(), Error::Skipped { .. })),
            "{outcome:?}"
        );
        model[to] = None;
        return;
    };
    let new = old.iter().zip(read).map(|(old, read)| old.wrapping_mul(by).wrapping_add(*read)).collect();
    match outcome {
        Ok(()) => model[to] = Some(new),
        Err(error) => {
            assert!(error.to_string().contains(&format!("item {panics} panics")), "{error}");
            model[to] = None;
        }
    }
    assert_eq!(model[to].is_none(), panics != u32::MAX);
}

/// The host writes an element, or all of what is poisoned.
fn host_writes(random: &mut Random, array: &FlashMemory<u64>, model: &mut Model) {
    let (mut guard, value) = (array.write().unwrap(), random.next());
    match model {
        Some(values) => {
            let at = random.below(values.len());
            (values[at], guard[at]) = (value, value);
        }
        None => {
            guard.fill(value);
            *model = Some(vec![value; array.len()]);
        }
    }
}

/// The host reads what is expected.
fn host_reads(array: &FlashMemory<u64>, model: &Model) {
    match (model, array.read()) {
        (Some(values), Ok(guard)) => assert_eq!(*guard, **values),
        (None, Err(Error::Poisoned)) => {}
        (model, outcome) => panic!("{model:?}, {:?}", outcome.err()),
    }
}

/// Mostly the same launch again, with other scalars. Now and then one that fails, another pair of arrays,
/// arrays made anew in the place of old ones, a read or write of the host, a complete write, or a chain.
#[test]
fn a_launch_again_sees_whatever_happened_in_between() {
    in_process(ONE, || {
        let rt = flash_tests::runtime();
        // Three of four arrays: some are evicted from the device.
        let rt = rt.options(MemoryBudget(3 * 8 * LEN as u64));
        let mut random = Random(17);
        let mut arrays: Vec<_> = (0..4).map(|_| FlashMemory::<u64>::zeroed(LEN)).collect();
        let mut model: Vec<Model> = vec![Some(vec![0; LEN]); 4];
        let mut pair = [0, 1];
        for _ in 0..20_000 {
            let one = random.below(4);
            match random.below(40) {
                0 => pair = [one, (one + 1 + random.below(3)) % 4],
                1 => host_writes(&mut random, &arrays[one], &mut model[one]),
                2 => host_reads(&arrays[one], &model[one]),
                3 => {
                    let value = random.next();
                    rt.submit(Fill::of(value, &arrays[one])).exec([LEN]).unwrap();
                    model[one] = Some(vec![value; LEN]);
                }
                4 => {
                    arrays[one] = FlashMemory::from(vec![7; LEN]);
                    model[one] = Some(vec![7; LEN]);
                }
                5 => {
                    let [a, b] = [random.next(), random.next()];
                    let chain = rt.submit(Fill::of(a, &arrays[one])).defer([LEN]);
                    chain.submit(Fill::of(b, &arrays[(one + 1) % 4])).exec([LEN]).unwrap();
                    (model[one], model[(one + 1) % 4]) = (Some(vec![a; LEN]), Some(vec![b; LEN]));
                }
                6 => {
                    let guard = arrays[pair[1]].read();
                    if let (Some(_), Ok(_guard)) = (&model[pair[0]], &guard) {
                        let same = rt.submit(Scale::of(1, &arrays[pair[0]], u32::MAX, &arrays[pair[1]]));
                        assert!(matches!(same.exec([LEN]), Err(Error::Borrowed { .. })));
                    }
                }
                _ => launch(&rt, &mut random, &arrays, &mut model, pair),
            }
        }
        assert!(rt.devices()[0].transfers().from_device.bytes > 0, "the device has a memory of its own");
    });
}

/// to = by to + from, cut over devices; or a panic in the middle, where that is asked for.
#[derive(KernelDefinition)]
#[kernel(name = "again.cut", dims(i), part_by(i))]
struct Cut<'a> {
    /// Where it stands in its pipeline.
    step: u32,
    by: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

/// The step and the item that panic.
static PANICS: Mutex<Option<(u32, usize)>> = Mutex::new(None);

#[kernel]
impl CpuItem<Cut<'_>> for Plain {
    fn item(i: Index<1>, k: CutItem<'_>) {
        assert!(*PANICS.lock().unwrap() != Some((k.step, i[0])), "item {} panics", i[0]);
        *k.to = k.to.wrapping_mul(k.by).wrapping_add(*k.from);
    }
}

/// Arrays and elements of each of the tests of several devices.
const MANY: usize = 4;
const WIDE: usize = 256;

/// A step of a pipeline: the arrays, and the number.
type Steps = Vec<([usize; 2], u64)>;

fn steps(random: &mut Random) -> Steps {
    let step = |random: &mut Random| {
        let one = random.below(MANY);
        ([one, (one + 1 + random.below(MANY - 1)) % MANY], random.next())
    };
    (0..1 + random.below(4)).map(|_| step(random)).collect()
}

fn pipeline<'a>(rt: &RuntimeObj, steps: &Steps, arrays: &'a [FlashMemory<u64>]) -> Pipeline<'a> {
    steps.iter().enumerate().fold(rt.pipeline(), |pipeline, (step, ([from, to], by))| {
        pipeline.submit(Cut::of(step as u32, *by, &arrays[*from], &arrays[*to])).defer([WIDE])
    })
}

/// What a pipeline does to arrays; how many of its steps fail.
fn expect(steps: &Steps, panics: Option<(u32, usize)>, model: &mut [Model]) -> usize {
    let mut failures = 0;
    for (step, ([from, to], by)) in steps.iter().enumerate() {
        model[*to] = match (&model[*from], &model[*to]) {
            (Some(read), Some(old)) if panics.is_none_or(|(at, _)| at != step as u32) => {
                let new = |(old, read): (&u64, &u64)| old.wrapping_mul(*by).wrapping_add(*read);
                Some(old.iter().zip(read).map(new).collect())
            }
            _ => None,
        };
        failures += usize::from(model[*to].is_none());
    }
    failures
}

fn check(outcome: Result<(), Error>, failures: usize) {
    match outcome {
        Ok(()) => assert_eq!(failures, 0),
        Err(Error::Launch(error)) => assert_eq!(1 + error.others().len(), failures, "{error}"),
        Err(error) => panic!("{error}"),
    }
}

/// Pipelines that are kept and run again and again, as it is, on devices that have all they need: these runs
/// need no walk. Now and then anything else happens to their arrays, or to the devices' memory, or a kernel
/// fails.
#[test]
fn a_pipeline_over_devices_again_does_what_a_walk_does() {
    in_process(FOUR, || {
        for seed in 0..6 {
            let rt = flash_tests::runtime();
            let equal = rt.options(weights([1; 4]));
            let unequal = rt.options(weights([4, 1, 2, 1]));
            let limited = equal.options(Timeout(Duration::from_secs(600)));
            let mut random = Random(seed);
            let arrays: Vec<_> = (0..MANY).map(|_| FlashMemory::from(vec![3u64; WIDE])).collect();
            let mut model: Vec<Model> = vec![Some(vec![3; WIDE]); MANY];
            let made = |random: &mut Random| {
                let rt = if random.one_in(4) { &unequal } else { &equal };
                let steps = steps(random);
                (pipeline(rt, &steps, &arrays), steps)
            };
            let mut kept: Vec<_> = (0..3).map(|_| made(&mut random)).collect();
            for _ in 0..1500 {
                let one = random.below(MANY);
                match random.below(20) {
                    0 => {
                        let at = random.below(kept.len());
                        kept[at] = made(&mut random);
                    }
                    1 => host_reads(&arrays[one], &model[one]),
                    2 => host_writes(&mut random, &arrays[one], &mut model[one]),
                    3 => {
                        let value = random.next();
                        rt.submit(Fill::of(value, &arrays[one])).exec([WIDE]).unwrap();
                        model[one] = Some(vec![value; WIDE]);
                    }
                    4 => {
                        // Two of four arrays, and then all of them.
                        let device = &rt.devices()[random.below(4)];
                        device.set_memory_budget(8 * WIDE as u64 / 2);
                        let at = random.below(kept.len());
                        let failures = expect(&kept[at].1, None, &mut model);
                        check(kept[at].0.exec(), failures);
                        device.set_memory_budget(1 << 20);
                    }
                    5 => {
                        // The same steps with a limit of time.
                        let steps = &kept[random.below(kept.len())].1;
                        let failures = expect(steps, None, &mut model);
                        check(pipeline(&limited, steps, &arrays).exec(), failures);
                    }
                    6 => {
                        let at = random.below(kept.len());
                        let step = random.below(kept[at].1.len()) as u32;
                        let panics = Some((step, random.below(WIDE)));
                        let failures = expect(&kept[at].1, panics, &mut model);
                        *PANICS.lock().unwrap() = panics;
                        check(kept[at].0.exec(), failures);
                        *PANICS.lock().unwrap() = None;
                    }
                    7 => {
                        // Recorded anew each time, with another number.
                        for _ in 0..4 {
                            let steps = vec![([one, (one + 1) % MANY], random.next())];
                            let failures = expect(&steps, None, &mut model);
                            check(pipeline(&equal, &steps, &arrays).exec(), failures);
                        }
                    }
                    _ => {
                        let at = random.below(kept.len());
                        for _ in 0..1 + random.below(5) {
                            let failures = expect(&kept[at].1, None, &mut model);
                            check(kept[at].0.exec(), failures);
                        }
                    }
                }
            }
        }
    });
}

/// Two devices read an array repeatedly; meanwhile the host writes it, and each device does, now and then.
#[test]
fn readers_again_meet_whoever_writes() {
    in_process(TWO, || {
        let shared = FlashMemory::<u64>::zeroed(1 << 10);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (key, seed) in [("TEST:0", 1), ("TEST:1", 2), ("TEST:0", 3)] {
                let (shared, over) = (&shared, &over);
                scope.spawn(move || {
                    let (rt, mut random) = (get_runtime(key).unwrap(), Random(seed));
                    let same = FlashMemory::from(vec![1u64]);
                    for _ in 0..10_000 {
                        // While the host writes, it is borrowed: then it is tried again.
                        let outcome = match random.below(40) {
                            0 => rt.submit(Fill::of(random.next(), shared)).exec([1usize << 10]),
                            _ => rt.submit(Uniform::of(shared, &same)).exec([1usize]),
                        };
                        match outcome {
                            Ok(()) | Err(Error::Borrowed { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                        if random.one_in(10) && same.get(0).unwrap() == 0 {
                            over.store(true, Relaxed);
                            panic!("a reader found what was half written");
                        }
                    }
                    over.store(true, Relaxed);
                });
            }
            let mut value = 0;
            while !over.load(Relaxed) {
                if let Ok(mut guard) = shared.write() {
                    value += 1;
                    guard.fill(value);
                }
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
    });
}
