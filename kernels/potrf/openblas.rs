//! Cholesky factorisations by OpenBLAS with LAPACK, where that library is found at run time.

use super::cpu::{each, factorise, root};
use super::{KERNEL, Potrf, PotrfWhole};
use crate::openblas::{Functions, OpenBlas as Library};
use crate::simd::Number;
use crate::stored::check;
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::ffi::c_int;

/// An installed library is used. Sizes and CPUs that it does not support are left to blocks of our own, and
/// so are all where it is without LAPACK.
pub struct OpenBlas;

#[kernel(for(f32, f64), name = "openblas", priority = 50, library = "libopenblas.so.0")]
impl<T: Number> CpuWhole<Potrf<'_, T>> for OpenBlas {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: PotrfWhole<'_, T>, threads: Threads<'_>) {
        let library = Library::<T>::get(KERNEL);
        each(&space, k, |a, [n, lda]| match [n, lda].map(|size| c_int::try_from(size).ok()) {
            [Some(size), Some(leading)] if library.has_potrf() && library.pays(n.saturating_pow(3) / 6) => {
                library.call(threads, |by| by_lapack(by, a, size, leading));
                // The library leaves the pivot on the diagonal. It goes on with one that is NaN.
                (0..n).for_each(|row| _ = root(row, n, a[row * (lda + 1)]));
            }
            _ => factorise(a, [n, lda], threads),
        });
    }
}

fn by_lapack<T: Number>(by: &Functions<T>, a: &mut [T], n: c_int, lda: c_int) {
    let potrf = by.potrf.expect("a library with LAPACK");
    let rows = n as usize;
    check(KERNEL, ("a", a.len()), [rows, rows], lda as usize);
    let mut info = 0;
    // The library's matrices are stored column by column: it sees an upper triangle. SAFETY: the matrix has
    // the elements that are read and written, as just checked; the library may be called from any thread.
    unsafe { potrf(c"U".as_ptr(), &n, a.as_mut_ptr(), &lda, &mut info, 1) };
    assert!(info >= 0, "{KERNEL}: expected arguments as OpenBLAS wants them, found {info} from its potrf");
}
