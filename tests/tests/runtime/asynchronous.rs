//! `exec_async`: its handle, its place in the order, its errors, and its limits.

use flash::Error;
use flash::error::LaunchError;
use flash::kernel;
use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// to = to * 3 + from + value: the order of submissions shows.
#[derive(KernelDefinition)]
#[kernel(name = "asynchronous.mix", dims(i))]
struct Mix<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

/// Sleeps, then to = value.
#[derive(KernelDefinition)]
#[kernel(name = "asynchronous.sleep", dims(i))]
struct Sleep<'a> {
    milliseconds: u64,
    value: u64,
    to: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel_fn]
fn mixed(value: u64, from: u64, to: u64) -> u64 {
    to.wrapping_mul(3).wrapping_add(from).wrapping_add(value)
}

#[kernel(devices)]
impl CpuItem<Mix<'_>> for Plain {
    fn item(_: Index<1>, k: MixItem<'_>) {
        assert!(k.value != u64::MAX, "as it was asked to");
        *k.to = mixed(k.value, *k.from, *k.to);
    }
}

#[kernel]
impl CpuItem<Sleep<'_>> for Plain {
    fn item(_: Index<1>, k: SleepItem<'_>) {
        std::thread::sleep(Duration::from_millis(k.milliseconds));
        k.to.set(k.value);
    }
}

const FAILS: u64 = u64::MAX;

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

fn memory(value: u64) -> FlashMemory<u64> {
    FlashMemory::from(vec![value; 8])
}

/// Holds host tasks up until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }

    /// An asynchronous pipeline that has `memory` for writing until the gate is opened.
    fn keep(&self, rt: &RuntimeObj, memory: &FlashMemory<u64>) -> Handle {
        let gate = self.clone();
        let task = HostTask::new("gate").read_write(memory.clone()).blocking();
        let wait = move |_: &mut flash_core::runtime::HostArgs<'_>| {
            gate.pass();
            Ok(())
        };
        rt.pipeline().host(task, wait).exec_async()
    }
}

fn launch_error(outcome: Result<(), Error>) -> LaunchError {
    match outcome {
        Err(Error::Launch(error)) => (*error).clone(),
        other => panic!("expected a failed launch, found {other:?}"),
    }
}

#[flash_tests::test]
fn exec_async_returns_before_the_pipeline_has_run_and_the_handle_says_when_it_has() {
    let (rt, a, gate) = (cpu(), memory(1), Gate::default());
    let handle = gate.keep(&rt, &a);
    assert!(handle.try_wait().is_none());
    assert!(handle.wait_timeout(Duration::from_millis(20)).is_none());
    assert_eq!(format!("{handle:?}"), "Handle(None)");
    gate.open();
    handle.wait().unwrap();
    handle.wait().unwrap();
    assert!(matches!(handle.try_wait(), Some(Ok(()))));
    assert!(matches!(handle.wait_timeout(Duration::ZERO), Some(Ok(()))));
    assert!(matches!(handle.wait_timeout(Duration::MAX), Some(Ok(()))));
}

#[flash_tests::test]
fn launches_and_guards_that_come_later_come_after_it() {
    let (rt, a, b, gate) = (cpu(), memory(1), memory(2), Gate::default());
    let handles = [
        gate.keep(&rt, &a),
        rt.submit(Mix::of(10, a.clone(), b.clone())).exec_async([8]),
        rt.submit(Mix::of(20, b.clone(), a.clone())).exec_async([8]),
    ];
    assert!(handles.iter().all(|h| h.try_wait().is_none()));
    let opener = std::thread::spawn({
        let gate = gate.clone();
        move || {
            std::thread::sleep(Duration::from_millis(30));
            gate.open();
        }
    });
    rt.submit(Mix::of(30, &a, &b)).exec([8]).unwrap();
    let b1 = mixed(10, 1, 2);
    let a1 = mixed(20, b1, 1);
    assert_eq!(*b.read().unwrap(), [mixed(30, a1, b1); 8]);
    assert_eq!(*a.read().unwrap(), [a1; 8]);
    opener.join().unwrap();
    handles.iter().for_each(|h| h.wait().unwrap());
}

#[flash_tests::test]
fn a_guard_alone_waits_for_what_is_pending_and_a_reader_only_for_writers() {
    let (rt, a, b, gate) = (cpu(), memory(1), memory(2), Gate::default());
    // `b` is read by a pipeline that waits for the gate.
    let kept = gate.keep(&rt, &a);
    let reader = rt.submit(Mix::of(0, b.clone(), a.clone())).exec_async([8]);
    assert_eq!(b.get(0).unwrap(), 2, "a pending reader does not stand in a reader's way");
    rt.submit(Mix::of(0, &b, memory(0))).exec([8]).unwrap();
    let opener = std::thread::spawn({
        let gate = gate.clone();
        move || {
            std::thread::sleep(Duration::from_millis(30));
            gate.open();
        }
    });
    b.write().unwrap().fill(100);
    assert!(matches!(reader.try_wait(), Some(Ok(()))) || reader.wait().is_ok());
    assert_eq!(a.get(0).unwrap(), mixed(0, 2, 1), "it read b before the guard wrote it");
    opener.join().unwrap();
    kept.wait().unwrap();
}

#[flash_tests::test]
fn a_guard_that_conflicts_refuses_it_at_once_and_nothing_has_entered() {
    let (rt, a, b) = (cpu(), memory(1), memory(2));
    let guard = b.read().unwrap();
    let handle = rt.submit(Mix::of(0, a.clone(), b.clone())).exec_async([8]);
    assert!(matches!(handle.try_wait(), Some(Err(Error::Borrowed { .. }))), "{handle:?}");
    a.write().unwrap().fill(5);
    rt.submit(Mix::of(0, b.clone(), a.clone())).exec_async([8]).wait().unwrap();
    drop(guard);
    rt.submit(Mix::of(0, a.clone(), b.clone())).exec_async([8]).wait().unwrap();
    assert_eq!(b.get(0).unwrap(), mixed(0, mixed(0, 2, 5), 2));
}

#[flash_tests::test]
fn a_dropped_handle_neither_cancels_nor_leaks() {
    let (rt, a, b) = (cpu(), memory(1), memory(2));
    for k in 0..200 {
        drop(rt.submit(Mix::of(k, a.clone(), b.clone())).exec_async([8]));
    }
    let expected = (0..200).fold(2, |to, k| mixed(k, 1, to));
    assert_eq!(*b.read().unwrap(), [expected; 8]);
    let before = rt.submit(Mix::of(0, b.clone(), a.clone())).exec_async([8]);
    let last = rt.submit(Mix::of(0, a.clone(), b.clone())).exec_async([8]);
    last.wait().unwrap();
    assert!(matches!(before.try_wait(), Some(Ok(()))), "the last has come after all of them");
    a.with_shape([2, 4]).expect("once the handle is complete, no pipeline has the memory");
    drop(b.write().unwrap());
}

#[flash_tests::test]
fn a_kernels_error_comes_out_of_the_handle_and_poisons() {
    let (rt, a, b, c) = (cpu(), memory(1), memory(2), memory(3));
    let first = rt.submit(Mix::of(FAILS, a.clone(), b.clone())).exec_async([8]);
    let second = rt.submit(Mix::of(0, b.clone(), c.clone())).exec_async([8]);
    let error = launch_error(first.wait());
    assert_eq!((error.kernel(), error.position()), ("asynchronous.mix", 0));
    assert!(error.cause().to_string().contains("as it was asked to"), "{error}");
    let skipped = launch_error(second.wait());
    assert!(matches!(skipped.cause(), Error::Skipped { .. }), "{skipped}");
    assert!(matches!(b.read(), Err(Error::Poisoned)));
    assert!(matches!(c.read(), Err(Error::Poisoned)));
    b.write().unwrap().fill(1);
    rt.submit(Mix::of(0, a.clone(), b.clone())).exec_async([8]).wait().unwrap();
    // What is wrong already when it is recorded comes out of the handle, too.
    let wrong = rt.submit(Mix::of(0, a.clone(), b.clone())).exec_async([9]);
    assert!(matches!(wrong.try_wait(), Some(Err(Error::Argument { .. }))), "{wrong:?}");
    assert_eq!(b.get(0).unwrap(), mixed(0, 1, 1));
}

/// A minimal executor: one future, on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread, AtomicUsize);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, SeqCst);
            self.0.unpark();
        }
    }
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(unpark.clone());
    let (mut future, mut polls) = (pin!(future), 0);
    loop {
        polls += 1;
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while unpark.1.load(SeqCst) < polls {
            std::thread::park();
        }
    }
}

#[flash_tests::test]
fn a_handle_is_a_future_that_needs_no_certain_executor() {
    let (rt, a, b, gate) = (cpu(), memory(1), memory(2), Gate::default());
    let kept = gate.keep(&rt, &a);
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        gate.open();
    });
    let seen = block_on(async {
        let second = rt.submit(Mix::of(1, a.clone(), b.clone())).exec_async([8]);
        kept.await?;
        second.await?;
        let failed = rt.submit(Mix::of(FAILS, a.clone(), b.clone())).exec_async([8]).await;
        assert!(matches!(failed, Err(Error::Launch(_))));
        b.write()?.fill(9);
        b.get(0)
    });
    assert_eq!(seen.unwrap(), 9);
    opener.join().unwrap();
}

#[flash_tests::test]
fn a_timeout_is_reported_when_it_passes_and_the_memory_is_busy_until_the_kernel_has_stopped() {
    let (rt, a) = (flash_tests::runtime_of_functions(), FlashMemory::from([0u64]));
    let limit = Duration::from_millis(30);
    let start = Instant::now();
    let handle = rt.submit(Sleep::of(2000, 7, a.clone())).options(Timeout(limit)).exec_async([1]);
    let error = launch_error(handle.wait());
    let reported = start.elapsed();
    assert!(matches!(error.cause(), Error::Timeout { limit: l, taken: None, .. } if *l == limit), "{error}");
    assert!(
        error.to_string().contains("30ms") && error.to_string().contains("has not stopped yet"),
        "{error}"
    );
    assert!(reported < Duration::from_millis(1990), "reported after {reported:?}");
    // The guard comes after the kernel.
    assert!(matches!(a.read(), Err(Error::Poisoned)));
    assert!(start.elapsed() >= Duration::from_millis(2000));
    assert_eq!(a.write().unwrap()[0], 7, "it did run to its end");
    assert!(matches!(handle.wait(), Err(Error::Launch(_))), "the first outcome stays");
}

#[flash_tests::test]
fn exec_reports_a_timeout_after_the_kernel_has_stopped_and_says_so() {
    let rt = flash_tests::runtime_of_functions().options(Timeout(Duration::from_millis(200)));
    let mut slice = [0u64; 1];
    let start = Instant::now();
    let error = launch_error(rt.submit(Sleep::of(300, 7, &mut slice[..])).exec([1]));
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(matches!(error.cause(), Error::Timeout { taken: Some(taken), .. } if taken.as_millis() >= 300));
    assert!(error.to_string().contains("it has stopped"), "{error}");
    assert_eq!(slice, [7]);
    // Every time, not only the first; and a submission's own limit wins.
    rt.submit(Sleep::of(300, 8, &mut slice[..])).exec([1]).unwrap_err();
    let long = Timeout(Duration::from_secs(60));
    rt.submit(Sleep::of(300, 9, &mut slice[..])).options(long).exec([1]).unwrap();
    rt.submit(Sleep::of(0, 10, &mut slice[..])).exec([1]).unwrap();
    assert_eq!(slice, [10]);
}

#[flash_tests::test]
fn what_a_launch_made_too_late_comes_back_to_a_slice_from_a_memory_apart() {
    flash_tests::in_process(flash_tests::APART[1], || {
        let rt = cpu();
        let limit = Timeout(Duration::from_millis(20));
        let (mut slice, a) = ([1u64; 3], FlashMemory::<u64>::zeroed(1));
        let late = rt.submit(Sleep::of(60, 7, &mut slice[..1])).options(limit).defer([1]);
        let error = launch_error(late.submit(Sleep::of(0, 8, &a)).exec([1]));
        assert!(matches!(error.cause(), Error::Timeout { .. }), "{error}");
        assert_eq!((slice, a.get(0).unwrap()), ([7, 1, 1], 8));
        // What would go on from there is left out, as ever.
        let late = rt.submit(Sleep::of(60, 9, &a)).options(limit).defer([1]);
        let error = launch_error(late.submit(Mix::of(0, &a, &mut slice[1..2])).exec([1]));
        assert!(matches!(error.cause(), Error::Timeout { .. }), "{error}");
        assert!(
            matches!(error.others(), [other] if matches!(other.cause(), Error::Skipped { .. })),
            "{error:?}"
        );
        assert_eq!(slice, [7, 1, 1]);
        assert!(matches!(a.read(), Err(Error::Poisoned)));
    });
}

#[flash_tests::test]
fn no_more_pipelines_are_in_flight_than_allowed() {
    let (rt, gate, count, most) =
        (cpu().options(InFlight(3)), Gate::default(), Arc::new(AtomicUsize::new(0)), 3);
    let highest = Arc::new(AtomicUsize::new(0));
    let (submitted, total) = (Arc::new(AtomicUsize::new(0)), 12);
    let submitter = std::thread::spawn({
        let (rt, gate, count, highest, submitted) =
            (rt.clone(), gate.clone(), count.clone(), highest.clone(), submitted.clone());
        move || -> Vec<Handle> {
            let one = |_| {
                let (gate, count, highest) = (gate.clone(), count.clone(), highest.clone());
                let task = HostTask::new("count").write(memory(0)).blocking();
                let handle = rt.pipeline().host(task, move |_| {
                    highest.fetch_max(count.fetch_add(1, SeqCst) + 1, SeqCst);
                    gate.pass();
                    count.fetch_sub(1, SeqCst);
                    Ok(())
                });
                let handle = handle.exec_async();
                submitted.fetch_add(1, SeqCst);
                handle
            };
            (0..total).map(one).collect()
        }
    });
    while count.load(SeqCst) < most || submitted.load(SeqCst) < most {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((submitted.load(SeqCst), count.load(SeqCst)), (most, most), "the next one waits");
    gate.open();
    submitter.join().unwrap().iter().for_each(|h| h.wait().unwrap());
    assert_eq!(highest.load(SeqCst), most);
    let error = cpu().options(InFlight(0)).pipeline().exec_async().wait().unwrap_err();
    assert!(error.to_string().contains("InFlight") && error.to_string().contains("at least 1"), "{error}");
}

#[flash_tests::test]
fn a_range_that_owns_its_memory_goes_along() {
    let (rt, a, b) = (cpu(), memory(1), memory(2));
    let range = b.clone().into_range(2..4).unwrap();
    rt.submit(Mix::of(5, a.clone(), range)).exec_async([2]).wait().unwrap();
    assert_eq!(*b.read().unwrap(), [2, 2, 12, 12, 2, 2, 2, 2]);
    assert!(matches!(b.into_range(4..9), Err(Error::Range { .. })));
}

#[flash_tests::test]
fn waiting_for_itself_is_an_error_and_not_for_ever() {
    let (rt, a, gate) = (cpu(), memory(1), Gate::default());
    let handle = Arc::new(Mutex::new(None::<Handle>));
    let task = HostTask::new("itself").write(a.clone()).blocking();
    let pipeline = rt.pipeline().host(task, {
        let (handle, gate, rt, a) = (handle.clone(), gate.clone(), rt.clone(), a.clone());
        move |_| {
            gate.pass();
            let handle = handle.lock().unwrap();
            let handle = handle.as_ref().unwrap();
            assert!(matches!(handle.wait(), Err(Error::Nested)));
            assert!(matches!(handle.wait_timeout(Duration::MAX), Some(Err(Error::Nested))));
            assert!(matches!(rt.submit(Mix::of(0, memory(0), a.clone())).exec([8]), Err(Error::Nested)));
            let later = rt.submit(Mix::of(0, memory(0), a.clone())).exec_async([8]);
            assert!(matches!(later.try_wait(), Some(Err(Error::Nested))));
            assert!(matches!(a.read(), Err(Error::Nested)));
            Ok(())
        }
    });
    *handle.lock().unwrap() = Some(pipeline.exec_async());
    gate.open();
    drop(a.read().unwrap());
    handle.lock().unwrap().as_ref().unwrap().wait().unwrap();
}
