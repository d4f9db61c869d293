//! Random graphs against a model that runs one datum after the other: chains, splits, copies, merges, joins,
//! cycles, pools and replicas, with small inboxes.

use flash as _; // Its workers.
use flash_graph::{Cx, Graph, Out, Pool, Pooled};

/// Graphs in a run of the tests; `FLASH_SOAK` is how many times as many.
const GRAPHS: u64 = 100;

/// Numbers that follow from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// An output that no edge begins at yet, and what comes out of it, in any order.
struct Stream {
    out: Out<u64>,
    model: Vec<u64>,
}

/// Settings of a node that do not change what it computes.
macro_rules! settings {
    ($node:expr, $random:expr) => {{
        let node = $node.replicas(1 + $random.below(3) as usize).inbox(1 + $random.below(9) as usize);
        let node = node.priority($random.below(3) as i32);
        let node = if $random.below(4) == 0 { node.ordered() } else { node };
        if $random.below(12) == 0 { node.dedicated() } else { node }
    }};
}

fn add(g: &Graph, random: &mut Random, from: &Stream) -> Stream {
    let by = random.below(1000);
    let node = settings!(g.map("add", move |x: u64| x + by), random);
    g.edge(&from.out, &node);
    Stream { out: node.out, model: from.model.iter().map(|x| x + by).collect() }
}

fn split(g: &Graph, random: &mut Random, from: &Stream) -> [Stream; 2] {
    let by = 2 + random.below(3);
    let call = move |x: u64, out: &mut (Out<u64>, Out<u64>), _: &mut Cx<'_>| {
        match x % by {
            0 => out.0.emit(x),
            _ => out.1.emit(x),
        }
        Ok(())
    };
    let node = settings!(g.each("split", call), random);
    g.edge(&from.out, &node);
    let (zero, other) = from.model.iter().partition(|&x| x % by == 0);
    [Stream { out: node.out.0, model: zero }, Stream { out: node.out.1, model: other }]
}

fn copy(g: &Graph, random: &mut Random, from: &Stream) -> [Stream; 2] {
    let [one, two] = [0, 1].map(|i| settings!(g.map("copy", move |x: u64| x + i), random));
    g.edge(&from.out, &one);
    g.edge_of_copies(&from.out, &two);
    let model = from.model.iter().map(|x| x + 1).collect();
    [Stream { out: one.out, model: from.model.clone() }, Stream { out: two.out, model }]
}

fn merge(g: &Graph, random: &mut Random, a: &Stream, b: &Stream) -> Stream {
    let node = settings!(g.map("merge", |x: u64| 3 * x), random);
    g.edge(&a.out, &node);
    g.edge(&b.out, &node);
    Stream { out: node.out, model: a.model.iter().chain(&b.model).map(|x| 3 * x).collect() }
}

fn join(g: &Graph, random: &mut Random, from: &Stream) -> Stream {
    let [one, two] = [2, 5].map(|i| settings!(g.map("half", move |x: u64| (x, i * x)), random));
    g.edge(&from.out, &one);
    g.edge_of_copies(&from.out, &two);
    let pair = g.join("pair", (&one.out, &two.out), |one| one.0, |two| two.0);
    let sum = settings!(g.map("sum", |(one, two): ((u64, u64), (u64, u64))| one.1 + two.1), random);
    g.edge(&pair.out, &sum);
    Stream { out: sum.out, model: from.model.iter().map(|x| 7 * x).collect() }
}

fn cycle(g: &Graph, random: &mut Random, from: &Stream) -> Stream {
    let times = 1 + random.below(4);
    let enter = g.map("enter", move |x: u64| (x, x % times));
    let turn = |(x, n): (u64, u64), out: &mut (Out<(u64, u64)>, Out<u64>), _: &mut Cx<'_>| {
        match n {
            0 => out.1.emit(x),
            n => out.0.emit((x + 1, n - 1)),
        }
        Ok(())
    };
    let turn = g.each("turn", turn).replicas(1 + random.below(2) as usize).unbounded();
    let back = settings!(g.map("back", |x: (u64, u64)| x), random);
    g.edge(&from.out, &enter);
    g.edge(&enter.out, &turn);
    g.edge(&turn.out.0, &back);
    g.edge(&back.out, &turn);
    Stream { out: turn.out.1, model: from.model.iter().map(|x| x + x % times).collect() }
}

fn pooled(g: &Graph, random: &mut Random, from: &Stream) -> Stream {
    let pool = Pool::new("boxes", 1 + random.below(4) as usize, || 0u64);
    let taken = pool.clone();
    let fill = move |x: u64, out: &mut Out<Pooled<u64>>, cx: &mut Cx<'_>| {
        let mut item = taken.take(cx);
        *item = x;
        out.emit(item);
        Ok(())
    };
    let fill = settings!(g.each("fill", fill).takes(&pool, 1), random);
    let empty = settings!(g.map("empty", |item: Pooled<u64>| *item), random);
    g.edge(&from.out, &fill);
    g.edge(&fill.out, &empty);
    Stream { out: empty.out, model: from.model.clone() }
}

fn check(seed: u64) {
    let random = &mut Random(seed);
    let g = Graph::new("random");
    let mut streams = Vec::new();
    let mut inputs = Vec::new();
    for _ in 0..1 + random.below(3) {
        let data: Vec<u64> = (0..random.below(200)).map(|_| random.below(1_000_000)).collect();
        let (input, node) = (g.input::<u64>("input"), g.map("first", |x: u64| x));
        g.edge(&input, &node);
        streams.push(Stream { out: node.out, model: data.clone() });
        inputs.push((input, data));
    }
    for _ in 0..random.below(12) {
        let stream = streams.swap_remove(random.below(streams.len() as u64) as usize);
        match random.below(7) {
            0 => streams.push(add(&g, random, &stream)),
            1 => streams.extend(split(&g, random, &stream)),
            2 => streams.extend(copy(&g, random, &stream)),
            3 => match streams.pop() {
                None => streams.push(add(&g, random, &stream)),
                Some(other) => streams.push(merge(&g, random, &stream, &other)),
            },
            4 => streams.push(join(&g, random, &stream)),
            5 => streams.push(cycle(&g, random, &stream)),
            _ => streams.push(pooled(&g, random, &stream)),
        }
    }
    let outputs: Vec<_> = streams
        .into_iter()
        .map(|Stream { out, mut model }| {
            let output = g.output::<u64>("output");
            g.edge(&out, &output);
            model.sort_unstable();
            (output, model)
        })
        .collect();
    let run = g.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    for (input, data) in &inputs {
        match random.below(2) {
            0 => run.push_all(input, data.iter().copied()).unwrap_or_else(|e| panic!("seed {seed}: {e}")),
            _ => {
                for x in data {
                    run.push(input, *x).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                }
            }
        }
    }
    run.close();
    for (output, model) in &outputs {
        let mut results: Vec<u64> = run.results(output).collect();
        results.sort_unstable();
        assert!(&results == model, "seed {seed}: expected {model:?}, found {results:?}");
    }
    run.wait().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[test]
fn random_graphs_compute_what_the_model_does() {
    let times = std::env::var("FLASH_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    (0..GRAPHS * times).for_each(check);
}
