//! Symmetric products by OpenBLAS, where that library is found at run time.

use super::cpu::{Rows, lower, triangles};
use super::{Syrk, SyrkWhole};
use crate::gemm::cpu::{Scales, scale};
use crate::gemm::openblas::through;
use crate::mmm::product::{MatrixMut, Product};
use crate::openblas::{Functions, LOWER, OpenBlas as Library, ROW_MAJOR, transposition};
use crate::simd::Number;
use crate::stored::{check, stored};
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::ffi::c_int;

/// An installed library is used. Sizes and CPUs that it does not support are left to blocks of our own.
pub struct OpenBlas;

#[kernel(for(f32, f64), name = "openblas", priority = 50, library = "libopenblas.so.0")]
impl<T: Number> CpuWhole<Syrk<'_, T>> for OpenBlas {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: SyrkWhole<'_, T>, threads: Threads<'_>) {
        let library = Library::<T>::get("flash.syrk");
        let scales = Scales { alpha: k.alpha, beta: k.beta };
        triangles(&space, k, |a, rows, c| {
            let n = rows.len();
            let sizes = [n, a.k, a.a.leading, c.leading].map(|size| c_int::try_from(size).ok());
            let [Some(size), Some(depth), Some(lda), Some(ldc)] = sizes else {
                return lower(a, rows, c, scales, threads);
            };
            if a.k == 0 || !library.pays(n.saturating_mul(n).saturating_mul(a.k) / 2) {
                return lower(a, rows, c, scales, threads);
            }
            // What a part has on the left of the square on the diagonal.
            let (first, leading) = (rows.start, c.leading);
            let (of_rows, before) = (a.from(first), a.from(0).turned());
            let to = MatrixMut { elements: &mut *c.elements, leading };
            let product = Product { m: n, n: first, k: a.k, a: of_rows, b: before, c: to };
            through(&library, product, scales, threads);
            let c = &mut c.elements[first..];
            library.call(threads, |by| square(by, a, first, c, [size, depth, lda, ldc], scales));
        });
    }
}

/// The square on the diagonal that begins with row `first`.
fn square<T: Number>(
    by: &Functions<T>,
    a: Rows<'_, T>,
    first: usize,
    c: &mut [T],
    [n, k, lda, ldc]: [c_int; 4],
    Scales { alpha, beta }: Scales<T>,
) {
    let from = a.from(first);
    let [rows, leading] = [n, ldc].map(|size| size as usize);
    check("flash.syrk", ("a", from.elements.len()), stored(from.transposed, [rows, a.k]), from.leading);
    check("flash.syrk", ("c", c.len()), [rows, rows], leading);
    if beta == T::ZERO {
        // Some versions of the library multiply with it.
        (0..rows).for_each(|row| scale(&mut c[row * leading..][..=row], beta));
    }
    let (of_a, from, to) = (transposition(from.transposed), from.elements.as_ptr(), c.as_mut_ptr());
    // SAFETY: the matrices have the elements that are read and written, as just checked; the library may be
    // called from any thread.
    unsafe { (by.syrk)(ROW_MAJOR, LOWER, of_a, n, k, alpha, from, lda, beta, to, ldc) };
}
