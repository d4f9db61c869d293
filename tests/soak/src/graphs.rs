//! Random graphs against a model that runs one datum after the other: chains, splits, copies, merges, joins,
//! cycles, pools and replicas, with small inboxes. Some are cancelled, or a node fails, at a random moment.

use crate::random::{FAULT, Fault, Random};
use flash as _; // Its workers.
use flash_graph::{Cx, Graph, GraphError, Out, Output, Pool, Pooled, Run};
use std::sync::Arc;
use std::thread;

/// An output that no edge begins at yet, and what comes out of it, in any order.
struct Stream {
    out: Out<u64>,
    model: Vec<u64>,
}

/// A graph that is made.
struct Maker {
    g: Graph,
    random: Random,
    fault: Arc<Fault>,
    pools: Vec<Pool<u64>>,
}

/// Settings of a node that do not change what it computes.
macro_rules! settings {
    ($node:expr, $random:expr) => {{
        let random = &mut $random;
        let node = $node.replicas(1 + random.below(3) as usize).inbox(1 + random.below(9) as usize);
        let node = node.priority(random.below(3) as i32);
        let node = if random.once_in(4) { node.ordered() } else { node };
        if random.once_in(12) { node.dedicated() } else { node }
    }};
}

impl Maker {
    fn add(&mut self, from: &Stream) -> Stream {
        let (by, fault) = (self.random.below(1000), self.fault.clone());
        let add = move |x: u64| {
            fault.look()?;
            Ok(x + by)
        };
        let node = settings!(self.g.try_map("add", add), self.random);
        self.g.edge(&from.out, &node);
        Stream { out: node.out, model: from.model.iter().map(|x| x + by).collect() }
    }

    fn split(&mut self, from: &Stream) -> [Stream; 2] {
        let by = 2 + self.random.below(3);
        let call = move |x: u64, out: &mut (Out<u64>, Out<u64>), _: &mut Cx<'_>| {
            match x % by {
                0 => out.0.emit(x),
                _ => out.1.emit(x),
            }
            Ok(())
        };
        let node = settings!(self.g.each("split", call), self.random);
        self.g.edge(&from.out, &node);
        let (zero, other) = from.model.iter().partition(|&x| x % by == 0);
        [Stream { out: node.out.0, model: zero }, Stream { out: node.out.1, model: other }]
    }

    fn copy(&mut self, from: &Stream) -> [Stream; 2] {
        let [one, two] = [0, 1].map(|i| settings!(self.g.map("copy", move |x: u64| x + i), self.random));
        self.g.edge(&from.out, &one);
        self.g.edge_of_copies(&from.out, &two);
        let model = from.model.iter().map(|x| x + 1).collect();
        [Stream { out: one.out, model: from.model.clone() }, Stream { out: two.out, model }]
    }

    fn merge(&mut self, a: &Stream, b: &Stream) -> Stream {
        let node = settings!(self.g.map("merge", |x: u64| 3 * x), self.random);
        self.g.edge(&a.out, &node);
        self.g.edge(&b.out, &node);
        Stream { out: node.out, model: a.model.iter().chain(&b.model).map(|x| 3 * x).collect() }
    }

    fn join(&mut self, from: &Stream) -> Stream {
        let [one, two] = [2, 5].map(|i| settings!(self.g.map("half", move |x: u64| (x, i * x)), self.random));
        self.g.edge(&from.out, &one);
        self.g.edge_of_copies(&from.out, &two);
        let pair = self.g.join("pair", (&one.out, &two.out), |one| one.0, |two| two.0);
        let sum = self.g.map("sum", |(one, two): ((u64, u64), (u64, u64))| one.1 + two.1);
        let sum = settings!(sum, self.random);
        self.g.edge(&pair.out, &sum);
        Stream { out: sum.out, model: from.model.iter().map(|x| 7 * x).collect() }
    }

    fn cycle(&mut self, from: &Stream) -> Stream {
        let (times, fault) = (1 + self.random.below(4), self.fault.clone());
        let enter = self.g.map("enter", move |x: u64| (x, x % times));
        let turn = move |(x, n): (u64, u64), out: &mut (Out<(u64, u64)>, Out<u64>), _: &mut Cx<'_>| {
            fault.look()?;
            match n {
                0 => out.1.emit(x),
                n => out.0.emit((x + 1, n - 1)),
            }
            Ok(())
        };
        let turn = self.g.each("turn", turn).replicas(1 + self.random.below(2) as usize).unbounded();
        let back = settings!(self.g.map("back", |x: (u64, u64)| x), self.random);
        self.g.edge(&from.out, &enter);
        self.g.edge(&enter.out, &turn);
        self.g.edge(&turn.out.0, &back);
        self.g.edge(&back.out, &turn);
        Stream { out: turn.out.1, model: from.model.iter().map(|x| x + x % times).collect() }
    }

    fn pooled(&mut self, from: &Stream) -> Stream {
        let pool = Pool::new("boxes", 1 + self.random.below(4) as usize, || 0u64);
        let (taken, fault) = (pool.clone(), self.fault.clone());
        let fill = move |x: u64, out: &mut Out<Pooled<u64>>, cx: &mut Cx<'_>| {
            let mut item = taken.take(cx);
            fault.look()?;
            *item = x;
            out.emit(item);
            Ok(())
        };
        let fill = settings!(self.g.each("fill", fill).takes(&pool, 1), self.random);
        let empty = settings!(self.g.map("empty", |item: Pooled<u64>| *item), self.random);
        self.g.edge(&from.out, &fill);
        self.g.edge(&fill.out, &empty);
        self.pools.push(pool);
        Stream { out: empty.out, model: from.model.clone() }
    }

    /// Adds a random part to a random stream.
    fn grow(&mut self, streams: &mut Vec<Stream>) {
        let stream = streams.swap_remove(self.random.below(streams.len() as u64) as usize);
        match self.random.below(7) {
            0 => streams.push(self.add(&stream)),
            1 => streams.extend(self.split(&stream)),
            2 => streams.extend(self.copy(&stream)),
            3 => match streams.pop() {
                None => streams.push(self.add(&stream)),
                Some(other) => streams.push(self.merge(&stream, &other)),
            },
            4 => streams.push(self.join(&stream)),
            5 => streams.push(self.cycle(&stream)),
            _ => streams.push(self.pooled(&stream)),
        }
    }
}

/// How a graph ends.
#[derive(PartialEq)]
enum End {
    /// When nothing can come any more.
    Whole,
    /// By `cancel`, which may come too late.
    Cancelled,
    /// By an error or a panic of a node, which may not come.
    Failed,
}

/// Makes and runs the graph of a seed.
///
/// # Panics
/// If it does not do what the model does. The seed is in the message.
pub fn check(seed: u64) {
    let mut random = Random::new(seed);
    let (end, fault) = match random.below(4) {
        0 => (End::Cancelled, Fault::none()),
        1 => (End::Failed, Fault::within(&mut random, 400)),
        _ => (End::Whole, Fault::none()),
    };
    let mut maker = Maker { g: Graph::new("random"), random, fault: Arc::new(fault), pools: Vec::new() };
    let (mut streams, mut inputs) = (Vec::new(), Vec::new());
    for _ in 0..1 + maker.random.below(3) {
        let data: Vec<u64> = (0..maker.random.below(200)).map(|_| maker.random.below(1_000_000)).collect();
        let (input, node) = (maker.g.input::<u64>("input"), maker.g.map("first", |x: u64| x));
        maker.g.edge(&input, &node);
        streams.push(Stream { out: node.out, model: data.clone() });
        inputs.push((input, data));
    }
    for _ in 0..maker.random.below(12) {
        maker.grow(&mut streams);
    }
    let outputs: Vec<_> = streams
        .into_iter()
        .map(|Stream { out, mut model }| {
            let output = maker.g.output::<u64>("output");
            maker.g.edge(&out, &output);
            model.sort_unstable();
            (output, model)
        })
        .collect();
    let Maker { g, mut random, fault, pools } = maker;
    let run = g.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let mut push = || -> Result<(), String> {
        for (input, data) in &inputs {
            match random.below(2) {
                0 => run.push_all(input, data.iter().copied()).map_err(|error| error.to_string())?,
                _ => data.iter().try_for_each(|x| run.push(input, *x).map_err(|error| error.to_string()))?,
            }
        }
        Ok(())
    };
    let pushed = thread::scope(|s| {
        if end == End::Cancelled {
            let (run, spins) = (&run, seed % 20_000);
            s.spawn(move || {
                (0..spins).for_each(|_| std::hint::spin_loop());
                run.cancel();
            });
        }
        push()
    });
    run.close();
    let whole = results(&run, &outputs);
    let ended = run.wait();
    let is_meant = match (&ended, &end) {
        (Ok(()), End::Failed) => !fault.has_come(),
        (Ok(()), _) => true,
        (Err(GraphError::Cancelled), End::Cancelled) => true,
        (Err(GraphError::Failed { text, .. } | GraphError::Panicked { text, .. }), End::Failed) => {
            text == FAULT
        }
        _ => false,
    };
    assert!(is_meant, "seed {seed}: it ended with {ended:?}");
    if ended.is_ok() {
        assert_eq!(pushed, Ok(()), "seed {seed}");
        whole.unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    }
    for pool in pools {
        assert_eq!(pool.free(), pool.capacity(), "seed {seed}: what was taken is back");
    }
}

/// Whether all comes out that the model has, and nothing else.
fn results(run: &Run, outputs: &[(Output<u64>, Vec<u64>)]) -> Result<(), String> {
    let mut all = Ok(());
    for (output, model) in outputs {
        let mut results: Vec<u64> = run.results(output).collect();
        results.sort_unstable();
        if &results != model {
            all = Err(format!("expected {model:?}, found {results:?}"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    /// Of which half end before their time, or may.
    #[test]
    fn random_graphs_compute_what_the_model_does() {
        (0..1000).for_each(super::check);
    }
}
