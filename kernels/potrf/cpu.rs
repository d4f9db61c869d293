//! Cholesky factorisations on the CPU.

use super::{KERNEL, Potrf, PotrfItem, PotrfWhole, is_positive, not_definite};
use crate::gemm::cpu::Scales;
use crate::mmm::blocked::{Kept, take};
use crate::mmm::product::{Matrix, MatrixMut};
use crate::simd::{Number, widest};
use crate::stored;
use crate::syrk::cpu::{Rows, lower};
use crate::trsm::cpu::Triangle;
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::cell::RefCell;

/// Columns that are factorised together; those behind get them as products.
const BLOCK: usize = 64;

thread_local! {
    /// A block's columns.
    static PANEL: Kept = const { RefCell::new(None) };
}

/// The root of a pivot.
///
/// # Panics
/// If it is not positive.
pub(super) fn root<T: Number>(row: usize, rows: usize, pivot: T) -> T {
    assert!(is_positive(pivot), "{KERNEL}: {}", not_definite(row, rows, pivot));
    pivot.sqrt()
}

/// Calls `body` with the elements of each matrix of a launch.
///
/// # Panics
/// If they are too few.
pub(super) fn each<T: Number>(
    space: &Space<'_, Index<1>>,
    k: PotrfWhole<'_, T>,
    mut body: impl FnMut(&mut [T], [usize; 2]),
) {
    let (there, [n, lda]) = (space.values(0), [k.n, k.lda].map(|size| size as usize));
    let apart = k.a.len() / there.len().max(1);
    stored::check(KERNEL, ("a", apart), [n, n], lda);
    space.for_each(|matrix| body(&mut k.a[(matrix[0] - there.start) * apart..][..apart], [n, lda]));
}

/// A matrix of `n` rows, `lda` elements apart, by blocks of columns.
///
/// # Panics
/// If a pivot is not positive.
pub(super) fn factorise<T: Number>(a: &mut [T], [n, lda]: [usize; 2], threads: Threads<'_>) {
    let mut kept = take::<T>(&PANEL, BLOCK * n.max(1));
    let panel: &mut [T] = bytemuck::cast_slice_mut(&mut kept[..BLOCK * n * size_of::<T>()]);
    for first in (0..n).step_by(BLOCK) {
        let (width, rest) = (BLOCK.min(n - first), n - (first + BLOCK).min(n));
        block(&mut a[first * lda + first..], [width, lda], [first, n], panel);
        if rest == 0 {
            break;
        }
        let (above, below) = a.split_at_mut((first + width) * lda);
        let triangle = Triangle {
            elements: &above[first * lda + first..],
            leading: lda,
            n: width,
            forward: true,
            unit: false,
        };
        triangle.rows(MatrixMut { elements: &mut below[first..], leading: lda }, rest, threads);
        let panel = &mut panel[..rest * width];
        for (to, row) in panel.chunks_exact_mut(width).zip(below.chunks(lda)) {
            to.copy_from_slice(&row[first..][..width]);
        }
        let rows = Rows { a: Matrix { elements: &*panel, leading: width, transposed: false }, k: width };
        let c = MatrixMut { elements: &mut below[first + width..], leading: lda };
        lower(rows, 0..rest, c, Scales::minus(), threads);
    }
    PANEL.set(Some(kept));
}

/// A block on the diagonal, column by column; `first` is its first row, of `all`.
fn block<T: Number>(a: &mut [T], [n, lda]: [usize; 2], [first, all]: [usize; 2], column: &mut [T]) {
    widest(
        #[inline(always)]
        || {
            for j in 0..n {
                let root = root(first + j, all, a[j * lda + j]);
                a[j * lda + j] = root;
                for i in j + 1..n {
                    let row = &mut a[i * lda..][..=i];
                    let by = row[j] / root;
                    row[j] = by;
                    column[i] = by;
                    for (a, l) in row[j + 1..].iter_mut().zip(&column[j + 1..=i]) {
                        *a = *a - by * *l;
                    }
                }
            }
        },
    );
}

/// Blocks of columns, which the others get as products.
pub struct Blocked;

#[kernel(for(f32, f64), priority = 40)]
impl<T: Number> CpuWhole<Potrf<'_, T>> for Blocked {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: PotrfWhole<'_, T>, threads: Threads<'_>) {
        each(&space, k, |a, size| factorise(a, size, threads));
    }
}

/// One element of the factor at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Potrf<'_, T>> for Plain {
    fn item(_: Index<1>, k: PotrfItem<'_, T>) {
        let (a, [n, lda]) = (k.a, [k.n, k.lda].map(|size| size as usize));
        stored::check(KERNEL, ("a", a.len()), [n, n], lda);
        for i in 0..n {
            for j in 0..=i {
                let mut rest = a[i * lda + j];
                for p in 0..j {
                    rest = rest - a[i * lda + p] * a[j * lda + p];
                }
                a[i * lda + j] = if i == j { root(i, n, rest) } else { rest / a[j * lda + j] };
            }
        }
    }
}
