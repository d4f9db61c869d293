//! Tiles of the result, in registers.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{InstructionSet, Number, Portable, Vector, prefetch};

/// An instruction set's tile for factors that are packed as `P`: what fills its registers but for a row of `b` and an
/// element of `a`.
pub(super) trait Tiles<P> {
    /// Elements of the result.
    type Sum: Number;
    /// Rows of a tile.
    const ROWS: usize;
    /// Elements in a row of it.
    const WIDTH: usize;

    /// Sets, or adds to if `add`, the first `rows` and `columns` elements of a tile of `c`, whose rows are `leading`
    /// elements apart. `a` has the tile's rows, packed column by column, and `b` its columns, row by row.
    ///
    /// # Panics
    /// If `b` is shorter than that, or `c` has no such elements.
    fn tile(a: &[P], b: &[P], c: (&mut [Self::Sum], usize), size: [usize; 2], add: bool);
}

/// A register of packed factors, for sums in registers `V`.
pub(super) trait Factors<P, V>: Copy {
    /// # Safety
    /// The CPU has the register's instructions, and there are as many factors at `at` as `V` has sums.
    unsafe fn read(at: *const P) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn broadcast(value: P) -> Self;

    /// The sums and what the factors give.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn multiply(self, b: Self, sums: V) -> V;
}

impl<T: Number, V: Vector<T>> Factors<T, V> for V {
    #[inline(always)]
    unsafe fn read(at: *const T) -> V {
        // SAFETY: the caller vouches.
        unsafe { V::load(at) }
    }

    #[inline(always)]
    unsafe fn broadcast(value: T) -> V {
        // SAFETY: the caller vouches.
        unsafe { V::splat(value) }
    }

    #[inline(always)]
    unsafe fn multiply(self, b: V, sums: V) -> V {
        // SAFETY: the caller vouches.
        unsafe { self.mul_add(b, sums) }
    }
}

macro_rules! tiles {
    ($set:ident, $rows:literal x $columns:literal) => {
        impl<T: Number> Tiles<T> for $set {
            type Sum = T;
            const ROWS: usize = $rows;
            const WIDTH: usize = $columns * <<Self as InstructionSet>::Vector<T> as Vector<T>>::LANES;

            fn tile(a: &[T], b: &[T], c: (&mut [T], usize), size: [usize; 2], add: bool) {
                type V<T> = <$set as InstructionSet>::Vector<T>;
                Self::run(
                    #[inline(always)]
                    move || {
                        // SAFETY: `run` has seen that the CPU has the instructions of the set's registers.
                        unsafe { tile::<V<T>, V<T>, T, T, $rows, $columns>(a, b, c, size, add) }
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
/// The CPU has the instructions of `F` and `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // all are unrolled, and their arrays become registers
pub(super) unsafe fn tile<
    F: Factors<P, V>,
    V: Vector<T>,
    P: Copy,
    T: Number,
    const ROWS: usize,
    const COLUMNS: usize,
>(
    a: &[P],
    b: &[P],
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
            let mut row = [F::read(b); COLUMNS];
            for v in 0..COLUMNS {
                row[v] = F::read(b.add(v * V::LANES));
                prefetch(b.wrapping_add(AHEAD * width + v * V::LANES));
            }
            for line in 0..(ROWS * size_of::<P>()).div_ceil(64) {
                prefetch(a.wrapping_add(AHEAD * ROWS + line * 64 / size_of::<P>()));
            }
            for i in 0..ROWS {
                let x = F::broadcast(*a.add(i));
                for v in 0..COLUMNS {
                    sums[i][v] = x.multiply(row[v], sums[i][v]);
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
