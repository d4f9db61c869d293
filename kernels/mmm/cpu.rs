//! Products of matrices on the CPU.

use super::blocked::{Matrix, Packed, product};
use super::{Mmm, MmmItem, MmmSpan, MmmWhole, bf16};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Factor, InstructionSet, Number, Portable, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, CpuWhole, Index, Space, Span, Threads};
use std::ops::Range;

/// A product in the form of a library: `m`, `n`, `k`, and the matrices with their leading dimensions.
pub(super) struct Product<'a, T: Factor> {
    pub size: [usize; 3],
    pub a: Matrix<'a, T>,
    pub b: Matrix<'a, T>,
    pub c: (&'a mut [T::Sum], usize),
}

impl<T: Factor> Product<'_, T> {
    /// Calls `body` for all rows of a launch: once, if they follow one another.
    ///
    /// # Panics
    /// If the matrices are too short.
    pub fn of(space: &Space<'_, Index<1>>, k: MmmWhole<'_, T>, mut body: impl FnMut(Product<'_, T>)) {
        let (n, depth, [lda, ldb, ldc]) =
            (k.n as usize, k.k as usize, [k.lda, k.ldb, k.ldc].map(|leading| leading as usize));
        check(n, depth, [lda, ldb, ldc], k.b);
        // `a` and `c` are the rows from the first to the last of the launch, or of this part of it.
        let there = space.values(0);
        for (name, len, leading) in [("a", k.a.len(), lda), ("c", k.c.len(), ldc)] {
            assert!(
                len == there.len() * leading,
                "flash.mmm: expected {} rows of {leading} elements in `{name}`, found {len} elements: give it its leading dimension as a shape",
                there.len()
            );
        }
        let mut multiply = |rows: Range<usize>| {
            if rows.is_empty() {
                return;
            }
            let (needed, first) = ((rows.len() - 1) * lda + depth, rows.start - there.start);
            let (a, c) = (&k.a[first * lda..][..needed], &mut k.c[first * ldc..]);
            body(Product {
                size: [rows.len(), n, depth],
                a: Matrix { elements: a, leading: lda },
                b: Matrix { elements: k.b, leading: ldb },
                c: (&mut c[..(rows.len() - 1) * ldc + n], ldc),
            });
        };
        let mut rows = 0..0;
        space.for_each(|row| {
            if row[0] != rows.end || rows.is_empty() {
                multiply(std::mem::replace(&mut rows, row[0]..row[0]));
            }
            rows.end = row[0] + 1;
        });
        multiply(rows);
    }
}

/// Checks the sizes.
fn check<T>(n: usize, k: usize, [a, b, c]: [usize; 3], right: &[T]) {
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

/// Blocks that stay in the caches, by the widest available registers.
pub struct Blocked;

impl Blocked {
    /// Factors are converted to the type of their sums when they are packed.
    pub(super) fn multiply<T: Factor<Sum: Packed<T>>>(
        Product { size, a, b, c }: Product<'_, T>,
        threads: Threads<'_>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if Avx512::there() {
            return product::<Avx512, T::Sum, T>(size, (a, b), c, threads);
        } else if Avx2::there() {
            return product::<Avx2, T::Sum, T>(size, (a, b), c, threads);
        }
        product::<Portable, T::Sum, T>(size, (a, b), c, threads);
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

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Mmm<'_, T>> for Plain {
    fn item(_: Index<1>, k: MmmItem<'_, T>) {
        let (n, depth) = (k.n as usize, k.k as usize);
        check(n, depth, [k.lda, k.ldb, k.ldc].map(|leading| leading as usize), k.b);
        k.c.fill(T::ZERO);
        for (l, a) in k.a[..depth].iter().enumerate() {
            let b = &k.b[l * k.ldb as usize..][..n];
            for (c, b) in k.c[..n].iter_mut().zip(b) {
                *c += *a * *b;
            }
        }
    }
}

spans! { Mmm<T>, MmmSpan, 1, rows }
