//! Pipelines and guards that touch different parts of one memory neither wait for each other nor fail.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, Handle};
use flash_tests::in_process;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// to = from + 1.
#[derive(KernelDefinition)]
#[kernel(name = "regions.next", dims(i))]
struct Next<'a> {
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// Panics at one item.
#[derive(KernelDefinition)]
#[kernel(name = "regions.add", dims(i))]
struct Add<'a> {
    panics_at: u64,
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Next<'_>> for Plain {
    fn item(_: Index<1>, k: NextItem<'_>) {
        k.to.set(*k.from + 1);
    }
}

#[kernel(devices)]
impl CpuItem<Add<'_>> for Plain {
    fn item(i: Index<1>, k: AddItem<'_>) {
        assert!(i[0] as u64 != k.panics_at, "here");
        *k.to = k.to.wrapping_add(1);
    }
}

const N: usize = 1 << 14;
const NEVER: u64 = u64::MAX;
const SOON: Duration = Duration::from_secs(20);

/// 0, 1, 2, ... of which the devices have had all.
fn counted(rt: &RuntimeObj) -> FlashMemory<u64> {
    let memory: FlashMemory<u64> = (0..N as u64).map(|i| i.wrapping_sub(1)).collect();
    rt.submit(Add::of(NEVER, &memory)).exec([N]).unwrap();
    memory
}

/// A pipeline that writes 7 to some elements of a memory, once it is told to.
fn held_up(
    rt: &RuntimeObj,
    memory: &FlashMemory<u64>,
    range: std::ops::Range<usize>,
) -> (Handle, Sender<()>) {
    let (go, gate) = mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let task = HostTask::new("held up").write(memory.clone().into_range(range).unwrap()).blocking();
    let handle = rt
        .pipeline()
        .host(task, move |io| {
            gate.lock().unwrap().recv_timeout(SOON).expect("it is told to go on");
            io.write::<u64>(0)?.fill(7);
            Ok(())
        })
        .exec_async();
    (handle, go)
}

#[flash_tests::test]
fn a_guard_of_what_a_pending_pipeline_leaves_alone_does_not_wait_for_it() {
    let rt = flash_tests::runtime();
    let memory = counted(&rt);
    let (handle, go) = held_up(&rt, &memory, 0..N / 2);
    {
        let other = memory.read_range(N / 2..).unwrap();
        assert!(other.iter().zip(N as u64 / 2..).all(|(a, b)| *a == b));
        assert!(handle.try_wait().is_none(), "the pipeline is still held up");
        go.send(()).unwrap();
        handle.wait().unwrap();
    }
    let all = memory.read().unwrap();
    assert!(all[..N / 2].iter().all(|a| *a == 7));
    assert!(all[N / 2..].iter().zip(N as u64 / 2..).all(|(a, b)| *a == b));
}

#[flash_tests::test]
fn a_guard_of_what_it_writes_waits_for_it() {
    let rt = flash_tests::runtime();
    let memory = counted(&rt);
    let (handle, go) = held_up(&rt, &memory, 0..N / 2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| memory.read_range(N / 2 - 1..N / 2 + 1).unwrap().to_vec());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        go.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), [7, N as u64 / 2]);
    });
    handle.wait().unwrap();
}

#[flash_tests::test]
fn pipelines_over_two_halves_run_at_the_same_time() {
    // With memories of their own, devices are told where things are by one pipeline after another.
    in_process(&[("FLASH_CPU_DEVICES", "1")], || {
        let rt = flash_tests::runtime();
        let memory = counted(&rt);
        let (first, go) = held_up(&rt, &memory, 0..N / 2);
        rt.submit(Add::of(NEVER, memory.range(N / 2..).unwrap())).exec([N / 2]).unwrap();
        assert!(first.try_wait().is_none(), "the first is still held up");
        assert_eq!(memory.get(N - 1).unwrap(), N as u64);
        let all = rt.submit(Add::of(NEVER, memory.clone())).defer([N]).exec_async();
        std::thread::sleep(Duration::from_millis(20));
        assert!(all.try_wait().is_none(), "it comes after both");
        go.send(()).unwrap();
        all.wait().unwrap();
        first.wait().unwrap();
        assert_eq!((memory.get(0).unwrap(), memory.get(N - 1).unwrap()), (8, N as u64 + 1));
    });
}

#[flash_tests::test]
fn a_launch_meets_only_guards_of_what_it_touches() {
    let rt = flash_tests::runtime();
    let (memory, to) = (counted(&rt), FlashMemory::<u64>::zeroed(N));
    let guard = memory.read_range(..N / 2).unwrap();
    rt.submit(Add::of(NEVER, memory.range(N / 2..).unwrap())).exec([N / 2]).unwrap();
    // The items say it, too.
    rt.submit(Add::of(NEVER, &memory)).exec((N / 2..N,)).unwrap();
    rt.submit(Next::of(&memory, &to)).exec([N]).unwrap();
    for range in [0..N, N / 2 - 1..N] {
        let error = rt.submit(Add::of(NEVER, &memory)).exec((range,)).unwrap_err();
        assert!(matches!(error, Error::Borrowed { .. }), "{error}");
    }
    assert!(matches!(memory.write(), Err(Error::Borrowed { .. })));
    assert_eq!(memory.get(N / 2).unwrap(), N as u64 / 2 + 2);
    let second = memory.read_range(N / 2..).unwrap();
    drop(guard);
    assert!(matches!(rt.submit(Add::of(NEVER, &memory)).exec((N / 2..N,)), Err(Error::Borrowed { .. })));
    rt.submit(Add::of(NEVER, &memory)).exec((0..N / 2,)).unwrap();
    drop(second);
    rt.submit(Add::of(NEVER, &memory)).exec([N]).unwrap();
    assert_eq!((memory.get(0).unwrap(), to.get(N - 1).unwrap()), (2, N as u64 + 2));
}

#[flash_tests::test]
fn what_fails_on_one_half_poisons_that_half() {
    let rt = flash_tests::runtime();
    for round in 0..20 {
        let memory = counted(&rt);
        let half = |at: usize| memory.clone().into_range(at..at + N / 2).unwrap();
        let good = rt.submit(Add::of(NEVER, half(N / 2))).defer([N / 2]).exec_async();
        let bad = rt.submit(Add::of(round, half(0))).defer([N / 2]).exec_async();
        let again = rt.submit(Add::of(NEVER, half(N / 2))).defer([N / 2]).exec_async();
        assert!(bad.wait().is_err());
        good.wait().unwrap();
        again.wait().unwrap();
        assert_eq!(memory.get(N - 1).unwrap(), N as u64 + 1);
        assert!(matches!(memory.get(0), Err(Error::Poisoned)));
        assert!(matches!(memory.read(), Err(Error::Poisoned)));
        drop(memory.write().unwrap());
        assert_eq!(memory.read().unwrap().len(), N);
    }
}
