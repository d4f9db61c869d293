//! The tasks whose picture is in `docs/tasks.md`: some that compute, and some that wait for others.
//!
//! `cargo run --release -p flash-trace --example tasks -- TRACE.svg`

use flash_tasks::{Priority, TaskGraph, scope};
use flash_trace::{Trace, span};
use std::hint::black_box;

fn computes(steps: u64) -> u64 {
    (0..black_box(40 * steps)).fold(1, |sum, i| black_box(sum ^ (sum << 5) ^ i))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("expected the name of a file for the trace")?;
    flash::get_runtime("ALL_CPU")?;
    // The workers are there before the trace begins.
    scope(|s| (0..64).for_each(|_| drop(s.spawn(|| computes(20_000)))))?;
    let trace = Trace::start();
    {
        let _span = span("a scope");
        scope(|s| {
            for i in 0..4 {
                drop(s.task().name(format!("outer {i}")).spawn(move || {
                    computes(30_000);
                    let inner = s.task().name(format!("inner {i}")).priority(Priority::High);
                    let inner = inner.spawn(|| computes(60_000));
                    computes(10_000);
                    // Suspended, unless it runs the inner one itself.
                    let inner = inner.wait();
                    computes(10_000);
                    inner
                }));
            }
        })?;
    }
    let mut graph = TaskGraph::new();
    let data: Vec<_> = (0..2).map(|_| graph.datum()).collect();
    for (name, datum) in [("left", data[0]), ("right", data[1])] {
        let task = graph.task(&[], &[datum], || {
            computes(50_000);
        });
        graph.name(task, name);
    }
    let sum = graph.task(&data, &[], || {
        computes(30_000);
    });
    graph.name(sum, "sum");
    {
        let _span = span("a graph");
        graph.run()?;
    }
    trace.end().write_svg(path)?;
    Ok(())
}
