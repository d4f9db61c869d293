//! The FLASH paper's measure of overhead: what a launch takes beyond the kernel's own time, in both of the
//! paper's programs, with the same machine code in the same run dispatched by FLASH, gcc's OpenMP and oneTBB.
//!
//! The kernel's time of a launch is what all threads spent in it, divided among them evenly: a thread that
//! waits for another, or does the work of both, is overhead.

use crate::diffusion;
use crate::peers::{Peers, Source};
use crate::stats::{PAUSE, REPEATS, Row};
use anyhow::Result;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Whole, Write};
use flash::kernel::{CpuSpan, Span};
use flash::kernels::diffusion::{OUTSIDE, reach};
use flash::{FlashMemory, KernelDefinition, RuntimeObj, get_runtime};
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

/// Bodies, as in the paper.
const BODIES: usize = 16_000;
const G: f32 = 6.67259e-11;
const SOFTENING2: f32 = 1e-3;
/// Particles, and iterations of one launch.
const PARTICLES: usize = 256;
const ITERATIONS: usize = 1024;
const ROW: usize = ITERATIONS + 1;
const GRID: u32 = 22;

type AccelerateShare =
    unsafe extern "C" fn(c_long, c_long, c_long, f32, f32, *const f32, *const f32, *mut f32);
type AccelerateNs =
    unsafe extern "C" fn(c_int, c_int, c_long, f32, f32, *const f32, *const f32, *mut f32) -> f64;
type WalkShare = unsafe extern "C" fn(
    c_long,
    c_long,
    c_long,
    f32,
    c_long,
    c_long,
    *const f32,
    *const f32,
    *mut f32,
    *mut f32,
    *mut u32,
    *mut u32,
    c_long,
);
type WalkNs = unsafe extern "C" fn(
    c_int,
    c_int,
    c_long,
    f32,
    c_long,
    c_long,
    *const f32,
    *const f32,
    *mut f32,
    *mut f32,
    *mut u32,
    *mut u32,
    c_long,
) -> f64;

/// What else dispatches the kernels, by the numbers that `overhead.cpp` has for them.
const PEERS: [&str; 4] = ["OpenMP", "OpenMP, guided", "oneTBB, static", "oneTBB"];

/// `overhead.cpp`.
#[derive(Clone, Copy)]
pub struct Shares {
    begin: unsafe extern "C" fn(),
    kernel_ns: unsafe extern "C" fn(c_int) -> f64,
    accelerate: AccelerateShare,
    accelerate_ns: AccelerateNs,
    walk: WalkShare,
    walk_ns: WalkNs,
}

/// For the kernels, which are values of no type.
static SHARES: OnceLock<Shares> = OnceLock::new();

const OVERHEAD: Source = Source {
    name: "overhead.cpp",
    text: include_str!("../peers/overhead.cpp"),
    compiler: "g++",
    flags: &["-std=c++17", "-O3", "-march=native", "-ffast-math", "-fopenmp", "-fPIC", "-shared"],
    libraries: &["-ltbb"],
};

impl Shares {
    pub fn load(cache: &Path) -> Result<Shares> {
        let library = OVERHEAD.load(cache)?;
        // SAFETY: the signatures are those of the functions in overhead.cpp, and `load` keeps the library for
        // ever.
        unsafe {
            Ok(Shares {
                begin: *library.get(b"overhead_begin\0")?,
                kernel_ns: *library.get(b"overhead_kernel_ns\0")?,
                accelerate: *library.get(b"accelerate_share\0")?,
                accelerate_ns: *library.get(b"accelerate_ns\0")?,
                walk: *library.get(b"walk_share\0")?,
                walk_ns: *library.get(b"walk_ns\0")?,
            })
        }
    }
}

/// Gravity, by `accelerate_share`.
#[derive(KernelDefinition)]
#[kernel(name = "bench.accelerate", dims(body))]
struct Accelerate<'a> {
    pos: Whole<'a, Read<[f32; 3]>>,
    mass: Whole<'a, Read<f32>>,
    acc: Item<'a, Write<[f32; 3]>>,
}

/// Ways of particles, by `walk_share`.
#[derive(KernelDefinition)]
#[kernel(name = "bench.walk", dims(particle))]
struct Walk<'a> {
    rx: Whole<'a, Read<f32>>,
    ry: Whole<'a, Read<f32>>,
    x: Item<'a, ReadWrite<f32>>,
    y: Item<'a, ReadWrite<f32>>,
    cell: Item<'a, ReadWrite<u32>>,
    track: Item<'a, Write<[u32; ROW]>>,
}

struct Shared;

fn bounds(run: &Span<1>) -> (c_long, c_long) {
    (run.range().start as c_long, run.range().end as c_long)
}

// Each body, and each particle, is worth a share of its own.
#[kernel(alignment = 1)]
impl CpuSpan<Accelerate<'_>> for Shared {
    fn span(run: Span<1>, k: AccelerateSpan<'_>) {
        let (shares, (first, end)) = (SHARES.get().expect("loaded"), bounds(&run));
        let (pos, mass, n) = (k.pos.as_ptr().cast(), k.mass.as_ptr(), k.mass.len() as c_long);
        assert!(k.pos.len() == k.mass.len() && run.range().end <= k.pos.len());
        // SAFETY: all bodies up to `end` are there, with as many masses, and `acc` is those of this run.
        unsafe { (shares.accelerate)(first, end, n, G, SOFTENING2, pos, mass, k.acc.as_mut_ptr().cast()) }
    }
}

#[kernel(alignment = 1)]
impl CpuSpan<Walk<'_>> for Shared {
    fn span(run: Span<1>, k: WalkSpan<'_>) {
        let (shares, (first, end)) = (SHARES.get().expect("loaded"), bounds(&run));
        assert!(k.rx.len() == ITERATIONS * PARTICLES && k.ry.len() == k.rx.len());
        assert!(run.range().end <= PARTICLES);
        // SAFETY: the moves of all particles are there; the others are those of this run, rows of ROW
        // entries.
        unsafe {
            (shares.walk)(
                first,
                end,
                c_long::from(GRID),
                reach(0.5),
                ITERATIONS as c_long,
                PARTICLES as c_long,
                k.rx.as_ptr(),
                k.ry.as_ptr(),
                k.x.as_mut_ptr(),
                k.y.as_mut_ptr(),
                k.cell.as_mut_ptr(),
                k.track.as_mut_ptr().cast(),
                ROW as c_long,
            );
        }
    }
}

/// A launch: nanoseconds of all of it, and of the kernel.
type Launch<'a> = &'a mut dyn FnMut() -> (f64, f64);

/// Overhead of a turn: the median of its launches, in nanoseconds and in percent of the kernel's time.
fn turn(launches: usize, launch: Launch<'_>) -> [f64; 2] {
    // Wakes threads.
    launch();
    launch();
    let times: Vec<(f64, f64)> = (0..launches).map(|_| launch()).collect();
    let median = |figure: &dyn Fn(&(f64, f64)) -> f64| {
        let mut figures: Vec<f64> = times.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    [median(&|(wall, kernel)| wall - kernel), median(&|(wall, kernel)| (wall - kernel) / kernel * 100.0)]
}

/// Rows of a program: beside each peer, in both units.
fn program(
    name: &str,
    launches: usize,
    ours: Launch<'_>,
    peer: &mut dyn FnMut(usize) -> (f64, f64),
) -> Vec<Row> {
    let mut turns = PEERS.map(|_| Vec::new());
    for _ in 0..REPEATS {
        std::thread::sleep(PAUSE);
        let own = turn(launches, ours);
        for (by, turns) in turns.iter_mut().enumerate() {
            std::thread::sleep(PAUSE);
            turns.push((own, turn(launches, &mut || peer(by))));
        }
    }
    let rows = PEERS.iter().zip(&turns).flat_map(|(peer, turns)| {
        ["ns", "% of kernel"].into_iter().enumerate().map(move |(unit, unit_name)| {
            let turns: Vec<_> = turns.iter().map(|(own, peer)| (own[unit], Some(peer[unit]))).collect();
            Row::from_turns(format!("overhead of a launch, {name}, against {peer}"), unit_name, &turns)
        })
    });
    rows.collect()
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let Some(shares) = peers.overhead else {
        eprintln!("overhead: left out without its kernels");
        return Ok(Vec::new());
    };
    let shares = SHARES.get_or_init(|| shares);
    let threads = std::thread::available_parallelism()?.get();
    let rt = get_runtime("ALL_CPU")?;
    let mut rows = bodies(&rt, shares, threads);
    rows.extend(particles(&rt, shares, threads)?);
    Ok(rows)
}

/// Runs a launch of FLASH's.
fn timed(shares: &Shares, threads: usize, launch: impl Fn()) -> (f64, f64) {
    // SAFETY: no share runs: they have no other user, and launches are over when they return.
    unsafe { (shares.begin)() };
    let start = Instant::now();
    launch();
    let wall = start.elapsed().as_nanos() as f64;
    // SAFETY: as above.
    (wall, unsafe { (shares.kernel_ns)(threads as c_int) })
}

fn bodies(rt: &RuntimeObj, shares: &Shares, threads: usize) -> Vec<Row> {
    let [u, v] = diffusion::moves(2 * BODIES);
    let pos: Vec<[f32; 3]> = u.chunks(2).zip(&v).map(|(u, v)| [u[0], u[1], *v]).collect();
    let mass = vec![1.0f32; BODIES];
    let (x, m) = (FlashMemory::from(&pos[..]), FlashMemory::from(&mass[..]));
    let acc = FlashMemory::<[f32; 3]>::zeroed(BODIES);
    let mut out = PEERS.map(|_| vec![[0.0f32; 3]; BODIES]);
    let launch = rt.submit(Accelerate::of(&x, &m, &acc)).defer([BODIES]);
    let mut ours = || timed(shares, threads, || launch.exec().expect("runs"));
    let call = |by: c_int, out: &mut Vec<[f32; 3]>| {
        let (pos, mass, n) = (pos.as_ptr().cast(), mass.as_ptr(), BODIES as c_long);
        // SAFETY: all arrays have that many bodies; no other shares run.
        unsafe {
            let out = out.as_mut_ptr().cast();
            let wall = (shares.accelerate_ns)(by, threads as c_int, n, G, SOFTENING2, pos, mass, out);
            (wall, (shares.kernel_ns)(threads as c_int))
        }
    };
    let name = format!("N-body, n = {BODIES}, {threads} threads");
    program(&name, 5, &mut ours, &mut |by| call(by as c_int, &mut out[by]))
}

fn particles(rt: &RuntimeObj, shares: &Shares, threads: usize) -> Result<Vec<Row>> {
    let [rx, ry] = diffusion::moves(ITERATIONS * PARTICLES);
    let moves = [&rx, &ry].map(|moves| FlashMemory::from(&moves[..]));
    let start = vec![(GRID / 2) as f32; PARTICLES];
    let [x, y] = [(); 2].map(|()| FlashMemory::from(&start[..]));
    let cell = FlashMemory::from(vec![OUTSIDE; PARTICLES]);
    let track = FlashMemory::<[u32; ROW]>::zeroed(PARTICLES);
    let launch = rt.submit(Walk::of(&moves[0], &moves[1], &x, &y, &cell, &track)).defer([PARTICLES]);
    let mut ours = || timed(shares, threads, || launch.exec().expect("runs"));
    let state = || (start.clone(), start.clone(), vec![OUTSIDE; PARTICLES], vec![0u32; ROW * PARTICLES]);
    let mut states = PEERS.map(|_| state());
    let call = |by: c_int, (x, y, cell, track): &mut (Vec<f32>, Vec<f32>, Vec<u32>, Vec<u32>)| {
        // SAFETY: the arrays have as many particles and moves; no other shares run.
        unsafe {
            let wall = (shares.walk_ns)(
                by,
                threads as c_int,
                c_long::from(GRID),
                reach(0.5),
                ITERATIONS as c_long,
                PARTICLES as c_long,
                rx.as_ptr(),
                ry.as_ptr(),
                x.as_mut_ptr(),
                y.as_mut_ptr(),
                cell.as_mut_ptr(),
                track.as_mut_ptr(),
                ROW as c_long,
            );
            (wall, (shares.kernel_ns)(threads as c_int))
        }
    };
    let name = format!("ways of {PARTICLES} particles, {ITERATIONS} iterations, {threads} threads");
    let rows = program(&name, 51, &mut ours, &mut |by| call(by as c_int, &mut states[by]));
    // The last positions are the same only if all made the same number of launches: they did.
    for (peer, (by_peer, ..)) in PEERS.iter().zip(&states) {
        assert_eq!(x.read()?[..], by_peer[..], "the same kernel by {peer}");
    }
    Ok(rows)
}
