//! Sparse products on the CPU: registers of a row of the product, to which multiples of rows of `b` are
//! added. Rows of less than a register go through `sparse/sums.rs`.

use super::{Smmm, SmmmItem, SmmmSpan};
use crate::simd::{InstructionSet, Number, Vector, prefetch, spans};
use crate::sparse::sums::{self, Run};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};
use std::ops::Range;

/// Elements between the prefetch of a row of `b` and its use: no CPU predicts which row comes next.
const AHEAD: usize = 8;

#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, k: SmmmSpan<'_, T>) {
    let (n, leading) = (k.n as usize, k.leading as usize);
    // Views check that these elements exist.
    let elements = |all: Range<usize>| (k.column.slice(all.clone()), k.value.slice(all));
    let elements = Run::new("flash.smmm", k.start, run.range(), elements, k.b, leading);
    let lanes = I::Vector::<T>::LANES;
    if n <= 2 * lanes { few::<I, T>(elements, n, k) } else { many::<I, T>(elements, n, k) }
}

/// Products of at most two registers of columns.
#[inline(always)]
fn few<I: InstructionSet, T: Number>(elements: Run<'_, T>, n: usize, mut k: SmmmSpan<'_, T>) {
    let c = &mut k.c;
    macro_rules! sums {
        ($w:literal, $p:literal, $u:literal) => {{
            let outside = |column| outside(column, n, elements.leading, elements.b.len());
            let second = n - $w;
            elements.sums::<I, $w, $p, $u>(second, outside, |row, sums| {
                let c = c.row(row);
                check(n, elements.leading, c.len());
                c[..$w].copy_from_slice(&sums[0]);
                c[second..].copy_from_slice(&sums[$p - 1]);
            })
        }};
    }
    match n {
        0 => (0..elements.rows()).for_each(|row| check(0, elements.leading, c.row(row).len())),
        1 => sums!(1, 1, 4),
        2 => sums!(2, 1, 4),
        3 => sums!(2, 2, 4),
        4 => sums!(4, 1, 4),
        5..8 => sums!(4, 2, 4),
        8 => sums!(8, 1, 4),
        9..16 => sums!(8, 2, 4),
        16 => sums!(16, 1, 4),
        17..=32 => sums!(16, 2, 4),
        _ => unreachable!("registers have 16 lanes at most"),
    }
}

/// Products of more than two registers of columns.
#[inline(always)]
fn many<I: InstructionSet, T: Number>(run: Run<'_, T>, n: usize, mut k: SmmmSpan<'_, T>) {
    I::assert_there();
    let Run { columns, values, b, leading, .. } = run;
    let lanes = I::Vector::<T>::LANES;
    let sparse = Sparse { columns, values, b, leading, n };
    for i in 0..run.rows() {
        let (elements, row) = (run.row(i), k.c.row(i));
        check(n, leading, row.len());
        let c = &mut row[..];
        let mut done = 0;
        while done < n {
            // SAFETY: the CPU has the instructions, as asserted.
            done += unsafe {
                match (n - done) / lanes {
                    8.. => sparse.sum::<I, 8, 1>(&elements, done, c),
                    4.. => sparse.sum::<I, 4, 1>(&elements, done, c),
                    2.. => sparse.sum::<I, 2, 2>(&elements, done, c),
                    1 => sparse.sum::<I, 1, 4>(&elements, done, c),
                    // The last register overlaps the one before.
                    0 => sparse.sum::<I, 1, 4>(&elements, n - lanes, c),
                }
            };
        }
    }
}

/// The elements of a run of rows, and the dense factor.
struct Sparse<'a, T> {
    columns: &'a [u32],
    values: &'a [T],
    b: &'a [T],
    leading: usize,
    n: usize,
}

impl<T: Number> Sparse<'_, T> {
    /// The row of `b` that an element is multiplied with: `n` elements.
    #[inline(always)]
    fn row(&self, element: usize) -> &[T] {
        let at = self.columns[element] as usize * self.leading;
        match self.b.get(at..at + self.n) {
            Some(row) => row,
            None => panic!("{}", outside(self.columns[element], self.n, self.leading, self.b.len())),
        }
    }

    /// `R` registers of a row of the product, from number `first` on: the sums of these elements, of which
    /// `U` are added beside each other. Returns the number of results.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    unsafe fn sum<I: InstructionSet, const R: usize, const U: usize>(
        &self,
        elements: &Range<usize>,
        first: usize,
        c: &mut [T],
    ) -> usize {
        let lanes = I::Vector::<T>::LANES;
        assert!(c.len() == self.n && first + R * lanes <= self.n, "a tile beyond its row");
        // SAFETY: the caller vouches for the instructions. The registers' numbers are in `c` and in each row
        // of `b`, which have `n`, as just checked.
        unsafe {
            let mut sums = [[I::Vector::<T>::splat(T::ZERO); R]; U];
            let whole = elements.end - elements.len() % U;
            for element in (elements.start..whole).step_by(U) {
                for (u, sums) in sums.iter_mut().enumerate() {
                    self.add::<I, R>(sums, element + u, first);
                }
            }
            for (element, sums) in (whole..elements.end).zip(&mut sums) {
                self.add::<I, R>(sums, element, first);
            }
            let mut width = U / 2;
            while width > 0 {
                let (sums, others) = sums.split_at_mut(width);
                for (sum, other) in sums.as_flattened_mut().iter_mut().zip(others.as_flattened()) {
                    *sum = sum.add(*other);
                }
                width /= 2;
            }
            for (v, sum) in sums[0].into_iter().enumerate() {
                sum.store(c.as_mut_ptr().add(first + v * lanes));
            }
        }
        R * lanes
    }

    /// Adds one element to `R` registers of sums, those from number `first` on.
    ///
    /// # Safety
    /// The CPU has the instructions, and a row of `b` the numbers of these registers.
    // A function, because compilers do not always inline closures. What is not inlined lacks the caller's
    // instruction set.
    #[inline(always)]
    unsafe fn add<I: InstructionSet, const R: usize>(
        &self,
        sums: &mut [I::Vector<T>; R],
        element: usize,
        first: usize,
    ) {
        let lanes = I::Vector::<T>::LANES;
        if let Some(column) = self.columns.get(element + AHEAD) {
            let row = self.b.as_ptr().wrapping_add((*column as usize).wrapping_mul(self.leading) + first);
            (0..R).for_each(|v| prefetch(row.wrapping_add(v * lanes)));
        }
        let row = self.row(element);
        // SAFETY: the caller vouches.
        unsafe {
            let value = I::Vector::<T>::splat(self.values[element]);
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = value.mul_add(I::Vector::<T>::load(row.as_ptr().add(first + v * lanes)), *sum);
            }
        }
    }
}

/// Checks the sizes of a row of the product, and of the rows of `b`.
#[inline]
fn check(n: usize, leading: usize, row: usize) {
    assert!(leading >= n, "flash.smmm: expected a leading dimension of {n} at least, found {leading}");
    assert!(row == n, "flash.smmm: expected rows of {n} elements, found {row}");
}

#[cold]
fn outside(column: u32, n: usize, leading: usize, len: usize) -> String {
    format!(
        "flash.smmm: column {column} is none of the rows of `b`: {len} elements have no {n} of such a row, {leading} apart"
    )
}

/// One row at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Smmm<'_, T>> for Plain {
    fn item(row: Index<1>, k: SmmmItem<'_, T>) {
        let (n, leading) = (k.n as usize, k.leading as usize);
        let elements = sums::row("flash.smmm", k.start, row[0]);
        let (columns, values) = (k.column.slice(elements.clone()), k.value.slice(elements));
        check(n, leading, k.c.len());
        k.c.fill(T::ZERO);
        for (column, value) in columns.iter().zip(values) {
            let at = *column as usize * leading;
            let b = k.b.get(at..at + n);
            let b = b.unwrap_or_else(|| panic!("{}", outside(*column, n, leading, k.b.len())));
            for (c, b) in k.c.iter_mut().zip(b) {
                *c += *value * *b;
            }
        }
    }
}

spans! { Smmm<T>, SmmmSpan, 1, rows }
