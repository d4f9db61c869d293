//! The product by blocks, each of which stays in a cache for as long as it is used.
//!
//! A *tile* of the result is a few rows by a few registers, all in registers: for each of a block of `k`, its
//! columns of `a` are broadcast to its rows of `b`. Both are packed before, in the order in which a tile
//! reads them. A block of `b` is packed once for all threads and stays in the cache that they share; a block
//! of `a` stays in the cache of the thread that packed it. Packing fills up with zeros beyond the edges, and
//! a tile there computes only the rows and registers that it has to. So the bits of an element depend on its
//! row of `a`, its column of `b` and nothing around them.

use super::bf16;
use super::product::{Matrix, MatrixMut, Product};
use super::tiles::{Tile, Tiles};
use crate::simd::{Factor, Number, prefetch, transposed};
use flash_core::kernel::{Element, Threads};
use memmap2::MmapMut;
use std::cell::RefCell;
use std::ops::Range;
use std::thread::LocalKey;

/// Columns of `b` of a block.
const WIDTH: usize = 2048;
/// Rows of `a` of a block, at most, and about. With the columns of a block they fit a second-level cache, and
/// they are few enough for threads to share them out evenly.
const HEIGHT: usize = 84;
/// Tiles of `b` that are packed together, about, row by row: as many rows of tiles begin in the same lines of
/// the first-level cache.
const BESIDE: usize = 16;
/// Rows of `b` between the prefetch of a row and its packing: the next is on another page, where the CPU does
/// not prefetch.
const AHEAD: usize = 4;
/// Nanoseconds that packing an element of `b` takes on one thread, about: its bytes are read and written.
pub(super) const PACKING: f32 = 0.4;
/// Nanoseconds of a multiplication on one thread, at least, in registers of 512 bits.
const MULTIPLIED: f32 = 0.01;
/// Multiplications up to which threads cost more than they save.
const SMALL: usize = 1 << 20;

/// The packed form of factors of type `F`.
pub(crate) trait Packed<F>: Element {
    /// Columns of `a`, and rows of `b`, that are packed into one: 1, or 2.
    const TOGETHER: usize;
    /// From one factor, `first`, or from two.
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
        first.to_sum()
    }
}

/// What is done to a left factor that is packed as `P`, and to the result's elements `S`, beside the product.
pub(crate) trait Form<P, S: Number>: Copy + Sync {
    /// The product is added to the result, after [`begin`](Self::begin). Otherwise the result is set to it.
    fn adds(self) -> bool;
    /// To a row of the result, before anything is added.
    fn begin(self, row: &mut [S]);
    /// To a packed block of the left factor.
    fn left(self, packed: &mut [P]);
}

/// The product alone.
#[derive(Clone, Copy)]
pub(crate) struct Alone;

impl<P, S: Number> Form<P, S> for Alone {
    fn adds(self) -> bool {
        false
    }
    fn begin(self, _: &mut [S]) {}
    fn left(self, _: &mut [P]) {}
}

/// Computes a product from factors that are packed as `P`.
///
/// # Panics
/// If the matrices are too short for it.
pub(crate) fn multiply<I: Tiles<P, Sum = F::Sum>, P: Packed<F>, F: Factor>(
    Product { m, n, k, a, b, c: MatrixMut { elements: c, leading } }: Product<'_, F>,
    form: impl Form<P, F::Sum>,
    threads: Threads<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    let c = &mut c[..(m - 1) * leading + n];
    if k == 0 {
        return c.chunks_mut(leading).for_each(|row| match form.adds() {
            true => form.begin(&mut row[..n]),
            false => row[..n].fill(I::Sum::ZERO),
        });
    }
    let threads = if m * n * k <= SMALL { Threads::one() } else { threads };
    let rows = m.div_ceil(I::ROWS);
    let rows = Blocks::of(rows, (rows * I::ROWS).div_ceil(HEIGHT), threads);
    let most = n.min(WIDTH).next_multiple_of(I::WIDTH) * k.div_ceil(P::TOGETHER).min(I::DEPTH);
    let mut kept = take::<P>(&PACKED_B, most);
    let all: &mut [P] = bytemuck::cast_slice_mut(&mut kept[..most * size_of::<P>()]);
    for columns in blocks(n, WIDTH) {
        for depth in blocks(k, even::<P, F>(k, I::DEPTH)) {
            let tile_len = I::WIDTH * depth.len().div_ceil(P::TOGETHER);
            let tiles = columns.len().div_ceil(I::WIDTH);
            let packed = &mut all[..tiles * tile_len];
            let ns = packed.len() as f32 * PACKING;
            Blocks::of(tiles, tiles.div_ceil(BESIDE), threads).each(packed, tile_len, ns, |tiles, packed| {
                pack_b::<I, P, F>(b, &depth, inside(tiles, I::WIDTH, &columns), packed);
            });
            let packed = &*packed;
            let ns = (m * columns.len() * depth.len()) as f32 * MULTIPLIED;
            rows.each(c, leading * I::ROWS, ns, |tiles, c| {
                let rows = inside(tiles, I::ROWS, &(0..m));
                let c = MatrixMut { elements: &mut c[columns.start..], leading };
                let block = Block { rows, depth: depth.clone(), columns: columns.len() };
                of_block::<I, P, F>(block, a, packed, c, form);
            });
        }
    }
    PACKED_B.set(Some(kept));
}

/// A part of a product: some rows, and some of the products of each sum, for as many columns.
pub(super) struct Block {
    pub rows: Range<usize>,
    pub depth: Range<usize>,
    pub columns: usize,
}

/// Adjacent tiles, in blocks of about equal numbers, for some threads.
pub(crate) struct Blocks<'t> {
    tiles: usize,
    count: usize,
    threads: Threads<'t>,
}

impl<'t> Blocks<'t> {
    /// At least `count` blocks, and as many for each thread, but none without tiles.
    pub fn of(tiles: usize, count: usize, threads: Threads<'t>) -> Blocks<'t> {
        Blocks { tiles, count: count.next_multiple_of(threads.count()).min(tiles), threads }
    }

    /// The first tile of a block; the number of tiles, for the block after the last.
    fn first(&self, block: usize) -> usize {
        block * self.tiles / self.count
    }

    /// Calls `body` with the tiles of each block, and the elements of `all` from there up to the next
    /// block's. The first tile is the first of `all`, and each tile has `tile` elements, the last one those
    /// that are left. All of it takes about `ns` nanoseconds on one thread.
    ///
    /// # Panics
    /// If `all` ends before the last tile.
    pub fn each<T: Send>(
        &self,
        all: &mut [T],
        tile: usize,
        ns: f32,
        body: impl Fn(Range<usize>, &mut [T]) + Sync,
    ) {
        struct All<T>(*mut T);
        // SAFETY: threads get parts of it that do not overlap.
        unsafe impl<T: Send> Sync for All<T> {}
        impl<T> All<T> {
            fn at(&self, element: usize) -> *mut T {
                self.0.wrapping_add(element)
            }
        }
        let (len, all) = (all.len(), All(all.as_mut_ptr()));
        assert!(
            self.tiles.saturating_sub(1) * tile <= len,
            "{} tiles of {tile} in {len} elements",
            self.tiles
        );
        self.threads.each(self.count, ns / self.count as f32, |blocks| {
            for block in blocks {
                let tiles = self.first(block)..self.first(block + 1);
                let from = tiles.start * tile;
                let to = if tiles.end == self.tiles { len } else { tiles.end * tile };
                // SAFETY: a block is visited once, and ends where the next begins, or with the array: `first`
                // grows with the block, to the number of tiles, of which all but the last end inside.
                body(tiles, unsafe { std::slice::from_raw_parts_mut(all.at(from), to - from) });
            }
        });
    }
}

/// The part of a range in tiles of `side` rows or columns; the first tile begins with the range.
pub(super) fn inside(tiles: Range<usize>, side: usize, range: &Range<usize>) -> Range<usize> {
    range.start + tiles.start * side..(range.start + tiles.end * side).min(range.end)
}

/// Products of a block's sums, of `k` in all: equal in all blocks, at most `depth` when they are packed.
fn even<P: Packed<F>, F: Element>(k: usize, depth: usize) -> usize {
    k.div_ceil(k.div_ceil(depth * P::TOGETHER)).next_multiple_of(P::TOGETHER)
}

/// Ranges of at most `size`.
pub(super) fn blocks(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(size).map(move |first| first..(first + size).min(n))
}

/// Packs rows `depth` and `columns` of `b`: tile by tile, in each row by row.
fn pack_b<I: Tiles<P>, P: Packed<F>, F: Element>(
    b: Matrix<'_, F>,
    depth: &Range<usize>,
    columns: Range<usize>,
    packed: &mut [P],
) {
    match b.transposed {
        true => across(b, columns, depth, I::WIDTH, packed),
        false => along(b, columns, depth, I::WIDTH, packed),
    }
}

/// Packs `rows` of `a`: tile by tile, in each column by column.
fn pack_a<I: Tiles<P>, P: Packed<F>, F: Element>(
    a: Matrix<'_, F>,
    rows: Range<usize>,
    depth: &Range<usize>,
    packed: &mut [P],
) {
    match a.transposed {
        true => along(a, rows, depth, I::ROWS, packed),
        false => across(a, rows, depth, I::ROWS, packed),
    }
}

/// Packs the stored rows `depth` and the stored columns `lines`: in tiles of `side` lines, in each row by
/// row.
#[inline(always)]
fn along<P: Packed<F>, F: Element>(
    from: Matrix<'_, F>,
    lines: Range<usize>,
    depth: &Range<usize>,
    side: usize,
    packed: &mut [P],
) {
    let tile_len = side * depth.len().div_ceil(P::TOGETHER);
    for (at, row) in depth.clone().step_by(P::TOGETHER).enumerate() {
        let first = from.row(row, lines.clone()).chunks(side);
        let second = (P::TOGETHER > 1 && row + 1 < depth.end).then(|| from.row(row + 1, lines.clone()));
        for (tile, (to, first)) in packed.chunks_exact_mut(tile_len).zip(first).enumerate() {
            let ahead = first.as_ptr().wrapping_add(AHEAD * P::TOGETHER * from.leading);
            for line in (0..size_of_val(first)).step_by(64) {
                prefetch(ahead.wrapping_byte_add(line));
            }
            let (to, beyond) = to[at * side..][..side].split_at_mut(first.len());
            if let Some(second) = second {
                let pairs = first.iter().zip(&second[tile * side..]);
                to.iter_mut().zip(pairs).for_each(|(to, (first, second))| *to = P::of(*first, *second));
            } else {
                to.iter_mut().zip(first).for_each(|(to, first)| *to = P::of(*first, F::zeroed()));
            }
            beyond.fill(P::zeroed());
        }
    }
}

/// Packs the stored rows `lines` and the stored columns `depth`: in tiles of `side` lines, in each column by
/// column.
#[inline(always)]
fn across<P: Packed<F>, F: Element>(
    from: Matrix<'_, F>,
    lines: Range<usize>,
    depth: &Range<usize>,
    side: usize,
    packed: &mut [P],
) {
    let columns = depth.len().div_ceil(P::TOGETHER);
    let (mut whole, last) = (depth.clone(), depth.len() % (4 * P::TOGETHER));
    whole.end -= last;
    for (first, tile) in lines.clone().step_by(side).zip(packed.chunks_exact_mut(side * columns)) {
        let there = (lines.end - first).min(side);
        if there < side {
            tile.fill(P::zeroed());
        }
        // Four rows of four columns at once; the last four rows overlap the ones before.
        let whole = if there < 4 { whole.start..whole.start } else { whole.clone() };
        for (column, to) in whole.clone().step_by(4 * P::TOGETHER).zip(tile.chunks_exact_mut(4 * side)) {
            for i in (0..there).step_by(4).map(|i| i.min(there - 4)) {
                let mut four = [[P::zeroed(); 4]; 4];
                for (row, to) in four.iter_mut().enumerate() {
                    let from = from.row(first + i + row, column..column + 4 * P::TOGETHER);
                    for (to, from) in to.iter_mut().zip(from.chunks_exact(P::TOGETHER)) {
                        *to = P::of(from[0], from[P::TOGETHER - 1]);
                    }
                }
                for (to, column) in to.chunks_exact_mut(side).zip(transposed(four)) {
                    to[i..][..4].copy_from_slice(&column);
                }
            }
        }
        let (rest, done) = (whole.end..depth.end, whole.len() / P::TOGETHER * side);
        for i in 0..there {
            let from = from.row(first + i, rest.clone());
            for (to, from) in tile[done..].chunks_exact_mut(side).zip(from.chunks(P::TOGETHER)) {
                to[i] = P::of(from[0], from.get(1).copied().unwrap_or(F::zeroed()));
            }
        }
    }
}

/// Adds the product of a block of `a` and one of `b` to a block of `c`, or sets it if `depth` is the first.
fn of_block<I: Tiles<P>, P: Packed<F>, F: Element>(
    Block { rows, depth, columns: n }: Block,
    a: Matrix<'_, F>,
    b: &[P],
    MatrixMut { elements: c, leading }: MatrixMut<'_, I::Sum>,
    form: impl Form<P, I::Sum>,
) {
    let (m, columns) = (rows.len(), depth.len().div_ceil(P::TOGETHER));
    let len = m.next_multiple_of(I::ROWS) * columns;
    let mut block = take::<P>(&PACKED_A, len);
    let packed: &mut [P] = bytemuck::cast_slice_mut(&mut block[..len * size_of::<P>()]);
    pack_a::<I, P, F>(a, rows, &depth, packed);
    form.left(packed);
    if depth.start == 0 {
        (0..m).for_each(|row| form.begin(&mut c[row * leading..][..n]));
    }
    let (tiles, tile_len) = (m.div_ceil(I::ROWS), I::WIDTH * columns);
    let b = b.chunks_exact(tile_len);
    // The next columns of `b` come from the cache that threads share, a part of them with each tile of these.
    for (column, (b, next)) in (0..n).step_by(I::WIDTH).zip(b.clone().zip(b.cycle().skip(1))) {
        for (tile, a) in packed.chunks_exact(I::ROWS * columns).enumerate() {
            let row = tile * I::ROWS;
            Tile {
                a,
                b,
                soon: &next[tile * tile_len / tiles..(tile + 1) * tile_len / tiles],
                c: MatrixMut { elements: &mut c[row * leading + column..], leading },
                rows: (m - row).min(I::ROWS),
                columns: (n - column).min(I::WIDTH),
                add: depth.start > 0 || form.adds(),
            }
            .multiply::<I>();
        }
    }
    PACKED_A.set(Some(block));
}

/// A block that a thread keeps from product to product, since fresh memory is cleared, page by page. The
/// packing thread takes it. It is on large pages, if the system has them: all of it is read again and again,
/// and is more than the address cache has small ones for.
pub(crate) type Kept = RefCell<Option<MmapMut>>;

thread_local! {
    pub(super) static PACKED_A: Kept = const { RefCell::new(None) };
    pub(super) static PACKED_B: Kept = const { RefCell::new(None) };
}

/// The last block, with room for `len` elements. It begins with a page, so that no vector crosses a cache
/// line.
pub(crate) fn take<P>(kept: &'static LocalKey<Kept>, len: usize) -> MmapMut {
    let bytes = len * size_of::<P>();
    match kept.take() {
        Some(block) if block.len() >= bytes => block,
        _ => {
            let block = MmapMut::map_anon(bytes)
                .unwrap_or_else(|error| panic!("{bytes} bytes for packed blocks: {error}"));
            #[cfg(target_os = "linux")]
            // A request, which systems without such pages refuse.
            let _ = block.advise(memmap2::Advice::HugePage);
            block
        }
    }
}
