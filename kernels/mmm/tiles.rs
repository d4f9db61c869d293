//! Tiles of the result, in registers.

use super::product::MatrixMut;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Factors, InstructionSet, Number, Portable, Vector, prefetch};

/// An instruction set's tiles of factors that are packed as `P`: one fills the registers except for a row of
/// `b` and an element of `a`.
pub(crate) trait Tiles<P: Copy>: InstructionSet {
    /// Elements of the result.
    type Sum: Number;
    /// Registers of factors.
    type Factors: Factors<P, Self::Vector<Self::Sum>>;
    /// Rows of a tile.
    const ROWS: usize;
    /// Elements in a row of it.
    const WIDTH: usize = REGISTERS * <Self::Vector<Self::Sum> as Vector<Self::Sum>>::LANES;
    /// Products of a block's sums, packed, at most. With fewer, the result is read and written more often;
    /// with more, a block of `a` leaves the second-level cache.
    const DEPTH: usize;
}

/// Registers in a row of a tile.
const REGISTERS: usize = 2;

#[cfg(target_arch = "x86_64")]
impl<T: Number> Tiles<T> for Avx512 {
    type Sum = T;
    type Factors = Self::Vector<T>;
    const ROWS: usize = 14;
    const DEPTH: usize = 1024;
}

#[cfg(target_arch = "x86_64")]
impl<T: Number> Tiles<T> for Avx2 {
    type Sum = T;
    type Factors = Self::Vector<T>;
    const ROWS: usize = 6;
    const DEPTH: usize = 384;
}

impl<T: Number> Tiles<T> for Portable {
    type Sum = T;
    type Factors = Self::Vector<T>;
    const ROWS: usize = 6;
    const DEPTH: usize = 384;
}

/// Products between the prefetch of a row of `b`, or a column of `a`, and its use. A tile's share of `b` is
/// more than the first-level cache holds beside the rest, and without this a tile takes a third longer.
const AHEAD: usize = 8;

/// A tile that is to be computed.
pub(super) struct Tile<'a, P, T> {
    /// All of the tile's rows, column by column.
    pub a: &'a [P],
    /// All of its columns, row by row.
    pub b: &'a [P],
    /// Is read soon after, and prefetched meanwhile.
    pub soon: &'a [P],
    /// The result from the tile's first element on.
    pub c: MatrixMut<'a, T>,
    /// Rows of the tile that the result has.
    pub rows: usize,
    /// Columns of the tile that the result has.
    pub columns: usize,
    /// Products are added to the result. Otherwise it is set to them.
    pub add: bool,
}

impl<P: Copy, T: Number> Tile<'_, P, T> {
    /// Computes it.
    ///
    /// # Panics
    /// If `b` is shorter than a tile, or `c` does not have these elements; if the CPU lacks the instructions.
    pub fn multiply<I: Tiles<P, Sum = T>>(self) {
        I::run(
            #[inline(always)]
            move || {
                // SAFETY: `run` has checked that the CPU has the instructions.
                unsafe {
                    match I::ROWS {
                        14 => match self.rows {
                            ..=4 => self.rows::<I, 4>(),
                            5..=8 => self.rows::<I, 8>(),
                            9..=11 => self.rows::<I, 11>(),
                            _ => self.rows::<I, 14>(),
                        },
                        _ => match self.rows {
                            ..=2 => self.rows::<I, 2>(),
                            3..=4 => self.rows::<I, 4>(),
                            _ => self.rows::<I, 6>(),
                        },
                    }
                }
            },
        );
    }

    /// The first `R` rows, of as many registers as the result has.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    unsafe fn rows<I: Tiles<P, Sum = T>, const R: usize>(self) {
        // SAFETY: the caller vouches.
        unsafe {
            match self.columns <= I::Vector::<T>::LANES {
                true => self.part::<I, R, 1>(),
                false => self.part::<I, R, REGISTERS>(),
            }
        }
    }

    /// The first `R` rows of `C` registers.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // all are unrolled, and their arrays become registers
    unsafe fn part<I: Tiles<P, Sum = T>, const R: usize, const C: usize>(self) {
        let Tile { a, b, soon, c: MatrixMut { elements: c, leading }, rows, columns, add } = self;
        let (lanes, width, depth) = (I::Vector::<T>::LANES, I::WIDTH, a.len() / I::ROWS);
        assert!(R <= I::ROWS, "more rows than a tile has");
        assert!(b.len() >= depth * width, "a tile of {depth} products, and {} elements of `b`", b.len());
        assert!(rows <= R && columns <= C * lanes && columns <= leading, "{rows} x {columns} of a tile");
        assert!(rows == 0 || c.len() >= (rows - 1) * leading + columns, "a tile beyond the result");
        // They are added to after all products.
        for i in 0..rows {
            let row = c.as_ptr().wrapping_add(i * leading);
            prefetch(row);
            prefetch(row.wrapping_add(columns.max(1) - 1));
        }
        // Products between two prefetched lines: at least one per line, or not all would be prefetched.
        let every = (depth / size_of_val(soon).div_ceil(64).max(1)).max(1);
        // SAFETY: the CPU has the instructions. Per product `a` has `I::ROWS` elements and `b` has `width`.
        let sums = unsafe {
            let mut sums = [[I::Vector::<T>::splat(T::ZERO); C]; R];
            let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
            let mut soon = soon.as_ptr();
            let mut left = every;
            for _ in 0..depth {
                left -= 1;
                if left == 0 {
                    prefetch(soon);
                    (soon, left) = (soon.wrapping_byte_add(64), every);
                }
                let mut row = [I::Factors::read(b); C];
                for v in 0..C {
                    row[v] = I::Factors::read(b.add(v * lanes));
                    prefetch(b.wrapping_add(AHEAD * width + v * lanes));
                }
                for line in 0..(I::ROWS * size_of::<P>()).div_ceil(64) {
                    prefetch(a.wrapping_add(AHEAD * I::ROWS + line * 64 / size_of::<P>()));
                }
                for i in 0..R {
                    let x = I::Factors::broadcast(*a.add(i));
                    for v in 0..C {
                        sums[i][v] = x.multiply(row[v], sums[i][v]);
                    }
                }
                (a, b) = (a.add(I::ROWS), b.add(width));
            }
            sums
        };
        if rows == R && columns == C * lanes {
            for i in 0..R {
                for v in 0..C {
                    // SAFETY: the CPU has the instructions; the tile lies inside `c`, as asserted.
                    unsafe {
                        let at = c.as_mut_ptr().add(i * leading + v * lanes);
                        let sum = if add { I::Vector::<T>::load(at).add(sums[i][v]) } else { sums[i][v] };
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
                unsafe { sums[i][v].store(all[i].as_mut_ptr().add(v * lanes)) };
            }
        }
        for (i, row) in all.iter().enumerate().take(rows) {
            for (c, sum) in c[i * leading..][..columns].iter_mut().zip(row) {
                *c = if add { *c + *sum } else { *sum };
            }
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
                let (soon, elements) = (&b[DEPTH..], &mut c[..]);
                let c_part = MatrixMut { elements, leading };
                Tile { a: &a, b: &b, soon, c: c_part, rows, columns, add }.multiply::<I>();
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
