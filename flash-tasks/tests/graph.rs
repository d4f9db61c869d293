//! Task graphs give what the order of their tasks gives.

use flash_backend_cpu as _;
use flash_tasks::{TaskError, TaskGraph, scope, unsuspended, yield_now};
use proptest::prelude::*;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::thread;

/// Tasks by what they read and write, of `data` data.
#[derive(Clone, Debug)]
struct Program {
    data: usize,
    tasks: Vec<(Vec<usize>, Vec<usize>)>,
}

fn programs() -> impl Strategy<Value = Program> {
    (1..12_usize, 0..80_usize).prop_flat_map(|(data, tasks)| {
        let some = move |most| prop::collection::vec(0..data, 0..most);
        prop::collection::vec((some(4), some(3)), tasks).prop_map(move |tasks| Program { data, tasks })
    })
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

impl Program {
    /// What a task makes of the data. Relaxed, so that only the graph orders the tasks.
    fn run(&self, task: usize, data: &[AtomicU64]) {
        let (reads, writes) = &self.tasks[task];
        let sum = reads.iter().fold(task as u64, |sum, &datum| mix(sum, data[datum].load(Relaxed)));
        for &datum in writes {
            data[datum].store(mix(data[datum].load(Relaxed), sum), Relaxed);
        }
    }

    fn data(&self) -> Vec<AtomicU64> {
        (0..self.data as u64).map(AtomicU64::new).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_gives_what_its_order_gives(program in programs(), runs in 1..4_usize, pauses in any::<bool>()) {
        let (alone, shared) = (program.data(), program.data());
        let mut graph = TaskGraph::new();
        let data: Vec<_> = (0..program.data).map(|_| graph.datum()).collect();
        for (index, (reads, writes)) in program.tasks.iter().enumerate() {
            let of = |indices: &[usize]| indices.iter().map(|&i| data[i]).collect::<Vec<_>>();
            let (program, shared) = (&program, &shared);
            graph.task(&of(reads), &of(writes), move || {
                if pauses && index % 3 == 0 {
                    yield_now();
                }
                program.run(index, shared);
            });
        }
        for _ in 0..runs {
            graph.run().unwrap();
            (0..program.tasks.len()).for_each(|task| program.run(task, &alone));
        }
        let values = |data: &[AtomicU64]| data.iter().map(|value| value.load(Relaxed)).collect::<Vec<_>>();
        prop_assert_eq!(values(&shared), values(&alone));
    }
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, SeqCst);
}

#[test]
fn wide_and_long_graphs_run_each_task_once_a_run() {
    for chain in [false, true] {
        let count = AtomicUsize::new(0);
        let mut graph = TaskGraph::new();
        let datum = graph.datum();
        for i in 0..10_000 {
            let count = &count;
            let writes: &[_] = if chain { &[datum] } else { &[] };
            graph.task(&[], writes, move || {
                let before = count.fetch_add(1, Relaxed);
                assert!(!chain || before % 10_000 == i);
            });
        }
        for run in 1..=3 {
            graph.run().unwrap();
            assert_eq!(count.load(Relaxed), run * 10_000);
        }
    }
}

#[test]
fn a_task_that_panics_ends_the_run_with_its_name() {
    let ran = AtomicUsize::new(0);
    let fails = std::sync::atomic::AtomicBool::new(true);
    let mut graph = TaskGraph::new();
    let datum = graph.datum();
    graph.task(&[], &[datum], || add(&ran));
    let second = graph.task(&[datum], &[datum], || assert!(!fails.load(SeqCst), "not yet"));
    graph.name(second, "second");
    graph.task(&[datum], &[], || add(&ran));
    assert_eq!(graph.run().unwrap_err().to_string(), "task `second` panicked: not yet");
    assert_eq!(ran.load(SeqCst), 1);
    // It can be run again.
    fails.store(false, SeqCst);
    graph.run().unwrap();
    assert_eq!(ran.load(SeqCst), 3);
}

#[test]
fn a_graph_grows_between_runs_and_takes_orders() {
    let log = std::sync::Mutex::new(Vec::new());
    let mut graph = TaskGraph::new();
    graph.run().unwrap();
    let say = |text| {
        let log = &log;
        move || log.lock().unwrap().push(text)
    };
    let first = graph.task(&[], &[], say("a"));
    graph.run().unwrap();
    let second = graph.task(&[], &[], say("b"));
    let third = graph.task(&[], &[], say("c"));
    graph.order(first, second);
    graph.order(second, third);
    graph.run().unwrap();
    assert_eq!(graph.len(), 3);
    drop(graph);
    assert_eq!(log.into_inner().unwrap(), ["a", "a", "b", "c"]);
}

#[test]
#[should_panic(expected = "task 1 was not added before task 0")]
fn an_order_against_time_is_refused() {
    let mut graph = TaskGraph::new();
    let (first, second) = (graph.task(&[], &[], || ()), graph.task(&[], &[], || ()));
    graph.order(second, first);
}

#[test]
#[should_panic(expected = "a datum of another graph was given")]
fn a_datum_of_another_graph_is_refused() {
    let datum = TaskGraph::new().datum();
    TaskGraph::new().task(&[datum], &[], || ());
}

#[test]
fn graphs_run_inside_tasks_and_tasks_inside_graphs() {
    let sum = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..8 {
            drop(s.spawn(|| {
                let mut graph = TaskGraph::new();
                for _ in 0..8 {
                    graph.task(&[], &[], || {
                        scope(|s| (0..8).for_each(|_| drop(s.spawn(|| add(&sum))))).unwrap();
                    });
                }
                graph.run().unwrap();
            }));
        }
    })
    .unwrap();
    assert_eq!(sum.into_inner(), 512);
}

#[test]
fn a_task_that_fails_ends_the_run_with_its_error_and_the_next_run_is_whole() {
    let (fails, ran) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let mut graph = TaskGraph::new();
    let datum = graph.datum();
    let first = graph.try_task(&[], &[datum], || match fails.load(Relaxed) {
        0 => Ok(()),
        _ => Err("no paper"),
    });
    graph.name(first, "print");
    graph.task(&[datum], &[], || _ = ran.fetch_add(1, Relaxed));
    let error = graph.run().unwrap_err();
    assert_eq!((error.to_string(), error.panic()), ("task `print` failed: no paper".into(), None));
    assert_eq!(ran.load(Relaxed), 0);
    fails.store(0, Relaxed);
    graph.run().unwrap();
    assert_eq!(ran.load(Relaxed), 1);
}

#[test]
fn a_launch_ends_with_its_future_and_keeps_no_thread() {
    // More than there are threads, each woken by a thread of its own once all have begun.
    let begun = Arc::new(Barrier::new(50));
    let ended = AtomicUsize::new(0);
    let mut graph = TaskGraph::new();
    let data: Vec<_> = (0..50).map(|_| graph.datum()).collect();
    for datum in &data {
        let begun = &begun;
        graph.launch(&[], &[*datum], move || {
            let (begun, woken) = (begun.clone(), Arc::new(AtomicUsize::new(0)));
            poll_fn(move |context| match woken.load(Acquire) {
                0 => {
                    let (begun, waker, woken) = (begun.clone(), context.waker().clone(), woken.clone());
                    thread::spawn(move || {
                        begun.wait();
                        woken.store(1, Release);
                        waker.wake();
                    });
                    Poll::Pending
                }
                _ => Poll::Ready(Ok::<_, TaskError>(())),
            })
        });
        graph.task(&[*datum], &[], || _ = ended.fetch_add(1, Relaxed));
    }
    for run in 1..=2 {
        graph.run().unwrap();
        assert_eq!(ended.load(Relaxed), 50 * run);
    }
}

#[test]
fn a_graph_runs_in_scopes_of_others_and_by_itself_in_turn() {
    let count = AtomicUsize::new(0);
    let mut graph = TaskGraph::new();
    let datum = graph.datum();
    for _ in 0..20 {
        graph.task(&[], &[], || _ = count.fetch_add(1, Relaxed));
        graph.task(&[], &[datum], yield_now);
    }
    for _ in 0..10 {
        graph.run().unwrap();
        scope(|s| {
            drop(s.spawn(|| graph.run().unwrap()));
            (0..20).for_each(|_| drop(s.spawn(yield_now)));
        })
        .unwrap();
        unsuspended(|| graph.run().unwrap());
    }
    assert_eq!(count.load(Relaxed), 600);
}
