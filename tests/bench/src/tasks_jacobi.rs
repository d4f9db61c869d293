//! Jacobi's method with 13 points as tasks over blocks, beside the same loop in C over OpenMP.

use crate::peers::{Peers, Source, int, long};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::{Result, ensure};
use flash::kernels::simd::Number;
use flash::kernels::star::thirteenth;
use jacobi3d::blocks::Blocks;
use jacobi3d::cube::{bare, walled};
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::time::Instant;

/// Points along each axis.
const SIZE: usize = 256;
const ITERATIONS: usize = 50;
/// What the program `jacobi3d` takes, too: blocks along x, y and z, and steps of a pass.
const BLOCKS: [usize; 3] = [1, 1, 32];
const DEPTH: usize = 8;

/// Threads, points along each axis, iterations, a thirteenth, two arrays with their walls: seconds.
type Sweeps<T> = unsafe extern "C" fn(c_int, c_long, c_long, T, *mut T, *mut T) -> f64;

/// `jacobi_openmp.c`.
#[derive(Clone, Copy)]
pub struct OpenMpJacobi {
    single: Sweeps<f32>,
    double: Sweeps<f64>,
}

impl OpenMpJacobi {
    pub fn load(cache: &Path) -> Result<OpenMpJacobi> {
        let source = Source {
            name: "jacobi_openmp.c",
            text: include_str!("../peers/jacobi_openmp.c"),
            compiler: "gcc",
            flags: &["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"],
            libraries: &[],
        };
        let library = source.load(cache)?;
        // SAFETY: the signatures are those of the functions in jacobi_openmp.c, and `load` keeps the library
        // for ever.
        unsafe {
            Ok(OpenMpJacobi {
                single: *library.get(b"jacobi_f32\0")?,
                double: *library.get(b"jacobi_f64\0")?,
            })
        }
    }
}

/// A row in each precision.
pub fn rows(peers: &Peers, threads: usize) -> Result<Vec<Row>> {
    let Some(peer) = peers.jacobi else { return Ok(Vec::new()) };
    Ok(vec![row("f32", threads, peer.single)?, row("f64", threads, peer.double)?])
}

fn row<T: Number>(precision: &str, threads: usize, peer: Sweeps<T>) -> Result<Row> {
    let cube = Blocks::<T>::new(SIZE, BLOCKS, DEPTH);
    let mut sweeps = cube.sweeps(ITERATIONS);
    let ours = || {
        let start = Instant::now();
        sweeps.run(|_| ()).expect("no task panics");
        rate(start.elapsed().as_secs_f64())
    };
    let mut arrays = [walled::<T>(SIZE), walled::<T>(SIZE)];
    let mut theirs = || {
        let [a, b] = &mut arrays;
        // SAFETY: both arrays have the size and its wall on each side.
        rate(unsafe {
            let (a, b) = (a.as_mut_ptr(), b.as_mut_ptr());
            peer(int(threads), long(SIZE), long(ITERATIONS), thirteenth(), a, b)
        })
    };
    let name =
        format!("jacobi, 13 points, {SIZE}^3, {ITERATIONS} iterations, {precision}, against C with OpenMP");
    let row = pair(name, "M updates/s", REPEATS, ours, Some(&mut theirs), PAUSE);
    // Both went as far.
    ensure!(cube.points(0) == bare(SIZE, &arrays[0]), "{}: C has other bits", row.name);
    Ok(row)
}

/// Million updates of a point per second.
fn rate(seconds: f64) -> f64 {
    (SIZE.pow(3) * ITERATIONS) as f64 / seconds * 1e-6
}
