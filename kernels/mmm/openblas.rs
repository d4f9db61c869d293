//! The product by OpenBLAS, where that library is found at run time.

use super::cpu::Blocked;
use super::product::{Product, Sizes};
use super::{Mmm, MmmWhole};
use crate::gemm::cpu::Scales;
use crate::gemm::openblas::multiply;
use crate::openblas::OpenBlas as Library;
use crate::simd::Number;
use flash_core::kernel;
use flash_core::kernel::{CpuWhole, Index, Space, Threads};
use std::ffi::c_int;

/// An installed library is used, though [`Blocked`] is as fast on some CPUs and faster on others. Sizes and
/// CPUs that it does not support are left to that.
pub struct OpenBlas;

#[kernel(for(f32, f64), name = "openblas", priority = 50, library = "libopenblas.so.0")]
impl<T: Number> CpuWhole<Mmm<'_, T>> for OpenBlas {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, T>, threads: Threads<'_>) {
        let library = Library::<T>::get("flash.mmm");
        let scales = Scales { alpha: T::ONE, beta: T::ZERO };
        Product::of(&space, k, |product| match sizes(&library, &product) {
            Some(sizes) => library.call(threads, |by| multiply(by, product, sizes, scales)),
            None => Blocked::multiply(product, threads),
        });
    }
}

/// The sizes in the library's type. `None` if one is too large for it, or if the library does not pay.
pub(crate) fn sizes<T: Number>(
    library: &Library<T>,
    Product { m, n, k, a, b, c }: &Product<'_, T>,
) -> Option<Sizes<c_int>> {
    if !library.pays(m.saturating_mul(*n).saturating_mul(*k)) {
        return None;
    }
    Sizes { m: *m, n: *n, k: *k, lda: a.leading, ldb: b.leading, ldc: c.leading }.to().ok()
}
