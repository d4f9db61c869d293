//! Traces of tasks.

use crate::perfetto::{Shown, Span};
use crate::{alone, shown};
use flash_tasks::{Priority, TaskGraph, scope, spawn_async, yield_now};

/// The spans from which arrows come to a span.
fn causes<'a>(shown: &'a Shown, span: &Span) -> Vec<(&'a str, &'a str)> {
    let here = |flow: &&crate::perfetto::Flow| {
        flow.to.0 == span.row
            && (span.begin..=span.end).contains(&flow.to.1)
            && shown.at(flow.to).name == span.name
    };
    shown
        .flows
        .iter()
        .filter(here)
        .map(|flow| (flow.name.as_str(), shown.at(flow.from).name.as_str()))
        .collect()
}

#[test]
fn a_task_is_a_span_with_its_name_and_priority_from_where_it_was_spawned() {
    let (_guard, trace) = alone();
    let main = flash_trace::span("the program");
    scope(|s| {
        let outer = s.task().name("outer").priority(Priority::High).spawn(|| {
            let inner = s.task().name("inner").on_worker(0).spawn(|| ());
            inner.wait().unwrap();
        });
        outer.wait().unwrap();
    })
    .unwrap();
    drop(main);
    let shown = shown(&trace.end());
    let outer = shown.named("outer");
    assert_eq!(outer[0].args["priority"], 2);
    assert_eq!(outer[0].category, "task");
    assert_eq!(causes(&shown, outer[0]), [("spawn", "the program")]);
    let inner = shown.named("inner");
    assert_eq!(inner.len(), 1);
    assert_eq!(inner[0].args["bound to worker"], 1);
    assert_eq!(causes(&shown, inner[0]), [("spawn", "outer")]);
}

#[test]
fn a_task_that_waits_is_suspended_and_goes_on_on_its_row() {
    let (_guard, trace) = alone();
    scope(|s| {
        for name in ["ping", "pong"] {
            drop(s.task().name(name).on_worker(0).spawn(|| {
                for _ in 0..3 {
                    drop(flash_trace::span("a step"));
                    let _across = flash_trace::span("across");
                    yield_now();
                }
            }));
        }
    })
    .unwrap();
    let shown = shown(&trace.end());
    for name in ["ping", "pong"] {
        let pieces = shown.named(name);
        assert!(pieces.len() >= 3, "{pieces:?}");
        assert!(pieces.iter().all(|piece| piece.row == pieces[0].row));
        assert!(
            pieces[..pieces.len() - 1].iter().all(|piece| piece.suspended)
                && !pieces.last().unwrap().suspended
        );
        assert!(pieces[1..].iter().all(|piece| piece.args["begins"] == "resumed"));
    }
    assert_eq!(shown.named("a step").len(), 6);
    let worker = shown.named("tasks");
    assert!(worker.iter().any(|span| span.category == "worker"), "a worker's turns have spans");
}

#[test]
fn tasks_of_a_graph_have_arrows_from_what_they_wait_for() {
    let (_guard, trace) = alone();
    let mut graph = TaskGraph::new();
    let data = [graph.datum(), graph.datum()];
    let first = graph.task(&[], &[data[0]], || ());
    let second = graph.task(&[data[0]], &[data[1]], || ());
    graph.name(first, "writes");
    graph.name(second, "reads");
    graph.task(&[data[1]], &[], || ());
    graph.run().unwrap();
    graph.run().unwrap();
    let shown = shown(&trace.end());
    for reads in shown.named("reads") {
        assert_eq!(reads.args["number"], 1);
        assert_eq!(causes(&shown, reads), [("after", "writes")]);
    }
    let last = shown.named("task of a graph");
    assert_eq!((shown.named("reads").len(), last.len()), (2, 2));
    assert!(last.iter().all(|last| causes(&shown, last) == [("after", "reads")]));
}

#[test]
fn futures_panics_and_stolen_halves_give_a_valid_trace() {
    let (_guard, trace) = alone();
    fn fib(n: u32) -> u64 {
        if n < 2 {
            return n.into();
        }
        let (a, b) = flash_tasks::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    assert_eq!(fib(16), 987);
    assert_eq!(spawn_async(async { 42 }).wait().unwrap(), 42);
    let failed = scope(|s| drop(s.task().name("bad").spawn(|| panic!("on purpose"))));
    assert!(failed.is_err());
    let shown = shown(&trace.end());
    assert_eq!(shown.named("bad").len(), 1);
    let is_future = |span: &&Span| causes(&shown, span).iter().any(|(why, _)| *why == "wake");
    let future = shown.spans.iter().find(is_future).expect("the future's span");
    assert!(future.name.contains("futures_panics"), "{future:?}");
}
