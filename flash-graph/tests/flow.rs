//! What flows: order, types, replicas, cycles, joins, gathers, sources, and the end.

use flash as _; // Its workers.
use flash_graph::{Cx, Error, Graph, GraphError, Node, Out, PushError, Receive};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

type Done = Result<(), Error>;

#[test]
fn a_chain_keeps_the_order() -> Done {
    let g = Graph::new("chain");
    let (a, c) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let (one, two) = (g.map("one", |x: u64| x + 1), g.map("two", |x: u64| 2 * x));
    g.edge(&a, &one);
    g.edge(&one.out, &two);
    g.edge(&two.out, &c);
    let run = g.start()?;
    for x in 0..10_000 {
        run.push(&a, x)?;
    }
    run.close();
    let results: Vec<u64> = run.results(&c).collect();
    assert_eq!(results, (0..10_000).map(|x| 2 * (x + 1)).collect::<Vec<_>>());
    run.wait()?;
    Ok(())
}

#[test]
fn a_round_trip_needs_no_close() -> Done {
    let g = Graph::new("round trip");
    let (a, c) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let same = g.map("same", |x: u64| x);
    g.edge(&a, &same);
    g.edge(&same.out, &c);
    let run = g.start()?;
    let mut results = run.results(&c);
    for x in 0..1000 {
        run.push(&a, x)?;
        assert_eq!(results.next(), Some(x));
    }
    run.wait()?;
    Ok(())
}

#[test]
fn a_datum_runs_though_its_pusher_does_something_else() -> Done {
    let g = Graph::new("alone");
    let a = g.input::<u64>("a");
    let (send, receive) = std::sync::mpsc::channel();
    let sink = g.each("sink", move |x: u64, (): &mut (), _: &mut Cx<'_>| Ok(send.send(x)?));
    g.edge(&a, &sink);
    let run = g.start()?;
    for x in 0..3 {
        run.push(&a, x)?;
        // This thread runs nothing.
        assert_eq!(receive.recv_timeout(Duration::from_secs(60)), Ok(x));
    }
    run.wait()?;
    Ok(())
}

flash_graph::outputs! {
    struct Sieved {
        odd: u64,
        even: String,
    }
}

struct Sieve(usize);

impl Node for Sieve {
    type Out = Sieved;
    fn finish(&mut self, out: &mut Sieved, cx: &mut Cx<'_>) -> Done {
        assert_eq!((cx.name(), cx.replica()), ("sieve", 0));
        out.even.emit(format!("{} received", self.0));
        Ok(())
    }
}

impl Receive<u64> for Sieve {
    fn receive(&mut self, x: u64, out: &mut Sieved, _: &mut Cx<'_>) -> Done {
        self.0 += 1;
        match x % 2 {
            0 => out.even.emit(x.to_string()),
            _ => out.odd.emit(x),
        }
        Ok(())
    }
}

impl Receive<&'static str> for Sieve {
    fn receive(&mut self, x: &'static str, out: &mut Sieved, _: &mut Cx<'_>) -> Done {
        self.0 += 1;
        out.even.emit(x.into());
        Ok(())
    }
}

#[test]
fn a_node_has_inputs_and_outputs_of_several_types_and_finishes_last() -> Done {
    let g = Graph::new("sieve");
    let (numbers, texts) = (g.input::<u64>("numbers"), g.input::<&'static str>("texts"));
    let (odd, even) = (g.output::<u64>("odd"), g.output::<String>("even"));
    let sieve = g.node("sieve", |_| Sieve(0));
    g.edge(&numbers, &sieve);
    g.edge(&texts, &sieve);
    g.edge(&sieve.out.odd, &odd);
    g.edge(&sieve.out.even, &even);
    let run = g.start()?;
    run.push_all(&numbers, 1..=4)?;
    run.push(&texts, "text")?;
    run.close_input(&numbers);
    assert_eq!(run.push(&numbers, 5), Err(PushError::Closed(5)));
    run.close();
    assert_eq!(run.results(&odd).collect::<Vec<_>>(), [1, 3]);
    let even: Vec<String> = run.results(&even).collect();
    assert_eq!(even.last().map(String::as_str), Some("5 received"));
    assert!(["2", "4", "text"].iter().all(|text| even.contains(&text.to_string())), "{even:?}");
    run.wait()?;
    Ok(())
}

#[test]
fn replicas_run_at_the_same_time_and_no_more_of_them_than_asked_for() -> Done {
    let g = Graph::new("replicas");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, greatest) = (now.clone(), most.clone());
    let slow = g
        .map("slow", move |x: u32| {
            greatest.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(200));
            inside.fetch_sub(1, Ordering::SeqCst);
            x
        })
        .replicas(2)
        .dedicated();
    g.edge(&a, &slow);
    g.edge(&slow.out, &c);
    let run = g.start()?;
    run.push_all(&a, 0..200)?;
    run.close();
    let mut results: Vec<u32> = run.results(&c).collect();
    results.sort_unstable();
    assert_eq!(results, (0..200).collect::<Vec<_>>());
    run.wait()?;
    assert_eq!(most.load(Ordering::SeqCst), 2);
    Ok(())
}

#[test]
fn ordered_replicas_emit_in_the_order_of_what_they_received() -> Done {
    let g = Graph::new("ordered");
    let (a, c) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let uneven = g.map("uneven", |x: u64| {
        (0..x % 7 * 300).for_each(|_| std::hint::spin_loop());
        x
    });
    let uneven = uneven.replicas(3).ordered();
    g.edge(&a, &uneven);
    g.edge(&uneven.out, &c);
    let run = g.start()?;
    thread::scope(|s| {
        s.spawn(|| {
            run.push_all(&a, 0..5000).expect("it is open");
            run.close();
        });
        assert!(run.results(&c).eq(0..5000));
    });
    run.wait()?;
    Ok(())
}

#[test]
fn a_cycle_ends_exactly_when_nothing_is_in_it() -> Done {
    // Collatz: each number goes round until it is 1.
    type Count = (u64, u64);
    let g = Graph::new("collatz");
    let (a, c) = (g.input::<(u64, u64)>("a"), g.output::<(u64, u64)>("c"));
    let step = g
        .each("step", |(x, n): (u64, u64), out: &mut (Out<Count>, Out<Count>), _: &mut Cx<'_>| {
            match x {
                1 => out.1.emit((x, n)),
                x if x % 2 == 0 => out.0.emit((x / 2, n + 1)),
                x => out.0.emit((3 * x + 1, n + 1)),
            }
            Ok(())
        })
        .unbounded();
    let back = g.map("back", |x: (u64, u64)| x).replicas(2);
    g.edge(&a, &step);
    g.edge(&step.out.0, &back);
    g.edge(&back.out, &step);
    g.edge(&step.out.1, &c);
    let run = g.start()?;
    run.push_all(&a, (1..=1000).map(|x| (x, 0)))?;
    run.close();
    let steps: Vec<u64> = run.results(&c).map(|(_, n)| n).collect();
    assert_eq!((steps.len(), steps.iter().sum::<u64>()), (1000, 59_542));
    run.wait()?;
    Ok(())
}

#[test]
fn nodes_of_a_cycle_finish_in_turn_and_what_they_emit_is_received() -> Done {
    struct Last(u32);
    impl Node for Last {
        type Out = (Out<u32>, Out<u32>);
        fn finish(&mut self, out: &mut Self::Out, _: &mut Cx<'_>) -> Done {
            out.0.emit(1000);
            Ok(())
        }
    }
    impl Receive<u32> for Last {
        fn receive(&mut self, x: u32, out: &mut Self::Out, _: &mut Cx<'_>) -> Done {
            self.0 += 1;
            match x {
                0 => out.1.emit(self.0),
                x => out.0.emit(x / 2),
            }
            Ok(())
        }
    }
    let g = Graph::new("last");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let first = g.node("first", |_| Last(0)).unbounded();
    let second = g.map("second", |x: u32| x);
    g.edge(&a, &first);
    g.edge(&first.out.0, &second);
    g.edge(&second.out, &first);
    g.edge(&first.out.1, &c);
    let run = g.start()?;
    run.push(&a, 8)?;
    run.close();
    // 8, 4, 2, 1, 0; then 1000 and its ten halves.
    assert_eq!(run.results(&c).collect::<Vec<_>>(), [5, 16]);
    run.wait()?;
    Ok(())
}

#[test]
fn copies_go_along_several_edges() -> Done {
    let g = Graph::new("copies");
    let (a, c, d) = (g.input::<String>("a"), g.output::<String>("c"), g.output::<usize>("d"));
    let length = g.map("length", |text: String| text.len());
    g.edge(&a, &c);
    g.edge_of_copies(&a, &length);
    g.edge(&length.out, &d);
    let run = g.start()?;
    run.push(&a, "seven".into())?;
    run.close();
    assert_eq!(run.results(&c).collect::<Vec<_>>(), ["seven"]);
    assert_eq!(run.results(&d).collect::<Vec<_>>(), [5]);
    run.wait()?;
    Ok(())
}

#[test]
fn a_join_pairs_by_key_and_a_gather_collects() -> Done {
    let g = Graph::new("join");
    let (a, b) = (g.input::<(u32, u32)>("a"), g.input::<(u32, u32)>("b"));
    let c = g.output::<(u32, Vec<u32>)>("c");
    let pair = g.join("pair", (&a, &b), |a| a.0, |b| b.0);
    let product = g.map("product", |(a, b): ((u32, u32), (u32, u32))| (a.0 % 2, a.1 * b.1));
    let gather = g.gather("gather", 2, |x: &(u32, u32)| x.0);
    let values = g.map("values", |(key, all): (u32, Vec<(u32, u32)>)| {
        let mut all: Vec<u32> = all.into_iter().map(|(_, x)| x).collect();
        all.sort_unstable();
        (key, all)
    });
    g.edge(&pair.out, &product);
    g.edge(&product.out, &gather);
    g.edge(&gather.out, &values);
    g.edge(&values.out, &c);
    let run = g.start()?;
    run.push_all(&a, (0..4).map(|k| (k, k + 1)))?;
    run.push_all(&b, (0..4).rev().map(|k| (k, 10)))?;
    run.close();
    let mut results: Vec<_> = run.results(&c).collect();
    results.sort_unstable();
    assert_eq!(results, [(0, vec![10, 30]), (1, vec![20, 40])]);
    run.wait()?;
    Ok(())
}

#[test]
fn what_has_no_partner_at_the_end_is_an_error() -> Done {
    let g = Graph::new("join");
    let (a, b) = (g.input::<u32>("a"), g.input::<u32>("b"));
    let c = g.output::<(u32, u32)>("c");
    let pair = g.join("pair", (&a, &b), |a| *a, |b| *b);
    g.edge(&pair.out, &c);
    let run = g.start()?;
    run.push_all(&a, [1, 2])?;
    run.push(&b, 2)?;
    let text =
        "at the end it holds 1 data of its first and 0 of its second edge without a partner, one with key 1";
    let failed = GraphError::Failed { node: "pair".into(), replica: 0, text: text.into() };
    assert_eq!(run.wait(), Err(failed));
    Ok(())
}

#[test]
fn a_source_makes_no_more_than_there_is_room_for() -> Done {
    let made = Arc::new(AtomicUsize::new(0));
    let g = Graph::new("source");
    let c = g.output::<usize>("c").inbox(8);
    let count = made.clone();
    let numbers = g.source(
        "numbers",
        (0..1000).inspect(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        }),
    );
    let same = g.map("same", |x: usize| x).inbox(8);
    g.edge(&numbers.out, &same);
    g.edge(&same.out, &c);
    let run = g.start()?;
    let mut results = run.results(&c);
    for x in 0..1000 {
        assert_eq!(results.next(), Some(x));
        assert!(made.load(Ordering::SeqCst) <= x + 1 + 8 + 8 + 8, "{x}");
    }
    assert_eq!(results.next(), None);
    run.wait()?;
    Ok(())
}

#[test]
fn a_full_inbox_keeps_try_push_from_pushing_and_push_helps() -> Done {
    let g = Graph::new("full");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let wait = g.map("wait", move |x: u32| {
        gate.lock().unwrap().recv().ok();
        x
    });
    let wait = wait.inbox(2).dedicated();
    g.edge(&a, &wait);
    g.edge(&wait.out, &c);
    let run = g.start()?;
    run.push(&a, 0)?;
    // The node has taken it, or will.
    let full = (1..100).find_map(|x| run.try_push(&a, x).err());
    assert!(matches!(full, Some(PushError::Full(2..=4))), "{full:?}");
    drop(open);
    run.push_all(&a, 10..20)?;
    run.close();
    assert!(run.results(&c).count() >= 12);
    run.wait()?;
    Ok(())
}

#[test]
fn priorities_order_what_waits() -> Done {
    let g = Graph::new("urgent");
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let node = g.map("node", move |x: u32| {
        gate.lock().unwrap().recv().ok();
        x
    });
    let node = node.by_priority(|x: &u32| i64::from(x % 10)).dedicated();
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    let run = g.start()?;
    run.push(&a, 5)?;
    thread::sleep(Duration::from_millis(50));
    run.push_all(&a, [11, 13, 22, 33, 19])?;
    drop(open);
    run.close();
    let results: Vec<u32> = run.results(&c).collect();
    assert_eq!(results, [5, 19, 13, 33, 22, 11]);
    run.wait()?;
    Ok(())
}

#[test]
fn nodes_on_one_strand_share_a_state() -> Done {
    let g = Graph::new("strand");
    let (a, c) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let ledger = g.shared(0u64);
    let add = g.map_shared(&ledger, "add", |sum: &mut u64, x: u64| {
        *sum += x;
        x
    });
    let subtract = g.map_shared(&ledger, "subtract", |sum: &mut u64, x: u64| {
        *sum -= x;
        x
    });
    g.edge(&a, &add);
    g.edge(&add.out, &subtract);
    g.edge(&subtract.out, &c);
    let run = g.start()?;
    run.push_all(&a, 0..10_000)?;
    run.close();
    assert_eq!(run.results(&c).count(), 10_000);
    run.wait()?;
    ledger.with(|sum| assert_eq!(*sum, 0));
    Ok(())
}
