//! The CPU's threads that run the items of a launch.

use flash::kernel;
use flash::kernel::views::{Item, Write};
use flash::kernel::{CpuItem, CpuSpan, Index, Span};
use flash::prelude::*;
use flash_core::descriptor::Implementation;
use flash_tests::in_process;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Items that take a given time, and record the thread that ran them.
#[derive(KernelDefinition)]
#[kernel(name = "sharing.rest", dims(item))]
struct Rest<'a> {
    microseconds: u64,
    /// The number of items that run before the others wait for a second thread.
    alone: u64,
    thread: Item<'a, Write<u64>>,
}

/// A number that no other thread has meanwhile.
fn this_thread() -> u64 {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

fn rest(microseconds: u64, alone: u64) -> u64 {
    if microseconds > 0 {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
    let here = this_thread();
    if alone != u64::MAX {
        MEETING.come(here, alone);
    }
    here
}

/// The threads that have run items of a launch, and the number of these items.
struct Meeting(Mutex<(BTreeSet<u64>, u64)>, Condvar);

static MEETING: Meeting = Meeting(Mutex::new((BTreeSet::new(), 0)), Condvar::new());

impl Meeting {
    /// Waits for a second thread, but not in the first items. A minute is longer than any thread is kept from
    /// its processor.
    fn come(&self, here: u64, alone: u64) {
        let Meeting(state, changed) = self;
        let mut state = state.lock().unwrap();
        state.0.insert(here);
        state.1 += 1;
        changed.notify_all();
        if state.1 > alone {
            let one = |(threads, _): &mut (BTreeSet<u64>, u64)| threads.len() < 2;
            let (state, waited) = changed.wait_timeout_while(state, Duration::from_secs(60), one).unwrap();
            drop(state);
            assert!(!waited.timed_out(), "no second thread in a minute");
        }
    }

    /// A launch whose items, all but the first `alone`, wait for a second thread.
    fn of(rt: &RuntimeObj, microseconds: u64, items: usize, alone: u64) -> FlashMemory<u64> {
        *MEETING.0.lock().unwrap() = (BTreeSet::new(), 0);
        let thread = FlashMemory::zeroed(items);
        rt.submit(Rest::of(microseconds, alone, &thread)).exec([items]).unwrap();
        thread
    }
}

struct ByItem;
struct ByRun;
struct ByAnyRun;

#[kernel(priority = 1)]
impl CpuItem<Rest<'_>> for ByItem {
    fn item(_: Index<1>, k: RestItem<'_>) {
        k.thread.set(rest(k.microseconds, k.alone));
    }
}

#[kernel]
impl CpuSpan<Rest<'_>> for ByRun {
    fn span(_: Span<1>, k: RestSpan<'_>) {
        k.thread.fill_with(|| rest(k.microseconds, k.alone));
    }
}

#[kernel(alignment = 1)]
impl CpuSpan<Rest<'_>> for ByAnyRun {
    fn span(_: Span<1>, k: RestSpan<'_>) {
        k.thread.fill_with(|| rest(k.microseconds, k.alone));
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
        let rt = flash_tests::runtime_of_functions();
        for _ in 0..3 {
            let thread = Meeting::of(&rt, 5_000, 8, 4);
            assert_eq!(threads(&thread), 2);
        }
    });
}

/// Launches of short items stay on the caller, mostly without the device, while they do not take long. A wait
/// for the other thread is no time of an item, and neither is what they take from each other's caches.
fn come_to_take_long(launch: impl Fn(&RuntimeObj, &FlashMemory<u64>, u64, usize)) {
    // Runs, whose items are short without optimisation, too.
    let rt = flash_tests::runtime_of_functions().options(Implementation::named("by_any_run"));
    let thread = FlashMemory::zeroed(16);
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
    launch(&rt, &thread, 100, 300);
    assert!(mostly(1_000, 2), "launches of long items had one thread");
    launch(&rt, &thread, 0, 500);
    assert!(mostly(0, 1), "launches of items that are short again had both threads");
}

#[flash_tests::test]
fn items_that_come_to_take_long_have_both_threads_before_long() {
    in_process(TWO_THREADS, || {
        come_to_take_long(|rt, thread, microseconds, times| {
            (0..times)
                .for_each(|_| rt.submit(Rest::of(microseconds, u64::MAX, thread)).exec([16usize]).unwrap());
        });
    });
}

#[flash_tests::test]
fn items_of_a_recorded_launch_that_come_to_take_long_have_both_threads_before_long() {
    in_process(TWO_THREADS, || {
        come_to_take_long(|rt, thread, microseconds, times| {
            let launch = rt.submit(Rest::of(microseconds, u64::MAX, thread)).defer([16usize]);
            (0..times).for_each(|_| launch.exec().unwrap());
        });
    });
}

#[flash_tests::test]
fn runs_are_whole_vectors_unless_an_implementation_says_otherwise() {
    in_process(TWO_THREADS, || {
        let rt = flash_tests::runtime_of_functions();
        // A first launch begins on the caller, which sends for the other thread once it has taken a while:
        // enough is left.
        for (name, items, expected) in [("by_run", 16, 1), ("by_any_run", 16, 2), ("by_run", 160, 2)] {
            let rt = rt.options(Implementation::named(name));
            for _ in 0..3 {
                let alone = if expected == 1 { u64::MAX } else { items as u64 / 2 };
                let thread = Meeting::of(&rt, 1_000, items, alone);
                assert_eq!(threads(&thread), expected, "{items} items by `{name}`");
                if name == "by_run" {
                    let thread = thread.read().unwrap();
                    assert!(thread.chunks(16).all(|run| run.iter().all(|by| *by == run[0])));
                }
            }
        }
    });
}
