//! Products of factors in bf16 by tiles: registers of 16 rows of 64 bytes, two of which one instruction
//! multiplies.
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

use super::blocked::{Blocks, Matrix, PACKED_A, PACKED_B, PACKING, Packed, blocks, inside, product, take};
use super::cpu::Product;
use super::pairs::Pair;
use super::{Mmm, MmmWhole, bf16};
use crate::simd::{Avx512Bf16, PAST_CACHES, Vector, in_order};
use flash_core::kernel;
use flash_core::kernel::{CpuWhole, Index, Space, Threads, cpu_has};
use std::arch::asm;
use std::arch::x86_64::{__m512, __m512i, _mm512_maskz_loadu_epi16};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::LazyLock;

/// Rows, and columns, of a square of sums: two tiles of 16.
const SIDE: usize = 32;
/// Products of a step, in each sum.
const STEP: usize = 32;
/// Factors that a step loads of `a`, and of `b`: two tiles.
const LOADED: usize = SIDE * STEP;
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

/// Sums of [`SIDE`] rows and columns, row by row.
type Square = [f32; SIDE * SIDE];

/// Tiles, which treat numbers below `f32::MIN_POSITIVE` as 0, in factors and sums.
pub struct AmxBf16;

impl AmxBf16 {
    fn there() -> bool {
        const FEATURES: [&str; 4] = ["amx-tile", "amx-bf16", "avx512f", "avx512bw"];
        static THERE: LazyLock<bool> = LazyLock::new(|| FEATURES.into_iter().all(cpu_has));
        *THERE
    }
}

#[kernel(priority = 60, cpu_features = "amx-tile,amx-bf16,avx512bf16,avx512f,avx512dq,avx512vl,avx512bw")]
impl CpuWhole<Mmm<'_, bf16>> for AmxBf16 {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, bf16>, threads: Threads<'_>) {
        assert!(AmxBf16::there(), "this CPU lacks AMX for bf16, or the system does not allow it");
        Product::of(&space, k, |Product { size, a, b, c }| {
            if size[1] * size[2] < FEW || size[2] < STEP / 2 {
                return product::<Avx512Bf16, Pair, bf16>(size, (a, b), c, threads);
            }
            // SAFETY: the CPU has the instructions, as just asserted.
            unsafe { by_tiles(size, (a, b), c, threads) }
        });
    }
}

/// `c = a * b`, as [`product`]; of at least one product in each sum.
#[target_feature(enable = "avx512f,avx512bw")]
fn by_tiles(
    [m, n, k]: [usize; 3],
    (a, b): (Matrix<'_, bf16>, Matrix<'_, bf16>),
    (c, leading): (&mut [f32], usize),
    threads: Threads<'_>,
) {
    let small = m * n * k <= SMALL[0] && m * k + k * n + m * n <= SMALL[1];
    let threads = if small { Threads::one() } else { threads };
    let rows = Blocks::of(m.div_ceil(SIDE), m.div_ceil(HEIGHT), threads);
    let past = (m * n * size_of::<f32>()) as u64 >= PAST_CACHES;
    let deep = k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(STEP);
    let most = n.min(WIDTH).next_multiple_of(SIDE) * deep / 2;
    let mut block = take::<Pair>(&PACKED_B, most);
    let all: &mut [Pair] = bytemuck::cast_slice_mut(&mut block[..most * size_of::<Pair>()]);
    for columns in blocks(n, WIDTH) {
        for depth in blocks(k, deep) {
            let len = SIDE * depth.len().next_multiple_of(STEP) / 2;
            let panels = columns.len().div_ceil(SIDE);
            let packed = &mut all[..panels * len];
            let packing = (threads, packed.len() as f32 * PACKING);
            Blocks::of(panels, panels.div_ceil(BESIDE), threads).each(
                (packed, len),
                packing,
                |panels, packed| {
                    pack_b(b, &depth, inside(panels, SIDE, &columns), packed);
                },
            );
            let packed = &*packed;
            let multiplying = (threads, (m * columns.len() * depth.len()) as f32 * MULTIPLIED);
            rows.each((c, leading * SIDE), multiplying, |panels, c| {
                let rows = inside(panels, SIDE, &(0..m));
                let c = &mut c[columns.start..];
                of_block(a, (rows, depth.clone(), columns.len()), packed, (c, leading), past);
            });
        }
    }
    PACKED_B.set(Some(block));
}

/// The line of a number of a row's factors, with zeros beyond its end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn line(row: &[bf16], number: usize) -> [bf16; STEP] {
    let there = &row[(number * STEP).min(row.len())..((number + 1) * STEP).min(row.len())];
    if there.is_empty() {
        // The load would be valid, but slow: its address is invalid.
        return [bf16::ZERO; STEP];
    }
    let mask = u32::MAX >> (STEP - there.len());
    // SAFETY: only existing factors are read; a register has as many factors, for which all bits are valid.
    unsafe {
        std::mem::transmute::<__m512i, [bf16; STEP]>(_mm512_maskz_loadu_epi16(mask, there.as_ptr().cast()))
    }
}

/// Packs rows `depth` and `columns` of `b`: in panels of [`SIDE`] columns, in each step by step the left tile
/// and the right one, whose rows are of pairs.
#[target_feature(enable = "avx512f,avx512bw")]
fn pack_b(b: Matrix<'_, bf16>, depth: &Range<usize>, columns: Range<usize>, packed: &mut [Pair]) {
    const TILE: usize = LOADED / 4;
    let pairs = depth.len().next_multiple_of(STEP) / 2;
    let row = |row: usize| if row < depth.end { b.row(row, columns.clone()) } else { &[] };
    for pair in 0..pairs {
        let (first, second) = (row(depth.start + 2 * pair), row(depth.start + 2 * pair + 1));
        let at = pair / 16 * 2 * TILE + pair % 16 * 16;
        for (number, panel) in packed.chunks_exact_mut(SIDE * pairs).enumerate() {
            let (first, second) = (line(first, number), line(second, number));
            let mut line = [Pair::of(bf16::ZERO, bf16::ZERO); SIDE];
            for ((to, first), second) in line.iter_mut().zip(first).zip(second) {
                *to = Pair::of(first, second);
            }
            panel[at..][..16].copy_from_slice(&line[..16]);
            panel[at + TILE..][..16].copy_from_slice(&line[16..]);
        }
    }
}

/// Packs `rows` of `a`: in panels of [`SIDE`] rows, in each step by step the upper tile and the lower one.
/// The part of a panel below the last row is left as it is: its sums are not read.
#[target_feature(enable = "avx512f,avx512bw")]
fn pack_a(a: Matrix<'_, bf16>, rows: Range<usize>, depth: &Range<usize>, packed: &mut [bf16]) {
    let len = SIDE * depth.len().next_multiple_of(STEP);
    for (first, panel) in rows.clone().step_by(SIDE).zip(packed.chunks_exact_mut(len)) {
        for i in 0..(rows.end - first).min(SIDE) {
            let row = a.row(first + i, depth.clone());
            for (step, to) in panel.chunks_exact_mut(LOADED).enumerate() {
                to[i * STEP..][..STEP].copy_from_slice(&line(row, step));
            }
        }
    }
}

/// Adds the product of a block of `a` and one of `b` to a block of `c`, or sets it if `depth` is the first;
/// `past`: past the caches.
#[target_feature(enable = "avx512f,avx512bw")]
fn of_block(
    a: Matrix<'_, bf16>,
    (rows, depth, n): (Range<usize>, Range<usize>, usize),
    b: &[Pair],
    (c, leading): (&mut [f32], usize),
    past: bool,
) {
    let (m, k) = (rows.len(), depth.len().next_multiple_of(STEP));
    let squares = m.div_ceil(SIDE) * size_of::<Square>();
    let bytes = squares + m.next_multiple_of(SIDE) * k * size_of::<bf16>();
    let mut block = take::<u8>(&PACKED_A, bytes);
    let (squares, packed) = block[..bytes].split_at_mut(squares);
    let (squares, packed): (&mut [Square], &mut [bf16]) =
        (bytemuck::cast_slice_mut(squares), bytemuck::cast_slice_mut(packed));
    pack_a(a, rows, &depth, packed);
    // SAFETY: the CPU has tiles, as `whole` has asserted. Nothing here gives the thread to other work before
    // they are released, so that no other product configures or releases them meanwhile.
    let tiles = unsafe { Tiles::configured() };
    for (column, b) in (0..n).step_by(SIDE).zip(b.chunks_exact(SIDE * k / 2)) {
        let mut ahead = b.as_ptr_range().end;
        for piece in blocks(k, PIECE) {
            let b = &b[SIDE * piece.start / 2..SIDE * piece.end / 2];
            let panels = packed.chunks_exact(SIDE * k).zip(squares.iter_mut());
            for (row, (a, sums)) in (0..m).step_by(SIDE).zip(panels) {
                let size = [(m - row).min(SIDE), (n - column).min(SIDE)];
                let mut c = (&mut c[row * leading + column..], leading);
                if piece.start == 0 && depth.start > 0 {
                    read(&c, size, sums);
                }
                let add = piece.start + depth.start > 0;
                ahead = tiles.multiply(&a[SIDE * piece.start..SIDE * piece.end], b, sums, add, ahead);
                if piece.end == k {
                    write(sums, &mut c, size, past);
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
fn read((c, leading): &(&mut [f32], usize), [rows, columns]: [usize; 2], sums: &mut Square) {
    for (sums, c) in sums.chunks_exact_mut(SIDE).zip(c.chunks(*leading)).take(rows) {
        sums[..columns].copy_from_slice(&c[..columns]);
    }
}

/// Writes the first rows and columns of a square to `c`.
#[target_feature(enable = "avx512f")]
fn write(sums: &Square, (c, leading): &mut (&mut [f32], usize), [rows, columns]: [usize; 2], past: bool) {
    for (sums, c) in sums.chunks_exact(SIDE).zip(c.chunks_mut(*leading)).take(rows) {
        let (sums, c) = (&sums[..columns], &mut c[..columns]);
        if past && columns == SIDE && c.as_ptr().addr().is_multiple_of(64) {
            for (sums, c) in sums.as_chunks::<16>().0.iter().zip(c.as_chunks_mut::<16>().0) {
                // SAFETY: a register's numbers each, of which those of `c` are aligned; the block ends with
                // `in_order`.
                unsafe { <__m512 as Vector<f32>>::load(sums.as_ptr()).stream(c.as_mut_ptr()) };
            }
        } else {
            c.copy_from_slice(sums);
        }
    }
}

/// All tiles of this thread, each of 16 rows of 64 bytes, until it is dropped. The compiler uses none: it
/// does so only for operations on tiles, which Rust has only in assembly. The operating system keeps them
/// when it takes the thread off its CPU.
struct Tiles(PhantomData<*const ()>);

impl Tiles {
    /// # Safety
    /// The CPU has tiles, and the operating system lets the process use them. This thread has no other of
    /// this type.
    unsafe fn configured() -> Tiles {
        /// The layout that the instruction reads (Intel's manual, volume 2, LDTILECFG).
        #[repr(C, align(64))]
        struct Shapes {
            palette: u8,
            first_row: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        static SHAPES: Shapes = Shapes {
            palette: 1,
            first_row: 0,
            reserved: [0; 14],
            row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        // SAFETY: the caller vouches for the instruction. It reads the 64 bytes of a valid shape, or else
        // would trap, and sets all tiles to 0, which are not in use.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &SHAPES, options(nostack, readonly, preserves_flags)) };
        Tiles(PhantomData)
    }

    /// Sets `sums` to the product of panels of `a` and `b`, or adds it if `add`. Prefetches the lines from
    /// `ahead` on, enough that a block's rows together prefetch a panel of `b`, and returns the rest.
    ///
    /// # Panics
    /// If the panels have no steps, or different numbers of them.
    #[inline(always)]
    fn multiply(
        &self,
        a: &[bf16],
        b: &[Pair],
        sums: &mut Square,
        add: bool,
        ahead: *const Pair,
    ) -> *const Pair {
        const { assert!(LOADED * size_of::<bf16>() == 256 * HEIGHT / SIDE) };
        static ZEROS: [f32; SIDE] = [0.0; SIDE];
        let steps = a.len() / LOADED;
        assert!(steps > 0 && a.len() == steps * LOADED && b.len() == a.len() / 2, "panels of whole steps");
        let to = sums.as_mut_ptr();
        // Zeros are the same row again and again.
        let (from, stride) =
            if add { (to.cast_const(), SIDE * size_of::<f32>()) } else { (ZEROS.as_ptr(), 0) };
        let mut next = ahead;
        // SAFETY: the tiles are configured. They are loaded from `steps` times 2048 bytes of `a` and `b`, as
        // asserted, and from the square, or 16 times from 128 bytes of zeros, and are stored to the square; a
        // prefetch may have any address.
        unsafe {
            asm!(
                "tileloadd tmm0, [{from} + {stride}*1]",
                "tileloadd tmm1, [{from} + {stride}*1 + 64]",
                "tileloadd tmm2, [{lower} + {stride}*1]",
                "tileloadd tmm3, [{lower} + {stride}*1 + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {line}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{next}]",
                "prefetcht1 [{next} + 64]",
                "tileloadd tmm7, [{b} + {line}*1 + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{next} + 128]",
                "prefetcht1 [{next} + 192]",
                "tileloadd tmm5, [{a} + {line}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "add {next}, 256",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{to} + {line}*2], tmm0",
                "tilestored [{to} + {line}*2 + 64], tmm1",
                "tilestored [{to} + {line}*2 + 2048], tmm2",
                "tilestored [{to} + {line}*2 + 2112], tmm3",
                from = in(reg) from,
                lower = in(reg) from.wrapping_byte_add(16 * stride),
                stride = in(reg) stride,
                to = in(reg) to,
                a = inout(reg) a.as_ptr() => _,
                b = inout(reg) b.as_ptr() => _,
                line = in(reg) 64usize,
                next = inout(reg) next,
                steps = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
        next
    }
}

impl Drop for Tiles {
    /// When the system takes the thread off its CPU, it then has no tiles to keep.
    fn drop(&mut self) {
        // SAFETY: the CPU has tiles, or there would be no value of this type, and they are no longer used.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
