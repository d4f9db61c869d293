//! How graphs end before their time, and which do not start.

use flash as _; // Its workers.
use flash_graph::{Cx, Error, Graph, GraphError, Node, Out, Pool, Pooled, PushError, Receive};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

type Done = Result<(), Error>;

/// A datum that is counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn fails(how: fn(u32) -> Done) -> (GraphError, usize) {
    let alive = Arc::new(AtomicUsize::new(0));
    let g = Graph::new("fails");
    let (a, c) = (g.input::<(u32, Counted)>("a"), g.output::<Counted>("c"));
    let node = g.scope("inner", |g| {
        g.try_map("node", move |(x, counted): (u32, Counted)| {
            how(x)?;
            Ok(counted)
        })
    });
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    let run = g.start().expect("it is sound");
    let pushed = run.push_all(&a, (0..1000).map(|x| (x, Counted::new(&alive))));
    // The pusher helps, so it has met the failure.
    assert!(matches!(pushed, Err(PushError::Closed(_))));
    assert_eq!(run.push(&a, (1, Counted::new(&alive))).map_err(|_| ()), Err(()));
    assert_eq!(run.results(&c).count(), 0);
    let error = run.wait().expect_err("a node failed");
    (error, alive.load(Ordering::SeqCst))
}

#[test]
fn an_error_of_a_node_ends_the_graph_and_drops_its_data() {
    let (error, alive) = fails(|x| if x == 7 { Err("seven".into()) } else { Ok(()) });
    assert_eq!(error, GraphError::Failed { node: "inner/node".into(), replica: 0, text: "seven".into() });
    assert_eq!(error.to_string(), "node `inner/node` (replica 0) failed: seven");
    assert_eq!(alive, 0);
}

#[test]
fn a_panic_of_a_node_ends_the_graph_and_it_is_not_called_again() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let (error, alive) = fails(|x| {
        CALLS.fetch_add(1, Ordering::SeqCst);
        assert!(x != 7, "not {x}");
        Ok(())
    });
    assert_eq!(error, GraphError::Panicked { node: "inner/node".into(), replica: 0, text: "not 7".into() });
    assert_eq!((alive, CALLS.load(Ordering::SeqCst)), (0, 8));
}

#[test]
fn errors_of_start_and_finish_end_the_graph() -> Done {
    struct Fails(bool);
    impl Node for Fails {
        type Out = ();
        fn start(&mut self, (): &mut (), _: &mut Cx<'_>) -> Done {
            if self.0 { Err("start".into()) } else { Ok(()) }
        }
        fn finish(&mut self, (): &mut (), _: &mut Cx<'_>) -> Done {
            Err("finish".into())
        }
    }
    impl Receive<u32> for Fails {
        fn receive(&mut self, _: u32, (): &mut (), _: &mut Cx<'_>) -> Done {
            Ok(())
        }
    }
    for (at_start, text) in [(true, "start"), (false, "finish")] {
        let g = Graph::new("fails");
        let a = g.input::<u32>("a");
        let node = g.node("node", move |_| Fails(at_start));
        g.edge(&a, &node);
        let run = g.start()?;
        assert_eq!(run.push(&a, 1).is_err(), at_start);
        let failed = GraphError::Failed { node: "node".into(), replica: 0, text: text.into() };
        assert_eq!(run.wait(), Err(failed));
    }
    Ok(())
}

/// A graph whose node runs until it is told that it is in vain.
fn told(limit: Option<Duration>, end: impl FnOnce(&flash_graph::Run)) -> Result<GraphError, Error> {
    let (inside, is_inside) = mpsc::channel();
    let hooked = Arc::new(AtomicBool::new(false));
    let hook = hooked.clone();
    let g = Graph::new("told");
    let a = g.input::<u32>("a");
    let node = g
        .each("node", move |_: u32, (): &mut (), cx: &mut Cx<'_>| {
            inside.send(()).ok();
            while !cx.cancelled() {
                thread::yield_now();
            }
            Ok(())
        })
        .dedicated()
        .on_cancel(move || hook.store(true, Ordering::SeqCst));
    g.edge(&a, &node);
    if let Some(limit) = limit {
        g.time_limit(limit);
    }
    let run = g.start()?;
    run.push_all(&a, 0..10)?;
    is_inside.recv()?;
    end(&run);
    let error = run.wait().expect_err("it was ended");
    assert!(hooked.load(Ordering::SeqCst));
    assert!(is_inside.try_recv().is_err(), "it is called no more");
    Ok(error)
}

#[test]
fn a_graph_that_is_cancelled_ends_and_its_nodes_are_told() -> Done {
    assert_eq!(told(None, |run| run.cancel())?, GraphError::Cancelled);
    Ok(())
}

#[test]
fn a_graph_ends_at_its_time_limit() -> Done {
    let limit = Duration::from_millis(20);
    assert_eq!(told(Some(limit), |_| ())?, GraphError::TimeLimit(limit));
    // Also if nothing runs.
    let g = Graph::new("late");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    g.edge(&a, &c);
    g.time_limit(limit);
    let run = g.start()?;
    assert_eq!(run.results(&c).next(), None);
    assert_eq!(run.wait(), Err(GraphError::TimeLimit(limit)));
    Ok(())
}

#[test]
fn a_graph_that_is_dropped_is_cancelled() -> Done {
    let alive = Arc::new(AtomicUsize::new(0));
    let g = Graph::new("dropped");
    let (a, c) = (g.input::<Counted>("a"), g.output::<Counted>("c"));
    let node = g.map("node", |x: Counted| x);
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    let run = g.start()?;
    run.push_all(&a, (0..100).map(|_| Counted::new(&alive)))?;
    drop(run);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    Ok(())
}

#[test]
fn nodes_wait_for_things_of_a_pool_which_are_used_again() -> Done {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let tiles = Pool::new("tiles", 3, move || {
        count.fetch_add(1, Ordering::SeqCst);
        vec![0u32; 16]
    });
    let g = Graph::new("pool");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let pool = tiles.clone();
    let fill = g
        .each("fill", move |x: u32, out: &mut Out<Pooled<Vec<u32>>>, cx: &mut Cx<'_>| {
            let mut tile = pool.take(cx);
            tile.fill(x);
            out.emit(tile);
            Ok(())
        })
        .replicas(2)
        .takes(&tiles, 1);
    let sum = g.map("sum", |tile: Pooled<Vec<u32>>| tile.iter().sum::<u32>());
    g.edge(&a, &fill);
    g.edge(&fill.out, &sum);
    g.edge(&sum.out, &c);
    let run = g.start()?;
    run.push_all(&a, 0..1000)?;
    run.close();
    let mut sums: Vec<u32> = run.results(&c).collect();
    sums.sort_unstable();
    assert_eq!(sums, (0..1000).map(|x| 16 * x).collect::<Vec<_>>());
    run.wait()?;
    assert!((1..=3).contains(&made.load(Ordering::SeqCst)));
    assert_eq!((tiles.free(), tiles.capacity()), (3, 3));
    assert!(tiles.try_take().is_some());
    Ok(())
}

#[test]
fn what_a_node_may_not_take_is_a_panic_with_the_pools_name() -> Done {
    let tiles = Pool::new("tiles", 3, || ());
    let (pool, g) = (tiles.clone(), Graph::new("pool"));
    let a = g.input::<u32>("a");
    let node = g.each("node", move |_: u32, (): &mut (), cx: &mut Cx<'_>| {
        let _both = (pool.take(cx), pool.take(cx));
        Ok(())
    });
    let node = node.takes(&tiles, 1);
    g.edge(&a, &node);
    let run = g.start()?;
    run.push(&a, 1)?;
    let Err(GraphError::Panicked { text, .. }) = run.wait() else { panic!("it took too many") };
    assert_eq!(
        text,
        "node `node` takes more from pool `tiles` than the 1 for one datum of its `.takes(&pool, ..)`"
    );
    assert_eq!(tiles.free(), 3);
    Ok(())
}

#[test]
fn a_graph_that_cannot_go_on_says_what_waits_for_what() -> Done {
    // The join waits for the second of a pair, and keeps the tile that making it takes.
    let tiles = Pool::new("tiles", 2, || ());
    let (pool, g) = (tiles.clone(), Graph::new("stuck"));
    let (a, b) = (g.input::<u32>("a"), g.input::<u32>("b"));
    let c = g.output::<(u32, u32)>("c");
    let take = g
        .each("take", move |x: u32, out: &mut Out<(u32, Pooled<()>)>, cx: &mut Cx<'_>| {
            out.emit((x, pool.take(cx)));
            Ok(())
        })
        .takes(&tiles, 1);
    let pair = g.join("pair", (&take.out, &b), |x| x.0, |b| *b);
    let bare = g.map("bare", |(a, b): ((u32, Pooled<()>), u32)| (a.0, b));
    g.edge(&a, &take);
    g.edge(&pair.out, &bare);
    g.edge(&bare.out, &c);
    let run = g.start()?;
    run.push_all(&a, 0..3)?;
    run.push(&b, 2)?;
    let start = Instant::now();
    let Err(error) = run.wait() else { panic!("it cannot end") };
    assert!(start.elapsed() < Duration::from_secs(30));
    let text = error.to_string();
    assert!(matches!(error, GraphError::Stuck { .. }), "{text}");
    for part in [
        "`take` has 1 data and waits for 1 of pool `tiles`, which has 0 of 2 free",
        "`pair` holds 2 data of its first and 1 of its second edge without a partner",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(tiles.free(), 2);
    Ok(())
}

#[test]
fn a_pool_serves_two_graphs_and_neither_is_stuck_while_the_other_has_it() -> Done {
    let tiles = Pool::new("tiles", 1, || ());
    let graph = || {
        let (pool, g) = (tiles.clone(), Graph::new("shares"));
        let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
        let node = g.each("node", move |x: u32, out: &mut Out<(u32, Pooled<()>)>, cx: &mut Cx<'_>| {
            out.emit((x, pool.take(cx)));
            Ok(())
        });
        let node = node.takes(&tiles, 1);
        let bare = g.map("bare", |(x, _tile): (u32, Pooled<()>)| x);
        g.edge(&a, &node);
        g.edge(&node.out, &bare);
        g.edge(&bare.out, &c);
        g.start().map(|run| (run, a, c))
    };
    let ((one, a, c), (two, b, d)) = (graph()?, graph()?);
    thread::scope(|s| {
        s.spawn(|| {
            one.push_all(&a, 0..2000).expect("it is open");
            one.close();
            assert!(one.results(&c).eq(0..2000));
        });
        two.push_all(&b, 0..2000).expect("it is open");
        two.close();
        assert!(two.results(&d).eq(0..2000));
    });
    one.wait()?;
    two.wait()?;
    Ok(())
}

fn refused(build: impl FnOnce(&Graph)) -> Vec<String> {
    let g = Graph::new("refused");
    build(&g);
    match g.start() {
        Err(GraphError::Refused { faults }) => faults,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was started"),
    }
}

#[test]
fn outputs_and_inputs_that_lead_nowhere_are_refused() {
    let faults = refused(|g| {
        let a = g.input::<u32>("a");
        g.input::<u32>("b");
        let node = g.map("node", |x: u32| x);
        g.edge(&a, &node);
    });
    assert_eq!(
        faults,
        [
            "output `out` of node `node` leads nowhere: expected an edge, or `ignore`",
            "input `b` leads nowhere: expected an edge, or `ignore`"
        ]
    );
}

#[test]
fn an_output_may_be_ignored() -> Done {
    let g = Graph::new("ignored");
    let a = g.input::<u32>("a");
    let node = g.map("node", |x: u32| x);
    g.edge(&a, &node);
    g.ignore(&node.out);
    let run = g.start()?;
    run.push_all(&a, 0..1000)?;
    run.wait()?;
    Ok(())
}

#[test]
fn nodes_and_outputs_that_nothing_reaches_are_refused() {
    let faults = refused(|g| {
        g.output::<u32>("c");
        let (one, two) = (g.map("one", |x: u32| x).unbounded(), g.map("two", |x: u32| x));
        let end = g.output::<u32>("end");
        g.edge(&one.out, &two);
        g.edge(&two.out, &one);
        g.edge_of_copies(&two.out, &end);
    });
    assert_eq!(
        faults,
        [
            "output `c` of the graph gets nothing: no edge leads to it from an input or a source",
            "node `one` gets nothing: no edge leads to it from an input or a source",
            "node `two` gets nothing: no edge leads to it from an input or a source",
            "output `end` of the graph gets nothing: no edge leads to it from an input or a source"
        ]
    );
}

#[test]
fn cycles_that_may_fill_or_have_no_way_out_are_refused() {
    let faults = refused(|g| {
        let a = g.input::<u32>("a");
        let (one, two) = (g.map("one", |x: u32| x), g.map("two", |x: u32| x));
        g.edge(&a, &one);
        g.edge(&one.out, &two);
        g.edge(&two.out, &one);
    });
    assert_eq!(
        faults,
        [
            "no edge leaves the cycle of `one`, `two`: expected one, or a node without outputs",
            "all inboxes in the cycle of `one`, `two` are bounded, so it may fill and stop: make one `.unbounded()`"
        ]
    );
}

#[test]
fn two_edges_that_take_the_same_datum_are_refused() {
    let faults = refused(|g| {
        let a = g.input::<u32>("a");
        let (c, d) = (g.output::<u32>("c"), g.output::<u32>("d"));
        g.edge(&a, &c);
        g.edge(&a, &d);
    });
    assert_eq!(
        faults,
        ["input `a` has 2 edges that each take the datum (`u32`): make all but one by `edge_of_copies`"]
    );
}

#[test]
fn a_pool_that_is_too_small_and_no_replicas_are_refused() {
    let tiles = Pool::new("tiles", 2, || ());
    let faults = refused(|g| {
        let a = g.input::<u32>("a");
        let node = g.each("node", |_: u32, (): &mut (), _: &mut Cx<'_>| Ok(())).takes(&tiles, 3).replicas(0);
        g.edge(&a, &node);
    });
    assert_eq!(
        faults,
        [
            "node `node` takes 3 of pool `tiles` for each datum, which has 2: expected at least as many",
            "node `node` has 0 replicas: expected 1 to 4094"
        ]
    );
}

#[test]
fn a_node_emits_later_from_another_thread_before_the_graph_ends() -> Done {
    let g = Graph::new("later");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let node = g.each("node", |x: u32, out: &mut Out<u32>, cx: &mut Cx<'_>| {
        let mut later = cx.later(out);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(u64::from(x)));
            later.out.emit(x);
        });
        Ok(())
    });
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    let run = g.start()?;
    run.push_all(&a, [60, 30, 1])?;
    run.close();
    let mut results: Vec<u32> = run.results(&c).collect();
    results.sort_unstable();
    assert_eq!(results, [1, 30, 60]);
    run.wait()?;
    Ok(())
}

#[test]
fn what_is_emitted_after_a_failure_does_not_keep_the_graph_from_ending() -> Done {
    let g = Graph::new("late");
    let (a, b, c) = (g.input::<u32>("a"), g.input::<u32>("b"), g.output::<u32>("c"));
    let (tell, told) = mpsc::channel();
    let begins = g.each("begins", move |_: u32, out: &mut Out<u32>, cx: &mut Cx<'_>| {
        let (later, tell) = (cx.later(out), tell.clone());
        thread::spawn(move || {
            tell.send(()).expect("it is waited for");
            while !later.cancelled() {
                thread::yield_now();
            }
        });
        Ok(())
    });
    let fails = g.try_map("fails", |_: u32| Err::<u32, _>("wrong".into()));
    g.edge(&a, &begins);
    g.edge(&b, &fails);
    g.edge(&begins.out, &c);
    g.edge(&fails.out, &c);
    let run = g.start()?;
    run.push(&a, 1)?;
    run.close_input(&a);
    told.recv_timeout(Duration::from_secs(20))?;
    // The node is closed, and soon nothing is left of it but what it has begun.
    thread::sleep(Duration::from_millis(20));
    run.push(&b, 1)?;
    let error = run.wait().expect_err("a node fails");
    assert_eq!(error.to_string(), "node `fails` (replica 0) failed: wrong");
    Ok(())
}

#[test]
fn a_panic_of_a_copy_or_of_what_a_pool_makes_is_the_nodes() -> Done {
    struct Fragile;
    impl Clone for Fragile {
        fn clone(&self) -> Fragile {
            panic!("no copy")
        }
    }
    let g = Graph::new("copies");
    let (a, c, d) = (g.input::<u32>("a"), g.output::<Fragile>("c"), g.output::<Fragile>("d"));
    let node = g.map("node", |_: u32| Fragile).replicas(2).ordered();
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    g.edge_of_copies(&node.out, &d);
    let run = g.start()?;
    run.push(&a, 1)?;
    let Err(GraphError::Panicked { node, text, .. }) = run.wait() else { panic!("it cannot be copied") };
    assert_eq!((node.as_str(), text.as_str()), ("node", "no copy"));

    let none = Pool::new("none", 1, || -> u32 { panic!("none is made") });
    let (pool, g) = (none.clone(), Graph::new("pool"));
    let a = g.input::<u32>("a");
    let node = g.each("node", move |_: u32, (): &mut (), cx: &mut Cx<'_>| {
        pool.take(cx);
        Ok(())
    });
    let node = node.takes(&none, 1);
    g.edge(&a, &node);
    let run = g.start()?;
    run.push(&a, 1)?;
    let Err(GraphError::Panicked { text, .. }) = run.wait() else { panic!("none is made") };
    assert_eq!((text.as_str(), none.free()), ("none is made", 1));
    Ok(())
}
