//! Symmetric products on the CPU.

use super::{Syrk, SyrkItem, SyrkWhole};
use crate::gemm::cpu::{Scales, scale, update};
use crate::mmm::blocked::{Kept, take};
use crate::mmm::product::{Matrix, MatrixMut, Product, runs};
use crate::simd::Number;
use crate::stored::{check, stored};
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// Rows up to which a square on the diagonal is computed in full.
const SQUARE: usize = 64;

thread_local! {
    /// A square that a thread keeps.
    static FULL: Kept = const { RefCell::new(None) };
}

/// A factor, of which rows are multiplied with rows.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    /// The factor.
    pub a: Matrix<'a, T>,
    /// Products in a sum.
    pub k: usize,
}

impl<'a, T: Number> Rows<'a, T> {
    /// The factor from a row on.
    pub fn from(self, row: usize) -> Matrix<'a, T> {
        let first = if self.a.transposed { row } else { row * self.a.leading };
        // There is none if there are no products.
        Matrix { elements: self.a.elements.get(first..).unwrap_or(&[]), ..self.a }
    }

    /// `c = alpha * a[rows] * a[columns]^T + beta * c`.
    fn multiply(
        self,
        [rows, columns]: [Range<usize>; 2],
        c: MatrixMut<'_, T>,
        scales: Scales<T>,
        threads: Threads<'_>,
    ) {
        let (a, b) = (self.from(rows.start), self.from(columns.start).turned());
        update(Product { m: rows.len(), n: columns.len(), k: self.k, a, b, c }, scales, threads);
    }
}

/// Some rows of the lower triangle of `alpha * a * a^T + beta * c`; the first element of `c` is that of the
/// first row. An element's bits depend on its rows of `a` and itself.
///
/// # Panics
/// If the matrices are too short.
pub(crate) fn lower<T: Number>(
    a: Rows<'_, T>,
    rows: Range<usize>,
    MatrixMut { elements: c, leading }: MatrixMut<'_, T>,
    scales: Scales<T>,
    threads: Threads<'_>,
) {
    if rows.is_empty() {
        return;
    }
    let before = MatrixMut { elements: &mut *c, leading };
    a.multiply([rows.clone(), 0..rows.start], before, scales, threads);
    square(a, rows.clone(), MatrixMut { elements: &mut c[rows.start..], leading }, scales, threads);
}

/// The part of [`lower`] in the columns of the same numbers; `c` begins on the diagonal.
fn square<T: Number>(
    a: Rows<'_, T>,
    rows: Range<usize>,
    MatrixMut { elements: c, leading }: MatrixMut<'_, T>,
    scales: Scales<T>,
    threads: Threads<'_>,
) {
    let n = rows.len();
    if n > SQUARE {
        let (half, middle) = (n / 2, rows.start + n / 2);
        square(a, rows.start..middle, MatrixMut { elements: &mut *c, leading }, scales, threads);
        let below = &mut c[half * leading..];
        let to = MatrixMut { elements: &mut *below, leading };
        a.multiply([middle..rows.end, rows.start..middle], to, scales, threads);
        return square(
            a,
            middle..rows.end,
            MatrixMut { elements: &mut below[half..], leading },
            scales,
            threads,
        );
    }
    let mut kept = take::<T>(&FULL, n * n);
    let full: &mut [T] = bytemuck::cast_slice_mut(&mut kept[..n * n * size_of::<T>()]);
    full.fill(T::ZERO);
    for (i, full) in full.chunks_exact_mut(n).enumerate() {
        full[..=i].copy_from_slice(&c[i * leading..][..=i]);
    }
    let to = MatrixMut { elements: &mut *full, leading: n };
    a.multiply([rows.clone(), rows], to, scales, Threads::one());
    for (i, full) in full.chunks_exact(n).enumerate() {
        c[i * leading..][..=i].copy_from_slice(&full[..=i]);
    }
    FULL.set(Some(kept));
}

/// Calls `body` with each run of a launch's rows, and those rows of `c`.
///
/// # Panics
/// If the matrices are too short.
pub(super) fn triangles<T: Number>(
    space: &Space<'_, Index<1>>,
    k: SyrkWhole<'_, T>,
    mut body: impl FnMut(Rows<'_, T>, Range<usize>, MatrixMut<'_, T>),
) {
    let there = space.values(0);
    let [depth, lda, ldc] = [k.k, k.lda, k.ldc].map(|size| size as usize);
    let depth = if k.alpha == T::ZERO { 0 } else { depth };
    let transposed = k.transposed != 0;
    check_c(ldc, there.end, (k.c.len(), there.len()));
    if depth > 0 {
        check("flash.syrk", ("a", k.a.len()), stored(transposed, [there.end, depth]), lda);
    }
    let a = Rows { a: Matrix { elements: k.a, leading: lda, transposed }, k: depth };
    runs(space, |rows| {
        let c = &mut k.c[(rows.start - there.start) * ldc..];
        body(a, rows, MatrixMut { elements: c, leading: ldc });
    });
}

/// The rows of `c` are as far apart as they are said to be, and reach the diagonal.
fn check_c(ldc: usize, end: usize, (len, rows): (usize, usize)) {
    assert!(
        ldc >= end && len == rows * ldc,
        "flash.syrk: expected {rows} rows of {ldc} elements in `c`, at least {end} each, found {len} elements: give it its leading dimension as a shape"
    );
}

/// Products of blocks of rows, and of squares on the diagonal.
pub struct Blocked;

#[kernel(for(f32, f64), priority = 40)]
impl<T: Number> CpuWhole<Syrk<'_, T>> for Blocked {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: SyrkWhole<'_, T>, threads: Threads<'_>) {
        let scales = Scales { alpha: k.alpha, beta: k.beta };
        triangles(&space, k, |a, rows, c| lower(a, rows, c, scales, threads));
    }
}

/// One row of the result at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Syrk<'_, T>> for Plain {
    fn item(ix: Index<1>, k: SyrkItem<'_, T>) {
        let (i, [depth, lda]) = (ix[0], [k.k, k.lda].map(|size| size as usize));
        let transposed = k.transposed != 0;
        check_c(k.ldc as usize, i + 1, (k.c.len(), 1));
        let c = &mut k.c[..=i];
        scale(c, k.beta);
        if k.alpha == T::ZERO {
            return;
        }
        check("flash.syrk", ("a", k.a.len()), stored(transposed, [i + 1, depth]), lda);
        let a = |row: usize, l: usize| if transposed { k.a[l * lda + row] } else { k.a[row * lda + l] };
        for (j, c) in c.iter_mut().enumerate() {
            for l in 0..depth {
                *c += k.alpha * a(i, l) * a(j, l);
            }
        }
    }
}
