//! Products of factors in bf16 by tiles.
//!
//! Four tiles hold a square of sums, and each step of 32 products loads two of `a` and two of `b`. That is as
//! many bytes in a cycle as the second-level cache can give at its best, and more than it gives in practice.
//! So both factors are packed into tiles, in the order in which they are loaded. A block of `a` stays in the
//! second-level cache, and a piece of `b` in the first while it meets all rows of that block. The sums of
//! these rows wait beside the block for the next piece. Only complete sums are written to the result, past
//! the caches if it is large, since there is no time to read it. Meanwhile the next columns of `b` are
//! prefetched in equal shares, since the CPU does not predict loads of tiles.
//!
//! A step adds up its products from 0, in their order, and adds that to the sum. Steps, blocks and pieces
//! begin at multiples of 32, and the last one is filled with zeros. So the bits of an element depend on its
//! row of `a`, its column of `b` and nothing around them.

use super::blocked::{Alone, Block, Blocks, PACKED_A, PACKED_B, PACKING, blocks, inside, multiply, take};
use super::product::{Matrix, MatrixMut, Product};
use super::{Mmm, MmmWhole, bf16};
use crate::simd::amx::{LOADED, PREFETCHED, SIDE, STEP, Square, Tiles};
use crate::simd::{AmxBf16, Avx512Bf16, InstructionSet, Number, PAST_CACHES, Pair, Vector};
use crate::simd::{features, in_order, line};
use flash_core::kernel::{CpuWhole, Index, Space, Threads};
use std::ops::Range;

/// Products of a piece, at most: one piece of `a` and one of `b` fit into the first-level cache twice.
const PIECE: usize = 256;
/// Products of a block, at most. With fewer, the result is read and written more often.
const DEPTH: usize = 2048;
/// Rows of `a` of a block, at most and about: of the greatest depth 1 MiB, half of a second-level cache.
const HEIGHT: usize = 256;
/// Panels of `b` that are packed together, about.
const BESIDE: usize = 16;
/// Columns of `b` of a block.
const WIDTH: usize = 2048;
/// Multiplications, and elements of all matrices, up to which threads cost more than they save.
const SMALL: [usize; 2] = [1 << 24, 1 << 18];
/// Nanoseconds of a multiplication on one thread, at least.
const MULTIPLIED: f32 = 0.0007;
/// Elements of `b` below which tiles, which are always filled, cost more than they save; or products in a sum
/// below half a step. The number of rows of `a` would tell more, but it must not change bits.
const FEW: usize = 1024;

// A block's rows together prefetch a panel of `b`.
const _: () = assert!(LOADED * size_of::<bf16>() == PREFETCHED * HEIGHT / SIDE);

features! {
    AmxBf16: kernel(priority = 60)
    impl CpuWhole<Mmm<'_, bf16>> for AmxBf16 {
        const PARTS: bool = true;

        fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, bf16>, threads: Threads<'_>) {
            Product::of(&space, k, |product| {
                if product.n * product.k < FEW || product.k < STEP / 2 {
                    return multiply::<Avx512Bf16, Pair, bf16>(product, Alone, threads);
                }
                by_tiles(product, threads);
            });
        }
    }
}

/// `c = a * b`, as [`multiply`]; of at least one product in each sum.
///
/// # Panics
/// If this CPU lacks the instructions.
fn by_tiles(Product { m, n, k, a, b, c }: Product<'_, bf16>, threads: Threads<'_>) {
    AmxBf16::assert_there();
    let MatrixMut { elements: c, leading } = c;
    let small = m * n * k <= SMALL[0] && m * k + k * n + m * n <= SMALL[1];
    let threads = if small { Threads::one() } else { threads };
    let rows = Blocks::of(m.div_ceil(SIDE), m.div_ceil(HEIGHT), threads);
    let past = (m * n * size_of::<f32>()) as u64 >= PAST_CACHES;
    let deep = k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(STEP);
    let most = n.min(WIDTH).next_multiple_of(SIDE) * deep / 2;
    let mut kept = take::<Pair>(&PACKED_B, most);
    let all: &mut [Pair] = bytemuck::cast_slice_mut(&mut kept[..most * size_of::<Pair>()]);
    for columns in blocks(n, WIDTH) {
        for depth in blocks(k, deep) {
            let len = SIDE * depth.len().next_multiple_of(STEP) / 2;
            let panels = columns.len().div_ceil(SIDE);
            let packed = &mut all[..panels * len];
            let ns = packed.len() as f32 * PACKING;
            Blocks::of(panels, panels.div_ceil(BESIDE), threads).each(packed, len, ns, |panels, packed| {
                let columns = inside(panels, SIDE, &columns);
                AmxBf16::run(
                    #[inline(always)]
                    // SAFETY: `run` has checked that the CPU has the instructions.
                    || unsafe { pack_b(b, &depth, columns, packed) },
                );
            });
            let packed = &*packed;
            let ns = (m * columns.len() * depth.len()) as f32 * MULTIPLIED;
            rows.each(c, leading * SIDE, ns, |panels, c| {
                let rows = inside(panels, SIDE, &(0..m));
                let c = MatrixMut { elements: &mut c[columns.start..], leading };
                let block = Block { rows, depth: depth.clone(), columns: columns.len() };
                AmxBf16::run(
                    #[inline(always)]
                    // SAFETY: as above.
                    || unsafe { of_block(block, a, packed, c, past) },
                );
            });
        }
    }
    PACKED_B.set(Some(kept));
}

/// Packs rows `depth` and `columns` of `b`: in panels of [`SIDE`] columns, in each step by step the left tile
/// and the right one, whose rows are of pairs.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn pack_b(b: Matrix<'_, bf16>, depth: &Range<usize>, columns: Range<usize>, packed: &mut [Pair]) {
    const TILE: usize = LOADED / 4;
    let pairs = depth.len().next_multiple_of(STEP) / 2;
    let row = |row: usize| if row < depth.end { b.row(row, columns.clone()) } else { &[] };
    for pair in 0..pairs {
        let (first, second) = (row(depth.start + 2 * pair), row(depth.start + 2 * pair + 1));
        let at = pair / 16 * 2 * TILE + pair % 16 * 16;
        for (number, panel) in packed.chunks_exact_mut(SIDE * pairs).enumerate() {
            // SAFETY: the caller vouches.
            let (first, second) = unsafe { (line(first, number), line(second, number)) };
            let mut line = [Pair::new(bf16::ZERO, bf16::ZERO); SIDE];
            for ((to, first), second) in line.iter_mut().zip(first).zip(second) {
                *to = Pair::new(first, second);
            }
            panel[at..][..16].copy_from_slice(&line[..16]);
            panel[at + TILE..][..16].copy_from_slice(&line[16..]);
        }
    }
}

/// Packs `rows` of `a`: in panels of [`SIDE`] rows, in each step by step the upper tile and the lower one.
/// The part of a panel below the last row is left as it is: its sums are not read.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn pack_a(a: Matrix<'_, bf16>, rows: Range<usize>, depth: &Range<usize>, packed: &mut [bf16]) {
    let len = SIDE * depth.len().next_multiple_of(STEP);
    for (first, panel) in rows.clone().step_by(SIDE).zip(packed.chunks_exact_mut(len)) {
        for i in 0..(rows.end - first).min(SIDE) {
            let row = a.row(first + i, depth.clone());
            for (step, to) in panel.chunks_exact_mut(LOADED).enumerate() {
                to[i * STEP..][..STEP].copy_from_slice(
                    // SAFETY: the caller vouches.
                    &unsafe { line(row, step) },
                );
            }
        }
    }
}

/// Adds the product of a block of `a` and one of `b` to a block of `c`, or sets it if `depth` is the first;
/// `past`: past the caches.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn of_block(
    Block { rows, depth, columns: n }: Block,
    a: Matrix<'_, bf16>,
    b: &[Pair],
    MatrixMut { elements: c, leading }: MatrixMut<'_, f32>,
    past: bool,
) {
    let (m, k) = (rows.len(), depth.len().next_multiple_of(STEP));
    let squares = m.div_ceil(SIDE) * size_of::<Square>();
    let bytes = squares + m.next_multiple_of(SIDE) * k * size_of::<bf16>();
    let mut block = take::<u8>(&PACKED_A, bytes);
    let (squares, packed) = block[..bytes].split_at_mut(squares);
    let (squares, packed): (&mut [Square], &mut [bf16]) =
        (bytemuck::cast_slice_mut(squares), bytemuck::cast_slice_mut(packed));
    // SAFETY: the caller vouches.
    unsafe { pack_a(a, rows, &depth, packed) };
    // SAFETY: as above. Nothing here gives the thread to other work before
    // they are released, so that no other product configures or releases them meanwhile.
    let tiles = unsafe { Tiles::configured() };
    for (column, b) in (0..n).step_by(SIDE).zip(b.chunks_exact(SIDE * k / 2)) {
        let mut ahead = b.as_ptr_range().end;
        for piece in blocks(k, PIECE) {
            let b = &b[SIDE * piece.start / 2..SIDE * piece.end / 2];
            let panels = packed.chunks_exact(SIDE * k).zip(squares.iter_mut());
            for (row, (a, sums)) in (0..m).step_by(SIDE).zip(panels) {
                let size = [(m - row).min(SIDE), (n - column).min(SIDE)];
                let mut c = MatrixMut { elements: &mut c[row * leading + column..], leading };
                if piece.start == 0 && depth.start > 0 {
                    read(&c, size, sums);
                }
                let add = piece.start + depth.start > 0;
                ahead = tiles.multiply(&a[SIDE * piece.start..SIDE * piece.end], b, sums, add, ahead);
                if piece.end == k {
                    // SAFETY: the caller vouches.
                    unsafe { write(sums, &mut c, size, past) };
                }
            }
        }
    }
    drop(tiles);
    if past {
        in_order();
    }
    PACKED_A.set(Some(block));
}

/// Reads the first rows and columns of a square from `c`; the others, which are not written, are left as they
/// are.
fn read(c: &MatrixMut<'_, f32>, [rows, columns]: [usize; 2], sums: &mut Square) {
    for (sums, c) in sums.chunks_exact_mut(SIDE).zip(c.elements.chunks(c.leading)).take(rows) {
        sums[..columns].copy_from_slice(&c[..columns]);
    }
}

/// Writes the first rows and columns of a square to `c`.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn write(sums: &Square, c: &mut MatrixMut<'_, f32>, [rows, columns]: [usize; 2], past: bool) {
    for (sums, c) in sums.chunks_exact(SIDE).zip(c.elements.chunks_mut(c.leading)).take(rows) {
        let (sums, c) = (&sums[..columns], &mut c[..columns]);
        if past && columns == SIDE && c.as_ptr().addr().is_multiple_of(64) {
            for (sums, c) in sums.as_chunks::<16>().0.iter().zip(c.as_chunks_mut::<16>().0) {
                // SAFETY: the caller vouches. A register's numbers each, of which those of `c` are aligned;
                // the block ends with `in_order`.
                unsafe { <f32 as Number>::Bits512::load(sums.as_ptr()).stream(c.as_mut_ptr()) };
            }
        } else {
            c.copy_from_slice(sums);
        }
    }
}
