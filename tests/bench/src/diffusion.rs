//! Particle diffusion beside a plain loop in C.

use crate::child;
use crate::peers::{Peers, Source};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use flash::kernels::diffusion::{OUTSIDE, count, stretches, walk};
use flash::{FlashMemory, get_runtime};
use std::ffi::c_long;
use std::path::Path;
use std::time::Instant;

/// The published problem.
const PARTICLES: usize = 256;
const ITERATIONS: usize = 10_000;
const GRID: usize = 22;
const RADIUS: f32 = 0.5;

type Serial = unsafe extern "C" fn(c_long, f32, c_long, c_long, *const f32, *const f32, *mut u64);

/// `diffusion.c`.
pub struct Diffusion {
    serial: Serial,
}

const DIFFUSION: Source = Source {
    name: "diffusion.c",
    text: include_str!("../peers/diffusion.c"),
    compiler: "gcc",
    // Counts are exact: no other rounding. Nobody reads errno, nor looks whether a float is a trap.
    flags: &[
        "-O3",
        "-march=native",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fPIC",
        "-shared",
    ],
    libraries: &["-lm"],
};

impl Diffusion {
    pub fn load(cache: &Path) -> Result<Diffusion> {
        let library = DIFFUSION.load(cache)?;
        // SAFETY: the signature is that of the function in diffusion.c, and `load` keeps the library for ever.
        Ok(Diffusion { serial: unsafe { *library.get(b"diffusion_serial\0")? } })
    }
}

/// Uniform moves of up to 0.0625 either way, by SplitMix64.
pub fn moves(count: usize) -> [Vec<f32>; 2] {
    let mut state = 777u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 24) - 0.5) as f32 * 0.125
    };
    [(); 2].map(|()| (0..count).map(|_| next()).collect())
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let threads = std::thread::available_parallelism()?.get();
    let name = |threads: usize| {
        format!(
            "diffusion, {PARTICLES} particles, {ITERATIONS} iterations, {threads} threads, against the serial C loop"
        )
    };
    Ok(vec![
        child::pair_row(&name(1), "ms", "diffusion", &[("FLASH_CPU_THREADS", "1")])?,
        row(&name(threads), peers.diffusion.as_ref())?,
    ])
}

/// In a process of its own, with as many threads as the environment says.
pub fn measure(what: &str) -> Result<bool> {
    if what != "diffusion" {
        return Ok(false);
    }
    let row = row("", Peers::load()?.diffusion.as_ref())?;
    println!("{}", serde_json::to_string(&row)?);
    Ok(true)
}

/// Milliseconds from particles in the middle to their counts.
fn row(name: &str, c: Option<&Diffusion>) -> Result<Row> {
    let rt = get_runtime("ALL_CPU")?;
    let [rx, ry] = moves(ITERATIONS * PARTICLES);
    let moves = [&rx, &ry].map(|moves| FlashMemory::from(&moves[..]));
    let start = vec![(GRID / 2) as f32; PARTICLES];
    let position = [&start, &start].map(|start| FlashMemory::from(&start[..]));
    let cell = FlashMemory::from(vec![OUTSIDE; PARTICLES]);
    let track = FlashMemory::zeroed((ITERATIONS + 1) * PARTICLES).with_shape([ITERATIONS + 1, PARTICLES])?;
    let counts = FlashMemory::<u64>::zeroed(3 * GRID * GRID);
    let [moves, position] = [moves.each_ref(), position.each_ref()];
    let mut ours = || {
        for position in position {
            position.write().expect("free").copy_from_slice(&start);
        }
        cell.write().expect("free").fill(OUTSIDE);
        counts.write().expect("free").fill(0);
        let start = Instant::now();
        let walk = walk(GRID as u32, RADIUS, moves, position, &cell, &track).expect("shapes");
        let count = count(ITERATIONS, &track, &counts).expect("shapes");
        let launches = rt.submit(walk).defer([PARTICLES]).submit(count);
        launches.exec((stretches(ITERATIONS), PARTICLES)).expect("runs");
        start.elapsed().as_nanos() as f64 / 1e6
    };
    let mut found = vec![0u64; 3 * GRID * GRID];
    let mut peer = c.map(|c| {
        || {
            found.fill(0);
            let start = Instant::now();
            let [grid, iterations, n] = [GRID, ITERATIONS, PARTICLES].map(|count| count as c_long);
            // SAFETY: as many moves as particles and iterations, and three planes of the grid.
            unsafe { (c.serial)(grid, RADIUS, iterations, n, rx.as_ptr(), ry.as_ptr(), found.as_mut_ptr()) };
            start.elapsed().as_nanos() as f64 / 1e6
        }
    });
    let peer = peer.as_mut().map(|peer| peer as &mut dyn FnMut() -> f64);
    let row = pair(name, "ms", REPEATS, &mut ours, peer, PAUSE);
    if c.is_some() {
        assert_eq!(counts.read()?[..], found, "both count the same");
    }
    Ok(row)
}
