//! The CPU's threads that run the items of a launch.

use flash::kernel;
use flash::kernel::views::{Item, Write};
use flash::kernel::{CpuItem, CpuSpan, Index, Span};
use flash::prelude::*;
use flash_core::descriptor::Implementation;
use flash_tests::in_process;
use std::collections::BTreeSet;
use std::time::Duration;

/// Items that take a given time, and record the thread that ran them.
#[derive(KernelDefinition)]
#[kernel(name = "sharing.rest", dims(item))]
struct Rest<'a> {
    microseconds: u64,
    thread: Item<'a, Write<u64>>,
}

/// A number that no other thread has meanwhile.
fn this_thread() -> u64 {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

fn rest(microseconds: u64) -> u64 {
    if microseconds > 0 {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
    this_thread()
}

struct ByItem;
struct ByRun;
struct ByAnyRun;

#[kernel(priority = 1)]
impl CpuItem<Rest<'_>> for ByItem {
    fn item(_: Index<1>, k: RestItem<'_>) {
        k.thread.set(rest(k.microseconds));
    }
}

#[kernel]
impl CpuSpan<Rest<'_>> for ByRun {
    fn span(_: Span<1>, k: RestSpan<'_>) {
        k.thread.fill_with(|| rest(k.microseconds));
    }
}

#[kernel(alignment = 1)]
impl CpuSpan<Rest<'_>> for ByAnyRun {
    fn span(_: Span<1>, k: RestSpan<'_>) {
        k.thread.fill_with(|| rest(k.microseconds));
    }
}

/// How many threads ran the items.
fn threads(of: &FlashMemory<u64>) -> usize {
    of.read().unwrap().iter().collect::<BTreeSet<_>>().len()
}

/// One device: over several, a launch is cut by other rules.
const TWO_THREADS: &[(&str, &str)] = &[("FLASH_CPU_THREADS", "2"), ("FLASH_CPU_DEVICES", "1")];

#[flash_tests::test]
fn few_long_items_have_both_threads_from_the_first_launch_on() {
    in_process(TWO_THREADS, || {
        let rt = flash_tests::runtime();
        for _ in 0..3 {
            let thread = FlashMemory::zeroed(8);
            rt.submit(Rest::of(5_000, &thread)).exec([8usize]).unwrap();
            assert_eq!(threads(&thread), 2);
        }
    });
}

/// Launches of short items stay on the caller, mostly without the device, while they do not take long. A wait
/// for the other thread is no time of an item.
fn come_to_take_long(launch: impl Fn(&RuntimeObj, &FlashMemory<u64>, u64, usize)) {
    let rt = flash_tests::runtime();
    let thread = FlashMemory::zeroed(4);
    // Another program may have the processors for a while.
    let mostly = |microseconds, count| {
        let has = |_: &usize| {
            launch(&rt, &thread, microseconds, 1);
            threads(&thread) == count
        };
        (0..100).any(|_| (0..20).filter(has).count() >= 10)
    };
    launch(&rt, &thread, 0, 500);
    assert!(mostly(0, 1), "launches of short items had both threads");
    launch(&rt, &thread, 300, 300);
    assert!(mostly(5_000, 2), "launches of long items had one thread");
    launch(&rt, &thread, 0, 500);
    assert!(mostly(0, 1), "launches of items that are short again had both threads");
}

#[flash_tests::test]
fn items_that_come_to_take_long_have_both_threads_before_long() {
    in_process(TWO_THREADS, || {
        come_to_take_long(|rt, thread, microseconds, times| {
            (0..times).for_each(|_| rt.submit(Rest::of(microseconds, thread)).exec([4usize]).unwrap());
        });
    });
}

#[flash_tests::test]
fn items_of_a_recorded_launch_that_come_to_take_long_have_both_threads_before_long() {
    in_process(TWO_THREADS, || {
        come_to_take_long(|rt, thread, microseconds, times| {
            let launch = rt.submit(Rest::of(microseconds, thread)).defer([4usize]);
            (0..times).for_each(|_| launch.exec().unwrap());
        });
    });
}

#[flash_tests::test]
fn runs_are_whole_vectors_unless_an_implementation_says_otherwise() {
    in_process(TWO_THREADS, || {
        let rt = flash_tests::runtime();
        // A first launch begins on the caller, which sends for the other thread once it has taken a while:
        // enough is left.
        for (name, items, expected) in [("by_run", 16, 1), ("by_any_run", 16, 2), ("by_run", 160, 2)] {
            let rt = rt.options(Implementation::named(name));
            for _ in 0..3 {
                let thread = FlashMemory::zeroed(items);
                rt.submit(Rest::of(1_000, &thread)).exec([items]).unwrap();
                assert_eq!(threads(&thread), expected, "{items} items by `{name}`");
                if name == "by_run" {
                    let thread = thread.read().unwrap();
                    assert!(thread.chunks(16).all(|run| run.iter().all(|by| *by == run[0])));
                }
            }
        }
    });
}
