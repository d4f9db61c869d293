//! The diffusion kernels on the CPU: a readable version of each, and spans.

use super::{
    Count, CountItem, CountSpan, Heat, HeatItem, HeatSpan, OUTSIDE, STRETCH, Walk, WalkItem, WalkSpan,
};
use crate::simd::{self, InstructionSet, Vector};
use flash_core::kernel;
use flash_core::kernel::views::{Accumulator, RowsMut, Sum, WindowView};
use flash_core::kernel::{CpuItem, CpuSpan, Index, Span};
use std::ops::Range;

/// One particle, move or cell at a time: the readable version.
pub struct Plain;

/// The cell of a position, as the definition has it.
fn cell(grid: u32, reach: f32, x: f32, y: f32) -> u32 {
    let nearest = |x: f32| (f64::from(x) + 0.5).floor();
    let (cx, cy) = (nearest(x), nearest(y));
    let (dx, dy) = ((x - x.round()).abs(), (y - y.round()).abs());
    let on_grid = |c: f64| (0.0..f64::from(grid)).contains(&c);
    if on_grid(cx) && on_grid(cy) && dx * dx + dy * dy <= reach {
        cx as u32 + cy as u32 * grid
    } else {
        OUTSIDE
    }
}

/// Particles that [`Walk`] is launched over.
#[track_caller]
fn particles(iterations: u64, rx: &[f32], ry: &[f32]) -> usize {
    let (moves, iterations) = (rx.len(), iterations as usize);
    assert!(moves == ry.len(), "expected rx and ry of one length, found {moves} and {}", ry.len());
    let particles = moves.checked_div(iterations).unwrap_or(0);
    assert!(
        particles * iterations == moves,
        "expected moves of {iterations} iterations of all particles, found {moves}"
    );
    particles
}

#[kernel]
impl CpuItem<Walk<'_>> for Plain {
    fn item(particle: Index<1>, k: WalkItem<'_>) {
        let n = particles(k.iterations, k.rx, k.ry);
        k.track[0] = *k.cell;
        for i in 0..k.iterations as usize {
            let at = i * n + particle[0];
            *k.x += k.rx[at];
            *k.y += k.ry[at];
            *k.cell = cell(k.grid, k.reach, *k.x, *k.y);
            k.track[i + 1] = *k.cell;
        }
    }
}

/// Iterations that are run together: all particles of a run, then the next. So moves are read as they lie in memory,
/// and each row of the tracks is written a few cache lines at a time.
const TILE: usize = 32;

/// Moves `L` particles, which are `first` and those after it of `n`, and writes their cells from entry `begin` of
/// their rows on; `row` is the first one's row of the run. The distances are those of `Plain`: what is subtracted
/// here leaves no rest to round, and at a tie both centres are as far.
#[inline(always)]
fn lanes<const L: usize>(
    (grid, reach): (u32, f32),
    (rx, ry): (&[f32], &[f32]),
    (n, first): (usize, usize),
    (x, y, cell): (&mut [f32; L], &mut [f32; L], &mut [u32; L]),
    (track, row, begin): (&mut RowsMut<'_, u32>, usize, usize),
) {
    let mut cells = [[0; L]; TILE];
    let (mut xs, mut ys, side) = (*x, *y, grid as f32);
    let tile = rx.len() / n;
    for (i, cells) in cells[..tile].iter_mut().enumerate() {
        let at = i * n + first;
        let (rx, ry) = (&rx[at..at + L], &ry[at..at + L]);
        for l in 0..L {
            xs[l] += rx[l];
            ys[l] += ry[l];
            let (cx, cy) = (nearest(xs[l]), nearest(ys[l]));
            let (dx, dy) = (xs[l] - cx, ys[l] - cy);
            let on_grid = (cx >= 0.0) & (cx < side) & (cy >= 0.0) & (cy < side);
            let inside = on_grid & (dx * dx + dy * dy <= reach);
            let number = whole(cx).wrapping_add(whole(cy).wrapping_mul(grid));
            cells[l] = if inside { number } else { OUTSIDE };
        }
    }
    for l in 0..L {
        let to = &mut track.row(row + l)[begin + 1..][..tile];
        for (to, cells) in to.iter_mut().zip(&cells) {
            *to = cells[l];
        }
    }
    *cell = cells[tile - 1];
    (*x, *y) = (xs, ys);
}

/// floor(x + 1/2) as if added without rounding. The rest of x above its floor is exact but for small negative
/// x, where it rounds within [1/2, 1].
#[inline(always)]
pub(super) fn nearest(x: f32) -> f32 {
    let floor = x.floor();
    floor + if x - floor >= 0.5 { 1.0 } else { 0.0 }
}

/// A whole number from 0 to 2^23, of anything else something: unlike a cast, it is for vectors. Above 2^23 the
/// last bits of a float count ones.
#[inline(always)]
fn whole(x: f32) -> u32 {
    const ONES: f32 = (1 << 23) as f32;
    (x + ONES).to_bits().wrapping_sub(ONES.to_bits())
}

/// Particles in vector registers.
const LANES: usize = 16;

#[inline(always)]
fn walk(run: Span<1>, mut k: WalkSpan<'_>) {
    let (n, first) = (particles(k.iterations, k.rx, k.ry), run.range().start);
    let scalars = (k.grid, k.reach);
    for (row, cell) in k.cell.iter().enumerate() {
        k.track.row(row)[0] = *cell;
    }
    if n == 0 {
        return;
    }
    let (x, x_rest) = k.x.as_chunks_mut::<LANES>();
    let (y, y_rest) = k.y.as_chunks_mut::<LANES>();
    let (cell, cell_rest) = k.cell.as_chunks_mut::<LANES>();
    for (tile, moves) in k.rx.chunks(TILE * n).zip(k.ry.chunks(TILE * n)).enumerate() {
        let (begin, mut row) = (tile * TILE, 0);
        for ((x, y), cell) in x.iter_mut().zip(&mut *y).zip(&mut *cell) {
            lanes(scalars, moves, (n, first + row), (x, y, cell), (&mut k.track, row, begin));
            row += LANES;
        }
        for ((x, y), cell) in x_rest.iter_mut().zip(&mut *y_rest).zip(&mut *cell_rest) {
            let state = (std::array::from_mut(x), std::array::from_mut(y), std::array::from_mut(cell));
            lanes::<1>(scalars, moves, (n, first + row), state, (&mut k.track, row, begin));
            row += 1;
        }
    }
}

/// Spans of one instruction set. The code is the same; the compiler makes other vectors of it.
macro_rules! spans {
    ($(#[$doc:meta])* $name:ident, $features:literal, if $there:expr, [$($options:tt)*]) => {
        $(#[$doc])*
        pub struct $name;

        #[kernel($($options)*)]
        impl CpuSpan<Walk<'_>> for $name {
            fn span(run: Span<1>, k: WalkSpan<'_>) {
                #[target_feature(enable = $features)]
                fn with_features(run: Span<1>, k: WalkSpan<'_>) {
                    walk(run, k);
                }
                assert!($there, "this CPU lacks the instructions");
                // SAFETY: this CPU has the instructions.
                unsafe { with_features(run, k) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
spans! {
    /// For AVX-512.
    Avx512, "avx512f", if is_x86_feature_detected!("avx512f"),
    [priority = 30, cpu_features = "avx512f"]
}

#[cfg(target_arch = "x86_64")]
spans! {
    /// For AVX2.
    Avx2, "avx2", if is_x86_feature_detected!("avx2"),
    [priority = 20, cpu_features = "avx2"]
}

/// In the vectors that any CPU of its kind has.
pub struct Portable;

#[kernel(priority = 10)]
impl CpuSpan<Walk<'_>> for Portable {
    fn span(run: Span<1>, k: WalkSpan<'_>) {
        walk(run, k);
    }
}

macro_rules! heat {
    ($($set:ident, [$($options:tt)*];)*) => {$(
        #[kernel($($options)*)]
        impl CpuSpan<Heat<'_>> for simd::$set {
            #[inline(always)]
            fn span(run: Span<2>, k: HeatSpan<'_>) {
                heat::<Self>(run, k);
            }

            #[inline(always)]
            fn around<R>(share: impl FnOnce() -> R) -> R {
                <Self as InstructionSet>::run(share)
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
heat! {
    Avx512, [priority = 30, cpu_features = "avx512f,avx512dq,avx512vl,avx512bw"];
    Avx2, [priority = 20, cpu_features = "avx2,fma"];
}
heat! { Portable, [priority = 10]; }

/// Counts one move: from a cell, or none, to another.
#[inline(always)]
fn enter(from: u32, to: u32, planes: usize, counts: &mut Accumulator<'_, [u64], Sum>) {
    if from != OUTSIDE {
        // Sums of counts wrap: one less.
        counts.put(planes + from as usize, 1u64.wrapping_neg());
    }
    if to != OUTSIDE {
        counts.put(planes + to as usize, 1);
        counts.put(2 * planes + to as usize, 1);
    }
}

#[kernel]
impl CpuItem<Count<'_>> for Plain {
    fn item(at: Index<2>, mut k: CountItem<'_>) {
        let cells = k.counts.len() / 3;
        for i in iterations(at["stretch"]..at["stretch"] + 1, k.iterations) {
            let (from, to) = (k.track[i], k.track[i + 1]);
            check(from, cells);
            check(to, cells);
            stayed(to, 1, &mut k.counts);
            if from != to {
                enter(from, to, cells, &mut k.counts);
            }
        }
    }
}

/// The iterations of these stretches.
#[inline(always)]
fn iterations(stretches: Range<usize>, all: u64) -> Range<usize> {
    let end = all as usize;
    (stretches.start * STRETCH).min(end)..(stretches.end * STRETCH).min(end)
}

/// A cell beyond its plane would be counted in the next.
#[inline(always)]
#[track_caller]
fn check(cell: u32, cells: usize) {
    assert!(cell == OUTSIDE || (cell as usize) < cells, "cell {cell} of a plane of {cells}");
}

/// Counts so many iterations inside a cell.
#[inline(always)]
fn stayed(cell: u32, iterations: u64, counts: &mut Accumulator<'_, [u64], Sum>) {
    if cell != OUTSIDE {
        counts.put(cell as usize, iterations);
    }
}

/// Counts a particle's stays in cells at once.
pub struct Stays;

#[kernel(priority = 10)]
impl CpuSpan<Count<'_>> for Stays {
    fn span(run: Span<2>, mut k: CountSpan<'_>) {
        let cells = k.counts.len() / 3;
        let (range, row) = (iterations(run.range(), k.iterations), k.track);
        let (mut cell, mut stay) = (row[range.start], 0);
        check(cell, cells);
        for &next in &row[range.start + 1..=range.end] {
            if next != cell {
                check(next, cells);
                stayed(cell, stay, &mut k.counts);
                enter(cell, next, cells, &mut k.counts);
                (cell, stay) = (next, 0);
            }
            stay += 1;
        }
        stayed(cell, stay, &mut k.counts);
    }
}

/// One row of the field, or a stretch of it.
#[inline(always)]
fn heat<I: InstructionSet>(run: Span<2>, k: HeatSpan<'_>) {
    let (range, y) = (run.range(), run.first()["y"]);
    let (width, height) = shape(k.width, k.height, &k.from);
    let (above, below) = (y.saturating_sub(1), (y + 1).min(height - 1));
    let (left, right) = (range.start.saturating_sub(1), (range.end + 1).min(width));
    let row = |y: usize| k.from.slice(y * width + left..y * width + right);
    let (here, above, below) = (row(y), row(above), row(below));
    let new = |i: usize, west: usize, east: usize| {
        step(k.rate, here[i], [here[west], here[east], above[i], below[i]])
    };
    let (skip, last, to) = (range.start - left, here.len() - 1, k.to);
    for j in [0, to.len() - 1] {
        let i = j + skip;
        to[j] = new(i, i.saturating_sub(1), (i + 1).min(last));
    }
    // Those between have a neighbour to either side.
    let Some(between) = to.len().checked_sub(2) else { return };
    let (first, to) = (skip + 1, &mut to[1..][..between]);
    let [west, here, east] = [first - 1, first, first + 1].map(|first| &here[first..][..between]);
    let [above, below] = [above, below].map(|row| &row[first..][..between]);
    let cell = |i: usize| step(k.rate, here[i], [west[i], east[i], above[i], below[i]]);
    let lanes = I::Vector::<f32>::LANES;
    if between < lanes {
        return (0..between).for_each(|i| to[i] = cell(i));
    }
    assert!(I::there(), "this CPU lacks the instructions");
    for first in (0..between).step_by(lanes) {
        // The last register has cells of the one before once more.
        let first = first.min(between - lanes);
        // SAFETY: the CPU has the instructions, as asserted. `lanes` cells from `first` on are in all rows. They are rounded
        // as in `step`: times -4 is no rounding.
        unsafe {
            let at = |row: &[f32]| I::Vector::<f32>::load(row.as_ptr().add(first));
            let (here, around) = (at(here), at(west).add(at(east)).add(at(above).add(at(below))));
            let flow = around.add(here.mul(I::Vector::<f32>::splat(-4.0)));
            here.add(flow.mul(I::Vector::<f32>::splat(k.rate))).store(to.as_mut_ptr().add(first));
        }
    }
}

/// Width and height of a field that are its own.
#[inline(always)]
#[track_caller]
fn shape(width: u64, height: u64, from: &WindowView<'_, f32>) -> (usize, usize) {
    let (width, height) = (width as usize, height as usize);
    let (found, [row, _]) = (from.len(), from.strides());
    assert!(
        width.checked_mul(height) == Some(found) && row == width,
        "expected `from` of {width} x {height} elements, found {found}, {row} in a row"
    );
    (width, height)
}

/// The value after a step. The order of the sum is fixed, so that all versions agree.
#[inline(always)]
fn step(rate: f32, here: f32, [west, east, north, south]: [f32; 4]) -> f32 {
    here + rate * (((west + east) + (north + south)) - 4.0 * here)
}

#[kernel]
impl CpuItem<Heat<'_>> for Plain {
    fn item(at: Index<2>, k: HeatItem<'_>) {
        let (x, y) = (at["x"], at["y"]);
        let (width, height) = shape(k.width, k.height, &k.from);
        let value = |x: usize, y: usize| k.from.get(y * width + x);
        let around = [
            value(x.saturating_sub(1), y),
            value((x + 1).min(width - 1), y),
            value(x, y.saturating_sub(1)),
            value(x, (y + 1).min(height - 1)),
        ];
        k.to.set(step(k.rate, value(x, y), around));
    }
}
