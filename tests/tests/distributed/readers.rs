//! Concurrent readers: launches that only read a memory run at the same time, wherever it is.

use crate::FOUR;
use flash::kernel::views::{Item, Read, Whole, Window, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, kernel};
use flash_core::descriptor::part_by;
use flash_tests::in_process;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The round of each of the two launches.
static ROUND: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Publishes its round, and waits for the other one to reach it, up to a limit.
fn meets(own: usize, round: u64) -> bool {
    ROUND[own].fetch_max(round, SeqCst);
    let start = Instant::now();
    while ROUND[1 - own].load(SeqCst) < round {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Item 0 meets that of another launch.
#[derive(KernelDefinition)]
#[kernel(name = "readers.meet", dims(i))]
struct Meet<'a> {
    own: usize,
    round: u64,
    of: Whole<'a, Read<u64>>,
    sums: Item<'a, Write<u64>>,
}

/// The same, of a memory of which each part takes a window.
#[derive(KernelDefinition)]
#[kernel(name = "readers.meet_cut", dims(i), part_by(i, of = stencil(i = 1)))]
struct MeetCut<'a> {
    own: usize,
    round: u64,
    of: Window<'a, Read<u64>>,
    sums: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Meet<'_>> for Plain {
    fn item(at: Index<1>, k: MeetItem<'_>) {
        if at[0] == 0 && !meets(k.own, k.round) {
            return;
        }
        k.sums.set(k.of.iter().sum());
    }
}

#[kernel]
impl CpuItem<MeetCut<'_>> for Plain {
    fn item(at: Index<1>, k: MeetCutItem<'_>) {
        if at[0] == 0 && !meets(k.own, k.round) {
            return;
        }
        k.sums.set(k.of.get(at[0]) + if at[0] == 0 { 0 } else { k.of.get(at[0] - 1) });
    }
}

/// Two threads, each with a runtime of its own and one memory, do this round by round.
fn both(
    keys: [&str; 2],
    elements: usize,
    rounds: u64,
    launch: impl Fn(&RuntimeObj, usize, u64, &FlashMemory<u64>) + Sync,
) {
    let memory = FlashMemory::from_iter(0..elements as u64);
    std::thread::scope(|scope| {
        for (own, key) in keys.into_iter().enumerate() {
            let (memory, launch) = (&memory, &launch);
            scope.spawn(move || {
                let rt = get_runtime(key).unwrap();
                (1..=rounds).for_each(|round| launch(&rt, own, round, memory));
            });
        }
    });
}

fn whole(rt: &RuntimeObj, own: usize, round: u64, memory: &FlashMemory<u64>) {
    let sums = FlashMemory::<u64>::zeroed(4);
    rt.submit(Meet::of(own, round, memory, &sums)).exec([4]).unwrap();
    let n = memory.len() as u64;
    assert_eq!(*sums.read().unwrap(), [n * (n - 1) / 2; 4], "{own} in round {round}");
}

fn cut(rt: &RuntimeObj, own: usize, round: u64, memory: &FlashMemory<u64>) {
    let n = memory.len();
    let sums = FlashMemory::<u64>::zeroed(n);
    rt.submit(MeetCut::of(own, round, memory, &sums)).options(part_by("i")).exec([n]).unwrap();
    let expected: Vec<u64> = (0..n as u64).map(|i| if i == 0 { 0 } else { 2 * i - 1 }).collect();
    assert_eq!(*sums.read().unwrap(), expected, "{own} in round {round}");
}

#[test]
fn launches_that_read_one_memory_on_two_devices_run_at_once() {
    in_process(FOUR, || both(["TEST:0", "TEST:1"], 100_000, 20, whole));
}

#[test]
fn launches_that_read_one_small_memory_on_two_devices_run_at_once() {
    in_process(FOUR, || both(["TEST:0", "TEST:1"], 100, 20, whole));
}

#[test]
fn cut_launches_that_read_one_memory_run_at_once() {
    in_process(FOUR, || both(["TEST:0,1", "TEST:2,3"], 100_000, 20, cut));
}

#[test]
fn a_cut_launch_and_a_whole_one_that_read_one_memory_run_at_once() {
    in_process(FOUR, || {
        both(["TEST:0,1", "TEST:2"], 50_000, 20, |rt, own, round, memory| match own {
            0 => cut(rt, own, round, memory),
            _ => whole(rt, own, round, memory),
        });
    });
}

#[test]
fn pipelines_on_their_way_that_read_one_memory_run_at_once() {
    in_process(FOUR, || {
        let memory = FlashMemory::from_iter(0..50_000u64);
        for round in 1..=10 {
            let handles = [0, 1].map(|own| {
                let sums = FlashMemory::<u64>::zeroed(4);
                let rt = get_runtime(["TEST:0", "TEST:1"][own]).unwrap();
                let handle =
                    rt.submit(Meet::of(own, round, memory.clone(), sums.clone())).defer([4]).exec_async();
                (handle, sums)
            });
            for (handle, sums) in handles {
                handle.wait().unwrap();
                assert_eq!(*sums.read().unwrap(), [50_000 * 49_999 / 2; 4], "round {round}");
            }
        }
    });
}

/// The sum of a part of a memory.
#[derive(KernelDefinition)]
#[kernel(name = "readers.sum", dims(i), part_by(i, of = stencil(i = 1)))]
struct Sums<'a> {
    of: Window<'a, Read<u64>>,
    sums: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Sums<'_>> for Plain {
    fn item(at: Index<1>, k: SumsItem<'_>) {
        k.sums.set(k.of.get(at[0]) * 3);
    }
}

/// Threads read ranges of one memory, whole and cut, on devices that they share, and one writes it now and
/// then.
fn crowd(budget: u64) {
    let n = 1usize << 15;
    let memory = FlashMemory::from(vec![1u64; n]);
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (thread, key) in ["TEST:0", "TEST:0,1", "TEST:1,2", "TEST"].into_iter().enumerate() {
            let (memory, refused) = (&memory, &refused);
            scope.spawn(move || {
                let rt = get_runtime(key).unwrap().options(MemoryBudget(budget));
                let mut random = 12345 + thread as u64;
                for round in 0..60 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let first = (random >> 33) as usize % n;
                    let count = 1 + (random >> 48) as usize % (n - first);
                    if thread == 0 && round % 8 == 7 {
                        // A guard of another thread may conflict.
                        if let Ok(mut all) = memory.write() {
                            all.fill(3 * round);
                        }
                        continue;
                    }
                    let sums = FlashMemory::<u64>::zeroed(count);
                    let of = memory.range(first..first + count).unwrap();
                    match rt.submit(Sums::of(of, &sums)).exec([count]) {
                        Ok(()) => {
                            let sums = sums.read().unwrap();
                            assert!(sums.iter().all(|sum| *sum == sums[0] && sum % 3 == 0), "{key}");
                        }
                        // Others use the room at the moment.
                        Err(error) if error.to_string().contains("budget") => {
                            refused.fetch_add(1, SeqCst);
                        }
                        Err(error) => assert!(matches!(error, Error::Borrowed { .. }), "{error}"),
                    }
                    if random.is_multiple_of(5) {
                        match memory.read_range(first..first + count) {
                            Ok(seen) => assert!(seen.iter().all(|v| *v == seen[0]), "{key}"),
                            Err(error) => assert!(matches!(error, Error::Borrowed { .. }), "{error}"),
                        }
                    }
                }
            });
        }
    });
    let read = memory.read().unwrap();
    assert!(read.iter().all(|value| *value == read[0]));
    let refused = refused.into_inner();
    assert!(refused < 120, "{refused} of 240 found no room");
}

#[test]
fn readers_and_a_writer_keep_their_buffers_while_others_replace_the_copies() {
    in_process(FOUR, || crowd(u64::MAX));
}

#[test]
fn readers_and_a_writer_keep_their_buffers_while_devices_are_full() {
    in_process(FOUR, || crowd(600_000));
}
