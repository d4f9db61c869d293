//! The diffusion kernels on the CPU: a readable version of each, and spans.
//!
//! [`Plain`] defines the results; all versions agree with it. So the order of sums is fixed ([`step`]),
//! and [`nearest`] rounds as [`cell`] does. What a definition cannot say is checked here: the lengths of
//! moves ([`particles`]), the shape of a field ([`shape`]), and that a cell lies in its plane ([`check`]).
//!
//! `walk` and `heat` are compiled once per instruction set (`spans!`). The only `unsafe` code is that of
//! `heat`: it loads and stores whole registers inside rows whose lengths it has compared before.

use super::{
    Count, CountItem, CountSpan, Heat, HeatItem, HeatSpan, OUTSIDE, STRETCH, Walk, WalkItem, WalkSpan,
};
use crate::simd::{self, InstructionSet, Vector, spans};
use flash_core::kernel;
use flash_core::kernel::views::{Accumulator, RowsMut, Sum, WindowView};
use flash_core::kernel::{CpuItem, CpuSpan, Index, Span};
use std::ops::Range;

/// One particle, move or cell at a time: the readable version.
pub struct Plain;

/// The cell of a position, by the definition.
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

/// The number of particles that [`Walk`] is launched over.
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

/// The nearest cell along an axis, floor(x + 1/2) as if added without rounding, and the distance from its
/// centre. For positions beyond 2^22 and NaN it is some number above 2^22. It uses no instruction of newer
/// CPUs only.
#[inline(always)]
pub(super) fn nearest(x: f32) -> (u32, f32) {
    // Near this number the last bit of a float is one: a sum is rounded to a whole number, at a tie to an
    // even one.
    const ONES: f32 = 1.5 * (1 << 23) as f32;
    let sum = x + ONES;
    // Exact where the sum is. At a tie both centres are equally far.
    let distance = x - (sum - ONES);
    let even = sum.to_bits().wrapping_sub(ONES.to_bits());
    (even.wrapping_add(u32::from(distance >= 0.5)), distance)
}

/// Particles that are moved together: the moves of an iteration are read some cache lines in a row.
const BLOCK: usize = 256;

/// Iterations whose cells are buffered for a block, so that a track is written a cache line at a time.
const TILE: usize = 16;

/// Iterations between the prefetch of moves and their use. More would not stay in the caches where a power of
/// two is between the moves of a particle.
const AHEAD: usize = 2;

/// Moves particles once, each along x and along y; `cells` are their cells after it.
#[inline(always)]
fn moved(grid: u32, reach: f32, moves: [&[f32]; 2], position: [&mut [f32]; 2], cells: &mut [u32]) {
    let ([rx, ry], [x, y]) = (moves, position);
    for ((((x, y), rx), ry), cell) in x.iter_mut().zip(y).zip(rx).zip(ry).zip(cells) {
        *x += rx;
        *y += ry;
        let ((cx, dx), (cy, dy)) = (nearest(*x), nearest(*y));
        let inside = (cx < grid) & (cy < grid) & (dx * dx + dy * dy <= reach);
        *cell = if inside { cx.wrapping_add(cy.wrapping_mul(grid)) } else { OUTSIDE };
    }
}

/// Writes cells of particles, one iteration after the other, from an entry of their tracks on; the first
/// particle's is this row. The next entries of the tracks are prefetched: there are more tracks than a CPU
/// predicts.
#[inline(always)]
fn write_down(cells: &[[u32; BLOCK]], track: &mut RowsMut<'_, u32>, rows: Range<usize>, entry: usize) {
    let mut done = 0;
    if let Ok(tile) = <&[[u32; BLOCK]; TILE]>::try_from(cells) {
        while done + 4 <= rows.len() {
            let mut groups = [[[0; 4]; 4]; TILE / 4];
            for (group, rows) in groups.iter_mut().zip(tile.as_chunks::<4>().0) {
                for (four, row) in group.iter_mut().zip(rows) {
                    four.copy_from_slice(&row[done..done + 4]);
                }
                *group = simd::transposed(*group);
            }
            for l in 0..4 {
                let to = &mut track.row(rows.start + done + l)[entry..][..TILE];
                // The last line of the next entries.
                simd::prefetch(to.as_ptr().wrapping_add(2 * TILE - 1));
                for (to, group) in to.as_chunks_mut().0.iter_mut().zip(&groups) {
                    *to = group[l];
                }
            }
            done += 4;
        }
    }
    for particle in done..rows.len() {
        let to = &mut track.row(rows.start + particle)[entry..][..cells.len()];
        to.iter_mut().zip(cells).for_each(|(to, cells)| *to = cells[particle]);
    }
}

#[inline(always)]
fn walk<I: InstructionSet>(run: Span<1>, mut k: WalkSpan<'_>) {
    let (n, start, count) = (particles(k.iterations, k.rx, k.ry), run.range().start, k.cell.len());
    for (row, cell) in k.cell.iter().enumerate() {
        k.track.row(row)[0] = *cell;
    }
    if n == 0 {
        return;
    }
    let iterations = k.iterations as usize;
    let mut cells = [[0; BLOCK]; TILE];
    for first in (0..count).step_by(BLOCK) {
        let block = first..(first + BLOCK).min(count);
        let (x, y) = (&mut k.x[block.clone()], &mut k.y[block.clone()]);
        for done in (0..iterations).step_by(TILE) {
            let tile = &mut cells[..(iterations - done).min(TILE)];
            for (i, cells) in (done..).zip(&mut *tile) {
                let moves = [k.rx, k.ry].map(|moves| &moves[i * n + start + first..][..block.len()]);
                for line in moves.iter().flat_map(|moves| moves.chunks(64 / size_of::<f32>())) {
                    simd::prefetch(line.as_ptr().wrapping_add(AHEAD * n));
                }
                moved(k.grid, k.reach, moves, [&mut *x, &mut *y], &mut cells[..block.len()]);
            }
            write_down(tile, &mut k.track, block.clone(), done + 1);
        }
        let last = &cells[(iterations - 1) % TILE];
        k.cell[block.clone()].copy_from_slice(&last[..block.len()]);
    }
}

spans! { Walk, WalkSpan, 1, walk }
spans! { Heat, HeatSpan, 2, heat }

/// Counts one move: from a cell, or none, to another.
#[inline(always)]
fn enter(from: u32, to: u32, planes: usize, counts: &mut Accumulator<'_, [u64], Sum>) {
    if from != OUTSIDE {
        // Sums of counts wrap: this subtracts one.
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
        for i in iterations(at[Count::STRETCH]..at[Count::STRETCH] + 1, k.iterations) {
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

/// Counts iterations inside a cell.
#[inline(always)]
fn stayed(cell: u32, iterations: u64, counts: &mut Accumulator<'_, [u64], Sum>) {
    if cell != OUTSIDE {
        counts.put(cell as usize, iterations);
    }
}

/// Counts a particle's stays in cells at once.
pub struct Stays;

/// Entries of a track that are compared together, in vector registers.
const COMPARED: usize = 16;

/// A bit for each entry that differs from the one before.
#[inline(always)]
fn changes(before: &[u32; COMPARED], now: &[u32; COMPARED]) -> u32 {
    let bit = |i: usize| if before[i] != now[i] { 1 << i } else { 0 };
    (0..COMPARED).fold(0, |bits, i| bits | bit(i))
}

#[kernel(priority = 10)]
impl CpuSpan<Count<'_>> for Stays {
    fn span(run: Span<2>, mut k: CountSpan<'_>) {
        let cells = k.counts.len() / 3;
        let range = iterations(run.range(), k.iterations);
        let count = range.len();
        let (before, now) = (&k.track[range.start..][..count], &k.track[range.start + 1..][..count]);
        let (mut cell, mut since) = (k.track[range.start], 0);
        check(cell, cells);
        let mut change = |i: usize| {
            let next = now[i];
            check(next, cells);
            stayed(cell, (i - since) as u64, &mut k.counts);
            enter(cell, next, cells, &mut k.counts);
            (cell, since) = (next, i);
        };
        let ((before, before_rest), (after, after_rest)) = (before.as_chunks(), now.as_chunks());
        for (number, (before, now)) in before.iter().zip(after).enumerate() {
            let mut bits = changes(before, now);
            while bits != 0 {
                change(number * COMPARED + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        for (i, (before, now)) in before_rest.iter().zip(after_rest).enumerate() {
            if before != now {
                change(after.len() * COMPARED + i);
            }
        }
        stayed(cell, (count - since) as u64, &mut k.counts);
    }
}

/// One row of the field, or a stretch of it.
#[inline(always)]
fn heat<I: InstructionSet>(run: Span<2>, k: HeatSpan<'_>) {
    let (range, y) = (run.range(), run.first()[Heat::Y]);
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
    // Cells inside the row have a neighbour on either side.
    let Some(between) = to.len().checked_sub(2) else { return };
    let (first, to) = (skip + 1, &mut to[1..][..between]);
    let [west, here, east] = [first - 1, first, first + 1].map(|first| &here[first..][..between]);
    let [above, below] = [above, below].map(|row| &row[first..][..between]);
    let cell = |i: usize| step(k.rate, here[i], [west[i], east[i], above[i], below[i]]);
    let lanes = I::Vector::<f32>::LANES;
    if between < lanes {
        return (0..between).for_each(|i| to[i] = cell(i));
    }
    I::assert_there();
    for first in (0..between).step_by(lanes) {
        // The last register overlaps the one before.
        let first = first.min(between - lanes);
        // SAFETY: the CPU has the instructions, as asserted. `lanes` cells from `first` on are in all rows.
        // Rounding is as in `step`: a multiplication by -4 is exact.
        unsafe {
            let at = |row: &[f32]| I::Vector::<f32>::load(row.as_ptr().add(first));
            let (here, around) = (at(here), at(west).add(at(east)).add(at(above).add(at(below))));
            let flow = around.add(here.mul(I::Vector::<f32>::splat(-4.0)));
            here.add(flow.mul(I::Vector::<f32>::splat(k.rate))).store(to.as_mut_ptr().add(first));
        }
    }
}

/// Checks that these are the width and height of a field, and returns them.
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
        let (x, y) = (at[Heat::X], at[Heat::Y]);
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
