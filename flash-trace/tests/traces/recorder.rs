//! What programs record themselves, and bounds.

use crate::{alone, alone_without_trace, shown};
use flash_trace::hooks::{self, Category, begin, data_in, data_out, on_stack, queue};
use flash_trace::{Trace, counter, instant, is_on, span};
use std::thread;

#[test]
fn spans_of_a_thread_nest_and_have_its_row() {
    let (_guard, trace) = alone();
    thread::Builder::new()
        .name("a \"thread\"\nof two lines".into())
        .spawn(|| {
            let _outer = span("outer \\ \u{1} ✓");
            (0..3).for_each(|_| drop(span("inner")));
            drop(span(""));
            instant("now");
            counter("level", 0.5);
            counter("level", f64::NAN);
            queue("scale", 7, 16);
        })
        .unwrap()
        .join()
        .unwrap();
    let shown = shown(&trace.end());
    let row = *shown.rows.iter().find(|(_, name)| name.starts_with("a \"thread\"")).unwrap().0;
    let outer = shown.named("outer \\ \u{1} ✓")[0];
    assert_eq!((outer.row, outer.depth, outer.category.as_str()), (row, 1, "program"));
    let inner = shown.named("inner");
    assert_eq!(inner.len(), 3);
    assert!(inner.iter().all(|span| span.depth == 2 && outer.begin <= span.begin && span.end <= outer.end));
    assert_eq!(shown.instants, ["now"]);
    assert_eq!(shown.counters["level"], [0.5, 0.0]);
    assert_eq!(shown.counters["scale: waiting"], [16.0]);
    assert_eq!(shown.dropped, 0);
}

#[test]
fn nothing_is_recorded_before_and_after_and_an_empty_trace_is_valid() {
    let _guard = alone_without_trace();
    drop(span("before"));
    let unended = span("begins before");
    let trace = Trace::start();
    assert!(is_on());
    drop(unended);
    let left_open = span("ends after");
    let recording = trace.end();
    assert!(!is_on());
    drop(left_open);
    drop(span("after"));
    let seen = shown(&recording);
    assert_eq!(seen.spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["ends after"]);
    let empty = shown(&Trace::start().end());
    assert!(empty.rows.is_empty() && empty.spans.is_empty());
}

#[test]
fn traces_that_overlap_have_what_happens_between_their_own_start_and_end() {
    let (_guard, first) = alone();
    drop(span("one"));
    let second = Trace::start();
    drop(span("two"));
    let first = first.end();
    drop(span("three"));
    let second = second.end();
    let names = |recording| shown(recording).spans.into_iter().map(|span| span.name).collect::<Vec<_>>();
    assert_eq!(names(&first), ["one", "two"]);
    assert_eq!(names(&second), ["two", "three"]);
}

#[test]
fn spans_of_another_stack_are_suspended_and_go_on() {
    let (_guard, trace) = alone();
    let own = span("own");
    let mut left = Vec::new();
    on_stack(1, || left.push(begin(Category::Task, "one", [1, 0])));
    on_stack(2, || left.push(begin(Category::Task, "two", [1, 0])));
    on_stack(1, || {
        drop(span("inside"));
        left.push(span("deeper"));
    });
    let inner = on_stack(1, || {
        drop(left.pop());
        drop(left.remove(0));
        span("last")
    });
    on_stack(2, || drop(left.pop()));
    // The guard is dropped elsewhere: the span of this stack ends, not that of the other.
    drop(inner);
    drop(own);
    let shown = shown(&trace.end());
    let pieces = |name| {
        let of =
            |span: &&crate::perfetto::Span| (span.depth, span.args["begins"] == "resumed", span.suspended);
        shown.named(name).iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(pieces("one"), [(2, false, true), (2, true, true), (2, true, false)]);
    assert_eq!(pieces("two"), [(2, false, true), (2, true, false)]);
    assert_eq!(pieces("inside"), [(3, false, false)]);
    assert_eq!(pieces("deeper"), [(3, false, true), (3, true, false)]);
    assert_eq!(pieces("last"), [(2, false, true)]);
    assert_eq!(pieces("own"), [(1, false, false)]);
}

#[test]
fn an_arrow_goes_from_the_batch_to_where_a_datum_of_it_comes() {
    let (_guard, trace) = alone();
    {
        let _span = span("sends");
        data_out("Tile", 7, 0, 4);
        data_out("Tile", 7, 4, 4);
        data_out("Tile", 8, 0, 4);
    }
    thread::spawn(|| {
        let _span = span("takes");
        data_in(7, 5);
        data_in(7, 0);
        data_in(8, 4); // it did not leave
        data_in(9, 0);
    })
    .join()
    .unwrap();
    // Without a span of their own.
    data_out("again", 7, 0, 1);
    data_in(7, 0);
    data_in(7, 0);
    let shown = shown(&trace.end());
    let arrows: Vec<_> = shown
        .flows
        .iter()
        .map(|flow| (flow.name.as_str(), &*shown.at(flow.from).name, &*shown.at(flow.to).name))
        .collect();
    let expected = [("Tile", "sends", "takes"), ("Tile", "sends", "takes"), ("again", "again", "again")];
    assert_eq!(arrows, expected);
}

#[test]
fn the_memory_of_a_million_spans_is_bounded_and_what_is_left_out_is_told() {
    let guard = alone_without_trace();
    let trace = Trace::bounded(1500);
    for _ in 0..1_000_000 {
        drop(span("tick"));
    }
    thread::spawn(|| drop(span("elsewhere"))).join().unwrap();
    flash_core::set_notices(false);
    let recording = trace.end();
    flash_core::set_notices(true);
    assert_eq!(recording.dropped(), 2_000_000 - 1500);
    let seen = shown(&recording);
    assert_eq!(seen.named("tick").len(), 750);
    assert_eq!(seen.named("elsewhere").len(), 1);
    assert_eq!(seen.dropped, recording.dropped());
    assert_eq!(seen.instants, ["no room for 1998500 events"]);
    drop(recording);

    // All threads together have 16 times as much, and names are bounded, too.
    let trace = Trace::bounded(1024);
    for _ in 0..20 {
        thread::spawn(|| (0..600).for_each(|_| drop(span("many")))).join().unwrap();
    }
    flash_core::set_notices(false);
    let recording = trace.end();
    flash_core::set_notices(true);
    assert_eq!(shown(&recording).named("many").len(), 16 * 512);
    let trace = Trace::start();
    (0..70_000).for_each(|i| instant(&format!("{i}{}", "x".repeat(300))));
    let mut json = Vec::new();
    trace.end().perfetto(&mut json).unwrap();
    let seen = crate::perfetto::read(&json);
    assert_eq!(seen.instants.len(), 70_000);
    assert!(seen.instants.iter().all(|name| name.len() <= 256));
    assert_eq!(seen.instants[69_999], "(one of too many names)");
    drop(guard);
}

/// Whatever is recorded, the files are valid.
#[test]
fn any_order_of_events_gives_valid_files() {
    let _guard = alone_without_trace();
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..100 {
        let trace = Trace::start();
        let mut open = Vec::new();
        fn steps(next: &mut impl FnMut(u64) -> u64, open: &mut Vec<hooks::Span>, depth: u32) {
            for _ in 0..next(20) {
                match next(8) {
                    0 | 1 => open.push(begin(Category::Node, ["a", "b"][next(2) as usize], [next(3), 1])),
                    2 | 3 => drop(open.pop()),
                    4 if depth < 4 => on_stack(1 + next(3), || steps(next, open, depth + 1)),
                    5 => data_out("datum", next(2), next(4), 1 + next(3) as usize),
                    6 => data_in(next(2), next(6)),
                    _ => queue("q", next(2), next(9) as usize),
                }
            }
        }
        steps(&mut next, &mut open, 0);
        shown(&trace.end());
    }
}
