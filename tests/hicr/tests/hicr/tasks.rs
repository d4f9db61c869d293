//! Tasks and workers: order, states, errors, and how workers sleep, stop and end.

use crate::{has, over_threads, text};
use flash::kernels::gemm::Gemm;
use flash_hicr::{
    ComputeManager, Crew, Error, ExecutionUnit, LocalSlot, Managers, Number, Queue, Resource, Scheduler,
    Task, TaskState, Worker, WorkerState, Workers, add, coroutines, devices, memory_of, suspend, wait_for,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

type Compute = Arc<dyn ComputeManager>;

fn task(name: impl Into<Arc<str>>, function: impl Fn() -> Result<(), Error> + Send + Sync + 'static) -> Task {
    Task::new(ExecutionUnit::new(name).function(move |_| function()), &[])
}

/// Several workers, on all processors.
fn crew(hicr: &Managers, tasks: &Compute, count: usize) -> Result<Crew, Error> {
    let cpus = hicr.compute.resources()?;
    let worker =
        |i: usize| Worker { on: cpus[i % cpus.len()].clone(), tasks_on: cpus[i % cpus.len()].clone() };
    Ok(Crew { loops: hicr.compute.clone(), tasks: tasks.clone(), workers: (0..count).map(worker).collect() })
}

/// Runs a body with workers whose tasks are coroutines, and threads.
fn over_both(count: usize, body: impl Fn(&Workers) -> Result<(), Error> + Send + Sync + 'static) {
    over_threads(1, move |hicr: Managers| {
        for tasks in [hicr.compute.clone(), coroutines(&hicr.topology)] {
            body(&Workers::start(&crew(&hicr, &tasks, count)?, Queue::oldest_first())?)?;
        }
        Ok(())
    });
}

/// Waits for a state that will come.
fn until(what: &str, is: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is() {
        assert!(start.elapsed().as_secs() < 60, "not after a minute: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_task_goes_through_its_states_and_callbacks_are_told() {
    over_both(2, |workers| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let one = task("one", || {
            assert_eq!(Task::current().map(|task| task.name().to_owned()).as_deref(), Some("one"));
            suspend()
        });
        let inner = told.clone();
        one.on_change(move |task, state| {
            assert_eq!(task.name(), "one");
            inner.lock().unwrap().push(state);
        });
        assert_eq!((one.state(), one.worker()), (TaskState::Waiting, None));
        has(
            &text(one.resume()),
            "resuming task `one`: expected it executing or suspended, found it not begun",
        );
        workers.add(&one)?;
        until("suspended", || one.state() == TaskState::Suspended);
        assert!(one.worker().is_some_and(|worker| worker < workers.count()));
        one.resume()?;
        workers.wait()?;
        assert_eq!(one.state(), TaskState::Finished);
        assert!(one.error().is_none());
        has(&text(one.resume()), "found it finished");
        has(&text(workers.add(&one)), "adding task `one`: it was added before");
        let mut told = told.lock().unwrap();
        // The last but one is told by this thread, beside those of the worker.
        told.sort_by_key(|state| format!("{state:?}"));
        use TaskState::{Executing, Finished, Ready, Suspended};
        assert_eq!(*told, [Executing, Executing, Finished, Ready, Ready, Suspended]);
        Ok(())
    });
}

#[test]
fn an_event_before_the_wait_is_not_lost() {
    over_both(2, |workers| {
        for _ in 0..200 {
            let (is_set, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (flag, tells) = (is_set.clone(), begun.clone());
            let waits = task("waits", move || {
                tells.store(true, SeqCst);
                while !flag.load(SeqCst) {
                    suspend()?;
                }
                Ok(())
            });
            workers.add(&waits)?;
            until("it has begun", || begun.load(SeqCst));
            // At some moment before, in or after its wait.
            is_set.store(true, SeqCst);
            let _ = waits.resume();
            workers.wait()?;
        }
        Ok(())
    });
}

#[test]
fn tasks_add_tasks_and_wait_for_them() {
    fn sum(from: u32, to: u32, total: &Arc<AtomicU32>) -> Task {
        let total = total.clone();
        task(format!("{from}..{to}"), move || {
            if to - from == 1 {
                total.fetch_add(from, SeqCst);
                return Ok(());
            }
            let halves = [(from, (from + to) / 2), ((from + to) / 2, to)].map(|(a, b)| sum(a, b, &total));
            halves.iter().try_for_each(add)?;
            wait_for(&halves.each_ref())?;
            assert!(halves.iter().all(|half| half.state() == TaskState::Finished));
            // Those that have finished are not waited for.
            wait_for(&halves.each_ref())
        })
    }
    over_both(3, |workers| {
        let total = Arc::new(AtomicU32::new(0));
        workers.add(&sum(0, 300, &total))?;
        workers.wait()?;
        assert_eq!(total.load(SeqCst), 300 * 299 / 2);
        Ok(())
    });
}

#[test]
fn a_task_that_ends_while_another_one_begins_to_wait_for_it_is_seen_once() {
    over_both(2, |workers| {
        let waits = task("waits", || {
            for _ in 0..10_000 {
                let child = task("child", || Ok(()));
                add(&child)?;
                wait_for(&[&child])?;
            }
            Ok(())
        });
        workers.add(&waits)?;
        workers.wait()
    });
}

#[test]
fn a_task_that_fails_fails_those_after_it_and_tells_what_waits() {
    over_both(2, |workers| {
        let fails = task("fails", || panic!("boom"));
        let [next, last, other] = ["next", "last", "other"].map(|name| task(name, || Ok(())));
        next.after(&[&other, &fails])?;
        last.after(&[&next])?;
        [&last, &next, &other, &fails].into_iter().try_for_each(|task| workers.add(task))?;
        let error = text(workers.wait());
        assert_eq!(error, "task `fails` failed: the execution unit `fails` panicked: boom");
        assert!(other.error().is_none());
        let why = last.error().expect("it did not run").to_string();
        assert_eq!(why, format!("task `next` failed: {error}"));
        // The error was told. What is added later sees it all the same.
        workers.wait()?;
        let late = task("late", || Ok(()));
        late.after(&[&fails])?;
        workers.add(&late)?;
        has(&text(workers.wait()), "task `late` failed: task `fails` failed");

        let asks = task("asks", || {
            let fails = task("inner", || Err(Error::Refused { what: "it".into(), why: "no".into() }));
            add(&fails)?;
            assert_eq!(text(wait_for(&[&fails])), "task `inner` failed: it: no");
            has(&text(add(&fails)), "it was added before");
            let me = Task::current().expect("a task");
            has(&text(wait_for(&[&me])), "it is the calling task itself");
            Ok(())
        });
        workers.add(&asks)?;
        has(&text(workers.wait()), "task `inner` failed: it: no");
        assert!(asks.error().is_none(), "{:?}", asks.error());
        Ok(())
    });
}

#[test]
fn what_cannot_be_is_refused() {
    over_both(1, |workers| {
        let [a, b] = ["a", "b"].map(|name| task(name, || Ok(())));
        has(
            &text(a.after(&[&b, &a])),
            "letting `a` run after others: expected others, found the task itself",
        );
        has(&text(wait_for(&[&a])), "no task runs the calling code");
        has(&text(add(&a)), "adding task `a`: no task runs the calling code");
        a.after(&[&b])?;
        workers.add(&a)?;
        has(&text(a.after(&[&b])), "expected it not yet added");
        has(
            &text(workers.wait()),
            "the 1 that are left wait for tasks that were not added, or for each other",
        );
        workers.add(&b)?;
        workers.wait()?;
        let [c, d] = ["c", "d"].map(|name| task(name, || Ok(())));
        c.after(&[&d])?;
        d.after(&[&c])?;
        workers.add(&c)?;
        workers.add(&d)?;
        has(&text(workers.wait()), "the 2 that are left");
        let device = Task::new(ExecutionUnit::new("kernel"), &[]);
        workers.add(&device)?;
        until("it has failed", || device.state() == TaskState::Finished);
        has(&device.error().expect("no form").to_string(), "this manager runs functions");
        Ok(())
    });
    over_threads(1, |hicr| {
        let mut few = Crew::of(&hicr.compute, &hicr.compute)?;
        few.workers[0].tasks_on = Resource::Cpu(100_000);
        has(&text(Workers::start(&few, Queue::oldest_first())), "expected one of");
        few.workers.clear();
        has(&text(Workers::start(&few, Queue::oldest_first())), "expected one at least, found none");
        Ok(())
    });
}

/// Gives nothing until it is open.
struct Door {
    open: AtomicBool,
    queue: Queue,
    asked: AtomicU32,
}

impl Scheduler for Door {
    fn push(&self, task: Task) {
        self.queue.push(task);
    }

    fn pull(&self, worker: usize) -> Option<Task> {
        self.asked.fetch_add(1, SeqCst);
        self.open.load(SeqCst).then(|| self.queue.pull(worker)).flatten()
    }
}

#[test]
fn a_worker_sleeps_while_pull_gives_nothing_until_it_is_woken() {
    over_threads(1, |hicr| {
        let queue = Queue::oldest_first();
        let door = Arc::new(Door { open: AtomicBool::new(false), queue, asked: AtomicU32::new(0) });
        let crew = crew(&hicr, &coroutines(&hicr.topology), 2)?;
        let workers = Workers::start(&crew, door.clone())?;
        let one = task("one", || Ok(()));
        workers.add(&one)?;
        let sleep = || (0..2).all(|worker| workers.state(worker) == WorkerState::Waiting);
        until("both sleep", sleep);
        let asked = door.asked.load(SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!((door.asked.load(SeqCst), one.state()), (asked, TaskState::Ready));
        door.open.store(true, SeqCst);
        workers.wake();
        workers.wait()?;
        until("both sleep again", sleep);
        Ok(())
    });
}

#[test]
fn suspended_and_limited_workers_begin_nothing() {
    over_both(3, |workers| {
        let by = |count: usize| -> Result<BTreeSet<usize>, Error> {
            let tasks: Vec<Task> = (0..count).map(|i| task(format!("{i}"), suspend)).collect();
            tasks.iter().try_for_each(|task| workers.add(task))?;
            until("all have begun", || tasks.iter().all(|task| task.state() == TaskState::Suspended));
            tasks.iter().try_for_each(Task::resume)?;
            workers.wait()?;
            Ok(tasks.iter().filter_map(Task::worker).collect())
        };
        workers.suspend(0);
        workers.suspend(2);
        until("suspended", || [0, 2].iter().all(|one| workers.state(*one) == WorkerState::Suspended));
        assert_eq!(by(30)?, BTreeSet::from([1]));
        // What a worker has begun goes on when it does.
        let waits = task("waits", suspend);
        workers.add(&waits)?;
        until("begun", || waits.state() == TaskState::Suspended);
        workers.suspend(1);
        until("suspended", || workers.state(1) == WorkerState::Suspended);
        waits.resume()?;
        workers.resume(0);
        workers.resume(2);
        assert_eq!(waits.state(), TaskState::Ready);
        workers.resume(1);
        workers.wait()?;
        workers.set_limit(1);
        until("asleep", || (0..3).all(|one| workers.state(one) == WorkerState::Waiting));
        assert_eq!(by(30)?, BTreeSet::from([0]));
        // At least one.
        workers.set_limit(0);
        assert_eq!(by(3)?, BTreeSet::from([0]));
        workers.set_limit(usize::MAX);
        by(30).map(drop)
    });
}

#[test]
fn workers_end_with_what_is_suspended_and_what_has_not_begun() {
    struct Counts(Arc<AtomicU32>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    over_threads(1, |hicr| {
        for tasks in [hicr.compute.clone(), coroutines(&hicr.topology)] {
            let workers = Workers::start(&crew(&hicr, &tasks, 2)?, Queue::oldest_first())?;
            let ends = Arc::new(AtomicU32::new(0));
            let inner = ends.clone();
            let suspended = task("suspended", move || {
                let _counts = Counts(inner.clone());
                suspend()?;
                unreachable!("its workers have ended")
            });
            let never = task("never", || unreachable!("it comes after one that did not end"));
            never.after(&[&suspended])?;
            workers.add(&suspended)?;
            workers.add(&never)?;
            until("suspended", || suspended.state() == TaskState::Suspended);
            drop(workers);
            assert_eq!(ends.load(SeqCst), 1);
            has(
                &suspended.error().expect("released").to_string(),
                "its workers ended while it was suspended",
            );
            has(&never.error().expect("not run").to_string(), "task `suspended` failed");
        }
        Ok(())
    });
}

#[test]
fn a_panic_of_the_scheduler_and_a_task_pulled_twice_end_the_workers() {
    struct Panics;
    impl Scheduler for Panics {
        fn push(&self, _: Task) {}
        fn pull(&self, _: usize) -> Option<Task> {
            panic!("no idea")
        }
    }
    /// Gives each task for ever.
    #[derive(Default)]
    struct Again(Mutex<Option<Task>>);
    impl Scheduler for Again {
        fn push(&self, task: Task) {
            *self.0.lock().unwrap() = Some(task);
        }
        fn pull(&self, _: usize) -> Option<Task> {
            self.0.lock().unwrap().clone()
        }
    }
    over_threads(1, |hicr| {
        let crew = crew(&hicr, &coroutines(&hicr.topology), 1)?;
        // It is asked before anything is added.
        match Workers::start(&crew, Panics) {
            Err(error) => {
                has(&error.to_string(), "the scheduler, or a callback of a task, on worker 0 panicked")
            }
            Ok(workers) => {
                until("it has asked", || workers.state(0) == WorkerState::Terminated);
                has(&text(workers.wait()), "no worker goes on: the scheduler, or a callback of a task");
            }
        }
        let workers = Workers::start(&crew, Again::default())?;
        workers.add(&task("again", || Ok(())))?;
        until("the second pull", || workers.state(0) == WorkerState::Terminated);
        has(
            &text(workers.wait()),
            "expected one that was pushed and not yet pulled, found `again`, which is Finished",
        );
        has(&text(workers.add(&task("late", || Ok(())))), "adding task `late`: the workers have ended");
        let workers = Workers::start(&crew, Queue::oldest_first())?;
        let one = task("one", || Ok(()));
        one.on_change(|_, state| assert_ne!(state, TaskState::Finished));
        workers.add(&one)?;
        has(&text(workers.wait()), "or a callback of a task, on worker 0 panicked");
        Ok(())
    });
}

#[test]
fn kernels_of_devices_are_tasks_of_workers_on_processors() {
    over_threads(1, |hicr| {
        let devices = devices("ALL_CPU")?;
        let space = devices.memory.spaces()?[0].clone();
        let number = |value: f64| -> Result<LocalSlot, Error> {
            let slot = devices.memory.alloc_numbers(&space, Number::F64, 1)?;
            slot.write(0, &value.to_ne_bytes())?;
            Ok(slot)
        };
        // `c = a * b + 2 * c`: another order has another result.
        let doubles = ExecutionUnit::new("doubles").kernel(|rt, slots| {
            let [a, b, c] = [&slots[0], &slots[1], &slots[2]].map(memory_of::<f64>);
            let gemm = Gemm::of(1.0, 2.0, 1, 1, 0, 0, 1, 1, 1, a?, b?, c?);
            let shapes: [&[u64]; 3] = [&[], &[], &[1, 1]];
            Ok(rt.submit(gemm).sizes(shapes).defer([1]))
        });
        let (one, sum) = (number(1.0)?, number(0.0)?);
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        let slots = |value: f64| Ok::<_, Error>([one.clone(), number(value)?, sum.clone()]);
        let tasks = values.iter().map(|value| Ok(Task::new(doubles.clone(), &slots(*value)?)));
        let tasks = tasks.collect::<Result<Vec<Task>, Error>>()?;
        tasks.windows(2).try_for_each(|pair| pair[1].after(&[&pair[0]]))?;
        let workers = Workers::start(&Crew::of(&hicr.compute, &devices.compute)?, Queue::newest_first())?;
        tasks.iter().rev().try_for_each(|task| workers.add(task))?;
        workers.wait()?;
        let expected = values.iter().fold(0.0, |sum, value| value + 2.0 * sum);
        assert_eq!(sum.values::<f64>(0, 1)?, [expected]);
        Ok(())
    });
}

#[test]
fn stretches_of_tasks_are_spans_of_their_workers() {
    over_both(1, |workers| {
        let trace = flash_trace::Trace::start();
        let traced = task("traced", suspend);
        workers.add(&traced)?;
        until("suspended", || traced.state() == TaskState::Suspended);
        traced.resume()?;
        workers.wait()?;
        let mut text = Vec::new();
        trace.end().perfetto(&mut text).expect("memory has room");
        let text = String::from_utf8_lossy(&text);
        assert_eq!(text.matches("\"traced\"").count(), 2, "{text}");
        Ok(())
    });
}

#[test]
fn a_long_chain_that_fails_at_its_beginning_fails_at_its_end() {
    over_both(1, |workers| {
        let first = task("first", || Err(Error::Refused { what: "it".into(), why: "no".into() }));
        let chain: Vec<Task> =
            std::iter::once(first).chain((1..3000).map(|i| task(format!("{i}"), || Ok(())))).collect();
        chain.windows(2).try_for_each(|pair| pair[1].after(&[&pair[0]]))?;
        chain.iter().rev().try_for_each(|task| workers.add(task))?;
        has(&text(workers.wait()), "task `first` failed: it: no");
        assert!(chain.iter().all(|task| task.error().is_some()));
        Ok(())
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Tasks append to lists in the order of a random graph; inserted in random order, each list is what a
    /// loop over the tasks gives.
    #[test]
    fn tasks_inserted_in_any_order_do_what_a_loop_does(
        tasks in prop::collection::vec((0..4_usize, any::<bool>()), 1..60),
        order in any::<u64>(),
        workers in 1..4_usize,
        newest in any::<bool>(),
    ) {
        over_threads(1, move |hicr| {
            for compute in [hicr.compute.clone(), coroutines(&hicr.topology)] {
                let lists: Arc<[Mutex<Vec<usize>>; 4]> = Arc::default();
                let mut all: Vec<Task> = Vec::new();
                let mut last: [Option<usize>; 4] = [None; 4];
                for (number, (list, suspends)) in tasks.iter().copied().enumerate() {
                    let lists = lists.clone();
                    let one = task(format!("{number}"), move || {
                        if suspends {
                            // Once, at most.
                            Task::current().expect("a task").resume()?;
                            suspend()?;
                        }
                        lists[list].lock().unwrap().push(number);
                        Ok(())
                    });
                    let before = last[list].replace(number);
                    one.after(&before.iter().map(|before| &all[*before]).collect::<Vec<_>>())?;
                    all.push(one);
                }
                let queue = if newest { Queue::newest_first() } else { Queue::oldest_first() };
                let crew = crew(&hicr, &compute, workers)?;
                let workers = Workers::start(&crew, queue)?;
                let mut shuffled: Vec<&Task> = all.iter().collect();
                let mut random = order | 1;
                for at in (1..shuffled.len()).rev() {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    shuffled.swap(at, (random >> 33) as usize % (at + 1));
                }
                shuffled.into_iter().try_for_each(|task| workers.add(task))?;
                workers.wait()?;
                for (list, found) in lists.iter().enumerate() {
                    let expected: Vec<usize> = (0..tasks.len()).filter(|i| tasks[*i].0 == list).collect();
                    assert_eq!(*found.lock().unwrap(), expected);
                }
            }
            Ok(())
        });
    }
}
