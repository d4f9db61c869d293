//! Particle diffusion beside a plain loop in C, and the kernels of diffusion in C.

use crate::child;
use crate::peers::{Peers, Source, int, long};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use flash::kernels::diffusion::{OUTSIDE, count, stretches, walk};
use flash::{FlashMemory, get_runtime};
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::time::Instant;

/// The published problem.
const PARTICLES: usize = 256;
const ITERATIONS: usize = 10_000;
const GRID: usize = 22;
const RADIUS: f32 = 0.5;

type Serial = unsafe extern "C" fn(c_long, f32, c_long, c_long, *const f32, *const f32, *mut u64);

type Walk = unsafe extern "C" fn(
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
    c_long,
    *mut u32,
);
type Count = unsafe extern "C" fn(c_int, c_long, c_long, c_long, c_long, *const u32, *mut u64);
type Heat = unsafe extern "C" fn(c_int, c_long, c_long, f32, *const f32, *mut f32);

/// `diffusion.c`.
pub struct Diffusion {
    serial: Serial,
    walk: Walk,
    count: Count,
    heat: Heat,
}

const DIFFUSION: Source = Source {
    name: "diffusion.c",
    text: include_str!("../peers/diffusion.c"),
    compiler: "gcc",
    // Counts are exact: no other rounding. Nothing reads errno, or looks whether a float is a trap.
    flags: &[
        "-O3",
        "-march=native",
        "-mprefer-vector-width=512",
        "-fopenmp",
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
        // SAFETY: the signatures are those of the functions in diffusion.c, and `load` keeps the library for
        // ever.
        unsafe {
            Ok(Diffusion {
                serial: *library.get(b"diffusion_serial\0")?,
                walk: *library.get(b"walk\0")?,
                count: *library.get(b"count\0")?,
                heat: *library.get(b"heat\0")?,
            })
        }
    }

    /// The kernel `flash.diffusion.walk`, with as many entries for each particle's track.
    pub fn walk(
        &self,
        threads: usize,
        (grid, reach): (u32, f32),
        [rx, ry]: [&[f32]; 2],
        [x, y]: [&mut [f32]; 2],
        cell: &mut [u32],
        track: &mut [u32],
    ) {
        let n = cell.len();
        let (iterations, row) = (rx.len() / n, track.len() / n);
        assert!([ry.len(), x.len(), y.len()] == [rx.len(), n, n] && iterations < row);
        let [grid, iterations, n, row] = [grid as usize, iterations, n, row].map(long);
        let (rx, ry, x, y) = (rx.as_ptr(), ry.as_ptr(), x.as_mut_ptr(), y.as_mut_ptr());
        let (cell, track) = (cell.as_mut_ptr(), track.as_mut_ptr());
        // SAFETY: as many moves as particles and iterations, and rows for more of these.
        unsafe { (self.walk)(int(threads), grid, reach, iterations, n, rx, ry, x, y, cell, row, track) }
    }

    /// The kernel `flash.diffusion.count`, of tracks of one entry more than there are iterations.
    ///
    /// # Safety
    /// Entries are cells of the planes, or [`OUTSIDE`].
    pub unsafe fn count(&self, threads: usize, iterations: usize, track: &[u32], counts: &mut [u64]) {
        let (cells, row) = (counts.len() / 3, iterations + 1);
        let [cells, iterations, n, row] = [cells, iterations, track.len() / row, row].map(long);
        // SAFETY: `n` tracks and three planes; the caller vouches for the cells.
        unsafe { (self.count)(int(threads), cells, iterations, n, row, track.as_ptr(), counts.as_mut_ptr()) }
    }

    /// The kernel `flash.diffusion.heat`, of fields of this width.
    pub fn heat(&self, threads: usize, width: usize, rate: f32, from: &[f32], to: &mut [f32]) {
        assert!(width > 0 && from.len() == to.len() && from.len().is_multiple_of(width));
        let (width, height) = (long(width), long(from.len() / width));
        // SAFETY: two fields of this width and height.
        unsafe { (self.heat)(int(threads), width, height, rate, from.as_ptr(), to.as_mut_ptr()) }
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
