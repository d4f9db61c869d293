//! Sums of products on the CPU.

use super::{Gemm, GemmItem, GemmWhole};
use crate::mmm::blocked::{Form, multiply};
use crate::mmm::product::{Matrix, MatrixMut, Product, runs};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{InstructionSet, Number, Portable};
use crate::stored::{check, stored};
use flash_core::kernel;
use flash_core::kernel::prelude::*;

/// The factors of a product and of what it is added to.
#[derive(Clone, Copy)]
pub(crate) struct Scales<T> {
    pub alpha: T,
    pub beta: T,
}

impl<T: Number> Scales<T> {
    /// The product is subtracted.
    pub fn minus() -> Scales<T> {
        Scales { alpha: T::ZERO - T::ONE, beta: T::ONE }
    }
}

impl<T: Number> Form<T, T> for Scales<T> {
    fn adds(self) -> bool {
        self.beta != T::ZERO
    }
    fn begin(self, row: &mut [T]) {
        if self.adds() {
            scale(row, self.beta);
        }
    }
    fn left(self, packed: &mut [T]) {
        scale(packed, self.alpha);
    }
}

/// Multiplies all elements. With 0 they become 0, be they NaN.
pub(crate) fn scale<T: Number>(elements: &mut [T], by: T) {
    if by == T::ZERO {
        elements.fill(T::ZERO);
    } else if by != T::ONE {
        elements.iter_mut().for_each(|element| *element = *element * by);
    }
}

/// `c = alpha * a * b + beta * c` by blocks, in the widest available registers. The bits of an element depend
/// on its row of `a`, its column of `b`, itself and nothing around them.
///
/// # Panics
/// If the matrices are too short for it.
pub(crate) fn update<T: Number>(mut product: Product<'_, T>, scales: Scales<T>, threads: Threads<'_>) {
    if scales.alpha == T::ZERO {
        product.k = 0;
    }
    #[cfg(target_arch = "x86_64")]
    if Avx512::there() {
        return multiply::<Avx512, T, T>(product, scales, threads);
    } else if Avx2::there() {
        return multiply::<Avx2, T, T>(product, scales, threads);
    }
    multiply::<Portable, T, T>(product, scales, threads);
}

/// Calls `body` with each run of a launch's rows.
///
/// # Panics
/// If the matrices are too short.
pub(super) fn products<T: Number>(
    space: &Space<'_, Index<1>>,
    k: GemmWhole<'_, T>,
    mut body: impl FnMut(Product<'_, T>),
) {
    let there = space.values(0);
    let [n, depth, lda, ldb, ldc] = [k.n, k.k, k.lda, k.ldb, k.ldc].map(|size| size as usize);
    let [a_transposed, b_transposed] = [k.a_transposed, k.b_transposed].map(|flag| flag != 0);
    check_c(ldc, n, (k.c.len(), there.len()));
    let factors = k.alpha != T::ZERO;
    if factors {
        check("flash.gemm", ("a", k.a.len()), stored(a_transposed, [there.end, depth]), lda);
        check("flash.gemm", ("b", k.b.len()), stored(b_transposed, [depth, n]), ldb);
    }
    runs(space, |rows| {
        let first = if a_transposed { rows.start } else { rows.start * lda };
        let a = if factors && depth > 0 { &k.a[first..] } else { &[] };
        body(Product {
            m: rows.len(),
            n,
            k: depth,
            a: Matrix { elements: a, leading: lda, transposed: a_transposed },
            b: Matrix { elements: k.b, leading: ldb, transposed: b_transposed },
            c: MatrixMut { elements: &mut k.c[(rows.start - there.start) * ldc..], leading: ldc },
        });
    });
}

/// The rows of `c` are as far apart as they are said to be.
fn check_c(ldc: usize, n: usize, (len, rows): (usize, usize)) {
    assert!(
        ldc >= n && len == rows * ldc,
        "flash.gemm: expected {rows} rows of {ldc} elements in `c`, at least {n} each, found {len} elements: give it its leading dimension as a shape"
    );
}

/// Blocks that stay in the caches, by the widest available registers.
pub struct Blocked;

#[kernel(for(f32, f64), priority = 40)]
impl<T: Number> CpuWhole<Gemm<'_, T>> for Blocked {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: GemmWhole<'_, T>, threads: Threads<'_>) {
        let scales = Scales { alpha: k.alpha, beta: k.beta };
        products(&space, k, |product| update(product, scales, threads));
    }
}

/// One row of the result at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Gemm<'_, T>> for Plain {
    fn item(ix: Index<1>, k: GemmItem<'_, T>) {
        let (i, [n, depth, lda, ldb]) = (ix[0], [k.n, k.k, k.lda, k.ldb].map(|size| size as usize));
        let [a_transposed, b_transposed] = [k.a_transposed, k.b_transposed].map(|flag| flag != 0);
        check_c(k.ldc as usize, n, (k.c.len(), 1));
        let c = &mut k.c[..n];
        scale(c, k.beta);
        if k.alpha == T::ZERO {
            return;
        }
        check("flash.gemm", ("a", k.a.len()), stored(a_transposed, [i + 1, depth]), lda);
        check("flash.gemm", ("b", k.b.len()), stored(b_transposed, [depth, n]), ldb);
        for l in 0..depth {
            let a = if a_transposed { k.a[l * lda + i] } else { k.a[i * lda + l] };
            for (j, c) in c.iter_mut().enumerate() {
                let b = if b_transposed { k.b[j * ldb + l] } else { k.b[l * ldb + j] };
                *c += k.alpha * a * b;
            }
        }
    }
}
