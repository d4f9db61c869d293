//! What tasks cost, beside rayon, oneTBB, OpenMP and StarPU: Fibonacci numbers, independent tasks, a chain,
//! and the tasks of a Cholesky factorisation.

use crate::peers::{Peers, Source, int, long};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use crate::tasks_jacobi;
use anyhow::{Result, ensure};
use flash_tasks::{Scope, TaskGraph, join, scope};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::thread;
use std::time::Instant;

/// F(24): 150,049 tasks where each call is one.
const FIB: u32 = 24;
const FIB_RESULT: u64 = 46_368;
/// Independent tasks, and tasks of a chain.
const TASKS: usize = 100_000;
/// Tiles on a side of the matrix: 45,760 tasks.
const TILES: usize = 64;

/// `tasks_tbb.cpp`.
#[derive(Clone, Copy)]
pub struct TbbTasks {
    fib_ns: unsafe extern "C" fn(c_int, c_long, *mut c_long) -> f64,
    independent_ns: unsafe extern "C" fn(c_int, c_long) -> f64,
    graph_ns: unsafe extern "C" fn(c_int, c_long, c_long, *const c_int, *const c_int, *mut f64) -> f64,
}

/// `tasks_openmp.c`.
#[derive(Clone, Copy)]
pub struct OpenMpTasks {
    fib_ns: unsafe extern "C" fn(c_int, c_long, *mut c_long) -> f64,
    cholesky_ns: unsafe extern "C" fn(c_int, c_long) -> f64,
}

/// `tasks_starpu.c`.
#[derive(Clone, Copy)]
pub struct StarPu {
    cholesky_ns: unsafe extern "C" fn(c_int, c_long) -> f64,
}

impl TbbTasks {
    pub fn load(cache: &Path) -> Result<TbbTasks> {
        let source = Source {
            name: "tasks_tbb.cpp",
            text: include_str!("../peers/tasks_tbb.cpp"),
            compiler: "g++",
            flags: &["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared"],
            libraries: &["-ltbb"],
        };
        let library = source.load(cache)?;
        // SAFETY: the signatures are those of the functions in tasks_tbb.cpp, and `load` keeps the library
        // for ever.
        unsafe {
            Ok(TbbTasks {
                fib_ns: *library.get(b"tbb_fib_ns\0")?,
                independent_ns: *library.get(b"tbb_independent_ns\0")?,
                graph_ns: *library.get(b"tbb_graph_ns\0")?,
            })
        }
    }

    /// Nanoseconds to build and run a graph of empty tasks, and to run it again.
    fn graph(&self, threads: usize, tasks: usize, edges: &Edges) -> (f64, f64) {
        let mut again = 0.0;
        // SAFETY: the arrays have as many elements as is said, and are indices below `tasks`.
        let first = unsafe {
            let (from, to) = (edges.from.as_ptr(), edges.to.as_ptr());
            (self.graph_ns)(int(threads), long(tasks), long(edges.from.len()), from, to, &mut again)
        };
        (first, again)
    }
}

impl OpenMpTasks {
    pub fn load(cache: &Path) -> Result<OpenMpTasks> {
        let source = Source {
            name: "tasks_openmp.c",
            text: include_str!("../peers/tasks_openmp.c"),
            compiler: "gcc",
            flags: &["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"],
            libraries: &[],
        };
        let library = source.load(cache)?;
        // SAFETY: as above, for tasks_openmp.c.
        unsafe {
            Ok(OpenMpTasks {
                fib_ns: *library.get(b"omp_fib_ns\0")?,
                cholesky_ns: *library.get(b"omp_cholesky_ns\0")?,
            })
        }
    }
}

impl StarPu {
    pub fn load(cache: &Path) -> Result<StarPu> {
        let source = Source {
            name: "tasks_starpu.c",
            text: include_str!("../peers/tasks_starpu.c"),
            compiler: "gcc",
            flags: &["-O3", "-march=native", "-fPIC", "-shared", "-I/usr/include/starpu/1.3"],
            libraries: &["-lstarpu-1.3"],
        };
        let library = source.load(cache)?;
        // SAFETY: as above, for tasks_starpu.c.
        unsafe { Ok(StarPu { cholesky_ns: *library.get(b"starpu_cholesky_ns\0")? }) }
    }
}

/// The edges of a graph, from tasks to tasks.
#[derive(Default)]
struct Edges {
    from: Vec<c_int>,
    to: Vec<c_int>,
}

/// The accesses of the tasks of a Cholesky factorisation of `TILES` x `TILES` tiles, in order: what each
/// reads, and the one that it writes.
fn cholesky() -> Vec<(Vec<usize>, usize)> {
    let tile = |i: usize, j: usize| i * TILES + j;
    let mut tasks = Vec::new();
    for k in 0..TILES {
        tasks.push((vec![], tile(k, k)));
        tasks.extend((k + 1..TILES).map(|i| (vec![tile(k, k)], tile(i, k))));
        for i in k + 1..TILES {
            tasks.push((vec![tile(i, k)], tile(i, i)));
            tasks.extend((k + 1..i).map(|j| (vec![tile(i, k), tile(j, k)], tile(i, j))));
        }
    }
    tasks
}

/// The edges that a program for oneTBB gives: each task after the writers of what it reads and writes.
fn edges(tasks: &[(Vec<usize>, usize)]) -> Edges {
    let mut writers = vec![None; TILES * TILES];
    let mut edges = Edges::default();
    for (task, (reads, write)) in tasks.iter().enumerate() {
        for from in reads.iter().chain([write]).filter_map(|&tile| writers[tile]) {
            edges.from.push(from);
            edges.to.push(int(task));
        }
        writers[*write] = Some(int(task));
    }
    edges
}

fn graph_of(tasks: &[(Vec<usize>, usize)]) -> TaskGraph<'static> {
    let mut graph = TaskGraph::new();
    let tiles: Vec<_> = (0..TILES * TILES).map(|_| graph.datum()).collect();
    for (reads, write) in tasks {
        match reads[..] {
            [] => graph.task(&[], &[tiles[*write]], || ()),
            [a] => graph.task(&[tiles[a]], &[tiles[*write]], || ()),
            [a, b, ..] => graph.task(&[tiles[a], tiles[b]], &[tiles[*write]], || ()),
        };
    }
    graph
}

fn chain_of(tasks: usize, wide: bool) -> TaskGraph<'static> {
    let mut graph = TaskGraph::new();
    let datum = graph.datum();
    for _ in 0..tasks {
        graph.task(&[], if wide { &[] } else { std::slice::from_ref(&datum) }, || ());
    }
    graph
}

fn fib_of_joins(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = join(|| fib_of_joins(n - 1), || fib_of_joins(n - 2));
    a + b
}

fn fib_of_rayon(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = rayon::join(|| fib_of_rayon(n - 1), || fib_of_rayon(n - 2));
    a + b
}

fn fib_of_tasks<'scope>(s: &'scope Scope<'scope, '_>, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let a = s.spawn(move || fib_of_tasks(s, n - 1));
    let b = s.spawn(move || fib_of_tasks(s, n - 2));
    match (a.wait(), b.wait()) {
        (Ok(a), Ok(b)) => a + b,
        (a, b) => panic!("a number is added up: {a:?}, {b:?}"),
    }
}

/// Nanoseconds of a call.
fn timed(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let threads = thread::available_parallelism()?.get();
    let rayon = ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut rows = fib(peers, &rayon, threads)?;
    rows.extend(independent(peers, threads));
    rows.extend(graphs(peers, threads));
    rows.extend(tasks_jacobi::rows(peers, threads)?);
    Ok(rows)
}

fn fib(peers: &Peers, rayon: &ThreadPool, threads: usize) -> Result<Vec<Row>> {
    let joins = || timed(|| assert_eq!(fib_of_joins(FIB), FIB_RESULT)) / 1e6;
    let tasks = || timed(|| assert_eq!(scope(|s| fib_of_tasks(s, FIB)), Ok(FIB_RESULT))) / 1e6;
    let of_rayon = || timed(|| assert_eq!(rayon.install(|| fib_of_rayon(FIB)), FIB_RESULT)) / 1e6;
    let mut rows = vec![pair(
        "fib(24) with join, against rayon::join",
        "ms",
        REPEATS,
        joins,
        Some(&mut { of_rayon }),
        PAUSE,
    )];
    let name = |peer: &str| format!("fib(24), each call a task that may suspend, against {peer}");
    let mut results = Vec::new();
    let mut peer_ms = |call: &dyn Fn(&mut c_long) -> f64| {
        let mut result = 0;
        let ns = call(&mut result);
        results.push(result);
        ns / 1e6
    };
    if let Some(tbb) = peers.tasks {
        // SAFETY: the result is written before the call returns.
        let mut tbb = || peer_ms(&|result| unsafe { (tbb.fib_ns)(int(threads), FIB.into(), result) });
        rows.push(pair(name("oneTBB"), "ms", REPEATS, tasks, Some(&mut tbb), PAUSE));
    }
    if let Some(openmp) = peers.openmp_tasks {
        // SAFETY: as above.
        let mut openmp = || peer_ms(&|result| unsafe { (openmp.fib_ns)(int(threads), FIB.into(), result) });
        rows.push(pair(name("OpenMP"), "ms", 5, tasks, Some(&mut openmp), PAUSE));
    }
    ensure!(results.iter().all(|&result| result as u64 == FIB_RESULT), "a peer has another F(24)");
    Ok(rows)
}

fn independent(peers: &Peers, threads: usize) -> Vec<Row> {
    let spawned = || {
        let all = || scope(|s| (0..TASKS).for_each(|_| drop(s.spawn(|| ()))));
        timed(|| all().expect("empty tasks end")) / TASKS as f64
    };
    let graph = || timed(|| chain_of(TASKS, true).run().expect("empty tasks end")) / TASKS as f64;
    let mut rows = Vec::new();
    if let Some(tbb) = peers.tasks {
        // SAFETY: it takes numbers and returns one.
        let mut group = || unsafe { (tbb.independent_ns)(int(threads), long(TASKS)) } / TASKS as f64;
        let name = "10^5 independent tasks, spawned by one thread, against oneTBB's task_group";
        rows.push(pair(name, "ns", REPEATS, spawned, Some(&mut group), PAUSE));
        let mut built = || tbb.graph(threads, TASKS, &Edges::default()).0 / TASKS as f64;
        let name = "10^5 independent tasks of a graph, built and run, against oneTBB's continue_node";
        rows.push(pair(name, "ns", REPEATS, graph, Some(&mut built), PAUSE));
    }
    rows
}

fn graphs(peers: &Peers, threads: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let tasks = cholesky();
    let count = tasks.len() as f64;
    let built = || timed(|| graph_of(&tasks).run().expect("empty tasks end")) / count;
    let mut kept = graph_of(&tasks);
    // Right after another run, as the peer's: what a kept graph is for.
    let mut again = || {
        kept.run().expect("empty tasks end");
        timed(|| kept.run().expect("empty tasks end")) / count
    };
    let chain = || timed(|| chain_of(TASKS, false).run().expect("empty tasks end")) / TASKS as f64;
    if let Some(tbb) = peers.tasks {
        let line = Edges { from: (0..int(TASKS) - 1).collect(), to: (1..int(TASKS)).collect() };
        let mut peer = || tbb.graph(threads, TASKS, &line).0 / TASKS as f64;
        let name = "chain of 10^5 tasks, built and run, against oneTBB's continue_node";
        rows.push(pair(name, "ns", REPEATS, chain, Some(&mut peer), PAUSE));
        let edges = edges(&tasks);
        let mut peer = || tbb.graph(threads, tasks.len(), &edges).0 / count;
        let name =
            "cholesky, 45,760 empty tasks, built from accesses and run, against oneTBB with given edges";
        rows.push(pair(name, "ns", REPEATS, built, Some(&mut peer), PAUSE));
        let mut peer = || tbb.graph(threads, tasks.len(), &edges).1 / count;
        let name = "cholesky, the kept graph run again, against oneTBB";
        rows.push(pair(name, "ns", REPEATS, &mut again, Some(&mut peer), PAUSE));
    }
    let mut peer = built;
    let name = "cholesky, the kept graph run again, against building and running it";
    rows.push(pair(name, "ns", REPEATS, &mut again, Some(&mut peer), PAUSE));
    if let Some(openmp) = peers.openmp_tasks {
        // SAFETY: it takes numbers and returns one.
        let mut peer = || unsafe { (openmp.cholesky_ns)(int(threads), long(TILES)) } / count;
        let name = "cholesky, built from accesses and run, against OpenMP's depend";
        rows.push(pair(name, "ns", REPEATS, built, Some(&mut peer), PAUSE));
    }
    if let Some(starpu) = peers.starpu {
        // SAFETY: as above.
        let mut peer = || unsafe { (starpu.cholesky_ns)(int(threads), long(TILES)) } / count;
        let name = "cholesky, built from accesses and run, against StarPU";
        rows.push(pair(name, "ns", 5, built, Some(&mut peer), PAUSE));
    }
    rows
}
