//! How data go from node to node, and in which order.

use anyhow::{Result, anyhow, ensure};
use flash_examples::expect;
use flash_graph::{Cx, Error, Graph, Node, Out, Receive, outputs};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// An error of a graph or a push, as the programs here have it.
pub fn told(error: impl Into<Error>) -> anyhow::Error {
    anyhow!(error.into())
}

/// Four replicas of a node take data as they come; `.ordered()` lets them out as they came in.
pub fn order() -> Result<String> {
    let g = Graph::new("order");
    let (numbers, divisors) = (g.input::<u32>("numbers"), g.output::<usize>("divisors"));
    let count = |n: u32| (1..=n).filter(|d| n.is_multiple_of(*d)).count();
    let node = g.map("count", count).replicas(4).ordered();
    g.edge(&numbers, &node);
    g.edge(&node.out, &divisors);
    let run = g.start()?;
    run.push_all(&numbers, 1..=1000)?;
    run.close();
    let found: Vec<usize> = run.results(&divisors).collect();
    run.wait()?;
    expect(found.len(), 1000)?;
    expect(&found[..12], &[1, 2, 2, 3, 2, 4, 2, 4, 3, 4, 2, 6])?;
    Ok("the divisors of 1000 numbers, in the order of the numbers".into())
}

outputs! {
    /// What comes out of an account: a note of each payment, and at the end what is left.
    struct Booked { note: String, rest: i64 }
}

/// Books what comes in and what goes out, two types of data.
struct Account {
    rest: i64,
}

struct Income(i64);
struct Payment {
    to: &'static str,
    amount: i64,
}

impl Node for Account {
    type Out = Booked;

    fn finish(&mut self, out: &mut Booked, _: &mut Cx<'_>) -> Result<(), Error> {
        out.rest.emit(self.rest);
        Ok(())
    }
}

impl Receive<Income> for Account {
    fn receive(&mut self, income: Income, _: &mut Booked, _: &mut Cx<'_>) -> Result<(), Error> {
        self.rest += income.0;
        Ok(())
    }
}

impl Receive<Payment> for Account {
    fn receive(&mut self, payment: Payment, out: &mut Booked, _: &mut Cx<'_>) -> Result<(), Error> {
        self.rest -= payment.amount;
        out.note.emit(format!("{} to {}", payment.amount, payment.to));
        Ok(())
    }
}

/// A node that is a type of the program's: a method for each type of data, fields for its outputs, a state
/// that one thread has at a time, and `finish`, when nothing more can come.
pub fn several() -> Result<String> {
    let g = Graph::new("several");
    let (incomes, payments) = (g.input::<Income>("incomes"), g.input::<Payment>("payments"));
    let (notes, rest) = (g.output::<String>("notes"), g.output::<i64>("rest"));
    let account = g.node("account", |_replica| Account { rest: 0 });
    g.edge(&incomes, &account);
    g.edge(&payments, &account);
    g.edge(&account.out.note, &notes);
    g.edge(&account.out.rest, &rest);
    let run = g.start()?;
    run.push_all(&incomes, [100, 250].map(Income))?;
    run.push_all(
        &payments,
        [("the baker", 7), ("the owner", 200)].map(|(to, amount)| Payment { to, amount }),
    )?;
    run.close();
    expect(run.results(&rest).collect::<Vec<_>>(), vec![143])?;
    expect(
        run.results(&notes).collect::<Vec<_>>(),
        vec!["7 to the baker".into(), "200 to the owner".into()],
    )?;
    run.wait()?;
    Ok("350 came, 207 went, 143 are left".into())
}

/// Newton's method: what is not good enough goes round once more. The graph ends when nothing is in the
/// cycle; no node says so. The inbox that closes the cycle is unbounded, or it might fill and stop.
pub fn cycle() -> Result<String> {
    struct Root {
        of: f64,
        guess: f64,
        turns: u32,
    }
    let g = Graph::new("cycle");
    let (numbers, roots) = (g.input::<f64>("numbers"), g.output::<Root>("roots"));
    let begin = g.map("begin", |of: f64| Root { of, guess: of, turns: 0 });
    let better = g.each("better", |root: Root, out: &mut (Out<Root>, Out<Root>), _: &mut Cx<'_>| {
        let guess = (root.guess + root.of / root.guess) / 2.0;
        let is_good = (guess - root.guess).abs() <= 1e-12 * guess;
        let root = Root { guess, turns: root.turns + 1, ..root };
        if is_good {
            out.1.emit(root)
        } else {
            out.0.emit(root)
        }
        Ok(())
    });
    let better = better.replicas(2).unbounded();
    g.edge(&numbers, &begin);
    g.edge(&begin.out, &better);
    g.edge(&better.out.0, &better);
    g.edge(&better.out.1, &roots);
    let run = g.start()?;
    run.push_all(&numbers, (1..=1000).map(f64::from))?;
    run.close();
    let (mut count, mut turns) = (0, 0);
    for root in run.results(&roots) {
        ensure!((root.guess * root.guess - root.of).abs() < 1e-9, "{} is no root of {}", root.guess, root.of);
        (count, turns) = (count + 1, turns + root.turns);
    }
    run.wait()?;
    expect(count, 1000)?;
    Ok(format!("1000 square roots, in {turns} turns"))
}

/// Two ways of different speed, whose results are paired by key.
pub fn join() -> Result<String> {
    let g = Graph::new("join");
    let (words, pairs) = (g.input::<(u32, &'static str)>("words"), g.output::<(u32, usize, String)>("pairs"));
    let length = g.map("length", |(i, word): (u32, &'static str)| (i, word.len()));
    let backwards = |(i, word): (u32, &'static str)| (i, word.chars().rev().collect::<String>());
    let backwards = g.map("backwards", backwards).replicas(2);
    g.edge(&words, &length);
    g.edge_of_copies(&words, &backwards);
    let pair = g.join("pair", (&length.out, &backwards.out), |length| length.0, |word| word.0);
    let both = g.map("both", |((i, n), (_, word)): ((u32, usize), (u32, String))| (i, n, word));
    g.edge(&pair.out, &both);
    g.edge(&both.out, &pairs);
    let run = g.start()?;
    run.push_all(&words, (0..).zip(["edge", "node", "graph"]))?;
    run.close();
    let mut found: Vec<_> = run.results(&pairs).collect();
    run.wait()?;
    found.sort();
    expect(found, vec![(0, 4, "egde".into()), (1, 4, "edon".into()), (2, 5, "hparg".into())])?;
    Ok("each word's length with the word backwards".into())
}

/// While a slow node works, what waits before it is sorted by urgency.
pub fn priority() -> Result<String> {
    let g = Graph::new("priority");
    let (orders, served) = (g.input::<(i64, &'static str)>("orders"), g.output::<&'static str>("served"));
    let (begins, has_begun) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let serve = g.map("serve", move |(_, what): (i64, &'static str)| {
        // The first one takes until the others are there.
        begins.send(()).ok();
        gate.lock().expect("no thread panics").recv().ok();
        what
    });
    // It blocks, so it has a thread of its own.
    let serve = serve.by_priority(|(urgency, _): &(i64, _)| *urgency).dedicated();
    g.edge(&orders, &serve);
    g.edge(&serve.out, &served);
    let run = g.start()?;
    run.push(&orders, (0, "a letter")).map_err(told)?;
    has_begun.recv()?;
    run.push_all(&orders, [(1, "tea"), (9, "a fire"), (5, "a patient")])?;
    drop(open);
    run.close();
    expect(run.results(&served).collect::<Vec<_>>(), vec!["a letter", "a fire", "a patient", "tea"])?;
    run.wait()?;
    Ok("a letter is being served; then a fire, a patient, tea".into())
}

/// Nodes on one strand run one at a time, and share what is on it.
pub fn shared() -> Result<String> {
    let g = Graph::new("shared");
    let (numbers, ends) = (g.input::<u64>("numbers"), g.output::<u64>("ends"));
    let sum = g.shared(0u64);
    let put = g.map_shared(&sum, "put", |sum: &mut u64, x: u64| {
        *sum += x;
        x
    });
    let take = g.map_shared(&sum, "take", |sum: &mut u64, x: u64| {
        *sum -= x / 2;
        x
    });
    g.edge(&numbers, &put);
    g.edge(&put.out, &take);
    g.edge(&take.out, &ends);
    let run = g.start()?;
    run.push_all(&numbers, (0..1000).map(|x| 2 * x))?;
    run.close();
    expect(run.results(&ends).count(), 1000)?;
    run.wait()?;
    let left = sum.with(|sum| *sum);
    expect(left, 499_500)?;
    Ok(format!("999,000 put, half of it taken: {left}"))
}

/// A promise to emit after the call: the graph does not end before it is kept or dropped.
pub fn later() -> Result<String> {
    let g = Graph::new("later");
    let (questions, answers) = (g.input::<u64>("questions"), g.output::<u64>("answers"));
    let ask = g.each("ask", |x: u64, out: &mut Out<u64>, cx: &mut Cx<'_>| {
        let mut later = cx.later(out);
        // As a library with callbacks does it.
        thread::spawn(move || later.out.emit(x * x));
        Ok(())
    });
    g.edge(&questions, &ask);
    g.edge(&ask.out, &answers);
    let run = g.start()?;
    run.push_all(&questions, 1..=10)?;
    run.close();
    let sum: u64 = run.results(&answers).sum();
    run.wait()?;
    expect(sum, 385)?;
    Ok("ten answers of ten threads".into())
}
