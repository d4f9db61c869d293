//! Launches and guards of several threads: what waits for what, how long, and what is refused at once.

use flash::kernel;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// a = 3 a + value, and the same with b: the order of launches shows.
#[derive(KernelDefinition)]
#[kernel(name = "guards.mix", dims(i))]
struct Mix<'a> {
    value: u64,
    a: Item<'a, ReadWrite<u64>>,
    b: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Mix<'_>> for Plain {
    fn item(_: Index<1>, k: MixItem<'_>) {
        *k.a = *k.a * 3 + k.value;
        *k.b = *k.b * 3 + k.value;
    }
}

const N: usize = 8;
const LONG: Patience = Patience(Duration::from_secs(600));

/// A runtime whose launches wait for as long as a test may take.
fn patient() -> RuntimeObj {
    flash_tests::runtime().options(LONG)
}

fn memory() -> FlashMemory<u64> {
    FlashMemory::zeroed(N)
}

/// Runs `body` while another thread holds a guard of `memory`, and until it asks for its end.
fn beside_guard(memory: &FlashMemory<u64>, write: bool, body: impl FnOnce(&dyn Fn())) {
    let (tell, told) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let guards = if write { (None, memory.write().ok()) } else { (memory.read().ok(), None) };
            assert!(guards.0.is_some() || guards.1.is_some());
            tell.send(()).unwrap();
            let _ = ends.recv();
        });
        told.recv().unwrap();
        body(&|| end.send(()).unwrap());
        drop(end);
    });
}

fn refused(outcome: Result<(), Error>) -> Error {
    match outcome {
        Err(error @ Error::Borrowed { .. }) => error,
        other => panic!("expected a guard to refuse it, found {other:?}"),
    }
}

#[flash_tests::test]
fn launches_are_not_refused_while_other_threads_read_elements() {
    let (rt, a, b) = (patient(), memory(), memory());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for i in [0, N - 1] {
            let (a, b, over) = (&a, &b, &over);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    assert_eq!(a.get(i).unwrap() % 2, 0);
                    assert_eq!(format!("{b:?}").matches(", ").count(), N - 1);
                }
            });
        }
        // At the end of this, and of a panic.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let _over = Over(&over);
        for round in 0..3_000 {
            let mix = |a, b| Mix::of(0, a, b);
            match round % 10 {
                0 => rt.submit(Mix::of(0, a.clone(), b.clone())).exec_async([N]).wait().unwrap(),
                _ => rt.submit(mix(&a, &b)).exec([N]).unwrap(),
            }
        }
    });
}

#[flash_tests::test]
fn a_launch_waits_for_a_guard_of_another_thread_and_holds_nothing_meanwhile() {
    for write in [false, true] {
        let (rt, a, b) = (patient(), memory(), memory());
        beside_guard(&a, write, |end| {
            let (tell, told) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    rt.submit(Mix::of(1, &a, &b)).exec([N]).unwrap();
                    tell.send(()).unwrap();
                });
                assert!(told.recv_timeout(Duration::from_millis(30)).is_err(), "it waits");
                b.write().unwrap().fill(1);
                rt.submit(Mix::of(0, &b, memory())).exec([N]).unwrap();
                assert!(told.try_recv().is_err());
                end();
            });
        });
        assert_eq!((a.get(0).unwrap(), b.get(N - 1).unwrap()), (1, 10));
    }
}

#[flash_tests::test]
fn a_launch_whose_patience_ends_has_done_nothing_and_says_where_the_guard_was_made() {
    let (a, b) = (memory(), memory());
    beside_guard(&a, false, |_| {
        let at_once = flash_tests::runtime().options(Patience(Duration::ZERO));
        let text = refused(at_once.submit(Mix::of(1, &a, &b)).exec([N])).to_string();
        assert!(text.contains("guards.rs:") && text.contains("drop it first"), "{text}");
        let soon = Patience(Duration::from_millis(20));
        let launch = || patient().submit(Mix::of(1, &b, &a)).options(soon);
        let (start, error) = (Instant::now(), refused(launch().exec([N])));
        assert!(start.elapsed() >= soon.0);
        let text = error.to_string();
        assert!(["guards.rs:", "20ms", "`Patience`"].iter().all(|part| text.contains(part)), "{text}");
        // One that waits in the order does the same.
        let part = a.read_range(1..2).unwrap();
        drop(part);
        let later = flash_tests::runtime().pipeline().submit(Mix::of(1, &b, &a)).options(soon).exec([N]);
        refused(later);
    });
    assert_eq!((a.get(0).unwrap(), b.get(0).unwrap()), (0, 0));
}

#[flash_tests::test]
fn a_thread_that_holds_a_guard_is_refused_at_once_where_it_would_wait_for_one() {
    let (rt, a, b, other) = (patient(), memory(), memory(), memory());
    let line = line!() + 1;
    let own = other.read().unwrap();
    beside_guard(&a, false, |_| {
        refused(rt.submit(Mix::of(1, &a, &b)).exec([N]));
    });
    beside_guard(&a, true, |_| {
        refused(a.get(0).map(drop));
    });
    let text = refused(rt.submit(Mix::of(1, &other, &b)).exec([N])).to_string();
    assert!(text.contains(&format!("guards.rs:{line}:")), "{text}");
    let text = refused(rt.submit(Mix::of(1, other.clone(), b.clone())).exec_async([N]).wait()).to_string();
    assert!(text.contains(&format!("guards.rs:{line}:")), "its own guard: {text}");
    drop(own);
    assert_eq!((a.get(0).unwrap(), b.get(0).unwrap()), (0, 0));
}

#[flash_tests::test]
fn an_asynchronous_pipeline_waits_for_guards_in_its_place_and_its_caller_does_not() {
    for write in [false, true] {
        let (rt, a, b) = (patient(), memory(), memory());
        beside_guard(&a, write, |end| {
            let first = rt.submit(Mix::of(1, a.clone(), b.clone())).exec_async([N]);
            let second = rt.submit(Mix::of(5, b.clone(), memory())).exec_async([N]);
            assert!(first.wait_timeout(Duration::from_millis(20)).is_none());
            assert!(second.try_wait().is_none(), "it comes after the first");
            end();
            first.wait().unwrap();
            second.wait().unwrap();
        });
        assert_eq!((a.get(0).unwrap(), b.get(0).unwrap()), (1, 8));
    }
}

#[flash_tests::test]
fn an_asynchronous_pipeline_whose_patience_ends_is_left_out_and_what_follows_runs() {
    let (rt, a, b) = (patient(), memory(), memory());
    beside_guard(&a, false, |_| {
        let soon = Patience(Duration::from_millis(10));
        let first = rt.submit(Mix::of(1, a.clone(), b.clone())).options(soon).exec_async([N]);
        let second = rt.submit(Mix::of(5, b.clone(), memory())).exec_async([N]);
        let text = refused(first.wait()).to_string();
        assert!(text.contains("guards.rs:") && text.contains("10ms"), "{text}");
        second.wait().unwrap();
        assert_eq!(b.get(0).unwrap(), 5);
    });
    rt.submit(Mix::of(1, a.clone(), b.clone())).exec_async([N]).wait().unwrap();
    assert_eq!((a.get(0).unwrap(), b.get(0).unwrap()), (1, 16));
}

#[flash_tests::test]
fn what_a_thread_reads_it_may_read_again_while_a_pipeline_waits_for_that() {
    let (rt, a, b) = (patient(), memory(), memory());
    let guard = a.read().unwrap();
    // Of another thread: one of this thread would be refused.
    let asynchronous = || rt.submit(Mix::of(1, a.clone(), b.clone())).exec_async([N]);
    let handle = std::thread::scope(|scope| scope.spawn(asynchronous).join().unwrap());
    assert!(handle.try_wait().is_none());
    let again = (a.read().unwrap(), a.read_range(1..3).unwrap());
    assert_eq!((again.0[0], &*again.1, a.get(7).unwrap()), (0, &[0, 0][..], 0));
    // The other memory would be free only when the pipeline has run, which waits for this thread.
    refused(b.read().map(drop));
    refused(b.get(0).map(drop));
    refused(b.write().map(drop));
    let text = refused(rt.submit(Mix::of(7, &b, memory())).exec([N])).to_string();
    assert!(text.contains("pipelines"), "{text}");
    drop(guard);
    assert!(handle.try_wait().is_none(), "the others are alive");
    drop(again);
    handle.wait().unwrap();
    assert_eq!((a.get(0).unwrap(), b.get(0).unwrap()), (1, 1));
}

#[flash_tests::test]
fn pipelines_wait_for_guards_of_parts_that_they_write_and_for_no_others() {
    let (rt, a, b) = (patient(), memory(), memory());
    let guard = a.read_range(..N / 2).unwrap();
    let upper = || a.clone().into_range(N / 2..).unwrap();
    let lower = || a.clone().into_range(..N / 2).unwrap();
    let rest = || b.clone().into_range(..N / 2).unwrap();
    let start = |of: fn(u64) -> u64, range: &dyn Fn() -> _| {
        let (rt, range, rest) = (&rt, range(), rest());
        std::thread::scope(|scope| {
            scope.spawn(move || rt.submit(Mix::of(of(1), range, rest)).exec_async([N / 2])).join().unwrap()
        })
    };
    start(|v| v, &upper).wait().unwrap();
    let waits = start(|v| v, &lower);
    assert!(waits.wait_timeout(Duration::from_millis(20)).is_none());
    assert_eq!((guard[0], a.get(1).unwrap(), a.read_range(1..2).unwrap()[0]), (0, 0, 0));
    drop(guard);
    waits.wait().unwrap();
    assert_eq!((a.get(0).unwrap(), a.get(N - 1).unwrap(), b.get(0).unwrap()), (1, 1, 4));
}
