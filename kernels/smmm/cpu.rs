//! Sparse products on the CPU: registers of a row of the product, to which multiples of rows of `b` are
//! added.

use super::{Smmm, SmmmItem, SmmmSpan};
use crate::simd::{InstructionSet, Number, Vector, prefetch, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};
use std::ops::Range;

/// Elements between the prefetch of a row of `b` and its use: no CPU predicts which row comes next.
const AHEAD: usize = 8;

#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, mut k: SmmmSpan<'_, T>) {
    let (n, leading, first) = (k.n as usize, k.leading as usize, run.range().start);
    let pointers = k.start.get(first..=first + run.len());
    let Some(pointers) = pointers else {
        panic!(
            "flash.smmm: expected {} row pointers at least, one more than there are rows, found {}",
            first + run.len() + 1,
            k.start.len()
        )
    };
    assert!(I::there(), "this CPU lacks the instructions");
    if let Some(row) = pointers.windows(2).position(|pair| pair[0] > pair[1]) {
        panic!(
            "flash.smmm: expected row pointers that do not decrease, found {} and {} of row {}",
            pointers[row],
            pointers[row + 1],
            first + row
        );
    }
    let begin = pointers[0] as usize;
    let all = begin..pointers[run.len()] as usize;
    // Views check that these elements exist.
    let sparse =
        Sparse { columns: k.column.slice(all.clone()), values: k.value.slice(all), b: k.b, leading, n };
    for i in 0..run.len() {
        let elements = pointers[i] as usize - begin..pointers[i + 1] as usize - begin;
        let row = k.c.row(i);
        check(n, leading, row.len());
        let c = &mut row[..];
        let lanes = I::Vector::<T>::LANES;
        if n < lanes {
            c.fill(T::ZERO);
            for element in elements {
                for (c, b) in c.iter_mut().zip(sparse.row(element)) {
                    *c = I::mul_add(sparse.values[element], *b, *c);
                }
            }
            continue;
        }
        let mut done = 0;
        while done < n {
            // SAFETY: the CPU has the instructions, as asserted.
            done += unsafe {
                match (n - done) / lanes {
                    8.. => sparse.sum::<I, 8>(&elements, done, c),
                    4.. => sparse.sum::<I, 4>(&elements, done, c),
                    2.. => sparse.sum::<I, 2>(&elements, done, c),
                    1 => sparse.sum::<I, 1>(&elements, done, c),
                    // The last register overlaps the one before.
                    0 => sparse.sum::<I, 1>(&elements, n - lanes, c),
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
            None => outside(self.columns[element], self.n, self.leading, self.b.len()),
        }
    }

    /// `R` registers of a row of the product, from number `first` on: the sums of these elements. Returns the
    /// number of results.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    unsafe fn sum<I: InstructionSet, const R: usize>(
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
            let mut sums = [I::Vector::<T>::splat(T::ZERO); R];
            for element in elements.clone() {
                if let Some(column) = self.columns.get(element + AHEAD) {
                    let row =
                        self.b.as_ptr().wrapping_add((*column as usize).wrapping_mul(self.leading) + first);
                    (0..R).for_each(|v| prefetch(row.wrapping_add(v * lanes)));
                }
                let (row, value) = (self.row(element), I::Vector::<T>::splat(self.values[element]));
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = value.mul_add(I::Vector::<T>::load(row.as_ptr().add(first + v * lanes)), *sum);
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(c.as_mut_ptr().add(first + v * lanes));
            }
        }
        R * lanes
    }
}

/// Checks the sizes of a row of the product, and of the rows of `b`.
#[inline]
fn check(n: usize, leading: usize, row: usize) {
    assert!(leading >= n, "flash.smmm: expected a leading dimension of {n} at least, found {leading}");
    assert!(row == n, "flash.smmm: expected rows of {n} elements, found {row}");
}

#[cold]
fn outside(column: u32, n: usize, leading: usize, len: usize) -> ! {
    panic!(
        "flash.smmm: column {column} is none of the rows of `b`: {len} elements have no {n} of such a row, {leading} apart"
    )
}

/// One row at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Smmm<'_, T>> for Plain {
    fn item(row: Index<1>, k: SmmmItem<'_, T>) {
        let (n, leading) = (k.n as usize, k.leading as usize);
        let elements = k.start[row[0]] as usize..k.start[row[0] + 1] as usize;
        let (columns, values) = (k.column.slice(elements.clone()), k.value.slice(elements));
        check(n, leading, k.c.len());
        k.c.fill(T::ZERO);
        for (column, value) in columns.iter().zip(values) {
            let at = *column as usize * leading;
            let b = k.b.get(at..at + n).unwrap_or_else(|| outside(*column, n, leading, k.b.len()));
            for (c, b) in k.c.iter_mut().zip(b) {
                *c += *value * *b;
            }
        }
    }
}

spans! { Smmm<T>, SmmmSpan, 1, rows }
