//! Products of factors in bf16, which are the upper halves of numbers in single precision.

use super::blocked::{Packed, product};
use super::cpu::Product;
use super::tiles::{Factors, Tiles, sized, tile};
use super::{Mmm, MmmWhole, bf16};
use crate::simd::{Avx512Bf16, InstructionSet, Vector};
use flash_core::kernel;
use flash_core::kernel::{CpuWhole, Element, Index, Space, Threads};
use std::arch::x86_64::{__m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32};

/// Two factors whose products are added to one sum, the first in the lower half.
#[derive(Clone, Copy, Element)]
#[repr(transparent)]
pub(super) struct Pair(u32);

impl Packed<bf16> for Pair {
    const TOGETHER: usize = 2;
    #[inline(always)]
    fn of(first: bf16, second: bf16) -> Pair {
        Pair(u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16)
    }
}

impl Factors<Pair, __m512> for __m512bh {
    #[inline(always)]
    unsafe fn read(at: *const Pair) -> __m512bh {
        // SAFETY: the caller vouches; registers of one size, for which all bits are valid.
        unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(at.cast())) }
    }

    #[inline(always)]
    unsafe fn broadcast(value: Pair) -> __m512bh {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(value.0 as i32)) }
    }

    #[inline(always)]
    unsafe fn multiply(self, b: __m512bh, sums: __m512) -> __m512 {
        // SAFETY: the caller vouches.
        unsafe { _mm512_dpbf16_ps(sums, self, b) }
    }
}

impl Tiles<Pair> for Avx512Bf16 {
    type Sum = f32;
    const ROWS: usize = 14;
    const WIDTH: usize = 32;
    const DEPTH: usize = 1024;

    fn tile(a: &[Pair], b: (&[Pair], &[Pair]), c: (&mut [f32], usize), size: [usize; 2], add: bool) {
        sized! { Avx512Bf16, __m512bh, Pair, f32, 14 x 2, or [4 8 11] rows, (a, b, c, size, add) }
    }
}

#[kernel(priority = 50, cpu_features = "avx512bf16,avx512f,avx512dq,avx512vl,avx512bw")]
impl CpuWhole<Mmm<'_, bf16>> for Avx512Bf16 {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, bf16>, threads: Threads<'_>) {
        Product::of(&space, k, |Product { size, a, b, c }| {
            product::<Avx512Bf16, Pair, bf16>(size, (a, b), c, threads);
        });
    }
}
