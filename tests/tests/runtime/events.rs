//! Events that pipelines come after, and pipelines that are cancelled.

use flash::kernel;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, Event, Signal};
use flash_tests::Random;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Adds one to each element, after some milliseconds.
#[derive(KernelDefinition)]
#[kernel(name = "events.slow", dims(i))]
struct Slow<'a> {
    milliseconds: u64,
    of: Item<'a, ReadWrite<u64>>,
}

/// The same at once.
#[derive(KernelDefinition)]
#[kernel(name = "events.add", dims(i))]
struct Add<'a> {
    of: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.of += 1;
    }
}

#[kernel]
impl CpuItem<Slow<'_>> for Plain {
    fn item(_: Index<1>, k: SlowItem<'_>) {
        std::thread::sleep(Duration::from_millis(k.milliseconds));
        *k.of += 1;
    }
}

fn rt() -> RuntimeObj {
    flash_tests::runtime()
}

/// True if the devices stop a launch that they have begun.
fn can_stop() -> bool {
    flash_tests::key() == "ALL_CPU"
}

/// How many elements of a memory that began with zeros some kernel has come to. It may be poisoned.
fn items_run(memory: &FlashMemory<u64>) -> usize {
    memory.write().unwrap().iter().filter(|element| **element != 0).count()
}

/// A pipeline without memories that notes its number.
fn note(log: &Arc<Mutex<Vec<u64>>>, number: u64) -> Pipeline<'static> {
    let log = log.clone();
    rt().pipeline().host(HostTask::new("note"), move |_| {
        log.lock().unwrap().push(number);
        Ok(())
    })
}

fn is_cancelled(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(error) if matches!(error.cause(), Error::Cancelled))
}

#[flash_tests::test]
fn a_pipeline_begins_after_its_events_and_not_before() {
    let log = Arc::default();
    let (event, signal) = Event::new();
    let (other, other_signal) = Event::new();
    let last = note(&log, 2).after(&event).after(&other).exec_async();
    let first = note(&log, 1).exec_async();
    first.wait().unwrap();
    signal.send();
    assert!(event.is_over() && !other.is_over() && !last.event().is_over());
    assert!(last.wait_timeout(Duration::from_millis(20)).is_none());
    other_signal.send();
    last.wait().unwrap();
    last.event().wait().unwrap();
    assert!(last.event().is_over());
    assert_eq!(*log.lock().unwrap(), [1, 2]);
    // What is over holds nothing up, and a pipeline that is kept is run again.
    let kept = note(&log, 3).after(&event).after(&last.event());
    kept.exec().unwrap();
    kept.exec().unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 3]);
}

#[flash_tests::test]
fn exec_waits_for_the_event_and_so_does_what_comes_after_on_its_memories() {
    let (rt, a, began) = (rt(), FlashMemory::from([1u64; 4]), Arc::new(AtomicBool::new(false)));
    let (event, signal) = Event::new();
    let handle = rt.submit(Add::of(a.clone())).defer([4]).after(&event).exec_async();
    let sender = std::thread::spawn({
        let began = began.clone();
        move || {
            std::thread::sleep(Duration::from_millis(30));
            began.store(true, SeqCst);
            signal.send();
        }
    });
    // It does not touch what is not its own.
    assert_eq!(*FlashMemory::from([7u64]).read().unwrap(), [7]);
    rt.submit(Add::of(&a)).defer([4]).after(&event).exec().unwrap();
    assert!(began.load(SeqCst));
    assert_eq!(*a.read().unwrap(), [3; 4]);
    handle.wait().unwrap();
    sender.join().unwrap();
}

#[flash_tests::test]
fn who_waits_for_an_event_runs_what_it_stands_for() {
    let log = Arc::default();
    let chain = (0..100).fold(None::<Handle>, |last, number| {
        let pipeline = note(&log, number);
        let pipeline = match &last {
            Some(last) => pipeline.after(&last.event()),
            None => pipeline,
        };
        Some(pipeline.exec_async())
    });
    chain.unwrap().event().wait().unwrap();
    assert_eq!(*log.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

/// Pipelines with random events before them, signalled in random order by another thread: each begins after
/// the ends of those before it.
#[flash_tests::test]
fn random_pipelines_and_signals_run_in_an_order_that_the_events_allow() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let (count, log) = (2 + random.next() % 30, Arc::default());
        let mut signals: Vec<Signal> = Vec::new();
        let (mut handles, mut before) = (Vec::<Handle>::new(), Vec::new());
        for number in 0..count {
            let mut pipeline = note(&log, number);
            if random.next().is_multiple_of(3) {
                let (event, signal) = Event::new();
                signals.push(signal);
                pipeline = pipeline.after(&event);
            }
            let mut mine = Vec::new();
            for _ in 0..random.next() % 4 {
                if number > 0 {
                    let other = random.next() % number;
                    pipeline = pipeline.after(&handles[other as usize].event());
                    mine.push(other);
                }
            }
            before.push(mine);
            handles.push(pipeline.exec_async());
        }
        for i in (1..signals.len()).rev() {
            signals.swap(i, random.next() as usize % (i + 1));
        }
        let sender = std::thread::spawn(move || signals.into_iter().for_each(Signal::send));
        handles.iter().for_each(|handle| handle.wait().unwrap());
        sender.join().unwrap();
        let log: Vec<u64> = log.lock().unwrap().clone();
        let position = |number: u64| log.iter().position(|n| *n == number).unwrap();
        assert_eq!(log.len() as u64, count, "seed {seed}");
        for (number, before) in before.iter().enumerate() {
            let own = position(number as u64);
            assert!(before.iter().all(|other| position(*other) < own), "seed {seed}: {number} in {log:?}");
        }
    }
}

#[flash_tests::test]
fn an_abandoned_event_fails_what_comes_after_it_and_poisons_what_that_writes() {
    let (rt, a, b) = (rt(), FlashMemory::from([1u64; 4]), FlashMemory::from([5u64; 4]));
    let (event, signal) = Event::new();
    let pipeline = || rt.submit(Add::of(a.clone())).defer([4]).submit(Add::of(b.clone())).defer([4]);
    let handle = pipeline().after(&event).exec_async();
    let next = rt.submit(Add::of(a.clone())).exec_async([4]);
    let sender = std::thread::spawn(move || drop(signal));
    let error = handle.wait().unwrap_err();
    assert!(matches!(error.cause(), Error::Abandoned), "{error}");
    assert!(error.to_string().contains("events.add"), "{error}");
    assert!(matches!(next.wait().unwrap_err().cause(), Error::Skipped { .. }));
    assert!(matches!(event.wait(), Err(Error::Abandoned)));
    assert!(
        event.is_over()
            && matches!(a.read(), Err(Error::Poisoned))
            && matches!(b.read(), Err(Error::Poisoned))
    );
    assert!(matches!(pipeline().after(&event).exec().unwrap_err().cause(), Error::Abandoned));
    sender.join().unwrap();
    // All goes on.
    [&a, &b].iter().for_each(|memory| memory.write().unwrap().fill(0));
    pipeline().exec().unwrap();
    assert_eq!(*a.read().unwrap(), [1; 4]);
}

#[flash_tests::test]
fn a_cancelled_pipeline_stops_and_poisons_what_it_has_not_done() {
    let rt = flash_tests::runtime_of_functions();
    let (a, b) = (FlashMemory::from(vec![0u64; 64]), FlashMemory::from([0u64; 4]));
    // 64 items of 50 ms: any machine with fewer than 64 threads is at it for long.
    let handle = rt
        .submit(Slow::of(50, a.clone()))
        .defer([64])
        .submit(Add::of(a.clone()))
        .defer([64])
        .submit(Add::of(b.clone()))
        .defer([4])
        .exec_async();
    assert!(handle.wait_timeout(Duration::from_millis(20)).is_none());
    handle.cancel();
    let outcome = handle.wait();
    assert!(is_cancelled(&outcome), "{outcome:?}");
    assert!(matches!(a.read(), Err(Error::Poisoned)));
    match b.read() {
        Err(error) => assert!(matches!(error, Error::Poisoned), "{error}"),
        // Another device may have run it already.
        Ok(done) => assert_eq!(*done, [1; 4]),
    };
    // Not every device can stop a launch that it has begun.
    assert!(!can_stop() || items_run(&a) < 64);
    a.write().unwrap().fill(3);
    rt.submit(Add::of(&a)).exec([64]).unwrap();
    assert_eq!(*a.read().unwrap(), [4; 64]);
}

#[flash_tests::test]
fn what_is_cancelled_before_its_turn_does_not_run_and_what_is_over_stays_so() {
    let (runs, (event, signal)) = (Arc::new(AtomicUsize::new(0)), Event::new());
    let task = || {
        let runs = runs.clone();
        rt().pipeline().host(HostTask::new("count"), move |_| {
            runs.fetch_add(1, SeqCst);
            Ok(())
        })
    };
    let handle = task().after(&event).exec_async();
    let next = task().after(&handle.event()).exec_async();
    handle.cancel();
    handle.cancel();
    signal.send();
    assert!(is_cancelled(&handle.wait()));
    next.wait().unwrap();
    assert_eq!(runs.load(SeqCst), 1);
    next.cancel();
    next.wait().unwrap();
}

#[flash_tests::test]
fn a_launch_that_takes_too_long_stops_at_its_limit_where_the_device_can() {
    let (rt, a) = (flash_tests::runtime_of_functions(), FlashMemory::from(vec![0u64; 64]));
    let limit = Timeout(Duration::from_millis(60));
    let error = rt.submit(Slow::of(50, &a)).options(limit).exec([64]).unwrap_err();
    assert!(matches!(error.cause(), Error::Timeout { taken: Some(_), .. }), "{error}");
    assert!(matches!(a.read(), Err(Error::Poisoned)));
    assert!(!can_stop() || items_run(&a) < 64);
}
