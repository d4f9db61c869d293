//! Asynchronous pipelines that come after others on the same device: it gets them before those have ended.

use crate::gate::{closed, open};
use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::runtime::HostArgs;
use flash_tests::{Random, in_process};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// `to = 3 to + from + value`; a value of 0 is a panic.
#[derive(KernelDefinition)]
#[kernel(name = "following.mix", dims(i))]
struct Mix<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

/// `to = from + value`
#[derive(KernelDefinition)]
#[kernel(name = "following.set", dims(i))]
struct Set<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Mix<'_>> for Plain {
    fn item(_: Index<1>, k: MixItem<'_>) {
        assert!(k.value > 0, "no zeros");
        *k.to = k.to.wrapping_mul(3).wrapping_add(*k.from).wrapping_add(k.value);
    }
}

#[kernel]
impl CpuItem<Set<'_>> for Plain {
    fn item(_: Index<1>, k: SetItem<'_>) {
        k.to.set(k.from.wrapping_add(k.value));
    }
}

const LEN: usize = 8;
const SOON: Duration = Duration::from_secs(20);

/// Memories that a device has, and the host has not.
fn on<const N: usize>(rt: &RuntimeObj) -> [FlashMemory<u64>; N] {
    let memories = [(); N].map(|()| FlashMemory::<u64>::zeroed(LEN));
    for (i, memory) in memories.iter().enumerate() {
        let from = FlashMemory::from([i as u64; LEN]);
        rt.submit(Set::of(1, from, memory.clone())).exec([LEN]).unwrap();
    }
    memories
}

/// The launches that a device was given so far.
fn launches(rt: &RuntimeObj) -> u64 {
    rt.devices()[0].query("launches").unwrap().parse().unwrap()
}

/// Waits until a device was given this many launches.
fn wait_for_launches(rt: &RuntimeObj, count: u64) {
    let start = Instant::now();
    while launches(rt) < count {
        assert!(start.elapsed() < SOON, "{} launches, expected {count}", launches(rt));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn mix(rt: &RuntimeObj, value: u64, from: &FlashMemory<u64>, to: &FlashMemory<u64>) -> Handle {
    rt.submit(Mix::of(value, from.clone(), to.clone())).exec_async([LEN])
}

/// `to` after [`Mix`].
fn mixed(value: u64, from: u64, to: u64) -> u64 {
    to.wrapping_mul(3).wrapping_add(from).wrapping_add(value)
}

/// Each reads what the one before wrote, and writes what that read.
#[test]
fn a_device_has_a_chain_of_pipelines_before_the_first_has_ended() {
    in_process(&[], || {
        let rt = get_runtime("TEST:0").unwrap();
        let memories: [_; 2] = on(&rt);
        let (gate, before) = (closed(&rt), launches(&rt));
        let step = |i: usize| mix(&rt, i as u64 + 1, &memories[i % 2], &memories[1 - i % 2]);
        let handles: Vec<_> = (0..60).map(step).collect();
        wait_for_launches(&rt, before + 60);
        assert!(gate.try_wait().is_none() && handles.iter().all(|handle| handle.try_wait().is_none()));
        open();
        handles.iter().for_each(|handle| handle.wait().unwrap());
        let mut model = [1u64, 2];
        (0..60).for_each(|i| model[1 - i % 2] = mixed(i as u64 + 1, model[i % 2], model[1 - i % 2]));
        assert_eq!(memories.map(|memory| memory.get(LEN - 1).unwrap()), model);
        gate.wait().unwrap();
    });
}

/// More than may be with a device at a time, which also come after an event, over memories of their own.
#[test]
fn no_number_of_followers_is_too_many() {
    in_process(&[], || {
        let rt = get_runtime("TEST:0").unwrap();
        let [from, to, other] = on(&rt);
        let (gate, before) = (closed(&rt), launches(&rt));
        let mut handles: Vec<_> = [&to, &other].map(|to| mix(&rt, 1, &from, to)).into();
        for i in 2..600 {
            let (to, after) = (if i % 2 == 0 { &to } else { &other }, handles[i - 1].event());
            let pipeline = rt.submit(Mix::of(1, from.clone(), to.clone())).defer([LEN]);
            handles.push(pipeline.after(&after).exec_async());
        }
        wait_for_launches(&rt, before + 50);
        // Until it gets no more.
        let mut given = 0;
        while launches(&rt) - before != given {
            given = launches(&rt) - before;
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(given < 150, "{given} launches with the device: what it has is to be limited");
        open();
        handles.iter().for_each(|handle| handle.wait().unwrap());
        let model = [2, 3].map(|start| (0..300).fold(start, |to, _| mixed(1, 1, to)));
        assert_eq!([to, other].map(|memory| memory.get(0).unwrap()), model);
        gate.wait().unwrap();
    });
}

/// What failed, how, and how much else.
fn outcome(result: Result<(), Error>) -> Option<(String, usize, bool, usize)> {
    let Err(Error::Launch(error)) = result else { return None };
    let is_skipped = matches!(error.cause(), Error::Skipped { .. });
    Some((error.kernel().to_owned(), error.position(), is_skipped, error.others().len()))
}

/// Random pipelines of one to three submissions, of which some panic, on a device and now and then on
/// others; against the same ones run one after another on the CPU.
fn fails_as_one_after_another(seed: u64) {
    const MEMORIES: usize = 4;
    let mut random = Random(seed);
    let runtimes = ["TEST:0", "TEST:1", "ALL_CPU"].map(|key| get_runtime(key).unwrap());
    let cpu = &runtimes[2];
    let (on_devices, model) = (on::<MEMORIES>(&runtimes[0]), on::<MEMORIES>(cpu));
    let (mut handles, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let steps: Vec<_> = (0..1 + random.below(3))
            .map(|_| {
                let from = random.below(MEMORIES);
                let to = (from + 1 + random.below(MEMORIES - 1)) % MEMORIES;
                let value = if random.one_in(12) { 0 } else { 1 + random.below(9) as u64 };
                (random.one_in(4), value, from, to)
            })
            .collect();
        let pipeline = |rt: &RuntimeObj, of: &[FlashMemory<u64>; MEMORIES]| {
            steps.iter().fold(rt.pipeline(), |pipeline, &(sets, value, from, to)| {
                let (from, to) = (of[from].clone(), of[to].clone());
                match sets {
                    true => pipeline.submit(Set::of(value, from, to)).defer([LEN]),
                    false => pipeline.submit(Mix::of(value, from, to)).defer([LEN]),
                }
            })
        };
        let rt = if random.one_in(8) { &runtimes[1 + random.below(2)] } else { &runtimes[0] };
        handles.push(pipeline(rt, &on_devices).exec_async());
        expected.push(outcome(pipeline(cpu, &model).exec()));
        if random.one_in(16) {
            let at = random.below(MEMORIES);
            assert_eq!(on_devices[at].get(0).ok(), model[at].get(0).ok(), "seed {seed}");
        }
    }
    let found: Vec<_> = handles.iter().map(|handle| outcome(handle.wait())).collect();
    assert_eq!(found, expected, "seed {seed}");
    for (found, expected) in on_devices.iter().zip(&model) {
        assert_eq!(found.to_vec().ok(), expected.to_vec().ok(), "seed {seed}");
    }
}

#[test]
fn what_follows_a_failure_fails_as_one_after_another() {
    in_process(&[("FLASH_TEST", "devices=2 ns=2000")], || (0..40).for_each(fails_as_one_after_another));
}

/// Also with a memory that the devices share with the host, and with launches that are over on return.
#[test]
fn devices_in_the_hosts_memory_and_fast_ones_do_as_well() {
    in_process(&[("FLASH_TEST", "devices=2 space=0 ns=2000")], || {
        (0..20).for_each(fails_as_one_after_another)
    });
    in_process(&[("FLASH_TEST", "devices=2 space=0,7")], || (0..20).for_each(fails_as_one_after_another));
    in_process(&[("FLASH_TEST", "devices=2 queue=caller")], || (0..20).for_each(fails_as_one_after_another));
}

#[test]
fn a_device_that_is_lost_takes_along_what_followed() {
    in_process(&[("FLASH_TEST", "devices=2 lose=0:20")], || {
        let rt = get_runtime("TEST:0").unwrap();
        let [a, b] = on(&rt);
        let gate = closed(&rt);
        let handles: Vec<_> = (0..40).map(|_| mix(&rt, 1, &a, &b)).collect();
        open();
        let outcomes: Vec<_> = handles.iter().map(Handle::wait).collect();
        assert!(outcomes.last().unwrap().is_err(), "{outcomes:?}");
        let first = outcomes.iter().position(Result::is_err).unwrap();
        assert!(outcomes[first..].iter().all(Result::is_err), "{outcomes:?}");
        assert!(matches!(b.get(0), Err(Error::Poisoned)));
        let _ = gate.wait();
        // Another device goes on.
        b.write().unwrap().fill(1);
        let other = get_runtime("TEST:1").unwrap();
        mix(&other, 1, &FlashMemory::zeroed(LEN), &b).wait().unwrap();
        assert_eq!(b.get(0).unwrap(), mixed(1, 0, 1));
    });
}

/// A signal makes it possible, sent from within a launch.
#[test]
fn a_function_of_the_host_lets_a_pipeline_follow() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let rt = get_runtime("TEST:0").unwrap();
        let [a, b] = on(&rt);
        let (gate, before) = (closed(&rt), launches(&rt));
        let (event, signal) = flash::Event::new();
        let first = mix(&rt, 1, &a, &b);
        let second = rt.submit(Mix::of(1, b.clone(), a.clone())).defer([LEN]).after(&event).exec_async();
        wait_for_launches(&rt, before + 1);
        let signal = Mutex::new(Some(signal));
        let send = move |_: &mut HostArgs<'_>| {
            signal.lock().unwrap().take().unwrap().send();
            Ok(())
        };
        let several = get_runtime("TEST:1,ALL_CPU").unwrap();
        several.pipeline().host(HostTask::new("signals"), send).exec().unwrap();
        wait_for_launches(&rt, before + 2);
        assert!(first.try_wait().is_none() && second.try_wait().is_none());
        open();
        [first, second, gate].iter().for_each(|handle| handle.wait().unwrap());
        let of_b = mixed(1, 1, 2);
        assert_eq!([a.get(0).unwrap(), b.get(0).unwrap()], [mixed(1, of_b, 1), of_b]);
    });
}

/// What has not begun when it is cancelled is not given to the device.
#[test]
fn one_that_is_cancelled_ends_in_its_turn() {
    in_process(&[], || {
        let rt = get_runtime("TEST:0").unwrap();
        let [a, b] = on(&rt);
        let gate = closed(&rt);
        let (event, signal) = flash::Event::new();
        let first = mix(&rt, 1, &a, &b);
        let cancelled = rt.submit(Mix::of(1, a.clone(), b.clone())).defer([LEN]).after(&event).exec_async();
        let after = mix(&rt, 1, &b, &a);
        cancelled.cancel();
        signal.send();
        assert!(first.try_wait().is_none() && cancelled.try_wait().is_none());
        open();
        first.wait().unwrap();
        assert!(matches!(cancelled.wait().unwrap_err().cause(), Error::Cancelled));
        assert!(matches!(after.wait().unwrap_err().cause(), Error::Skipped { .. }));
        assert!([&a, &b].iter().all(|memory| matches!(memory.get(0), Err(Error::Poisoned))));
        gate.wait().unwrap();
    });
}
