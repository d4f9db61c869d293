//! What users of such systems have asked for, as far as no other file tests it.

use flash as _; // Its workers.
use flash_graph::{Cx, Error, Graph, GraphError, Out};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

type Done = Result<(), Error>;

/// The sum of `numbers` by a graph, whose nodes run graphs for the halves of them, and wait.
fn sum(numbers: &[u64]) -> Result<u64, Error> {
    if numbers.len() < 2 {
        return Ok(numbers.iter().sum());
    }
    let g = Graph::new("sum");
    let (halves, sums) = (g.input::<Vec<u64>>("halves"), g.output::<u64>("sums"));
    let inner = g.try_map("sum", |half: Vec<u64>| sum(&half)).replicas(2);
    g.edge(&halves, &inner);
    g.edge(&inner.out, &sums);
    let run = g.start()?;
    let (left, right) = numbers.split_at(numbers.len() / 2);
    run.push_all(&halves, [left.to_vec(), right.to_vec()])?;
    run.close();
    let sum = run.results(&sums).sum();
    run.wait()?;
    Ok(sum)
}

#[test]
fn graphs_run_inside_nodes_of_graphs_on_any_number_of_threads() -> Done {
    // 255 graphs, eight deep, several times more than there are threads.
    let numbers: Vec<u64> = (1..=256).collect();
    thread::scope(|s| {
        let sums: Vec<_> = (0..4).map(|_| s.spawn(|| sum(&numbers))).collect();
        for of_thread in sums {
            assert_eq!(of_thread.join().expect("no panic")?, 32_896);
        }
        Ok(())
    })
}

#[test]
fn an_error_of_a_graph_inside_a_node_is_the_nodes() -> Done {
    let g = Graph::new("outer");
    let a = g.input::<u32>("a");
    let node = g.each("node", |x: u32, (): &mut (), _: &mut Cx<'_>| {
        let g = Graph::new("inner");
        let b = g.input::<u32>("b");
        let fails = g.try_map("fails", |x: u32| if x == 3 { Err("three".into()) } else { Ok(x) });
        g.edge(&b, &fails);
        g.ignore(&fails.out);
        let run = g.start()?;
        run.push(&b, x)?;
        Ok(run.wait()?)
    });
    g.edge(&a, &node);
    let run = g.start()?;
    // It may have failed before all are pushed.
    let _ = run.push_all(&a, 0..10);
    let text = "node `fails` (replica 0) failed: three".into();
    assert_eq!(run.wait(), Err(GraphError::Failed { node: "node".into(), replica: 0, text }));
    Ok(())
}

#[test]
fn a_million_data_go_through_a_cycle_of_four_nodes_and_all_come_out() -> Done {
    const DATA: u64 = 1_000_000;
    let g = Graph::new("cycle");
    let (a, c) = (g.input::<(u64, u8)>("a"), g.output::<u64>("c"));
    let first = g.map("first", |(x, turns): (u64, u8)| (x + 1, turns)).unbounded();
    let second = g.map("second", |(x, turns): (u64, u8)| (x + 1, turns)).replicas(2);
    let third = g.map("third", |(x, turns): (u64, u8)| (x + 1, turns));
    type Turn = (Out<(u64, u8)>, Out<u64>);
    let fourth = g.each("fourth", |(x, turns): (u64, u8), out: &mut Turn, _: &mut Cx<'_>| {
        match turns {
            0 => out.1.emit(x),
            turns => out.0.emit((x, turns - 1)),
        }
        Ok(())
    });
    g.edge(&a, &first);
    g.edge(&first.out, &second);
    g.edge(&second.out, &third);
    g.edge(&third.out, &fourth);
    g.edge(&fourth.out.0, &first);
    g.edge(&fourth.out.1, &c);
    let run = g.start()?;
    run.push_all(&a, (0..DATA).map(|x| (x, (x % 3) as u8)))?;
    run.close();
    let (count, sum) = run.results(&c).fold((0, 0), |(count, sum), x| (count + 1, sum + x));
    run.wait()?;
    // Three nodes add one in each of the one to three turns.
    let expected = (0..DATA).map(|x| x + 3 * (x % 3 + 1)).sum::<u64>();
    assert_eq!((count, sum), (DATA, expected));
    Ok(())
}

#[test]
fn no_thread_is_in_a_node_when_wait_returns_with_an_error() -> Done {
    for _ in 0..50 {
        let inside = Arc::new(AtomicUsize::new(0));
        let count = inside.clone();
        let g = Graph::new("fails");
        let a = g.input::<u32>("a");
        let node = g.each("node", move |x: u32, (): &mut (), cx: &mut Cx<'_>| {
            count.fetch_add(1, Ordering::SeqCst);
            if x == 0 {
                count.fetch_sub(1, Ordering::SeqCst);
                return Err("the first".into());
            }
            while !cx.cancelled() {
                thread::yield_now();
            }
            (0..1000).for_each(|_| std::hint::spin_loop());
            count.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        });
        let node = node.replicas(3).dedicated();
        g.edge(&a, &node);
        let run = g.start()?;
        let _ = run.push_all(&a, [1, 2, 0]);
        assert!(matches!(run.wait(), Err(GraphError::Failed { .. })));
        assert_eq!(inside.load(Ordering::SeqCst), 0);
    }
    Ok(())
}

#[test]
fn a_graph_ends_though_what_fails_keeps_later_results_from_their_turn() -> Done {
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let g = Graph::new("ordered");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let node = g.try_map("node", move |x: u32| {
        if x > 0 {
            count.fetch_add(1, Ordering::SeqCst);
            return Ok(x);
        }
        while count.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        // The other replica now waits with its result for this one's.
        thread::sleep(Duration::from_millis(50));
        Err("the first".into())
    });
    let node = node.replicas(2).ordered().dedicated();
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    let run = g.start()?;
    run.push_all(&a, 0..2)?;
    run.close();
    assert_eq!(run.results(&c).count(), 0);
    let text = run.wait().expect_err("it failed").to_string();
    assert!(text.starts_with("node `node`") && text.ends_with("failed: the first"), "{text}");
    Ok(())
}
