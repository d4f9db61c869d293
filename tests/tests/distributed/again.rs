//! One launch repeated, on data that a device with a memory of its own has, until something is different.

use crate::{ONE, TWO};
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Whole, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::MemoryBudget;
use flash_tests::{Random, in_process};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
                1 => {
                    let (mut guard, value) = (arrays[one].write().unwrap(), random.next());
                    match &mut model[one] {
                        Some(values) => {
                            let at = random.below(LEN);
                            (values[at], guard[at]) = (value, value);
                        }
                        poisoned => {
                            guard.fill(value);
                            *poisoned = Some(vec![value; LEN]);
                        }
                    }
                }
                2 => match (&model[one], arrays[one].read()) {
                    (Some(values), Ok(guard)) => assert_eq!(*guard, **values),
                    (None, Err(Error::Poisoned)) => {}
                    (model, outcome) => panic!("{model:?}, {:?}", outcome.err()),
                },
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
