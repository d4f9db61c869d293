//! What tasks, scopes, joins and futures promise.

use flash_backend_cpu as _;
use flash_tasks::{
    Condvar, Mutex, Semaphore, State, Task, TaskError, cancelled, join, name, scope, service, spawn_async,
    unsuspended, until, yield_now,
};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Duration;

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn join_gives_both_results() {
    assert_eq!(fib(22), 17711);
}

#[test]
fn a_panic_in_either_half_of_a_join_comes_out_once_both_have_ended() {
    for which in 0..2 {
        let ended = AtomicUsize::new(0);
        let half = |panics: bool| {
            yield_now();
            ended.fetch_add(1, SeqCst);
            assert!(!panics, "the half");
        };
        let result = catch_unwind(AssertUnwindSafe(|| join(|| half(which == 0), || half(which == 1))));
        let text = *result.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!((text, ended.into_inner()), ("the half", 2));
    }
}

#[test]
fn joins_go_as_deep_as_memory_does() {
    fn depth(n: u32) -> u32 {
        // A kilobyte of stack each: many times a stack.
        let space = std::hint::black_box([n; 256]);
        if n == 0 { 0 } else { join(|| depth(n - 1), || ()).0 + space[n as usize % 256].min(1) }
    }
    assert_eq!(depth(60_000), 60_000);
}

fn fib_of_tasks(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    scope(|s| {
        let a = s.spawn(|| fib_of_tasks(n - 1));
        let b = s.spawn(|| fib_of_tasks(n - 2));
        a.wait().unwrap() + b.wait().unwrap()
    })
    .unwrap()
}

#[test]
fn tasks_wait_for_tasks_that_they_spawn() {
    assert_eq!(fib_of_tasks(20), 6765);
}

#[test]
fn tasks_of_one_scope_spawn_others_in_it() {
    fn below<'scope>(s: &'scope flash_tasks::Scope<'scope, '_>, count: &'scope AtomicUsize, depth: u32) {
        count.fetch_add(1, Relaxed);
        for _ in 0..2 * u32::from(depth > 0) {
            drop(s.spawn(move || below(s, count, depth - 1)));
        }
    }
    let count = AtomicUsize::new(0);
    scope(|s| below(s, &count, 12)).unwrap();
    assert_eq!(count.into_inner(), (1 << 13) - 1);
}

#[test]
fn a_task_ends_when_what_it_spawned_has_ended() {
    let done = AtomicUsize::new(0);
    scope(|s| {
        let done = &done;
        let task = s.spawn(move || {
            for _ in 0..50 {
                drop(s.spawn(move || {
                    (0..10).for_each(|_| yield_now());
                    done.fetch_add(1, SeqCst);
                }));
            }
        });
        task.wait().unwrap();
        assert_eq!(done.load(SeqCst), 50);
    })
    .unwrap();
}

#[test]
fn a_scope_returns_the_error_of_a_task_that_nothing_waited_for() {
    let failed = scope(|s| {
        drop(s.task().name("left alone").spawn(|| panic!("number {}", 7)));
        // Its error is the handle's.
        assert!(s.spawn(|| panic!("looked at")).wait().is_err());
    });
    let error = failed.unwrap_err();
    assert_eq!(error.to_string(), "task `left alone` panicked: number 7");
    assert_eq!((error.task(), error.panic(), error.is_cancelled()), ("left alone", Some("number 7"), false));
}

#[test]
fn a_panic_of_the_body_waits_for_the_tasks() {
    let done = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        scope(|s| {
            for _ in 0..20 {
                drop(s.spawn(|| {
                    yield_now();
                    done.fetch_add(1, SeqCst);
                }));
            }
            panic!("the body");
        })
    }));
    assert!(result.is_err());
    assert_eq!(done.into_inner(), 20);
}

#[test]
fn cancelled_tasks_do_not_begin_and_others_can_see_it() {
    let (begun, saw) = (Semaphore::new(0), AtomicBool::new(false));
    let errors = scope(|s| {
        let first = s.spawn(|| {
            begun.release();
            until(|| if cancelled() { Poll::Ready(()) } else { Poll::Pending });
            saw.store(true, SeqCst);
        });
        begun.acquire().keep();
        s.cancel();
        let later: Vec<_> = (0..10).map(|_| s.spawn(|| unreachable!("it was cancelled"))).collect();
        first.wait().unwrap();
        later.into_iter().filter_map(|task: Task<'_, ()>| task.wait().err()).collect::<Vec<TaskError>>()
    })
    .unwrap();
    assert!(saw.into_inner());
    assert!(errors.iter().all(TaskError::is_cancelled) && errors.len() == 10);
    assert!(errors[0].to_string().ends_with("was cancelled before it began"), "{}", errors[0]);
    assert!(!cancelled());
}

#[test]
fn suspended_tasks_hold_no_thread_and_go_on_where_they_began() {
    const TASKS: usize = 2_000;
    let (gate, arrived) = (Semaphore::new(0), AtomicUsize::new(0));
    let threads = AtomicUsize::new(0);
    scope(|s| {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                s.spawn(|| {
                    let here = std::thread::current().id();
                    arrived.fetch_add(1, SeqCst);
                    gate.acquire().keep();
                    assert_eq!(here, std::thread::current().id());
                })
            })
            .collect();
        // The body runs none of them before it waits; a task waits for all to be suspended.
        s.spawn(|| {
            until(|| if arrived.load(SeqCst) == TASKS { Poll::Ready(()) } else { Poll::Pending });
            threads.store(std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count), SeqCst);
            (0..TASKS).for_each(|_| gate.release());
        })
        .wait()
        .unwrap();
        tasks.into_iter().for_each(|task| task.wait().unwrap());
    })
    .unwrap();
    let tests = std::thread::available_parallelism().map_or(1, usize::from) * 2;
    assert!(threads.into_inner() < 100 + tests);
}

#[test]
fn a_thread_that_waits_runs_tasks_of_its_own_scope_only() {
    let (begun, end) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        // Another scope's task, which may not end before this one's scope has.
        let other = threads.spawn(|| {
            scope(|s| {
                for _ in 0..64 {
                    drop(s.spawn(|| {
                        begun.store(true, SeqCst);
                        let here = std::thread::current();
                        assert_ne!(here.name(), Some("waits for its own"));
                        until(|| if end.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending });
                    }));
                }
            })
        });
        while !begun.load(SeqCst) {
            std::thread::yield_now();
        }
        let own = std::thread::Builder::new().name("waits for its own".into());
        let own =
            own.spawn_scoped(threads, || (0..50).for_each(|_| assert_eq!(fib_of_tasks(10), 55))).unwrap();
        own.join().unwrap();
        end.store(true, SeqCst);
        other.join().unwrap().unwrap();
    });
}

#[test]
fn callbacks_tell_each_change() {
    let changes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = changes.clone();
    scope(|s| {
        let task =
            s.task().name("told").on_change(move |state| told.lock().unwrap().push(state)).spawn(|| {
                assert_eq!(name().as_deref(), Some("told"));
                yield_now();
            });
        // On this stack it would not be suspended.
        until(|| if task.is_done() { Poll::Ready(()) } else { Poll::Pending });
    })
    .unwrap();
    let changes = changes.lock().unwrap();
    assert_eq!(*changes, [State::Running, State::Suspended, State::Resumed, State::Finished]);
}

#[test]
fn tasks_of_one_worker_run_on_one_thread() {
    let threads = Mutex::new(std::collections::HashMap::new());
    scope(|s| {
        for i in 0..400 {
            let (threads, worker) = (&threads, i % (2 * flash_tasks::worker_count()));
            let task = s.task().on_worker(worker).spawn(move || {
                yield_now();
                let of_worker = worker % flash_tasks::worker_count();
                let here = std::thread::current().id();
                assert_eq!(*threads.lock().entry(of_worker).or_insert(here), here);
            });
            // Some are waited for by a thread that must not run them.
            if i % 7 == 0 {
                task.wait().unwrap();
            }
        }
    })
    .unwrap();
    let threads = threads.into_inner();
    let different: std::collections::HashSet<_> = threads.values().collect();
    assert_eq!((threads.len(), different.len()), (flash_tasks::worker_count(), threads.len()));
}

#[test]
fn a_mutex_has_one_owner_across_suspensions() {
    let (value, inside) = (Mutex::new(0), AtomicUsize::new(0));
    scope(|s| {
        for _ in 0..200 {
            drop(s.spawn(|| {
                let mut value = value.lock();
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                yield_now();
                *value += 1;
                inside.fetch_sub(1, SeqCst);
            }));
        }
    })
    .unwrap();
    assert!(value.try_lock().is_some());
    assert_eq!(value.into_inner(), 200);
}

#[test]
fn locks_are_for_threads_outside_of_tasks_too() {
    let (queue, changed) = (Mutex::new(Vec::new()), Condvar::new());
    std::thread::scope(|threads| {
        let taker = threads.spawn(|| {
            let mut taken = Vec::new();
            while taken.len() < 100 {
                let mut queue = changed.wait_while(queue.lock(), |queue: &mut Vec<u32>| queue.is_empty());
                taken.append(&mut queue);
            }
            taken
        });
        scope(|s| {
            for i in 0..100 {
                let (queue, changed) = (&queue, &changed);
                drop(s.spawn(move || {
                    queue.lock().push(i);
                    changed.notify_one();
                }));
            }
        })
        .unwrap();
        let mut taken = taker.join().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn results_and_functions_are_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let dropped = AtomicUsize::new(0);
    scope(|s| {
        let spawn = || {
            let (captured, result) = (Counted(&dropped), Counted(&dropped));
            s.spawn(move || {
                let _captured = captured;
                result
            })
        };
        for i in 0..300 {
            let task = spawn();
            match i % 3 {
                0 => drop(task),
                1 => drop(task.wait().unwrap()),
                _ => {
                    until(|| if task.is_done() { Poll::Ready(()) } else { Poll::Pending });
                    drop(task);
                }
            }
        }
        s.cancel();
        drop(spawn());
    })
    .unwrap_err();
    assert_eq!(dropped.into_inner(), 602);
}

#[test]
fn futures_run_on_workers_and_wake_each_other() {
    let (send, receive) = channel();
    let first = spawn_async(async move { receive.recv().unwrap_or(0) });
    let second = spawn_async(async move { first.await.map(|value: i32| value * 2) });
    send.send(21).unwrap();
    assert_eq!(second.wait().unwrap().unwrap(), 42);
    let failed = spawn_async(async { panic!("in a future") });
    let failed: TaskError = failed.wait().unwrap_err();
    assert_eq!(failed.panic(), Some("in a future"));
    // Waited for by a task, and never waited for.
    let many: Vec<_> = (0..100_u64).map(|i| spawn_async(async move { i })).collect();
    let sum = scope(|s| s.spawn(move || many.into_iter().map(|one| one.wait().unwrap()).sum::<u64>()).wait());
    assert_eq!(sum.unwrap().unwrap(), 4950);
    drop(spawn_async(async {}));
}

/// Waits, with tasks and without them, until a number has grown by three.
fn grows(count: &AtomicUsize, tasks: bool) {
    let enough = count.load(SeqCst) + 3;
    let reached = || if count.load(SeqCst) < enough { Poll::Pending } else { Poll::Ready(()) };
    match tasks {
        true => scope(|s| (0..10).for_each(|_| drop(s.spawn(|| until(reached))))).unwrap(),
        false => until(reached),
    }
}

#[test]
fn services_are_called_while_tasks_run_and_while_none_do_until_they_end() {
    let counts: [&'static AtomicUsize; 2] = [(); 2].map(|()| &*Box::leak(Box::default()));
    let of = |count: &'static AtomicUsize| {
        let inside = AtomicUsize::new(0);
        service(Duration::ZERO, move || {
            // One call at a time, also while it is suspended.
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            yield_now();
            inside.fetch_sub(1, SeqCst);
            count.fetch_add(1, SeqCst);
        })
    };
    let [first, second] = counts.map(of);
    for tasks in [true, false, true] {
        counts.iter().for_each(|count| grows(count, tasks));
    }
    first.end().unwrap();
    let ended = counts[0].load(SeqCst);
    grows(counts[1], false);
    drop(second);
    let both = counts.map(|count| count.load(SeqCst));
    thread::sleep(Duration::from_millis(5));
    assert_eq!((both, both[0]), (counts.map(|count| count.load(SeqCst)), ended));
    // The thread that queues them has ended, and comes again.
    let third = of(counts[0]);
    grows(counts[0], true);
    third.end().unwrap();
}

#[test]
fn a_service_that_panics_is_not_called_again_and_says_so() {
    let calls: &AtomicUsize = Box::leak(Box::default());
    let service = service(Duration::ZERO, move || {
        assert!(calls.fetch_add(1, SeqCst) < 2, "the third call");
    });
    let reached = || if calls.load(SeqCst) < 3 { Poll::Pending } else { Poll::Ready(()) };
    until(reached);
    thread::sleep(Duration::from_millis(5));
    let error = service.end().unwrap_err();
    assert_eq!((error.panic(), calls.load(SeqCst)), (Some("the third call"), 3));
}

#[test]
fn rayon_and_tasks_nest_without_a_deadlock() {
    use rayon::prelude::*;
    fn both(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let below = |_| {
            let spawned = scope(|s| {
                let tasks: Vec<_> = (0..2)
                    .map(|_| {
                        s.spawn(|| {
                            yield_now();
                            both(depth - 1)
                        })
                    })
                    .collect();
                tasks.into_iter().map(|task| task.wait().unwrap()).sum::<u64>()
            });
            spawned.unwrap()
        };
        unsuspended(|| (0..4_u64).into_par_iter().map(below).sum())
    }
    assert_eq!(both(4), 8_u64.pow(4));
    assert_eq!(scope(|s| s.spawn(|| both(4)).wait()).unwrap().unwrap(), 8_u64.pow(4));
}

/// A tree of tasks.
#[derive(Clone, Debug)]
enum Work {
    Value(u32),
    Yield(Box<Work>),
    Join(Box<Work>, Box<Work>),
    /// Waited for in order, or the last first.
    Tasks(Vec<Work>, bool),
}

fn work() -> impl Strategy<Value = Work> {
    let leaf = (0..1000_u32).prop_map(Work::Value);
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            inner.clone().prop_map(|work| Work::Yield(Box::new(work))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Work::Join(Box::new(a), Box::new(b))),
            (prop::collection::vec(inner, 0..6), any::<bool>())
                .prop_map(|(all, back)| Work::Tasks(all, back)),
        ]
    })
}

impl Work {
    fn alone(&self) -> u64 {
        match self {
            Work::Value(value) => u64::from(*value),
            Work::Yield(work) => work.alone() + 1,
            Work::Join(a, b) => a.alone() * 3 + b.alone(),
            Work::Tasks(all, _) => all.iter().fold(7, |sum, work| sum * 31 % 1_000_003 + work.alone()),
        }
    }

    fn with_tasks(&self) -> u64 {
        match self {
            Work::Value(value) => u64::from(*value),
            Work::Yield(work) => {
                yield_now();
                work.with_tasks() + 1
            }
            Work::Join(a, b) => {
                let (a, b) = join(|| a.with_tasks(), || b.with_tasks());
                a * 3 + b
            }
            Work::Tasks(all, back) => scope(|s| {
                let mut tasks: Vec<_> = all.iter().map(|work| s.spawn(|| work.with_tasks())).collect();
                let mut results = Vec::new();
                while let Some(task) =
                    if *back { tasks.pop() } else { (!tasks.is_empty()).then(|| tasks.remove(0)) }
                {
                    results.push(task.wait().unwrap());
                }
                if *back {
                    results.reverse();
                }
                results.into_iter().fold(7, |sum, result| sum * 31 % 1_000_003 + result)
            })
            .unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn trees_of_tasks_give_what_one_thread_gives(work in work()) {
        prop_assert_eq!(work.with_tasks(), work.alone());
        let in_a_task = scope(|s| s.spawn(|| work.with_tasks()).wait());
        prop_assert_eq!(in_a_task.unwrap().unwrap(), work.alone());
    }
}

#[test]
fn an_overflow_of_a_tasks_stack_says_which_task_and_what_to_do() {
    const TEST: &str = "an_overflow_of_a_tasks_stack_says_which_task_and_what_to_do";
    const CHILD: &str = "FLASH_TASKS_OVERFLOW";
    fn deep(n: u64) -> u64 {
        let space = std::hint::black_box([n; 512]);
        if space[7] == u64::MAX { 0 } else { 1 + deep(space[7] + 1) + space[3] }
    }
    if let Ok(place) = std::env::var(CHILD) {
        if place == "none" {
            // As in a program in C, where nothing handles the signal. One that was sent is no overflow.
            // SAFETY: the default is set before tasks are used, and the signal sent to this thread after it.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            scope(|s| drop(s.spawn(|| ()))).unwrap();
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGSEGV) };
            return;
        }
        let result = scope(|s| {
            let task = if place == "worker" { s.task().on_worker(0).name("the deep one") } else { s.task() };
            task.spawn(|| deep(0)).wait().unwrap();
        });
        return result.unwrap();
    }
    let child = |place| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", TEST, "--nocapture"]).env(CHILD, place).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        (signal, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (signal, text) = child("none");
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}");
    assert!(!text.contains("overflowed"), "{text}");
    // On a stack of its own, and on that of the thread that waits for it.
    for (place, name) in [("worker", "`the deep one`"), ("waiting thread", TEST)] {
        let (signal, text) = child(place);
        assert!(matches!(signal, Some(libc::SIGSEGV | libc::SIGABRT)), "{place}: {signal:?}: {text}");
        for part in ["flash: the task `", name, "has overflowed its stack of ", " KiB", "FLASH_STACK_SIZE"] {
            assert!(text.contains(part), "{place}: no `{part}` in: {text}");
        }
    }
}
