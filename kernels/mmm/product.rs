//! Products of matrices in the form of a library.

use super::MmmWhole;
use crate::simd::Factor;
use flash_core::kernel::{Index, Space};
use std::ops::Range;

/// A factor, which is stored row by row.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub elements: &'a [T],
    /// Elements from stored row to row.
    pub leading: usize,
    /// The factor is the transposed matrix of what is stored.
    pub transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    /// Some elements of a stored row.
    #[inline(always)]
    pub fn row(&self, row: usize, columns: Range<usize>) -> &'a [T] {
        &self.elements[row * self.leading..][columns]
    }

    /// The transposed factor.
    pub fn turned(self) -> Matrix<'a, T> {
        Matrix { transposed: !self.transposed, ..self }
    }
}

/// A matrix that is written, row by row.
pub(crate) struct MatrixMut<'a, T> {
    pub elements: &'a mut [T],
    /// Elements from row to row.
    pub leading: usize,
}

/// `c = a * b`, of `m` rows, `n` columns and `k` products in each sum.
pub(crate) struct Product<'a, T: Factor> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Matrix<'a, T>,
    pub b: Matrix<'a, T>,
    pub c: MatrixMut<'a, T::Sum>,
}

impl<T: Factor> Product<'_, T> {
    /// Calls `body` for all rows of a launch: once, if they follow one another.
    ///
    /// # Panics
    /// If the matrices are too short.
    pub fn of(space: &Space<'_, Index<1>>, whole: MmmWhole<'_, T>, mut body: impl FnMut(Product<'_, T>)) {
        let [n, k, lda, ldb, ldc] =
            [whole.n, whole.k, whole.lda, whole.ldb, whole.ldc].map(|size| size as usize);
        check(n, k, [lda, ldb, ldc], whole.b);
        // `a` and `c` are the rows from the first to the last of the launch, or of this part of it.
        let there = space.values(0);
        for (name, len, leading) in [("a", whole.a.len(), lda), ("c", whole.c.len(), ldc)] {
            assert!(
                len == there.len() * leading,
                "flash.mmm: expected {} rows of {leading} elements in `{name}`, found {len} elements: give it its leading dimension as a shape",
                there.len()
            );
        }
        runs(space, |rows| {
            let (before, first) = (rows.len() - 1, rows.start - there.start);
            body(Product {
                m: rows.len(),
                n,
                k,
                a: Matrix {
                    elements: &whole.a[first * lda..][..before * lda + k],
                    leading: lda,
                    transposed: false,
                },
                b: Matrix { elements: whole.b, leading: ldb, transposed: false },
                c: MatrixMut { elements: &mut whole.c[first * ldc..][..before * ldc + n], leading: ldc },
            });
        });
    }
}

/// Calls `body` with the rows of a launch, in their order: once for all that follow one another.
pub(crate) fn runs(space: &Space<'_, Index<1>>, mut body: impl FnMut(Range<usize>)) {
    let mut rows = 0..0;
    space.for_each(|row| {
        if row[0] != rows.end {
            let run = std::mem::replace(&mut rows, row[0]..row[0]);
            if !run.is_empty() {
                body(run);
            }
        }
        rows.end = row[0] + 1;
    });
    if !rows.is_empty() {
        body(rows);
    }
}

/// The sizes of a product, and its matrices' leading dimensions, in a library's type of numbers.
#[cfg_attr(not(feature = "vendor-libraries"), allow(dead_code))]
pub(crate) struct Sizes<N> {
    pub m: N,
    pub n: N,
    pub k: N,
    pub lda: N,
    pub ldb: N,
    pub ldc: N,
}

#[cfg_attr(not(feature = "vendor-libraries"), allow(dead_code))]
impl<N: Copy> Sizes<N> {
    /// # Errors
    /// A number that the type does not have.
    pub fn to<M: TryFrom<N>>(&self) -> Result<Sizes<M>, N> {
        let to = |number: N| M::try_from(number).map_err(|_| number);
        let Sizes { m, n, k, lda, ldb, ldc } = *self;
        Ok(Sizes { m: to(m)?, n: to(n)?, k: to(k)?, lda: to(lda)?, ldb: to(ldb)?, ldc: to(ldc)? })
    }
}

/// Checks the sizes.
pub(super) fn check<T>(n: usize, k: usize, [a, b, c]: [usize; 3], right: &[T]) {
    assert!(
        a >= k && b >= n && c == n,
        "flash.mmm: expected leading dimensions of at least {k} and {n}, and just {n} of the product, found {a}, {b} and {c}"
    );
    let needed = if k == 0 || n == 0 { 0 } else { (k - 1) * b + n };
    assert!(
        right.len() >= needed,
        "flash.mmm: expected {needed} elements of `b` for {k} rows of {n}, {b} apart, found {}",
        right.len()
    );
}
