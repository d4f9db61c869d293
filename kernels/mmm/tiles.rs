//! Tiles of the result, in registers.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{InstructionSet, Number, Portable, Vector, prefetch};

/// An instruction set's tile: what fills its registers but for a row of `b` and an element of `a`.
pub(super) trait Tiles: InstructionSet {
    /// Rows of a tile.
    const ROWS: usize;
    /// Registers in a row of it.
    const COLUMNS: usize;

    /// Sets, or adds to if `add`, the first `rows` and `columns` elements of a tile of `c`, whose rows are `leading`
    /// elements apart. `a` has the tile's rows, packed column by column, and `b` its columns, row by row.
    ///
    /// # Panics
    /// If `b` is shorter than that, or `c` has no such elements.
    fn tile<T: Number>(a: &[T], b: &[T], c: (&mut [T], usize), size: [usize; 2], add: bool);
}

/// Elements in a row of a tile.
pub(super) const fn tile_columns<I: Tiles, T: Number>() -> usize {
    I::COLUMNS * <I::Vector<T> as Vector<T>>::LANES
}

macro_rules! tiles {
    ($set:ident, $rows:literal x $columns:literal) => {
        impl Tiles for $set {
            const ROWS: usize = $rows;
            const COLUMNS: usize = $columns;

            fn tile<T: Number>(a: &[T], b: &[T], c: (&mut [T], usize), size: [usize; 2], add: bool) {
                Self::run(
                    #[inline(always)]
                    move || {
                        // SAFETY: `run` has seen that the CPU has the instructions of the set's registers.
                        unsafe { tile::<Self::Vector<T>, T, $rows, $columns>(a, b, c, size, add) }
                    },
                );
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
tiles! { Avx512, 14 x 2 }
#[cfg(target_arch = "x86_64")]
tiles! { Avx2, 6 x 2 }
tiles! { Portable, 6 x 2 }

/// Products between asking for a row of `b`, or a column of `a`, and using it. A tile's share of `b` is more than the
/// first-level cache holds beside the rest, and without this a tile takes a third longer.
const AHEAD: usize = 8;

/// [`Tiles::tile`].
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // all are unrolled, and their arrays become registers
unsafe fn tile<V: Vector<T>, T: Number, const ROWS: usize, const COLUMNS: usize>(
    a: &[T],
    b: &[T],
    (c, leading): (&mut [T], usize),
    [rows, columns]: [usize; 2],
    add: bool,
) {
    let (width, depth) = (COLUMNS * V::LANES, a.len() / ROWS);
    assert!(b.len() >= depth * width, "a tile of {depth} products, and {} elements of `b`", b.len());
    assert!(rows <= ROWS && columns <= width && columns <= leading, "{rows} x {columns} of a tile");
    assert!(rows == 0 || c.len() >= (rows - 1) * leading + columns, "a tile beyond the result");
    // They are added to after all products.
    for i in 0..rows {
        let row = c.as_ptr().wrapping_add(i * leading);
        prefetch(row);
        prefetch(row.wrapping_add(width - 1));
    }
    // SAFETY: the CPU has the instructions. Per product `a` has `ROWS` elements and `b` has `width`.
    let sums = unsafe {
        let mut sums = [[V::splat(T::ZERO); COLUMNS]; ROWS];
        let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
        for _ in 0..depth {
            let mut row = [V::splat(T::ZERO); COLUMNS];
            for v in 0..COLUMNS {
                row[v] = V::load(b.add(v * V::LANES));
                prefetch(b.wrapping_add(AHEAD * width + v * V::LANES));
            }
            for line in 0..(ROWS * size_of::<T>()).div_ceil(64) {
                prefetch(a.wrapping_add(AHEAD * ROWS + line * 64 / size_of::<T>()));
            }
            for i in 0..ROWS {
                let x = V::splat(*a.add(i));
                for v in 0..COLUMNS {
                    sums[i][v] = x.mul_add(row[v], sums[i][v]);
                }
            }
            (a, b) = (a.add(ROWS), b.add(width));
        }
        sums
    };
    if rows == ROWS && columns == width {
        for i in 0..ROWS {
            for v in 0..COLUMNS {
                // SAFETY: the CPU has the instructions; the tile lies inside `c`, as asserted.
                unsafe {
                    let at = c.as_mut_ptr().add(i * leading + v * V::LANES);
                    let sum = if add { V::load(at).add(sums[i][v]) } else { sums[i][v] };
                    sum.store(at);
                }
            }
        }
        return;
    }
    // All of them by way of the stack: an index that varies would have the registers there from the start.
    let mut all = [[T::ZERO; 32]; ROWS];
    assert!(width <= all[0].len());
    for i in 0..ROWS {
        for v in 0..COLUMNS {
            // SAFETY: the CPU has the instructions; there are `width` elements.
            unsafe { sums[i][v].store(all[i].as_mut_ptr().add(v * V::LANES)) };
        }
    }
    for (i, row) in all.iter().enumerate().take(rows) {
        for (c, sum) in c[i * leading..][..columns].iter_mut().zip(row) {
            *c = if add { *c + *sum } else { *sum };
        }
    }
}
