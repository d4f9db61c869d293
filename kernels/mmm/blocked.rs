//! The product by blocks, each of which stays in a cache for as long as it is used.
//!
//! A *tile* of the result is a few rows by a few registers, all in registers: for each of a block of `k`, its
//! columns of `a` are broadcast to its rows of `b`. Both are packed before, in the order in which a tile reads
//! them. A block of `b` is packed once for all threads and stays in the cache that they share; a block of `a`
//! stays in the cache of the thread that packed it. What packing puts beyond the edges are zeros, so that every
//! tile is a full one, and the bits of an element depend on its row and its column alone.

use super::bf16;
use super::tiles::Tiles;
use crate::simd::Number;
use bytemuck::{Pod, Zeroable};
use flash_core::kernel::{Element, Threads};
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;
use std::thread::LocalKey;

/// Columns of `a`, and rows of `b`, of a block, packed. Less, and the result is read and written more often; more, and a
/// tile's share of `b` leaves the first-level cache for good.
const DEPTH: usize = 384;
/// Columns of `b` of a block.
const WIDTH: usize = 4096;
/// Rows of `a` of a block, about: with [`DEPTH`] columns a third of a second-level cache, and few enough for threads
/// to share them out evenly.
const HEIGHT: usize = 112;
/// Multiplications below which threads cost more than they save.
pub(super) const SMALL: usize = 1 << 18;

/// A matrix, row by row.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, T> {
    pub elements: &'a [T],
    /// Elements from row to row.
    pub leading: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Some elements of a row.
    fn row(&self, row: usize, columns: Range<usize>) -> &'a [T] {
        &self.elements[row * self.leading..][columns]
    }
}

/// What factors of type `F` are packed as.
pub(super) trait Packed<F>: Element {
    /// Columns of `a`, and rows of `b`, that are one when they are packed: 1, or 2.
    const TOGETHER: usize;
    /// Of one factor, if that is all, or of two.
    fn of(first: F, second: F) -> Self;
}

impl<T: Number> Packed<T> for T {
    const TOGETHER: usize = 1;
    #[inline(always)]
    fn of(first: T, _: T) -> T {
        first
    }
}

impl Packed<bf16> for f32 {
    const TOGETHER: usize = 1;
    #[inline(always)]
    fn of(first: bf16, _: bf16) -> f32 {
        f32::from_bits(u32::from(first.to_bits()) << 16)
    }
}

/// `c = a * b`, of `m` rows, `n` columns and `k` products in each sum; `c` has rows of `leading` elements.
///
/// # Panics
/// If the slices are too short for that.
pub(super) fn product<I: Tiles<P>, P: Packed<F>, F: Element>(
    [m, n, k]: [usize; 3],
    (a, b): (Matrix<'_, F>, Matrix<'_, F>),
    (c, leading): (&mut [I::Sum], usize),
    threads: Threads<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    let c = &mut c[..(m - 1) * leading + n];
    if k == 0 {
        return c.chunks_mut(leading).for_each(|row| row[..n].fill(I::Sum::ZERO));
    }
    let alone = threads.count() == 1 || m * n * k <= SMALL;
    let height = height::<P, I>(m, if alone { 1 } else { threads.count() });
    let mut work = || {
        let most = n.min(WIDTH).next_multiple_of(I::WIDTH) * k.div_ceil(P::TOGETHER).min(DEPTH);
        let mut lines = take::<P>(&PACKED_B, most);
        let all: &mut [P] = bytemuck::cast_slice_mut(&mut lines);
        for columns in blocks(n, WIDTH) {
            for depth in blocks(k, DEPTH * P::TOGETHER) {
                let tile_len = I::WIDTH * depth.len().div_ceil(P::TOGETHER);
                let packed = &mut all[..columns.len().div_ceil(I::WIDTH) * tile_len];
                pack_b(I::WIDTH, b, &depth, &columns, packed, alone);
                let packed = &*packed;
                let block = |(block, c): (usize, &mut [I::Sum])| {
                    let first = block * height;
                    let rows = first..(first + height).min(m);
                    let c = &mut c[columns.start..];
                    of_block::<I, P, F>(a, (rows, depth.clone(), columns.len()), packed, (c, leading));
                };
                match alone {
                    true => c.chunks_mut(height * leading).enumerate().for_each(block),
                    false => c.par_chunks_mut(height * leading).enumerate().for_each(block),
                }
            }
        }
        PACKED_B.set(lines);
    };
    if alone { work() } else { threads.install(work) }
}

/// Rows of a block, of `m` in all: whole tiles, as many for each thread.
fn height<P, I: Tiles<P>>(m: usize, threads: usize) -> usize {
    let blocks = m.div_ceil(HEIGHT).next_multiple_of(threads);
    m.div_ceil(I::ROWS).div_ceil(blocks) * I::ROWS
}

/// Ranges of at most `size`.
fn blocks(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(size).map(move |first| first..(first + size).min(n))
}

/// Packs rows `depth` and `columns` of `b`: tile by tile, each of `width` columns, in each row by row.
fn pack_b<P: Packed<F>, F: Element>(
    width: usize,
    b: Matrix<'_, F>,
    depth: &Range<usize>,
    columns: &Range<usize>,
    packed: &mut [P],
    alone: bool,
) {
    let tile_len = width * depth.len().div_ceil(P::TOGETHER);
    let tile = |(tile, to): (usize, &mut [P])| {
        let first = columns.start + tile * width;
        let columns = first..(first + width).min(columns.end);
        for (row, to) in depth.clone().step_by(P::TOGETHER).zip(to.chunks_exact_mut(width)) {
            let (there, beyond) = to.split_at_mut(columns.len());
            let (first, second) = (b.row(row, columns.clone()), row + 1);
            if P::TOGETHER > 1 && second < depth.end {
                let pairs = first.iter().zip(b.row(second, columns.clone()));
                there.iter_mut().zip(pairs).for_each(|(to, (first, second))| *to = P::of(*first, *second));
            } else {
                there.iter_mut().zip(first).for_each(|(to, first)| *to = P::of(*first, F::zeroed()));
            }
            beyond.fill(P::zeroed());
        }
    };
    match alone {
        true => packed.chunks_mut(tile_len).enumerate().for_each(tile),
        false => packed.par_chunks_mut(tile_len).enumerate().for_each(tile),
    }
}

/// Packs `rows` of `a`: tile by tile, each of `height` rows, in each column by column.
fn pack_a<P: Packed<F>, F: Element>(
    height: usize,
    a: Matrix<'_, F>,
    rows: Range<usize>,
    depth: &Range<usize>,
    packed: &mut [P],
) {
    let columns = depth.len().div_ceil(P::TOGETHER);
    if !rows.len().is_multiple_of(height) {
        packed[rows.len() / height * height * columns..].fill(P::zeroed());
    }
    for (i, row) in rows.enumerate() {
        let tile = &mut packed[i / height * height * columns..];
        let to = tile[i % height..].iter_mut().step_by(height);
        let together = a.row(row, depth.clone()).chunks(P::TOGETHER);
        to.zip(together)
            .for_each(|(to, from)| *to = P::of(from[0], from.get(1).copied().unwrap_or(F::zeroed())));
    }
}

/// Adds to a block of `c`, or makes it if `depth` is the first, what a block of `a` and one of `b` give.
fn of_block<I: Tiles<P>, P: Packed<F>, F: Element>(
    a: Matrix<'_, F>,
    (rows, depth, n): (Range<usize>, Range<usize>, usize),
    b: &[P],
    (c, leading): (&mut [I::Sum], usize),
) {
    let (m, columns) = (rows.len(), depth.len().div_ceil(P::TOGETHER));
    let len = m.next_multiple_of(I::ROWS) * columns;
    let mut lines = take::<P>(&PACKED_A, len);
    let packed: &mut [P] = &mut bytemuck::cast_slice_mut(&mut lines)[..len];
    pack_a(I::ROWS, a, rows, &depth, packed);
    for (column, b) in (0..n).step_by(I::WIDTH).zip(b.chunks_exact(I::WIDTH * columns)) {
        for (row, a) in (0..m).step_by(I::ROWS).zip(packed.chunks_exact(I::ROWS * columns)) {
            let size = [(m - row).min(I::ROWS), (n - column).min(I::WIDTH)];
            let c = &mut c[row * leading + column..];
            I::tile(a, b, (c, leading), size, depth.start > 0);
        }
    }
    PACKED_A.set(lines);
}

/// A line of the caches, which vectors of packed factors do not cross.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A block that a thread keeps from product to product: fresh memory is cleared, page by page. Whoever packs takes it,
/// so that what rayon runs on the thread meanwhile has one of its own.
type Kept = RefCell<Vec<Line>>;

thread_local! {
    static PACKED_A: Kept = const { RefCell::new(Vec::new()) };
    static PACKED_B: Kept = const { RefCell::new(Vec::new()) };
}

/// The last block, with room for so many.
fn take<P>(kept: &'static LocalKey<Kept>, len: usize) -> Vec<Line> {
    let mut block = kept.take();
    let lines = (len * size_of::<P>()).div_ceil(size_of::<Line>());
    if block.len() < lines {
        block.resize(lines, Line::zeroed());
    }
    block
}
