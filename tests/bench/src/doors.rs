//! The views of the `item` door beside the same loop in plain Rust, and stencils beside C: what a scientist
//! writes first.
//!
//! The peer is a loop over slices with rayon's `par_chunks`, which the compiler vectorises where it can; for
//! scatters it has the same relaxed atomics, for histograms `fold` and `reduce`. Both sides are compiled for
//! any x86-64, and C for this one.

use crate::peers::{Source, int, long};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::{Result, ensure};
use flash::kernel;
use flash::kernel::prelude::*;
use flash::kernel::views;
use flash::prelude::*;
use rayon::prelude::*;
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// `doors.c`.
#[derive(Clone, Copy)]
pub struct Stencils {
    /// Threads, width, height, rate, from, to.
    heat: unsafe extern "C" fn(c_int, c_long, c_long, f32, *const f32, *mut f32),
    /// Threads, points along each axis, from, to.
    jacobi: unsafe extern "C" fn(c_int, c_long, *const f64, *mut f64),
}

impl Stencils {
    pub fn load(cache: &Path) -> Result<Stencils> {
        let source = Source {
            name: "doors.c",
            text: include_str!("../peers/doors.c"),
            compiler: "gcc",
            // Both sides round each operation by itself.
            flags: &["-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-fPIC", "-shared"],
            libraries: &[],
        };
        let library = source.load(cache)?;
        // SAFETY: the signatures are those of the functions in doors.c, and `load` keeps the library for
        // ever.
        unsafe { Ok(Stencils { heat: *library.get(b"heat\0")?, jacobi: *library.get(b"jacobi\0")? }) }
    }
}

/// The implementation of every definition here, as a user would write it.
struct Plain;

// ---- stencils ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
struct Heat<'a> {
    rate: f32,
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

#[kernel]
impl CpuItem<Heat<'_>> for Plain {
    fn item(ix: Index<2>, k: HeatItem<'_>) {
        let at = |x: usize, y: usize| k.from.at([x, y, 0]);
        let (x, y) = (ix[0], ix[1]);
        let around = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
        k.to.set(at(x, y) + k.rate * (around - 4.0 * at(x, y)));
    }
}

fn heat(rt: &RuntimeObj, c: Option<Stencils>, w: usize, h: usize) -> Result<Vec<Row>> {
    let (from, name) = (field(w * h), "Window::at, heat in 2 dimensions, f32");
    let (a, b) = (shaped(&from, &[w, h]), zeros(&[w, h]));
    let launch = || Ok(rt.submit(Heat::of(0.1, &a, &b)).exec([1..w as u64 - 1, 1..h as u64 - 1])?);
    let rayon = |out: &mut Vec<f32>| {
        out.par_chunks_mut(w).enumerate().skip(1).take(h - 2).for_each(|(y, out)| {
            let row = |y: usize| &from[y * w..(y + 1) * w];
            let (up, here, down) = (row(y - 1), row(y), row(y + 1));
            for x in 1..w - 1 {
                let around = here[x - 1] + here[x + 1] + up[x] + down[x];
                out[x] = here[x] + 0.1 * (around - 4.0 * here[x]);
            }
        });
    };
    let mut rows = vec![row(format!("{name}, against rayon"), w * h, &b, launch, rayon)?];
    if let Some(c) = c {
        let in_c = |out: &mut Vec<f32>| {
            // SAFETY: both arrays have w * h elements.
            unsafe { (c.heat)(threads(), long(w), long(h), 0.1, from.as_ptr(), out.as_mut_ptr()) }
        };
        rows.push(row(format!("{name}, against C with OpenMP"), w * h, &b, launch, in_c)?);
    }
    Ok(rows)
}

#[derive(KernelDefinition)]
#[kernel(name = "doors.jacobi", dims(x, y, z), part_by(z, from = stencil(x = 1, y = 1, z = 1)))]
struct Jacobi<'a> {
    from: Window<'a, Read<f64>>,
    to: Item<'a, Write<f64>>,
}

#[kernel]
impl CpuItem<Jacobi<'_>> for Plain {
    fn item(ix: Index<3>, k: JacobiItem<'_>) {
        let [x, y, z] = ix.values();
        let f = k.from;
        let sum = f.at([x - 1, y, z])
            + f.at([x + 1, y, z])
            + f.at([x, y - 1, z])
            + f.at([x, y + 1, z])
            + f.at([x, y, z - 1])
            + f.at([x, y, z + 1]);
        k.to.set(sum / 6.0);
    }
}

fn jacobi(rt: &RuntimeObj, c: Option<Stencils>, n: usize) -> Result<Vec<Row>> {
    let (points, name) = (n * n * n, "Window::at, Jacobi in 3 dimensions, f64");
    let from: Vec<f64> = field(points).iter().map(|v| f64::from(*v)).collect();
    let (a, b) = (shaped(&from, &[n, n, n]), zeros(&[n, n, n]));
    let inner = || 1..n as u64 - 1;
    let launch = || Ok(rt.submit(Jacobi::of(&a, &b)).exec([inner(), inner(), inner()])?);
    let rayon = |out: &mut Vec<f64>| {
        out.par_chunks_mut(n * n).enumerate().skip(1).take(n - 2).for_each(|(z, plane)| {
            let row = |y: usize, z: usize| &from[(z * n + y) * n..][..n];
            for (y, out) in plane.chunks_mut(n).enumerate().skip(1).take(n - 2) {
                let (here, up, down) = (row(y, z), row(y - 1, z), row(y + 1, z));
                let (near, far) = (row(y, z - 1), row(y, z + 1));
                for x in 1..n - 1 {
                    out[x] = (here[x - 1] + here[x + 1] + up[x] + down[x] + near[x] + far[x]) / 6.0;
                }
            }
        });
    };
    let mut rows = vec![row(format!("{name}, against rayon"), points, &b, launch, rayon)?];
    if let Some(c) = c {
        let in_c = |out: &mut Vec<f64>| {
            // SAFETY: both arrays have n^3 elements.
            unsafe { (c.jacobi)(threads(), long(n), from.as_ptr(), out.as_mut_ptr()) }
        };
        rows.push(row(format!("{name}, against C with OpenMP"), points, &b, launch, in_c)?);
    }
    Ok(rows)
}

#[derive(KernelDefinition)]
#[kernel(name = "doors.blur", dims(i), part_by(i, from = stencil(i = 2)))]
struct Blur<'a> {
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

#[kernel]
impl CpuItem<Blur<'_>> for Plain {
    fn item(ix: Index<1>, k: BlurItem<'_>) {
        let (i, f) = (ix[0], k.from);
        let (outer, inner) = (f.get(i - 2) + f.get(i + 2), f.get(i - 1) + f.get(i + 1));
        k.to.set((outer + 4.0 * inner + 6.0 * f.get(i)) / 16.0);
    }
}

fn blur(rt: &RuntimeObj, n: usize) -> Result<Row> {
    let from = field(n);
    let (a, b) = (shaped(&from, &[n]), zeros(&[n]));
    row(
        "Window::get, blur of five, f32, against rayon",
        n,
        &b,
        || Ok(rt.submit(Blur::of(&a, &b)).exec((2..n as u64 - 2,))?),
        |out| {
            out[2..n - 2].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
                let from = &from[chunk * CHUNK..][..out.len() + 4];
                for (i, out) in out.iter_mut().enumerate() {
                    let (outer, inner) = (from[i] + from[i + 4], from[i + 1] + from[i + 3]);
                    *out = (outer + 4.0 * inner + 6.0 * from[i + 2]) / 16.0;
                }
            });
        },
    )
}

// ---- views with gaps ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.mean", dims(x, y))]
struct Mean<'a> {
    from: Item<'a, Read<f32>>,
    to: Item<'a, ReadWrite<f32>>,
}

#[kernel]
impl CpuItem<Mean<'_>> for Plain {
    fn item(_: Index<2>, k: MeanItem<'_>) {
        *k.to = 0.5 * (*k.to + *k.from);
    }
}

/// The inner part of a grid, every second element of it, and its transpose.
fn gaps(rt: &RuntimeObj, w: usize, h: usize) -> Result<Vec<Row>> {
    let from = field(w * h);
    let a = shaped(&from, &[w, h]);
    let b = || zeros(&[w, h]);
    let inner = [1..w as u64 - 1, 1..h as u64 - 1];
    let (c, d, e) = (b(), b(), zeros(&[h, w]));
    let of_section = || {
        let (from, to) = (a.section(inner.clone())?, c.section(inner.clone())?);
        Ok(rt.submit(Mean::of(from, to)).exec([w - 2, h - 2])?)
    };
    let by_steps = || {
        let (from, to) = (a.step_by([2, 2])?, d.step_by([2, 2])?);
        Ok(rt.submit(Mean::of(from, to)).exec([w / 2, h / 2])?)
    };
    let of_transpose = || Ok(rt.submit(Mean::of(a.permuted([1, 0])?, &e)).exec([h, w])?);
    let mean = |to: &mut f32, from: &f32| *to = 0.5 * (*to + from);
    Ok(vec![
        row("Item of a section, f32, against rayon", w * h, &c, of_section, |out| {
            out.par_chunks_mut(w).zip(from.par_chunks(w)).skip(1).take(h - 2).for_each(|(to, from)| {
                to[1..w - 1].iter_mut().zip(&from[1..w - 1]).for_each(|(to, from)| mean(to, from));
            });
        })?,
        row("Item of every second element, f32, against rayon", w * h / 4, &d, by_steps, |out| {
            out.par_chunks_mut(w).zip(from.par_chunks(w)).step_by(2).for_each(|(to, from)| {
                to.iter_mut().zip(from).step_by(2).for_each(|(to, from)| mean(to, from));
            });
        })?,
        row("Item of a transpose, f32, against rayon", w * h, &e, of_transpose, |out| {
            out.par_chunks_mut(h).enumerate().for_each(|(x, to)| {
                to.iter_mut().enumerate().for_each(|(y, to)| mean(to, &from[y * w + x]));
            });
        })?,
    ])
}

// ---- many arguments: the lattice Boltzmann method, D2Q9 ----

const WEIGHTS: [f32; 9] =
    [4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0];
/// Where the value of each direction comes from.
const FROM: [[usize; 2]; 9] = [[1, 1], [0, 1], [1, 0], [2, 1], [1, 2], [0, 0], [2, 0], [2, 2], [0, 2]];

/// One collision: the new values of the nine directions.
#[inline(always)]
fn collide(omega: f32, f: [f32; 9]) -> [f32; 9] {
    let rho = f[0] + f[1] + f[2] + f[3] + f[4] + f[5] + f[6] + f[7] + f[8];
    let ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / rho;
    let uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / rho;
    let square = 1.0 - 1.5 * (ux * ux + uy * uy);
    let along = [0.0, ux, uy, -ux, -uy, ux + uy, uy - ux, -ux - uy, ux - uy];
    std::array::from_fn(|d| {
        let e = along[d];
        f[d] + omega * (WEIGHTS[d] * rho * (square + 3.0 * e + 4.5 * e * e) - f[d])
    })
}

#[derive(KernelDefinition)]
#[kernel(name = "doors.lbm", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
struct Lbm<'a> {
    omega: f32,
    from: [Window<'a, Read<f32>>; 9],
    solid: Item<'a, Read<u8>>,
    to: [Item<'a, Write<f32>>; 9],
    speed: Item<'a, Write<f32>>,
    density: Item<'a, Write<f32>>,
}

#[kernel]
impl CpuItem<Lbm<'_>> for Plain {
    fn item(ix: Index<2>, k: LbmItem<'_>) {
        let (x, y) = (ix[0], ix[1]);
        let f = std::array::from_fn(|d| k.from[d].at([x + FROM[d][0] - 1, y + FROM[d][1] - 1, 0]));
        let g = if *k.solid == 0 { collide(k.omega, f) } else { f };
        for (to, g) in k.to.iter().zip(g) {
            to.set(g);
        }
        k.speed.set(g[1] - g[3] + g[5] - g[6] - g[7] + g[8]);
        k.density.set(g[0] + g[1] + g[2] + g[3] + g[4]);
    }
}

fn lbm(rt: &RuntimeObj, w: usize, h: usize) -> Result<Row> {
    let n = w * h;
    let from: [Vec<f32>; 9] =
        std::array::from_fn(|d| field(n).iter().map(|v| WEIGHTS[d] * (1.0 + 0.1 * v)).collect());
    let solid: Vec<u8> = (0..n).map(|i| u8::from(i % 61 == 0)).collect();
    let f = from.each_ref().map(|f| shaped(f, &[w, h]));
    let s = shaped(&solid, &[w, h]);
    let g: [FlashMemory<f32>; 9] = std::array::from_fn(|_| zeros(&[w, h]));
    let (speed, density) = (zeros(&[w, h]), zeros(&[w, h]));
    let mut others: [Vec<f32>; 10] = std::array::from_fn(|_| vec![0.0; n]);
    row(
        "22 arguments, lattice Boltzmann D2Q9, f32, against rayon",
        n,
        &g[5],
        || {
            let submission = Lbm::of(0.7, &f, &s, &g, &speed, &density);
            rt.submit(submission).exec([1..w as u64 - 1, 1..h as u64 - 1])?;
            Ok(())
        },
        |out| {
            let [g0, g1, g2, g3, g4, g6, g7, g8, g9, g10] = &mut others;
            let rows = g0
                .par_chunks_mut(w)
                .zip(g1.par_chunks_mut(w))
                .zip(g2.par_chunks_mut(w))
                .zip(g3.par_chunks_mut(w))
                .zip(g4.par_chunks_mut(w))
                .zip(out.par_chunks_mut(w))
                .zip(g6.par_chunks_mut(w))
                .zip(g7.par_chunks_mut(w))
                .zip(g8.par_chunks_mut(w))
                .zip(g9.par_chunks_mut(w))
                .zip(g10.par_chunks_mut(w));
            rows.enumerate().skip(1).take(h - 2).for_each(|(y, rows)| {
                let ((((((((((g0, g1), g2), g3), g4), g5), g6), g7), g8), speed), density) = rows;
                let from: [&[f32]; 9] = std::array::from_fn(|d| {
                    let start = (y + FROM[d][1] - 1) * w + FROM[d][0];
                    &from[d][start..start + w - 2]
                });
                let solid = &solid[y * w + 1..][..w - 2];
                let inner = 1..w - 1;
                let (g0, g1, g2) = (&mut g0[inner.clone()], &mut g1[inner.clone()], &mut g2[inner.clone()]);
                let (g3, g4, g5) = (&mut g3[inner.clone()], &mut g4[inner.clone()], &mut g5[inner.clone()]);
                let (g6, g7, g8) = (&mut g6[inner.clone()], &mut g7[inner.clone()], &mut g8[inner.clone()]);
                let (speed, density) = (&mut speed[inner.clone()], &mut density[inner]);
                for x in 0..w - 2 {
                    let f: [f32; 9] = std::array::from_fn(|d| from[d][x]);
                    let g = if solid[x] == 0 { collide(0.7, f) } else { f };
                    (g0[x], g1[x], g2[x]) = (g[0], g[1], g[2]);
                    (g3[x], g4[x], g5[x]) = (g[3], g[4], g[5]);
                    (g6[x], g7[x], g8[x]) = (g[6], g[7], g[8]);
                    speed[x] = g[1] - g[3] + g[5] - g[6] - g[7] + g[8];
                    density[x] = g[0] + g[1] + g[2] + g[3] + g[4];
                }
            });
        },
    )
}

// ---- any element ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.gather", dims(i))]
struct Gather<'a> {
    of: Whole<'a, Read<f32>>,
    which: Item<'a, Read<u32>>,
    to: Item<'a, Write<f32>>,
}

#[kernel]
impl CpuItem<Gather<'_>> for Plain {
    fn item(_: Index<1>, k: GatherItem<'_>) {
        k.to.set(2.0 * k.of[*k.which as usize]);
    }
}

fn gather(rt: &RuntimeObj, n: usize, of: usize) -> Result<Row> {
    let (from, which) = (field(of), scrambled(n, of));
    let (a, b, c) = (shaped(&from, &[of]), shaped(&which, &[n]), zeros(&[n]));
    row(
        "Whole[i], gather, f32, against rayon",
        n,
        &c,
        || Ok(rt.submit(Gather::of(&a, &b, &c)).exec([n as u64])?),
        |out| {
            let chunks = out.par_chunks_mut(CHUNK).zip(which.par_chunks(CHUNK));
            chunks.for_each(|(out, which)| {
                for (out, which) in out.iter_mut().zip(which) {
                    *out = 2.0 * from[*which as usize];
                }
            });
        },
    )
}

#[derive(KernelDefinition)]
#[kernel(name = "doors.spmv", dims(row))]
struct Spmv<'a> {
    begins: Whole<'a, Read<u32>>,
    columns: Window<'a, Read<u32>>,
    values: Window<'a, Read<f64>>,
    x: Whole<'a, Read<f64>>,
    y: Item<'a, Write<f64>>,
}

#[kernel]
impl CpuItem<Spmv<'_>> for Plain {
    fn item(ix: Index<1>, k: SpmvItem<'_>) {
        let (begin, end) = (k.begins[ix[0]] as usize, k.begins[ix[0] + 1] as usize);
        let mut sum = 0.0;
        for i in begin..end {
            sum += k.values.get(i) * k.x[k.columns.get(i) as usize];
        }
        k.y.set(sum);
    }
}

fn spmv(rt: &RuntimeObj, n: usize, per_row: usize) -> Result<Row> {
    let begins: Vec<u32> = (0..=n).map(|row| (row * per_row - row.min(n) % 3) as u32).collect();
    let stored = begins[n] as usize;
    let columns = scrambled(stored, n);
    let values: Vec<f64> = field(stored).iter().map(|v| f64::from(*v)).collect();
    let x: Vec<f64> = field(n).iter().map(|v| f64::from(*v)).collect();
    let (b, c) = (shaped(&begins, &[n + 1]), shaped(&columns, &[stored]));
    let (v, of, to) = (shaped(&values, &[stored]), shaped(&x, &[n]), zeros(&[n]));
    row(
        "Window::get, sparse product by rows, f64, against rayon",
        stored,
        &to,
        || Ok(rt.submit(Spmv::of(&b, &c, &v, &of, &to)).exec([n as u64])?),
        |out| {
            out.par_chunks_mut(1024).enumerate().for_each(|(chunk, y)| {
                for (row, y) in y.iter_mut().enumerate() {
                    let row = chunk * 1024 + row;
                    let range = begins[row] as usize..begins[row + 1] as usize;
                    let stored = values[range.clone()].iter().zip(&columns[range]);
                    *y = stored.fold(0.0, |sum, (value, column)| sum + value * x[*column as usize]);
                }
            });
        },
    )
}

// ---- reductions ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.dot", dims(i))]
struct Dot<'a> {
    x: Item<'a, Read<f64>>,
    y: Item<'a, Read<f64>>,
    total: Reduce<'a, Write<f64>, Sum>,
}

#[kernel]
impl CpuItem<Dot<'_>> for Plain {
    fn item(_: Index<1>, mut k: DotItem<'_>) {
        k.total.put(k.x * k.y);
    }
}

fn dot(rt: &RuntimeObj, n: usize) -> Result<Row> {
    // Small whole numbers: their sum is the same in any order.
    let x: Vec<f64> = (0..n).map(|i| (i % 7) as f64).collect();
    let y: Vec<f64> = (0..n).map(|i| (i % 5) as f64).collect();
    let (a, b, total) = (shaped(&x, &[n]), shaped(&y, &[n]), FlashMemory::from(vec![0.0_f64]));
    row(
        "Reduce of a scalar, dot product, f64, against rayon",
        n,
        &total,
        || Ok(rt.submit(Dot::of(&a, &b, &total)).exec([n as u64])?),
        |out| {
            let chunks = x.par_chunks(CHUNK).zip(y.par_chunks(CHUNK));
            let of = |(x, y): (&[f64], &[f64])| x.iter().zip(y).fold(0.0, |sum, (x, y)| sum + x * y);
            out[0] = chunks.map(of).sum();
        },
    )
}

#[derive(KernelDefinition)]
#[kernel(name = "doors.histogram", dims(i))]
struct Histogram<'a> {
    of: Item<'a, Read<u8>>,
    bins: Reduce<'a, Write<[u32]>, Sum>,
}

#[kernel]
impl CpuItem<Histogram<'_>> for Plain {
    fn item(_: Index<1>, mut k: HistogramItem<'_>) {
        k.bins.put(usize::from(*k.of), 1);
    }
}

fn histogram(rt: &RuntimeObj, n: usize) -> Result<Row> {
    let of: Vec<u8> = scrambled(n, 256).iter().map(|v| *v as u8).collect();
    let (a, bins) = (shaped(&of, &[n]), FlashMemory::from(vec![0_u32; 256]));
    row(
        "Reduce into bins, histogram of bytes, against rayon",
        n,
        &bins,
        || Ok(rt.submit(Histogram::of(&a, &bins)).exec([n as u64])?),
        |out| {
            let add = |mut bins: Vec<u32>, of: &[u8]| {
                for v in of {
                    bins[usize::from(*v)] += 1;
                }
                bins
            };
            let sum = |mut a: Vec<u32>, b: Vec<u32>| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            };
            let empty = || vec![0_u32; 256];
            *out = of.par_chunks(CHUNK).fold(empty, add).reduce(empty, sum);
        },
    )
}

// ---- phases ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.fft", dims(i, stage), group_by(stage))]
struct Fft<'a> {
    log: u32,
    roots: Whole<'a, Read<[f32; 2]>>,
    #[along(i)]
    data: Phased<'a, [f32; 2]>,
}

/// What element `i` becomes in a stage of the transform by Stockham's order: its place of a butterfly.
#[inline(always)]
fn butterfly(
    i: usize,
    stage: usize,
    log: u32,
    root: impl Fn(usize) -> [f32; 2],
    was: impl Fn(usize) -> [f32; 2],
) -> [f32; 2] {
    let half = 1_usize << (log - 1);
    let span = 1_usize << stage;
    let (block, inner) = (i >> (stage + 1), i & (span - 1));
    let from = block * span + inner;
    let (a, b) = (was(from), was(from + half));
    let [re, im] = root(inner << (log as usize - 1 - stage));
    let turned = [b[0] * re - b[1] * im, b[0] * im + b[1] * re];
    match i & span {
        0 => [a[0] + turned[0], a[1] + turned[1]],
        _ => [a[0] - turned[0], a[1] - turned[1]],
    }
}

#[kernel]
impl CpuItem<Fft<'_>> for Plain {
    fn item(ix: Index<2>, mut k: FftItem<'_>) {
        let (roots, data) = (k.roots, &k.data);
        let value = butterfly(ix[0], ix[1], k.log, |i| roots[i], |i| data.get(i));
        k.data.set(value);
    }
}

fn fft(rt: &RuntimeObj, log: u32) -> Result<Row> {
    let n = 1_usize << log;
    let roots: Vec<[f32; 2]> = (0..n / 2)
        .map(|i| {
            let angle = -std::f64::consts::TAU * i as f64 / n as f64;
            [angle.cos() as f32, angle.sin() as f32]
        })
        .collect();
    let data: Vec<[f32; 2]> = field(n).iter().map(|v| [*v, 1.0 - v]).collect();
    let (r, d) = (shaped(&roots, &[n / 2]), shaped(&data, &[n]));
    let mut next = data.clone();
    let again = data.clone();
    row(
        "Phased, stages of an FFT, f32, against rayon",
        n * log as usize,
        &d,
        || {
            d.write()?.copy_from_slice(&data);
            rt.submit(Fft::of(log, &r, &d)).exec([n as u64, u64::from(log)])?;
            Ok(())
        },
        |out| {
            out.copy_from_slice(&again);
            for stage in 0..log as usize {
                let was = &*out;
                next.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, next)| {
                    for (i, next) in next.iter_mut().enumerate() {
                        *next = butterfly(chunk * CHUNK + i, stage, log, |i| roots[i], |i| was[i]);
                    }
                });
                std::mem::swap(out, &mut next);
            }
        },
    )
}

// ---- scatters ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.scatter", dims(i))]
struct Scattered<'a> {
    which: Item<'a, Read<u32>>,
    counts: Scatter<'a, u32>,
}

#[kernel]
impl CpuItem<Scattered<'_>> for Plain {
    fn item(_: Index<1>, k: ScatteredItem<'_>) {
        k.counts.add(*k.which as usize, 1);
    }
}

fn scatter(rt: &RuntimeObj, n: usize, of: usize) -> Result<Row> {
    let which = scrambled(n, of);
    let (a, counts) = (shaped(&which, &[n]), FlashMemory::from(vec![0_u32; of]));
    let theirs: Vec<AtomicU32> = (0..of).map(|_| AtomicU32::new(0)).collect();
    row(
        format!("Scatter, counts of {of}, u32, against rayon"),
        n,
        &counts,
        || {
            counts.fill(0)?;
            rt.submit(Scattered::of(&a, &counts)).exec([n as u64])?;
            Ok(())
        },
        |out| {
            theirs.iter().for_each(|count| count.store(0, Relaxed));
            which.par_chunks(CHUNK).for_each(|which| {
                for which in which {
                    theirs[*which as usize].fetch_add(1, Relaxed);
                }
            });
            out.iter_mut().zip(&theirs).for_each(|(out, count)| *out = count.load(Relaxed));
        },
    )
}

#[derive(KernelDefinition)]
#[kernel(name = "doors.deposit", dims(i))]
struct Deposit<'a> {
    which: Item<'a, Read<u32>>,
    sums: Scatter<'a, f32>,
}

#[kernel]
impl CpuItem<Deposit<'_>> for Plain {
    fn item(_: Index<1>, k: DepositItem<'_>) {
        k.sums.add(*k.which as usize, 1.0);
    }
}

fn deposit(rt: &RuntimeObj, n: usize, of: usize) -> Result<Row> {
    let which = scrambled(n, of);
    let (a, sums) = (shaped(&which, &[n]), FlashMemory::from(vec![0.0_f32; of]));
    let theirs: Vec<AtomicU32> = (0..of).map(|_| AtomicU32::new(0)).collect();
    row(
        format!("Scatter, sums of {of}, f32, against rayon"),
        n,
        &sums,
        || {
            sums.fill(0.0)?;
            rt.submit(Deposit::of(&a, &sums)).exec([n as u64])?;
            Ok(())
        },
        |out| {
            theirs.iter().for_each(|sum| sum.store(0, Relaxed));
            which.par_chunks(CHUNK).for_each(|which| {
                for which in which {
                    let sum = &theirs[*which as usize];
                    let mut old = sum.load(Relaxed);
                    while let Err(now) = sum.compare_exchange_weak(
                        old,
                        (f32::from_bits(old) + 1.0).to_bits(),
                        Relaxed,
                        Relaxed,
                    ) {
                        old = now;
                    }
                }
            });
            out.iter_mut().zip(&theirs).for_each(|(out, sum)| *out = f32::from_bits(sum.load(Relaxed)));
        },
    )
}

// ---- teams ----

/// The exponentials of a row, roughly, divided by their sum.
#[derive(KernelDefinition)]
#[kernel(name = "doors.shares", dims(row))]
struct Shares<'a> {
    x: Item<'a, Read<views::Row<f32>>>,
    y: Item<'a, Write<views::Row<f32>>>,
}

/// `(1 + x / 8)^8`, which compilers vectorise.
fn growth(x: f32) -> f32 {
    let y = 1.0 + x / 8.0;
    (y * y) * (y * y) * ((y * y) * (y * y))
}

#[kernel]
impl CpuTeam<Shares<'_>, 64> for Plain {
    fn team(_: Index<1>, k: SharesItem<'_>, team: &mut Team<64>) {
        let most = team.reduce(k.x.len(), f32::MIN, |i| k.x[i], |a, b| if b > a { b } else { a });
        let sum = team.reduce(k.x.len(), 0.0, |i| growth(k.x[i] - most), |a, b| a + b);
        team.set(k.y, |i| growth(k.x[i] - most) / sum);
    }
}

/// A value for each element, combined in the order of a team of 64.
fn in_parts(x: &[f32], first: f32, value: impl Fn(f32) -> f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut parts = [first; 64];
    for x in x.chunks(64) {
        parts.iter_mut().zip(x).for_each(|(part, x)| *part = combine(*part, value(*x)));
    }
    let mut half = 32;
    while half > 0 {
        (0..half).for_each(|i| parts[i] = combine(parts[i], parts[i + half]));
        half /= 2;
    }
    parts[0]
}

/// Beside the same loops over slices.
fn shares(rt: &RuntimeObj, width: usize, rows: usize) -> Result<Row> {
    let x = field(width * rows);
    let (a, b) = (shaped(&x, &[width, rows]), zeros::<f32>(&[width, rows]));
    row(
        format!("Team, shares of rows of {width}, f32, against rayon"),
        width * rows,
        &b,
        || Ok(rt.submit(Shares::of(&a, &b)).exec([rows as u64])?),
        |out| {
            out.par_chunks_mut(width).zip(x.par_chunks(width)).for_each(|(y, x)| {
                let most = in_parts(x, f32::MIN, |x| x, |a, b| if b > a { b } else { a });
                let sum = in_parts(x, 0.0, |x| growth(x - most), |a, b| a + b);
                y.iter_mut().zip(x).for_each(|(y, x)| *y = growth(x - most) / sum);
            });
        },
    )
}

// ---- closures ----

#[derive(KernelDefinition)]
#[kernel(name = "doors.axpy", dims(i), part_by(i))]
struct Axpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

#[kernel]
impl CpuItem<Axpy<'_>> for Plain {
    fn item(_: Index<1>, k: AxpyItem<'_>) {
        *k.y += k.a * k.x;
    }
}

/// A closure beside a definition that does the same, per launch.
fn closure(rt: &RuntimeObj, n: usize) -> Result<Row> {
    let (x, a) = (shaped(&field(n), &[n]), 0.5);
    let [y, z] = [zeros::<f32>(&[n]), zeros(&[n])];
    let by_closure = || rt.for_each(n, (x.r(), y.rw()), |(x, y)| *y += a * x).expect("it runs");
    let by_definition = || rt.submit(Axpy::of(a, &x, &z)).exec([n]).expect("it runs");
    by_closure();
    by_definition();
    ensure!(y.read()?[..] == z.read()?[..], "a closure has other results than a definition");
    let launches = (1 << 18) / n + 1;
    let per_launch = |launch: &dyn Fn()| {
        let start = Instant::now();
        (0..launches).for_each(|_| launch());
        start.elapsed().as_nanos() as f64 / launches as f64
    };
    let mut peer = || per_launch(&by_definition);
    let name = format!("for_each, axpy of {n}, f32, against a definition");
    Ok(pair(name, "ns", REPEATS, || per_launch(&by_closure), Some(&mut peer), PAUSE))
}

// ---- the rows ----

/// Elements of a chunk of rayon's.
const CHUNK: usize = 1 << 14;

/// Measures a launch and its peer in turns. Both have `items` items and must give the same result.
fn row<T: Element + Copy + PartialEq>(
    name: impl Into<String>,
    items: usize,
    result: &FlashMemory<T>,
    mut ours: impl FnMut() -> Result<()>,
    mut theirs: impl FnMut(&mut Vec<T>),
) -> Result<Row> {
    let name = name.into();
    let mut out = result.read()?.to_vec();
    ours()?;
    theirs(&mut out);
    ensure!(result.read()?[..] == out[..], "{name}: FLASH has other results than its peer");
    let per_item = |start: Instant| start.elapsed().as_nanos() as f64 / items as f64;
    let launch = || {
        let start = Instant::now();
        ours().expect("it ran before");
        per_item(start)
    };
    let mut peer = || {
        let start = Instant::now();
        theirs(&mut out);
        per_item(start)
    };
    Ok(pair(name, "ns/item", REPEATS, launch, Some(&mut peer), PAUSE))
}

/// Numbers between 0 and 1.
fn field(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i.wrapping_mul(7919) % 1013) as f32 / 1013.0).collect()
}

/// Numbers below a limit, in no order.
fn scrambled(n: usize, below: usize) -> Vec<u32> {
    let mix = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    (0..n).map(|i| (mix(i + 1) % below as u64) as u32).collect()
}

fn shaped<T: Element + Copy>(values: &[T], shape: &[usize]) -> FlashMemory<T> {
    FlashMemory::from(values.to_vec()).with_shape(shape).expect("as many elements as the shape says")
}

fn zeros<T: Element + Copy + Default>(shape: &[usize]) -> FlashMemory<T> {
    shaped(&vec![T::default(); shape.iter().product()], shape)
}

/// As many threads as FLASH and rayon have.
fn threads() -> c_int {
    int(std::thread::available_parallelism().map_or(1, usize::from))
}

/// A row for each view, and some against C.
pub fn rows(c: Option<Stencils>) -> Result<Vec<Row>> {
    let rt = get_runtime("ALL_CPU")?;
    let mut rows = heat(&rt, c, 2048, 1024)?;
    rows.extend(jacobi(&rt, c, 128)?);
    rows.extend(gaps(&rt, 2048, 1024)?);
    rows.extend([
        blur(&rt, 1 << 21)?,
        lbm(&rt, 512, 256)?,
        gather(&rt, 1 << 20, 1 << 16)?,
        spmv(&rt, 1 << 16, 16)?,
        dot(&rt, 1 << 20)?,
        histogram(&rt, 1 << 22)?,
        fft(&rt, 16)?,
        shares(&rt, 1000, 1000)?,
        scatter(&rt, 1 << 20, 1 << 16)?,
        deposit(&rt, 1 << 20, 1 << 16)?,
        closure(&rt, 64)?,
        closure(&rt, 1 << 20)?,
    ]);
    Ok(rows)
}
