//! The rows of the benchmark `async`: what pipelines cost that run beside their caller.
//!
//! | file | its rows |
//! |---|---|
//! | `mod.rs` | pipelines and launches in this process, beside rayon, oneTBB, and a thread with channels |
//! | `processes.rs` | two CPU devices, late host tasks, an idle second: each in its own processes |
//! | `events.rs` | two OpenCL devices, beside the same commands with OpenCL's events |
//! | `thread.rs` | the peer of a program without a library: a thread that takes functions from a channel |

mod events;
mod processes;
mod thread;

use crate::dispatch::{memories, parallel, per_call};
use crate::kernels::{Empty, Grind, Nothing};
use crate::peers::Peers;
use crate::stats::{self, PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use flash::kernel::{CpuItem, Index};
use flash::{FlashMemory, KernelDefinition, Pipeline, RuntimeObj, get_runtime, kernel};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thread::Thread;

pub use processes::measure;

/// The number of pipelines in flight at the same time.
const MANY: usize = 64;
/// The number of items of a launch from a worker's task.
const ITEMS: usize = 4096;
/// How long the caller computes before it starts something, so that the threads of all sides sleep.
const REST: Duration = Duration::from_micros(500);

/// A kernel that stores when it runs.
#[derive(KernelDefinition)]
#[kernel(name = "bench.stamp", dims(i))]
struct Stamp {
    a: u32,
}

struct Clock;

#[kernel]
impl CpuItem<Stamp> for Clock {
    fn item(_: Index<1>, _: StampItem) {
        stamp();
    }
}

/// When the last start began to run, in nanoseconds of [`now`]; 0 until it does.
static BEGAN: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    1 + START.elapsed().as_nanos() as u64
}

fn stamp() {
    BEGAN.store(now(), Ordering::Release);
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let rt = get_runtime("ALL_CPU")?;
    let threads = std::thread::available_parallelism()?.get();
    let others =
        Others { rayon: ThreadPoolBuilder::new().num_threads(threads).build()?, thread: Thread::new() };
    let mut rows = one(&rt, peers, &others, threads);
    rows.extend(begin(&rt, peers, &others, threads));
    rows.extend(many(&rt, peers, &others, threads));
    rows.extend(from_a_worker(&rt)?);
    rows.extend(processes::rows()?);
    rows.extend(events::rows()?);
    Ok(rows)
}

/// The peers that are written in Rust.
struct Others {
    rayon: ThreadPool,
    thread: Thread,
}

/// A pipeline of one launch, and waiting for it.
fn one(rt: &RuntimeObj, peers: &Peers, others: &Others, threads: usize) -> Vec<Row> {
    const CALLS: usize = 500;
    let memories = memories();
    let mut ours = || per_call(CALLS, || empty(rt, &memories).wait().expect("an empty kernel runs"));
    let name = |peer: &str| format!("exec_async and wait, empty kernel, against {peer}");
    let mut row = |peer: &str, other: &mut dyn FnMut() -> f64| {
        pair(name(peer), "ns", REPEATS, &mut ours, Some(other), PAUSE)
    };
    let mut rows = vec![
        row("rayon's spawn and a channel", &mut || {
            per_call(CALLS, || {
                let (done, wait) = mpsc::channel();
                others.rayon.spawn(move || done.send(()).expect("it is waited for"));
                wait.recv().expect("it runs");
            })
        }),
        row("a thread that waits, and two channels", &mut || {
            per_call(CALLS, || {
                others.thread.run(|| ());
                others.thread.wait(1);
            })
        }),
    ];
    if let Some(tbb) = &peers.tbb {
        rows.push(row("oneTBB's task_group, whose waiter runs it", &mut || tbb.tasks_ns(threads, 1, CALLS)));
    }
    rows
}

/// Starts an empty kernel.
fn empty(rt: &RuntimeObj, [x, y, z]: &[FlashMemory<f32>; 3]) -> flash::Handle {
    rt.submit(Empty::of(1.0, x.clone(), y.clone(), z.clone())).exec_async([1usize])
}

/// The time from a start until the work begins, while the caller computes.
fn begin(rt: &RuntimeObj, peers: &Peers, others: &Others, threads: usize) -> Vec<Row> {
    const STARTS: usize = 20;
    let turn = |start: &dyn Fn() -> Box<dyn FnOnce()>| {
        let latencies = stats::sorted((0..STARTS).map(|_| latency(start)));
        stats::median(&latencies)
    };
    let mut ours = || {
        turn(&|| {
            let handle = rt.submit(Stamp::of(0)).exec_async([1usize]);
            Box::new(move || handle.wait().expect("it runs"))
        })
    };
    let name =
        |peer: &str| format!("until a pipeline begins whose caller computes elsewhere, against {peer}");
    let mut row = |peer: &str, other: &mut dyn FnMut() -> f64| {
        pair(name(peer), "ns", REPEATS, &mut ours, Some(other), PAUSE)
    };
    let mut rows = vec![
        row("rayon's spawn", &mut || {
            turn(&|| {
                others.rayon.spawn(stamp);
                Box::new(|| ())
            })
        }),
        row("a thread that waits for a channel", &mut || {
            let latency = turn(&|| {
                others.thread.run(stamp);
                Box::new(|| ())
            });
            others.thread.wait(STARTS);
            latency
        }),
    ];
    if let Some(tbb) = &peers.tbb {
        rows.push(row("oneTBB's enqueue", &mut || tbb.begin_ns(threads, STARTS, REST)));
    }
    rows
}

/// Nanoseconds until the work that `start` starts has called [`stamp`]. The function that `start` returns
/// waits for the work's end.
fn latency(start: &dyn Fn() -> Box<dyn FnOnce()>) -> f64 {
    let rest = Instant::now();
    while rest.elapsed() < REST {
        compute();
    }
    BEGAN.store(0, Ordering::Relaxed);
    let from = now();
    let end = start();
    let mut began = 0;
    while began == 0 {
        compute();
        began = BEGAN.load(Ordering::Acquire);
        assert!(now() - from < 1_000_000_000, "what was started did not begin within a second");
    }
    end();
    (began - from) as f64
}

/// Some 100 ns of work.
fn compute() {
    let mut x = black_box(1.0f64);
    for _ in 0..40 {
        x = x * 0.999 + 0.5;
    }
    black_box(x);
}

/// Pipelines that are independent of each other, and waiting for all.
fn many(rt: &RuntimeObj, peers: &Peers, others: &Others, threads: usize) -> Vec<Row> {
    const CALLS: usize = 20;
    let memories: Vec<_> = (0..MANY).map(|_| memories()).collect();
    let each = |mut all: Box<dyn FnMut() + '_>| per_call(CALLS, &mut *all) / MANY as f64;
    let mut ours = || {
        each(Box::new(|| {
            let handles: Vec<_> = memories.iter().map(|memories| empty(rt, memories)).collect();
            handles.iter().for_each(|handle| handle.wait().expect("an empty kernel runs"));
        }))
    };
    let name = |peer: &str| format!("{MANY} independent exec_async and their waits, each, against {peer}");
    let mut row = |peer: &str, other: &mut dyn FnMut() -> f64| {
        pair(name(peer), "ns", REPEATS, &mut ours, Some(other), PAUSE)
    };
    let mut rows = vec![
        row("rayon's spawns in a scope", &mut || {
            each(Box::new(|| {
                others.rayon.in_place_scope(|scope| {
                    (0..MANY).for_each(|i| {
                        scope.spawn(move |_| {
                            black_box(i);
                        })
                    })
                });
            }))
        }),
        row("a thread that waits, and two channels", &mut || {
            each(Box::new(|| {
                (0..MANY).for_each(|_| others.thread.run(|| ()));
                others.thread.wait(MANY);
            }))
        }),
    ];
    if let Some(tbb) = &peers.tbb {
        rows.push(row("oneTBB's task_group, whose waiter runs some", &mut || {
            tbb.tasks_ns(threads, MANY, CALLS) / MANY as f64
        }));
    }
    rows
}

/// A launch by a thread of rayon's global pool, beside the same by this one.
fn from_a_worker(rt: &RuntimeObj) -> Result<Vec<Row>> {
    let nothing = rt.submit(Nothing::of(0)).options(parallel()).defer([ITEMS]);
    let (from, to) = (FlashMemory::<f64>::zeroed(ITEMS), FlashMemory::<f64>::zeroed(ITEMS));
    let work = rt.submit(Grind::of(10, &from, &to)).defer([ITEMS]);
    let row = |items: &str, launch: &Pipeline<'_>, calls: usize| {
        let name = format!("a launch of 4,096 {items} from a task of rayon's pool, against the same outside");
        let launches = || {
            per_call(calls / 10, || launch.exec().expect("it runs"));
            per_call(calls, || launch.exec().expect("it runs"))
        };
        let inside = || {
            let mut figure = f64::NAN;
            rayon::in_place_scope(|scope| scope.spawn(|_| figure = launches()));
            figure
        };
        launches();
        pair(name, "ns", REPEATS, inside, Some(&mut { launches }), PAUSE)
    };
    let mut rows = vec![row("empty items", &nothing, 1000), row("items that compute", &work, 100)];
    // Each launch in a task of its own: the other workers have just looked for work. Beside it the same
    // launch of this thread, which has waited for a task as well.
    let in_task = |task: &(dyn Fn() -> f64 + Sync)| {
        let mut figure = f64::NAN;
        rayon::in_place_scope(|scope| scope.spawn(|_| figure = task()));
        figure
    };
    let one = || per_call(1, || nothing.exec().expect("it runs"));
    let median = |launch: &dyn Fn() -> f64| {
        let times = stats::sorted((0..200).map(|_| launch()));
        stats::median(&times)
    };
    rows.push(pair(
        "one launch of 4,096 empty items by each task of rayon's pool, against the same after such a task",
        "ns",
        REPEATS,
        || median(&|| in_task(&one)),
        Some(&mut || {
            median(&|| {
                in_task(&|| 0.0);
                one()
            })
        }),
        PAUSE,
    ));
    Ok(rows)
}
