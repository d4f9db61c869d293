//! Sums of products by OpenBLAS, where that library is found at run time.

use super::cpu::{Scales, products, update};
use super::{Gemm, GemmWhole};
use crate::mmm::openblas::sizes;
use crate::mmm::product::{Matrix, Product, Sizes};
use crate::openblas::{Functions, OpenBlas as Library, ROW_MAJOR, transposition};
use crate::simd::Number;
use crate::stored::stored;
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::ffi::c_int;

/// An installed library is used. Sizes and CPUs that it does not support are left to blocks of our own.
pub struct OpenBlas;

#[kernel(for(f32, f64), name = "openblas", priority = 50, library = "libopenblas.so.0")]
impl<T: Number> CpuWhole<Gemm<'_, T>> for OpenBlas {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: GemmWhole<'_, T>, threads: Threads<'_>) {
        let library = Library::<T>::get("flash.gemm");
        let scales = Scales { alpha: k.alpha, beta: k.beta };
        products(&space, k, |product| through(&library, product, scales, threads));
    }
}

/// `c = alpha * a * b + beta * c` by the library, where that pays.
pub(crate) fn through<T: Number>(
    library: &Library<T>,
    product: Product<'_, T>,
    scales: Scales<T>,
    threads: Threads<'_>,
) {
    match sizes(library, &product) {
        Some(sizes) if scales.alpha != T::ZERO => {
            library.call(threads, |by| multiply(by, product, sizes, scales));
        }
        _ => update(product, scales, threads),
    }
}

/// `c = alpha * a * b + beta * c` by the library.
///
/// # Panics
/// If the matrices are too short.
pub(crate) fn multiply<T: Number>(
    by: &Functions<T>,
    Product { m: rows, n: columns, k: depth, a, b, c }: Product<'_, T>,
    Sizes { m, n, k, lda, ldb, ldc }: Sizes<c_int>,
    Scales { alpha, beta }: Scales<T>,
) {
    // The elements that the library reads and writes exist.
    let needs = |rows: usize, columns: usize, leading: usize| (rows - 1) * leading + columns;
    let fits = |matrix: Matrix<'_, T>, size| {
        let [rows, columns] = stored(matrix.transposed, size);
        matrix.leading >= columns && matrix.elements.len() >= needs(rows, columns, matrix.leading)
    };
    let there = fits(a, [rows, depth]) && fits(b, [depth, columns]);
    assert!(
        there && c.leading >= columns && c.elements.len() >= needs(rows, columns, c.leading),
        "matrices as large as their sizes"
    );
    let (left, right, to) = (a.elements.as_ptr(), b.elements.as_ptr(), c.elements.as_mut_ptr());
    let [of_a, of_b] = [a.transposed, b.transposed].map(transposition);
    // SAFETY: the matrices have the elements that are read and written, as just asserted; the library may be
    // called from any thread.
    unsafe { (by.gemm)(ROW_MAJOR, of_a, of_b, m, n, k, alpha, left, lda, right, ldb, beta, to, ldc) };
}
