//! The product by blocks, each of which stays in a cache for as long as it is used.
//!
//! A *tile* of the result is a few rows by a few registers, all in registers: for each of a block of `k`, its
//! columns of `a` are broadcast to its rows of `b`. Both are packed before, in the order in which a tile reads
//! them. A block of `b` is packed once for all threads and stays in the cache that they share; a block of `a`
//! stays in the cache of the thread that packed it. What packing puts beyond the edges are zeros, so that every
//! tile is a full one, and the bits of an element depend on its row and its column alone.

use super::tiles::{Tiles, tile_columns};
use crate::simd::Number;
use flash_core::kernel::Threads;
use rayon::prelude::*;
use std::any::Any;
use std::cell::RefCell;
use std::thread::LocalKey;

/// Columns of `a`, and rows of `b`, of a block. Less, and the result is read and written more often; more, and a
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
    fn row(&self, row: usize, columns: std::ops::Range<usize>) -> &'a [T] {
        &self.elements[row * self.leading..][columns]
    }
}

/// `c = a * b`, of `m` rows, `n` columns and `k` products in each sum; `c` has rows of `leading` elements.
///
/// # Panics
/// If the slices are too short for that.
pub(super) fn product<I: Tiles, T: Number>(
    [m, n, k]: [usize; 3],
    (a, b): (Matrix<'_, T>, Matrix<'_, T>),
    (c, leading): (&mut [T], usize),
    threads: Threads<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    let c = &mut c[..(m - 1) * leading + n];
    if k == 0 {
        return c.chunks_mut(leading).for_each(|row| row[..n].fill(T::ZERO));
    }
    let alone = threads.count() == 1 || m * n * k <= SMALL;
    let shape = Shape::of::<I>(m, if alone { 1 } else { threads.count() });
    let mut work = || {
        let mut packed = take(&PACKED_B);
        for columns in blocks(n, WIDTH) {
            for depth in blocks(k, DEPTH) {
                pack_b::<I, T>(b, &depth, &columns, &mut packed, alone);
                let block = |(block, c): (usize, &mut [T])| {
                    let first = block * shape.height;
                    let rows = first..(first + shape.height).min(m);
                    let c = &mut c[columns.start..];
                    of_block::<I, T>(a, (rows, depth.clone(), columns.len()), &packed, (c, leading));
                };
                match alone {
                    true => c.chunks_mut(shape.height * leading).enumerate().for_each(block),
                    false => c.par_chunks_mut(shape.height * leading).enumerate().for_each(block),
                }
            }
        }
        put(&PACKED_B, packed);
    };
    if alone { work() } else { threads.install(work) }
}

/// How rows are cut into blocks.
struct Shape {
    height: usize,
}

impl Shape {
    /// Blocks of whole tiles, as many for each thread.
    fn of<I: Tiles>(m: usize, threads: usize) -> Shape {
        let tiles = m.div_ceil(I::ROWS);
        let blocks = m.div_ceil(HEIGHT).next_multiple_of(threads);
        Shape { height: tiles.div_ceil(blocks) * I::ROWS }
    }
}

/// Ranges of at most `size`.
fn blocks(n: usize, size: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..n).step_by(size).map(move |first| first..(first + size).min(n))
}

/// Packs rows `depth` and `columns` of `b`: tile by tile, in each row by row.
fn pack_b<I: Tiles, T: Number>(
    b: Matrix<'_, T>,
    depth: &std::ops::Range<usize>,
    columns: &std::ops::Range<usize>,
    packed: &mut Vec<T>,
    alone: bool,
) {
    let width = tile_columns::<I, T>();
    packed.resize(columns.len().div_ceil(width) * width * depth.len(), T::ZERO);
    let tile = |(tile, to): (usize, &mut [T])| {
        let first = columns.start + tile * width;
        let columns = first..(first + width).min(columns.end);
        for (row, to) in depth.clone().zip(to.chunks_exact_mut(width)) {
            let from = b.row(row, columns.clone());
            let (there, beyond) = to.split_at_mut(from.len());
            there.copy_from_slice(from);
            beyond.fill(T::ZERO);
        }
    };
    let tiles = width * depth.len();
    match alone {
        true => packed.chunks_mut(tiles).enumerate().for_each(tile),
        false => packed.par_chunks_mut(tiles).enumerate().for_each(tile),
    }
}

/// Packs `rows` of `a`: tile by tile, in each column by column.
fn pack_a<I: Tiles, T: Number>(
    a: Matrix<'_, T>,
    rows: std::ops::Range<usize>,
    depth: &std::ops::Range<usize>,
    packed: &mut Vec<T>,
) {
    packed.resize(rows.len().next_multiple_of(I::ROWS) * depth.len(), T::ZERO);
    if !rows.len().is_multiple_of(I::ROWS) {
        let tile = rows.len() / I::ROWS * I::ROWS * depth.len();
        packed[tile..].fill(T::ZERO);
    }
    for (i, row) in rows.enumerate() {
        let tile = &mut packed[i / I::ROWS * I::ROWS * depth.len()..];
        let to = tile[i % I::ROWS..].iter_mut().step_by(I::ROWS);
        to.zip(a.row(row, depth.clone())).for_each(|(to, from)| *to = *from);
    }
}

/// Adds to a block of `c`, or makes it if `depth` is the first, what a block of `a` and one of `b` give.
fn of_block<I: Tiles, T: Number>(
    a: Matrix<'_, T>,
    (rows, depth, n): (std::ops::Range<usize>, std::ops::Range<usize>, usize),
    b: &[T],
    (c, leading): (&mut [T], usize),
) {
    let m = rows.len();
    let mut packed = take(&PACKED_A);
    pack_a::<I, T>(a, rows, &depth, &mut packed);
    let width = tile_columns::<I, T>();
    for (column, b) in (0..n).step_by(width).zip(b.chunks_exact(width * depth.len())) {
        for (row, a) in (0..m).step_by(I::ROWS).zip(packed.chunks_exact(I::ROWS * depth.len())) {
            let size = [(m - row).min(I::ROWS), (n - column).min(width)];
            let c = &mut c[row * leading + column..];
            I::tile(a, b, (c, leading), size, depth.start > 0);
        }
    }
    put(&PACKED_A, packed);
}

/// A block that a thread keeps from product to product: fresh memory is cleared, page by page. Whoever packs takes it,
/// so that what rayon runs on the thread meanwhile has one of its own.
type Kept = RefCell<Option<Box<dyn Any>>>;

thread_local! {
    static PACKED_A: Kept = const { RefCell::new(None) };
    static PACKED_B: Kept = const { RefCell::new(None) };
}

/// The last block, if it was of such elements.
fn take<T: 'static>(kept: &'static LocalKey<Kept>) -> Vec<T> {
    kept.take().and_then(|kept| kept.downcast().ok()).map_or_else(Vec::new, |block| *block)
}

fn put<T: 'static>(kept: &'static LocalKey<Kept>, block: Vec<T>) {
    kept.set(Some(Box::new(block)));
}
