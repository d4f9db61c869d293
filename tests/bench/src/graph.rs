//! What a datum costs in a dataflow graph, beside oneTBB's flow graph.

use crate::peers::{Peers, Source};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::{Context, Result, ensure};
use flash_graph::{Cx, Graph, Input, Out, Output, Pool, Pooled, Run};
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Data of one turn.
const DATA: usize = 100_000;
/// Data that go round.
const ROUND: u64 = 1_000_000;

/// `graph_tbb.cpp`.
#[derive(Clone, Copy)]
pub struct FlowGraph {
    chain_ns: unsafe extern "C" fn(c_int, c_int, c_long) -> f64,
    inline_chain_ns: unsafe extern "C" fn(c_int, c_int, c_long) -> f64,
    round_trip_ns: unsafe extern "C" fn(c_int, c_long) -> f64,
}

const FLOW_GRAPH: Source = Source {
    name: "graph_tbb.cpp",
    text: include_str!("../peers/graph_tbb.cpp"),
    compiler: "g++",
    flags: &["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared"],
    libraries: &["-ltbb"],
};

impl FlowGraph {
    pub fn load(cache: &Path) -> Result<FlowGraph> {
        let library = FLOW_GRAPH.load(cache)?;
        // SAFETY: the signatures are those of the functions in graph_tbb.cpp, and `load` keeps the library
        // for ever.
        unsafe {
            Ok(FlowGraph {
                chain_ns: *library.get(b"tbb_chain_ns\0")?,
                inline_chain_ns: *library.get(b"tbb_inline_chain_ns\0")?,
                round_trip_ns: *library.get(b"tbb_round_trip_ns\0")?,
            })
        }
    }

    fn chain(&self, bodies: Bodies, threads: usize, nodes: usize) -> f64 {
        let chain_ns = match bodies {
            Bodies::MayThrow => self.chain_ns,
            Bodies::Inline => self.inline_chain_ns,
        };
        // SAFETY: it takes numbers, and returns one.
        unsafe { chain_ns(threads as c_int, nodes as c_int, DATA as c_long) }
    }

    fn round_trip(&self, threads: usize, data: usize) -> f64 {
        // SAFETY: as in `chain`.
        unsafe { (self.round_trip_ns)(threads as c_int, data as c_long) }
    }
}

/// Bodies of oneTBB's nodes: it runs those that do not throw on the thread that puts a datum.
#[derive(Clone, Copy)]
enum Bodies {
    MayThrow,
    Inline,
}

/// A chain of nodes, of which the last says when it has had [`DATA`] data.
struct Chain {
    run: Run,
    input: Input<u64>,
    output: Output<u64>,
}

fn chain(nodes: usize) -> Result<Chain> {
    let g = Graph::new("chain");
    let (input, output) = (g.input::<u64>("data"), g.output::<u64>("sums"));
    let (mut count, mut sum) = (0, 0u64);
    let last = g.each("last", move |x: u64, out: &mut Out<u64>, _: &mut Cx<'_>| {
        (count, sum) = (count + 1, sum.wrapping_add(x));
        if count == DATA {
            out.emit(sum);
            count = 0;
        }
        Ok(())
    });
    g.edge(&last.out, &output);
    let mut next: Option<flash_graph::NodeRef<_>> = None;
    for i in 1..nodes {
        let node = g.map(&format!("add {i}"), |x: u64| x + 1);
        match &next {
            None => g.edge(&input, &node),
            Some(before) => g.edge(&before.out, &node),
        }
        next = Some(node);
    }
    match &next {
        None => g.edge(&input, &last),
        Some(before) => g.edge(&before.out, &last),
    }
    Ok(Chain { run: g.start()?, input, output })
}

impl Chain {
    /// Nanoseconds per datum, pushed one by one.
    fn each(&self) -> f64 {
        let start = Instant::now();
        for x in 0..DATA as u64 {
            self.run.push(&self.input, x).expect("the graph runs");
        }
        self.end(start)
    }

    /// Nanoseconds per datum, pushed at once.
    fn all(&self) -> f64 {
        let start = Instant::now();
        self.run.push_all(&self.input, 0..DATA as u64).expect("the graph runs");
        self.end(start)
    }

    fn end(&self, start: Instant) -> f64 {
        self.run.results(&self.output).next().expect("the sum");
        start.elapsed().as_nanos() as f64 / DATA as f64
    }
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    // Its threads run the graphs.
    flash::get_runtime("ALL_CPU")?;
    let threads = thread::available_parallelism()?.get();
    let tbb = peers.graph;
    let mut rows = Vec::new();

    let g = Graph::new("round trip");
    let (input, output) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let same = g.map("same", |x: u64| x);
    g.edge(&input, &same);
    g.edge(&same.out, &output);
    let run = g.start()?;
    let mut peer = tbb.map(|tbb| move || tbb.round_trip(threads, DATA));
    rows.push(pair(
        "push to result through one node (oneTBB: put and wait_for_all)",
        "ns",
        REPEATS,
        || {
            let (start, mut results) = (Instant::now(), run.results(&output));
            for x in 0..DATA as u64 {
                run.push(&input, x).expect("the graph runs");
                assert_eq!(results.next(), Some(x));
            }
            start.elapsed().as_nanos() as f64 / DATA as f64
        },
        peer.as_mut().map(|peer| peer as &mut dyn FnMut() -> f64),
        PAUSE,
    ));
    run.wait()?;

    for (nodes, name) in [(1, "one node"), (4, "a chain of four nodes")] {
        let chain = chain(nodes)?;
        for (all, how) in [(false, "push"), (true, "push_all")] {
            for (bodies, which) in
                [(Bodies::MayThrow, "lightweight"), (Bodies::Inline, "lightweight, noexcept")]
            {
                let mut peer = tbb.map(|tbb| move || tbb.chain(bodies, threads, nodes));
                rows.push(pair(
                    format!("a datum through {name}, by {how} (oneTBB: {which})"),
                    "ns",
                    REPEATS,
                    || if all { chain.all() } else { chain.each() },
                    peer.as_mut().map(|peer| peer as &mut dyn FnMut() -> f64),
                    PAUSE,
                ));
            }
        }
        chain.run.wait()?;
    }

    rows.push(pair("a graph of ten nodes, started and ended", "us", 200, || ten_nodes().1, None, PAUSE));
    rows.push(pair(
        "a graph of ten nodes, built, started and ended",
        "us",
        200,
        || ten_nodes().0,
        None,
        PAUSE,
    ));
    rows.push(pair("a cycle of four nodes, 10^6 data, per datum", "ns", REPEATS, cycle, None, PAUSE));
    rows.push(Row::from_turns(
        "memory behind a slow consumer, 192 MiB through a pool of 4 MiB",
        "MiB",
        &[(slow_consumer()?, None)],
    ));
    rows.push(Row::from_turns("processor time of an idle second", "ms", &[(idle()?, None)]));
    rows.extend(crate::graph_blas::rows()?);
    Ok(rows)
}

/// Microseconds to build, start and end a graph, and to start and end it.
fn ten_nodes() -> (f64, f64) {
    let (start, mut runs) = (Instant::now(), Duration::ZERO);
    for _ in 0..100 {
        let g = Graph::new("ten");
        let (input, output) = (g.input::<u64>("a"), g.output::<u64>("c"));
        let node = || g.map("node", |x: u64| x);
        let mut last = node();
        g.edge(&input, &last);
        for _ in 1..10 {
            let next = node();
            g.edge(&last.out, &next);
            last = next;
        }
        g.edge(&last.out, &output);
        let starts = Instant::now();
        g.start().expect("it is sound").wait().expect("it ends");
        runs += starts.elapsed();
    }
    (start.elapsed().as_nanos() as f64 / 1e5, runs.as_nanos() as f64 / 1e5)
}

fn cycle() -> f64 {
    let g = Graph::new("cycle");
    let (input, output) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let decide = g
        .each("decide", |x: u64, out: &mut (Out<u64>, Out<u64>), _: &mut Cx<'_>| {
            match x {
                0 => out.1.emit(x),
                x => out.0.emit(x - 1),
            }
            Ok(())
        })
        .unbounded();
    let [a, b, c] = ["a", "b", "c"].map(|name| g.map(name, |x: u64| x));
    g.edge(&input, &decide);
    g.edge(&decide.out.0, &a);
    g.edge(&a.out, &b);
    g.edge(&b.out, &c);
    g.edge(&c.out, &decide);
    g.edge(&decide.out.1, &output);
    let run = g.start().expect("it is sound");
    let start = Instant::now();
    // A tenth goes in, each ten times round.
    run.push_all(&input, (0..ROUND / 10).map(|_| 10)).expect("it runs");
    run.close();
    assert_eq!(run.results(&output).count() as u64, ROUND / 10);
    run.wait().expect("it ends");
    start.elapsed().as_nanos() as f64 / ROUND as f64
}

/// The value of a line of /proc/self/status, in MiB.
fn status(name: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a line of the status")?;
    let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    Ok(kib.parse::<f64>()? / 1024.0)
}

fn slow_consumer() -> Result<f64> {
    const TILE: usize = 64 << 10;
    let tiles = Pool::new("tiles", 64, || vec![0u8; TILE]);
    let g = Graph::new("slow consumer");
    let (input, sums) = (g.input::<u8>("a"), g.output::<usize>("sums"));
    let pool = tiles.clone();
    let fill = g.each("fill", move |x: u8, out: &mut Out<Pooled<Vec<u8>>>, cx: &mut Cx<'_>| {
        let mut tile = pool.take(cx);
        tile.fill(x);
        out.emit(tile);
        Ok(())
    });
    let fill = fill.takes(&tiles, 1);
    // Of the resident memory, in MiB.
    let most = Arc::new(Mutex::new(0.0));
    let (greatest, mut consumed) = (most.clone(), 0u32);
    let consume = g.map("consume", move |tile: Pooled<Vec<u8>>| {
        thread::sleep(Duration::from_micros(100));
        consumed += 1;
        if consumed.is_multiple_of(64) {
            let now = status("VmRSS").expect("the status of the process");
            let mut most = greatest.lock().expect("nothing panics with it");
            *most = f64::max(*most, now);
        }
        tile.iter().map(|&x| x as usize).sum::<usize>()
    });
    g.edge(&input, &fill);
    g.edge(&fill.out, &consume);
    g.edge(&consume.out, &sums);
    let before = status("VmRSS")?;
    let run = g.start()?;
    run.push_all(&input, (0..3072).map(|i| i as u8))?;
    run.close();
    ensure!(run.results(&sums).count() == 3072, "each tile has a sum");
    run.wait()?;
    let most = *most.lock().expect("nothing panics with it");
    Ok(most - before)
}

fn idle() -> Result<f64> {
    let Chain { run, input, output } = chain(4)?;
    run.push_all(&input, 0..DATA as u64)?;
    run.results(&output).next().context("the sum")?;
    thread::sleep(Duration::from_millis(100));
    let before = processor_time();
    thread::sleep(Duration::from_secs(1));
    let used = processor_time() - before;
    run.wait()?;
    Ok(used)
}

/// Of all threads of the process, in milliseconds.
fn processor_time() -> f64 {
    // SAFETY: zeroes are a timespec.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it writes the time to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
