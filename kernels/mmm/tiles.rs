//! Tiles of the result, in registers.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{InstructionSet, Number, Portable, Vector, prefetch};

/// An instruction set's tile for factors that are packed as `P`: it fills the registers except for a row of
/// `b` and an element of `a`.
pub(super) trait Tiles<P>: InstructionSet {
    /// Elements of the result.
    type Sum: Number;
    /// Rows of a tile.
    const ROWS: usize;
    /// Elements in a row of it.
    const WIDTH: usize;
    /// Products of a block's sums, packed, at most. With fewer, the result is read and written more often;
    /// with more, a block of `a` leaves the second-level cache.
    const DEPTH: usize;

    /// Sets the first `rows` and `columns` elements of a tile of `c`, whose rows are `leading` elements
    /// apart, or adds to them if `add`. `a` has the tile's rows, packed column by column, and `b` its
    /// columns, row by row. The slice beside `b` is read soon after, and is prefetched meanwhile.
    ///
    /// # Panics
    /// If `b` is shorter than that, or `c` does not have these elements.
    fn tile(a: &[P], b: (&[P], &[P]), c: (&mut [Self::Sum], usize), size: [usize; 2], add: bool);
}

/// A register of packed factors, for sums in registers `V`.
pub(super) trait Factors<P, V>: Copy {
    /// # Safety
    /// The CPU has the register's instructions, and there are as many factors at `at` as `V` has sums.
    unsafe fn read(at: *const P) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn broadcast(value: P) -> Self;

    /// Adds the products to the sums.
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
    ($set:ident, $rows:literal x $columns:literal, $depth:literal deep, or $fewer:tt rows) => {
        impl<T: Number> Tiles<T> for $set {
            type Sum = T;
            const ROWS: usize = $rows;
            const WIDTH: usize = $columns * <<Self as InstructionSet>::Vector<T> as Vector<T>>::LANES;
            const DEPTH: usize = $depth;

            fn tile(a: &[T], b: (&[T], &[T]), c: (&mut [T], usize), size: [usize; 2], add: bool) {
                sized! { $set, <Self as InstructionSet>::Vector<T>, T, T, $rows x $columns, or $fewer rows, (a, b, c, size, add) }
            }
        }
    };
}

/// Calls [`tile`] for a tile of as many rows and registers, or of fewer if the part of it that is wanted has
/// no more.
macro_rules! sized {
    ($set:ident, $factors:ty, $packed:ty, $sum:ty, $rows:literal x $columns:literal, or [$($fewer:literal)*] rows, ($a:ident, $b:ident, $c:ident, $size:ident, $add:ident)) => {{
        type V<T> = <$set as InstructionSet>::Vector<T>;
        let one = $size[1] <= <V<$sum> as Vector<$sum>>::LANES;
        Self::run(
            #[inline(always)]
            move || {
                // SAFETY: `run` has checked that the CPU has the instructions of the set's registers.
                unsafe {
                    match $size[0] {
                        $(rows if rows <= $fewer && one => {
                            tile::<$factors, V<$sum>, $packed, $sum, $rows, $columns, $fewer, 1>($a, $b, $c, $size, $add)
                        }
                        rows if rows <= $fewer => {
                            tile::<$factors, V<$sum>, $packed, $sum, $rows, $columns, $fewer, $columns>($a, $b, $c, $size, $add)
                        })*
                        _ if one => tile::<$factors, V<$sum>, $packed, $sum, $rows, $columns, $rows, 1>($a, $b, $c, $size, $add),
                        _ => tile::<$factors, V<$sum>, $packed, $sum, $rows, $columns, $rows, $columns>($a, $b, $c, $size, $add),
                    }
                }
            },
        );
    }};
}
pub(super) use sized;
#[cfg(target_arch = "x86_64")]
tiles! { Avx512, 14 x 2, 1024 deep, or [4 8 11] rows }
#[cfg(target_arch = "x86_64")]
tiles! { Avx2, 6 x 2, 384 deep, or [2 4] rows }
tiles! { Portable, 6 x 2, 384 deep, or [2 4] rows }

/// Products between the prefetch of a row of `b`, or a column of `a`, and its use. A tile's share of `b` is
/// more than the first-level cache holds beside the rest, and without this a tile takes a third longer.
const AHEAD: usize = 8;

/// [`Tiles::tile`], of which the first `R` rows and `C` registers are computed.
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
    const R: usize,
    const C: usize,
>(
    a: &[P],
    (b, soon): (&[P], &[P]),
    (c, leading): (&mut [T], usize),
    [rows, columns]: [usize; 2],
    add: bool,
) {
    const { assert!(R <= ROWS && C <= COLUMNS) };
    let (width, depth) = (COLUMNS * V::LANES, a.len() / ROWS);
    assert!(b.len() >= depth * width, "a tile of {depth} products, and {} elements of `b`", b.len());
    assert!(rows <= R && columns <= C * V::LANES && columns <= leading, "{rows} x {columns} of a tile");
    assert!(rows == 0 || c.len() >= (rows - 1) * leading + columns, "a tile beyond the result");
    // They are added to after all products.
    for i in 0..rows {
        let row = c.as_ptr().wrapping_add(i * leading);
        prefetch(row);
        prefetch(row.wrapping_add(columns.max(1) - 1));
    }
    // Products between two prefetched lines: at least one per line, or not all would be prefetched.
    let every = (depth / size_of_val(soon).div_ceil(64).max(1)).max(1);
    // SAFETY: the CPU has the instructions. Per product `a` has `ROWS` elements and `b` has `width`.
    let sums = unsafe {
        let mut sums = [[V::splat(T::ZERO); C]; R];
        let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
        let mut soon = soon.as_ptr();
        let mut left = every;
        for _ in 0..depth {
            left -= 1;
            if left == 0 {
                prefetch(soon);
                (soon, left) = (soon.wrapping_byte_add(64), every);
            }
            let mut row = [F::read(b); C];
            for v in 0..C {
                row[v] = F::read(b.add(v * V::LANES));
                prefetch(b.wrapping_add(AHEAD * width + v * V::LANES));
            }
            for line in 0..(ROWS * size_of::<P>()).div_ceil(64) {
                prefetch(a.wrapping_add(AHEAD * ROWS + line * 64 / size_of::<P>()));
            }
            for i in 0..R {
                let x = F::broadcast(*a.add(i));
                for v in 0..C {
                    sums[i][v] = x.multiply(row[v], sums[i][v]);
                }
            }
            (a, b) = (a.add(ROWS), b.add(width));
        }
        sums
    };
    if rows == R && columns == C * V::LANES {
        for i in 0..R {
            for v in 0..C {
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
    // All of them go through the stack: with a variable index the sums would not stay in registers.
    let mut all = [[T::ZERO; 32]; R];
    assert!(width <= all[0].len());
    for i in 0..R {
        for v in 0..C {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of all sizes, of numbers whose sums are exact.
    fn all_sizes<T: Number + From<u8>, I: Tiles<T, Sum = T>>() {
        const DEPTH: usize = 5;
        let number = |i: usize| T::from((i % 7) as u8);
        let leading = I::WIDTH + 3;
        let a: Vec<T> = (0..DEPTH * I::ROWS).map(number).collect();
        let b: Vec<T> = (0..DEPTH * I::WIDTH).map(|i| number(3 * i + 1)).collect();
        for (rows, columns) in
            (1..=I::ROWS).flat_map(|rows| (1..=I::WIDTH).map(move |columns| (rows, columns)))
        {
            for add in [false, true] {
                let before: Vec<T> = (0..I::ROWS * leading).map(|i| number(2 * i)).collect();
                let mut c = before.clone();
                I::tile(&a, (&b, &b[DEPTH..]), (&mut c, leading), [rows, columns], add);
                for (i, (c, before)) in c.iter().zip(&before).enumerate() {
                    let (row, column) = (i / leading, i % leading);
                    let product = |l: usize| a[l * I::ROWS + row] * b[l * I::WIDTH + column];
                    let sum =
                        || (0..DEPTH).fold(if add { *before } else { T::ZERO }, |sum, l| sum + product(l));
                    let expected = if row < rows && column < columns { sum() } else { *before };
                    assert!(*c == expected, "{row}, {column} of {rows} x {columns}, add {add}");
                }
            }
        }
    }

    #[test]
    fn tiles_of_all_sizes_are_right_with_every_instruction_set() {
        all_sizes::<f32, Portable>();
        all_sizes::<f64, Portable>();
        #[cfg(target_arch = "x86_64")]
        if Avx2::there() {
            all_sizes::<f32, Avx2>();
            all_sizes::<f64, Avx2>();
        }
        #[cfg(target_arch = "x86_64")]
        if Avx512::there() {
            all_sizes::<f32, Avx512>();
            all_sizes::<f64, Avx512>();
        }
    }
}
