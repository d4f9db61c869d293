//! Products of matrices on the CPU.

use super::blocked::{Alone, Packed, multiply};
use super::product::{Product, check};
use super::{Mmm, MmmItem, MmmSpan, MmmWhole, bf16};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Factor, InstructionSet, Number, Portable, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, CpuWhole, Index, Space, Span, Threads};

/// Blocks that stay in the caches, by the widest available registers.
pub struct Blocked;

impl Blocked {
    /// Factors are converted to the type of their sums when they are packed.
    pub(super) fn multiply<T: Factor<Sum: Packed<T>>>(product: Product<'_, T>, threads: Threads<'_>) {
        #[cfg(target_arch = "x86_64")]
        if Avx512::there() {
            return multiply::<Avx512, T::Sum, T>(product, Alone, threads);
        } else if Avx2::there() {
            return multiply::<Avx2, T::Sum, T>(product, Alone, threads);
        }
        multiply::<Portable, T::Sum, T>(product, Alone, threads);
    }
}

#[kernel(for(f32, f64, bf16), priority = 40)]
impl<T: Factor<Sum: Packed<T>>> CpuWhole<Mmm<'_, T>> for Blocked {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, T>, threads: Threads<'_>) {
        Product::of(&space, k, |product| Blocked::multiply(product, threads));
    }
}

/// Row after row, each a sum of rows of `b`: four of them at once, to read and write the row of `c` less
/// often.
#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, mut k: MmmSpan<'_, T>) {
    let (n, depth, [lda, ldb, ldc]) =
        (k.n as usize, k.k as usize, [k.lda, k.ldb, k.ldc].map(|leading| leading as usize));
    check(n, depth, [lda, ldb, ldc], k.b);
    for i in 0..run.len() {
        let (a, c) = (&k.a.row(i)[..depth], &mut k.c.row(i)[..n]);
        c.fill(T::ZERO);
        let (fours, rest) = a.as_chunks::<4>();
        let b = |l: usize| &k.b[l * ldb..][..n];
        for (four, a) in fours.iter().enumerate() {
            let l = 4 * four;
            let (b0, b1, b2, b3) = (b(l), b(l + 1), b(l + 2), b(l + 3));
            for j in 0..n {
                let sum = I::mul_add(a[1], b1[j], I::mul_add(a[0], b0[j], c[j]));
                c[j] = I::mul_add(a[3], b3[j], I::mul_add(a[2], b2[j], sum));
            }
        }
        for (l, a) in rest.iter().enumerate() {
            for (c, b) in c.iter_mut().zip(b(4 * fours.len() + l)) {
                *c = I::mul_add(*a, *b, *c);
            }
        }
    }
}

/// One row of the product at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64, bf16))]
impl<T: Factor> CpuItem<Mmm<'_, T>> for Plain {
    fn item(_: Index<1>, k: MmmItem<'_, T>) {
        let (n, depth) = (k.n as usize, k.k as usize);
        check(n, depth, [k.lda, k.ldb, k.ldc].map(|leading| leading as usize), k.b);
        k.c.fill(T::Sum::ZERO);
        for (l, a) in k.a[..depth].iter().enumerate() {
            let b = &k.b[l * k.ldb as usize..][..n];
            for (c, b) in k.c[..n].iter_mut().zip(b) {
                *c += a.to_sum() * b.to_sum();
            }
        }
    }
}

spans! { Mmm<T>, MmmSpan, 1, rows }
