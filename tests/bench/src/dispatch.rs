//! What a launch costs: the rows of the dispatch benchmark, with those of `stream`.

use crate::kernels::{Empty, Nothing, Phases};
use crate::peers::{Item, Peers};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use crate::{allocations, child, stream};
use anyhow::{Context, Result};
use flash::{FlashMemory, Pipeline, RuntimeObj, get_runtime};
use flash_core::descriptor::{Attributes, Priority};
use flash_core::index::{Dim, Group, Order, OrderTraits};
use rayon::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Items of a launch in which all threads take part.
const ITEMS: usize = 1024;
/// Submissions of a chain.
const CHAIN: usize = 1000;
/// Phases of a launch with barriers, and items of each.
const PHASES: usize = 1000;
const PHASE_ITEMS: usize = 64;
/// For turns after which no thread spins while the other is measured.
const NO_PAUSE: Duration = Duration::ZERO;

/// Nanoseconds per call of `body`.
pub fn per_call(calls: usize, mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        body();
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// Three memories of one element.
pub fn memories() -> [FlashMemory<f32>; 3] {
    std::array::from_fn(|_| FlashMemory::zeroed(1))
}

/// A warm submission of an empty kernel: one item, one scalar, three memories. Nanoseconds.
pub fn warm_submit(rt: &RuntimeObj, [x, y, z]: &[FlashMemory<f32>; 3], launches: usize) -> f64 {
    per_call(launches, || {
        rt.submit(Empty::of(1.0, x, y, z)).exec([1usize]).expect("an empty kernel runs");
    })
}

/// A chain of submissions that depend on each other.
pub fn chain<'a>(
    rt: &RuntimeObj,
    x: &'a FlashMemory<f32>,
    y: &'a FlashMemory<f32>,
    z: &'a FlashMemory<f32>,
) -> Pipeline<'a> {
    let mut p = rt.pipeline();
    for _ in 0..CHAIN {
        p = p.submit(Empty::of(1.0, x, y, z)).defer([1usize]);
    }
    p
}

/// An option of the CPU backend: a launch is never too small for all threads.
pub fn parallel() -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set_by_name("cpu.parallel", true.into(), false);
    attributes
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let rt = get_runtime("ALL_CPU")?;
    let threads = std::thread::available_parallelism()?.get();
    let mut rows = submission(&rt)?;
    rows.push(child::row("warm submit+exec, empty kernel, through a plugin", "ns", "plugin")?);
    rows.extend(start()?);
    if threads > 1 {
        rows.extend(blocking(&rt, peers, threads)?);
        rows.extend(barriers(&rt, peers, threads)?);
    } else {
        eprintln!("one CPU: launches and barriers of several threads are not measured");
    }
    rows.push(many_threads(&rt));
    rows.push(order());
    rows.extend(stream::rows(peers)?);
    Ok(rows)
}

fn submission(rt: &RuntimeObj) -> Result<Vec<Row>> {
    let memories = memories();
    let [x, y, z] = &memories;
    warm_submit(rt, &memories, 1000);
    let mut rows = vec![pair(
        "warm submit+exec, empty kernel, 1 scalar + 3 memories",
        "ns",
        200,
        || warm_submit(rt, &memories, 2000),
        None,
        NO_PAUSE,
    )];
    let chain = || chain(rt, x, y, z);
    chain().exec()?;
    rows.push(pair(
        "chain of 1,000 dependent, built and run, per kernel",
        "ns",
        100,
        || per_call(1, || chain().exec().expect("a chain runs")) / CHAIN as f64,
        None,
        NO_PAUSE,
    ));
    let kept = chain();
    rows.push(pair(
        "chain of 1,000 dependent, kept and run again, per kernel",
        "ns",
        100,
        || per_call(10, || kept.exec().expect("a chain runs")) / CHAIN as f64,
        None,
        NO_PAUSE,
    ));
    rows.push(pair(
        "runtime with an option, made anew, and its launch, against the option on the submission",
        "ns",
        REPEATS,
        || {
            per_call(500, || {
                let rt = rt.options(Priority(1));
                rt.submit(Empty::of(1.0, x, y, z)).exec([1usize]).expect("an empty kernel runs");
            })
        },
        Some(&mut || {
            per_call(500, || {
                let submission = rt.submit(Empty::of(1.0, x, y, z)).options(Priority(1));
                submission.exec([1usize]).expect("an empty kernel runs");
            })
        }),
        NO_PAUSE,
    ));
    // The kept chain has the buffer that was warm: warm another.
    warm_submit(rt, &memories, 10);
    chain().exec()?;
    let before = allocations::count();
    warm_submit(rt, &memories, 1000);
    chain().exec()?;
    let allocated = (allocations::count() - before) as f64;
    rows.push(Row::from_turns(
        "warm path allocations, 1,000 launches and a chain",
        "count",
        &[(allocated, None)],
    ));
    Ok(rows)
}

/// What the first use costs, in fresh processes.
fn start() -> Result<Vec<Row>> {
    Ok(vec![
        child::row("get_runtime(\"ALL_CPU\") in a fresh process", "us", "runtime")?,
        child::row("first launch of a kernel in a fresh process", "us", "first")?,
        child::process_row("process start to first result", "ms")?,
    ])
}

/// Launches in which all threads take part.
fn blocking(rt: &RuntimeObj, peers: &Peers, threads: usize) -> Result<Vec<Row>> {
    const LAUNCHES: usize = 2000;
    let launch = rt.submit(Nothing::of(0)).options(parallel()).defer([ITEMS]);
    launch.exec()?;
    let mut ours = || {
        per_call(200, || launch.exec().expect("runs"));
        per_call(LAUNCHES, || launch.exec().expect("runs"))
    };
    let name = |peer: &str| format!("blocking launch, 1,024 empty items, {threads} threads, against {peer}");
    let mut rows = Vec::new();
    if let Some(openmp) = &peers.openmp {
        rows.push(pair(
            name("gcc OpenMP parallel for, spinning"),
            "ns",
            REPEATS,
            &mut ours,
            Some(&mut || {
                openmp.launch_ns(threads, ITEMS, Item::Empty, 200);
                openmp.launch_ns(threads, ITEMS, Item::Empty, LAUNCHES)
            }),
            PAUSE,
        ));
    }
    if let Some(tbb) = &peers.tbb {
        rows.push(pair(
            name("oneTBB static, launches that all threads share"),
            "ns",
            REPEATS,
            &mut ours,
            Some(&mut || tbb.launch(threads, ITEMS, Item::Empty, LAUNCHES).shared_ns),
            PAUSE,
        ));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let items = || {
        (0..ITEMS).into_par_iter().with_min_len(ITEMS / threads).for_each(|i| {
            black_box(i);
        })
    };
    rows.push(pair(
        name("rayon par_iter inside its pool"),
        "ns",
        REPEATS,
        &mut ours,
        Some(&mut || pool.install(|| per_call(LAUNCHES, items))),
        PAUSE,
    ));
    rows.push(pair(
        name("rayon par_iter from outside its pool"),
        "ns",
        REPEATS,
        &mut ours,
        Some(&mut || per_call(LAUNCHES / 4, || pool.install(items))),
        PAUSE,
    ));
    Ok(rows)
}

fn barriers(rt: &RuntimeObj, peers: &Peers, threads: usize) -> Result<Vec<Row>> {
    let launch = rt.submit(Phases::of(0)).options(parallel()).defer([PHASE_ITEMS, PHASES]);
    launch.exec()?;
    let ours = || {
        launch.exec().expect("runs");
        per_call(20, || launch.exec().expect("runs")) / PHASES as f64
    };
    let openmp = peers.openmp.as_ref();
    let mut peer = openmp.map(|o| move || o.barrier_ns(threads, PHASE_ITEMS, Item::Empty, PHASES, 20));
    Ok(vec![pair(
        format!("1,000 phases of 64 items, per barrier, {threads} threads, against gcc OpenMP"),
        "ns",
        REPEATS,
        ours,
        peer.as_mut().map(|p| p as &mut dyn FnMut() -> f64),
        PAUSE,
    )])
}

/// Eight host threads, each with memories of its own.
fn many_threads(rt: &RuntimeObj) -> Row {
    let turn = || {
        let times: Vec<f64> = std::thread::scope(|scope| {
            let one = || {
                let memories = memories();
                warm_submit(rt, &memories, 100);
                warm_submit(rt, &memories, 5000)
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|t| t.join().expect("a thread that submits")).collect()
        });
        times.iter().sum::<f64>() / times.len() as f64
    };
    pair("warm submit+exec, 8 host threads at once, each", "ns", REPEATS, turn, None, NO_PAUSE)
}

/// Order and phases of 10^12 items, sorted.
fn order() -> Row {
    let dims = [Dim::Count(10_000), Dim::Count(10_000), Dim::Count(10_000)];
    let traits = OrderTraits { sort: &[0, 2], group: Some(Group::Dims(&[2])) };
    let turn = || {
        per_call(1000, || {
            black_box(Order::new(black_box(&dims), &traits).context("an order").is_ok());
        })
    };
    pair("order and phases of a sorted space of 10^12 items", "ns", 100, turn, None, NO_PAUSE)
}
