//! A child of `fork` has one thread: it launches on that, gets an error where it needs another one, and never
//! hangs.

use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::kernels::mmm;
use flash::prelude::*;
use flash::{Event, HostTask};
use flash_tests::{context, in_process};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// to += value.
#[derive(KernelDefinition)]
#[kernel(name = "fork.add", dims(i), part_by(i))]
struct Add<'a> {
    value: u64,
    to: Item<'a, ReadWrite<u64>>,
}

/// to = i, planned in no process before it forks.
#[derive(KernelDefinition)]
#[kernel(name = "fork.number", dims(i))]
struct Number<'a> {
    to: Item<'a, Write<u64>>,
}

/// Fails.
#[derive(KernelDefinition)]
#[kernel(name = "fork.fails", dims(i))]
struct Fails<'a> {
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to += k.value;
    }
}

#[kernel]
impl CpuItem<Number<'_>> for Plain {
    fn item(index: Index<1>, k: NumberItem<'_>) {
        k.to.set(index[0] as u64);
    }
}

#[kernel]
impl CpuItem<Fails<'_>> for Plain {
    fn item(_: Index<1>, _: FailsItem<'_>) {
        panic!("as it should");
    }
}

/// A child that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// Enough for a team.
const MANY: usize = 1 << 16;

/// Threads of the team, on any machine.
const THREADS: (&str, &str) = ("FLASH_CPU_THREADS", "4");

/// Runs `body` in a child of `fork`, and waits for its end.
fn in_child(body: impl FnOnce()) {
    // SAFETY: the child runs `body` and ends without going back to the test. What it may lock of this library
    // is free there; threads of the test hold no other lock that it takes.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        // SAFETY: ends the child without the handlers of the parent.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let start = Instant::now();
    let mut status = 0;
    // SAFETY: a child of this process, and a variable for its status.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > LIMIT {
            // SAFETY: the child has not been waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child failed; its output is above");
}

#[track_caller]
fn assert_forked<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let error = outcome.expect_err("another thread is needed");
    assert!(matches!(error.cause(), Error::Forked), "{error}");
    let text = error.cause().to_string();
    assert!(text.contains("child of `fork`") && text.contains("fork before the first launch"), "{text}");
}

fn add(rt: &RuntimeObj, value: u64, to: &FlashMemory<u64>) -> Result<(), Error> {
    rt.submit(Add::of(value, to)).exec([to.len()])
}

fn add_later(rt: &RuntimeObj, value: u64, to: &FlashMemory<u64>) -> Result<(), Error> {
    rt.submit(Add::of(value, to.clone())).exec_async([to.len()]).wait()
}

/// Lets the other threads of a scope end, also if this one panics.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A launch for one thread, a launch for a team, and one whose kernel has no plan yet.
fn launches_on_its_own(rt: &RuntimeObj) {
    for len in [10, MANY] {
        let numbers = FlashMemory::<u64>::zeroed(len);
        rt.submit(Number::of(&numbers)).exec([len]).unwrap();
        add(rt, 1, &numbers).unwrap();
        add(rt, 1, &numbers).unwrap();
        assert!(numbers.read().unwrap().iter().zip(2..).all(|(found, expected)| *found == expected));
    }
}

#[test]
fn a_child_launches_on_its_own_thread_and_gets_an_error_where_it_needs_another() {
    in_process(&[THREADS], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        let (small, large) = (FlashMemory::<u64>::zeroed(10), FlashMemory::<u64>::zeroed(MANY));
        for to in [&small, &large] {
            add(&rt, 1, to).unwrap();
            add_later(&rt, 1, to).unwrap();
        }
        let (event, signal) = Event::new();
        let task = HostTask::new("nothing");
        let waits = rt.pipeline().host(task, |_| Ok(())).after(&event).exec_async();
        in_child(|| {
            // The same error every time, and between them what needs no other thread.
            for _ in 0..2 {
                assert_forked(add_later(&rt, 1, &small));
                assert_forked(waits.wait());
                assert_forked(waits.wait_timeout(LIMIT).unwrap());
                assert_forked(event.wait());
                // It fails as a launch does, and poisons.
                let late = FlashMemory::<u64>::zeroed(10);
                assert_forked(rt.submit(Add::of(1, &late)).options(Timeout(LIMIT)).exec([10]));
                assert!(matches!(late.read(), Err(Error::Poisoned)));
                launches_on_its_own(&rt);
                launches_on_its_own(&get_runtime("ALL_CPU").unwrap());
                add(&rt, 1, &large).unwrap();
            }
            assert_eq!((small.get(9).unwrap(), large.read().unwrap()[MANY - 1]), (2, 4));
            // A failure is that failure, and poisons.
            let chain = rt.submit(Fails::of(&small)).defer([1]).submit(Add::of(1, &large));
            let error = chain.exec([MANY]).unwrap_err();
            assert!(error.to_string().contains("as it should"), "{error}");
            assert!(matches!(small.read(), Err(Error::Poisoned)));
            // A child of the child is one as well.
            in_child(|| assert_forked(add_later(&rt, 1, &small)));
        });
        signal.send();
        waits.wait().unwrap();
        for to in [&small, &large] {
            add(&rt, 1, to).unwrap();
            add_later(&rt, 1, to).unwrap();
            assert_eq!(to.get(9).unwrap(), 4);
        }
    });
}

#[test]
fn a_child_that_is_forked_before_the_first_launch_has_all_threads() {
    in_process(&[THREADS], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        in_child(|| {
            let numbers = FlashMemory::<u64>::zeroed(MANY);
            add(&rt, 1, &numbers).unwrap();
            add_later(&rt, 1, &numbers).unwrap();
            assert_eq!(numbers.get(MANY - 1).unwrap(), 2);
        });
    });
}

#[test]
fn a_product_by_a_library_with_threads_runs_in_a_child() {
    in_process(&[THREADS], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        let n = 300;
        let ones = FlashMemory::from(vec![1.0f64; n * n]).with_shape([n, n]).unwrap();
        let multiply = || {
            let to = FlashMemory::<f64>::zeroed([n, n]);
            rt.submit(mmm([n, n, n], &ones, &ones, &to).unwrap()).exec([n]).unwrap();
            assert!(to.read().unwrap().iter().all(|sum| *sum == n as f64));
        };
        multiply();
        in_child(|| (0..2).for_each(|_| multiply()));
        multiply();
    });
}

#[test]
fn a_launch_on_two_devices_is_an_error_in_a_child_while_a_thread_of_the_parent_launches() {
    in_process(&[THREADS], || {
        let both = context(&[("cpu.devices", "2")]);
        let (two, one) = (both.runtime("ALL_CPU").unwrap(), both.runtime("ALL_CPU:0").unwrap());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| {
                let to = FlashMemory::<u64>::zeroed(MANY);
                while !stop.load(SeqCst) {
                    add(&two, 1, &to).unwrap();
                }
            });
            let to = FlashMemory::<u64>::zeroed(MANY);
            for round in 1..=20 {
                add(&two, 1, &to).unwrap();
                in_child(|| {
                    for _ in 0..2 {
                        assert_forked(add(&two, 1, &to));
                        launches_on_its_own(&one);
                    }
                    assert_eq!(to.get(0).unwrap(), round);
                });
            }
        });
    });
}

#[test]
fn what_is_on_a_device_of_the_parent_is_an_error_in_a_child() {
    in_process(&[("FLASH_TEST", "devices=1")], || {
        let rt = get_runtime("TEST").unwrap();
        let to = FlashMemory::<u64>::zeroed(MANY);
        add(&rt, 1, &to).unwrap();
        add(&rt, 1, &to).unwrap();
        in_child(|| {
            for _ in 0..2 {
                assert_forked(add(&rt, 1, &to));
                assert_forked(to.read().map(|_| ()));
            }
        });
        add(&rt, 1, &to).unwrap();
        assert_eq!(to.get(0).unwrap(), 3);
    });
}

/// Other threads are at anything while the process forks: no child hangs.
#[test]
fn no_child_hangs_whatever_the_threads_of_the_parent_do() {
    in_process(&[THREADS], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        let shared = FlashMemory::<u64>::zeroed(MANY);
        add(&rt, 1, &shared).unwrap();
        let stop = AtomicBool::new(false);
        let until_stopped = |body: &dyn Fn()| {
            while !stop.load(SeqCst) {
                body();
            }
        };
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| until_stopped(&|| add(&rt, 1, &shared).unwrap()));
            scope.spawn(|| until_stopped(&|| add_later(&rt, 1, &shared).unwrap()));
            // Plans, tables of them, devices, and pools.
            scope.spawn(|| {
                until_stopped(&|| {
                    let own = context(&[("cpu.devices", "3")]).runtime("ALL_CPU:0").unwrap();
                    add(&own, 1, &FlashMemory::zeroed(10)).unwrap();
                });
            });
            for _ in 0..40 {
                in_child(|| {
                    launches_on_its_own(&rt);
                    launches_on_its_own(&context(&[]).runtime("ALL_CPU").unwrap());
                    match add(&rt, 1, &shared) {
                        Ok(()) | Err(Error::Forked) => {}
                        Err(error) => panic!("{error}"),
                    }
                    assert_forked(add_later(&rt, 1, &shared));
                    drop(Event::new());
                });
            }
        });
    });
}
