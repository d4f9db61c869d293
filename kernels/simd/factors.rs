//! Registers of factors, for sums of products: of numbers, and of pairs of bf16.

use super::{Number, Vector};

/// A register of packed factors, for sums in registers `V`.
pub(crate) trait Factors<P, V>: Copy {
    /// # Safety
    /// The CPU has the register's instructions, and there are as many factors at `at` as `V` has sums.
    unsafe fn read(at: *const P) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn broadcast(value: P) -> Self;

    /// Adds the products to the sums.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn multiply(self, b: Self, sums: V) -> V;
}

impl<T: Number, V: Vector<T>> Factors<T, V> for V {
    #[inline(always)]
    unsafe fn read(at: *const T) -> V {
        // SAFETY: the caller vouches.
        unsafe { V::load(at) }
    }

    #[inline(always)]
    unsafe fn broadcast(value: T) -> V {
        // SAFETY: the caller vouches.
        unsafe { V::splat(value) }
    }

    #[inline(always)]
    unsafe fn multiply(self, b: V, sums: V) -> V {
        // SAFETY: the caller vouches.
        unsafe { self.mul_add(b, sums) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use pairs::{Pair, Pairs, line};

#[cfg(target_arch = "x86_64")]
mod pairs {
    use super::Factors;
    use flash_core::kernel::Element;
    use half::bf16;
    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_maskz_loadu_epi16,
        _mm512_set1_epi32,
    };

    /// Two factors whose products are added to one sum, the first in the lower half.
    #[derive(Clone, Copy, Element)]
    #[repr(transparent)]
    pub(crate) struct Pair(u32);

    impl Pair {
        #[inline(always)]
        pub fn new(first: bf16, second: bf16) -> Pair {
            Pair(u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16)
        }
    }

    /// A register of them.
    pub(crate) type Pairs = __m512bh;

    impl Factors<Pair, __m512> for Pairs {
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

    /// The register of this number in a row of factors, with zeros beyond the row's end.
    ///
    /// # Safety
    /// The CPU has AVX-512 with instructions for 16 bits.
    #[inline(always)]
    pub(crate) unsafe fn line(row: &[bf16], number: usize) -> [bf16; 32] {
        let there = &row[(number * 32).min(row.len())..((number + 1) * 32).min(row.len())];
        if there.is_empty() {
            // The load would be valid, but slow: its address is invalid.
            return [bf16::ZERO; 32];
        }
        let mask = u32::MAX >> (32 - there.len());
        // SAFETY: the caller vouches. Only existing factors are read; a register has as many factors, for
        // which all bits are valid.
        unsafe {
            std::mem::transmute::<__m512i, [bf16; 32]>(_mm512_maskz_loadu_epi16(mask, there.as_ptr().cast()))
        }
    }
}
