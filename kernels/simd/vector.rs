//! Registers as types, for loops that need explicit ones.

use super::Number;

/// A register of numbers.
pub trait Vector<T>: Copy {
    /// Numbers in it.
    const LANES: usize;

    /// # Safety
    /// The CPU has the register's instructions, and there are [`LANES`](Self::LANES) numbers at `at`.
    unsafe fn load(at: *const T) -> Self;

    /// # Safety
    /// As [`load`](Self::load); the numbers have no other user.
    unsafe fn store(self, at: *mut T);

    /// A store past the caches where the CPU has one, which is not ordered with other stores.
    ///
    /// # Safety
    /// As [`store`](Self::store), and `at` is aligned to the register's size. Before another thread uses the
    /// numbers, this thread calls [`in_order`].
    unsafe fn stream(self, at: *mut T);

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn splat(value: T) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn add(self, other: Self) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn mul(self, other: Self) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn div(self, other: Self) -> Self;

    /// `self * b + c`.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
}

#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($v:ident, $t:ty, $lanes:literal, $load:ident, $store:ident, $stream:ident, $splat:ident, $add:ident, $mul:ident, $div:ident, $mul_add:ident) => {
        impl Vector<$t> for std::arch::x86_64::$v {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn load(at: *const $t) -> Self {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$load(at) }
            }

            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$store(at, self) }
            }

            #[inline(always)]
            unsafe fn stream(self, at: *mut $t) {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$stream(at, self) }
            }

            #[inline(always)]
            unsafe fn splat(value: $t) -> Self {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$splat(value) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$add(self, other) }
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$mul(self, other) }
            }

            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$div(self, other) }
            }

            #[inline(always)]
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                // SAFETY: the caller vouches.
                unsafe { std::arch::x86_64::$mul_add(self, b, c) }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
mod registers {
    use super::Vector;
    register! { __m512, f32, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_set1_ps, _mm512_add_ps, _mm512_mul_ps, _mm512_div_ps, _mm512_fmadd_ps }
    register! { __m512d, f64, 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_stream_pd, _mm512_set1_pd, _mm512_add_pd, _mm512_mul_pd, _mm512_div_pd, _mm512_fmadd_pd }
    register! { __m256, f32, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm256_set1_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_div_ps, _mm256_fmadd_ps }
    register! { __m256d, f64, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_mul_pd, _mm256_div_pd, _mm256_fmadd_pd }
}

/// An array that the compiler makes a register of, on any CPU.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Lanes<T, const N: usize>([T; N]);

impl<T: Number, const N: usize> Vector<T> for Lanes<T, N> {
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn load(at: *const T) -> Self {
        // SAFETY: the caller vouches for the numbers.
        unsafe { at.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut T) {
        // SAFETY: the caller vouches for the numbers.
        unsafe { at.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn stream(self, at: *mut T) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m128i, _mm_stream_si128};
            const { assert!(size_of::<Self>() == size_of::<__m128i>()) };
            // SAFETY: the caller vouches for the numbers; lanes are as many bytes, as asserted, all of which
            // are of numbers. Every x86-64 has the instruction.
            unsafe { _mm_stream_si128(at.cast(), std::mem::transmute_copy(&self)) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller vouches.
        unsafe {
            self.store(at)
        }
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Lanes([value; N])
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Lanes(std::array::from_fn(|l| self.0[l] + other.0[l]))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Lanes(std::array::from_fn(|l| self.0[l] * other.0[l]))
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        Lanes(std::array::from_fn(|l| self.0[l] / other.0[l]))
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        use super::{InstructionSet, Portable};
        Lanes(std::array::from_fn(|l| Portable::mul_add(self.0[l], b.0[l], c.0[l])))
    }
}

/// Orders stores that this thread made by [`Vector::stream`] before those that follow.
#[inline(always)]
pub(crate) fn in_order() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
