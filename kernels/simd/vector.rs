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
    unsafe fn sub(self, other: Self) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn mul(self, other: Self) -> Self;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn div(self, other: Self) -> Self;

    /// The square root.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn sqrt(self) -> Self;

    /// `self * b + c`.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;

    /// The same with 0 in this lane, if there is such a lane.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn without(self, lane: usize) -> Self;
}

/// A register with instructions for a power of -1/2 that is fast and not exact.
#[cfg(target_arch = "x86_64")]
pub(crate) trait InverseRoot<T>: Vector<T> {
    /// The greatest relative error of [`inverse_root`](Self::inverse_root).
    const ERROR: f64;

    /// `1 / sqrt(self)`, about.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn inverse_root(self) -> Self;

    /// `c - self * b`.
    ///
    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn neg_mul_add(self, b: Self, c: Self) -> Self;
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{InverseRoot, Vector};
    use std::arch::x86_64::*;

    /// Functions that are an intrinsic each.
    macro_rules! operations {
        ($($name:ident($($other:ident),*): $intrinsic:ident;)*) => {$(
            #[inline(always)]
            unsafe fn $name(self $(, $other: Self)*) -> Self {
                // SAFETY: the caller vouches.
                unsafe { $intrinsic(self $(, $other)*) }
            }
        )*};
    }

    macro_rules! register {
        (
            $v:ident: [$t:ty; $lanes:literal], $load:ident, $store:ident, $stream:ident, $splat:ident,
            without($numbers:ident, $lane:ident) $without:block $($operations:tt)*
        ) => {
            impl Vector<$t> for $v {
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn load(at: *const $t) -> Self {
                    // SAFETY: the caller vouches.
                    unsafe { $load(at) }
                }

                #[inline(always)]
                unsafe fn store(self, at: *mut $t) {
                    // SAFETY: the caller vouches.
                    unsafe { $store(at, self) }
                }

                #[inline(always)]
                unsafe fn stream(self, at: *mut $t) {
                    // SAFETY: the caller vouches.
                    unsafe { $stream(at, self) }
                }

                #[inline(always)]
                unsafe fn splat(value: $t) -> Self {
                    // SAFETY: the caller vouches.
                    unsafe { $splat(value) }
                }

                #[inline(always)]
                unsafe fn without(self, $lane: usize) -> Self {
                    let $numbers = self;
                    // SAFETY: the caller vouches.
                    unsafe { $without }
                }

                operations! { $($operations)* }
            }
        };
    }

    register! {
        __m512: [f32; 16], _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_set1_ps,
        without(numbers, lane) { _mm512_maskz_mov_ps(if lane < 16 { !(1 << lane) } else { !0 }, numbers) }
        add(other): _mm512_add_ps; sub(other): _mm512_sub_ps; mul(other): _mm512_mul_ps;
        div(other): _mm512_div_ps; sqrt(): _mm512_sqrt_ps; mul_add(b, c): _mm512_fmadd_ps;
    }
    register! {
        __m512d: [f64; 8], _mm512_loadu_pd, _mm512_storeu_pd, _mm512_stream_pd, _mm512_set1_pd,
        without(numbers, lane) { _mm512_maskz_mov_pd(if lane < 8 { !(1 << lane) } else { !0 }, numbers) }
        add(other): _mm512_add_pd; sub(other): _mm512_sub_pd; mul(other): _mm512_mul_pd;
        div(other): _mm512_div_pd; sqrt(): _mm512_sqrt_pd; mul_add(b, c): _mm512_fmadd_pd;
    }
    register! {
        __m256: [f32; 8], _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm256_set1_ps,
        without(numbers, lane) {
            let lane = _mm256_set1_epi32(if lane < 8 { lane as i32 } else { -1 });
            let is_it = _mm256_cmpeq_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), lane);
            _mm256_andnot_ps(_mm256_castsi256_ps(is_it), numbers)
        }
        add(other): _mm256_add_ps; sub(other): _mm256_sub_ps; mul(other): _mm256_mul_ps;
        div(other): _mm256_div_ps; sqrt(): _mm256_sqrt_ps; mul_add(b, c): _mm256_fmadd_ps;
    }
    register! {
        __m256d: [f64; 4], _mm256_loadu_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_set1_pd,
        without(numbers, lane) {
            let lane = _mm256_set1_epi64x(if lane < 4 { lane as i64 } else { -1 });
            let is_it = _mm256_cmpeq_epi64(_mm256_setr_epi64x(0, 1, 2, 3), lane);
            _mm256_andnot_pd(_mm256_castsi256_pd(is_it), numbers)
        }
        add(other): _mm256_add_pd; sub(other): _mm256_sub_pd; mul(other): _mm256_mul_pd;
        div(other): _mm256_div_pd; sqrt(): _mm256_sqrt_pd; mul_add(b, c): _mm256_fmadd_pd;
    }

    macro_rules! inverse_root {
        ($v:ident: $t:ty, $error:expr, $($operations:tt)*) => {
            impl InverseRoot<$t> for $v {
                const ERROR: f64 = $error;
                operations! { $($operations)* }
            }
        };
    }
    inverse_root! {
        __m512: f32, 1.0 / 16384.0,
        inverse_root(): _mm512_rsqrt14_ps; neg_mul_add(b, c): _mm512_fnmadd_ps;
    }
    inverse_root! {
        __m512d: f64, 1.0 / 16384.0,
        inverse_root(): _mm512_rsqrt14_pd; neg_mul_add(b, c): _mm512_fnmadd_pd;
    }
    inverse_root! {
        __m256: f32, 1.5 / 4096.0,
        inverse_root(): _mm256_rsqrt_ps; neg_mul_add(b, c): _mm256_fnmadd_ps;
    }
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
    unsafe fn sub(self, other: Self) -> Self {
        Lanes(std::array::from_fn(|l| self.0[l] - other.0[l]))
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
    unsafe fn sqrt(self) -> Self {
        Lanes(self.0.map(T::sqrt))
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        use super::{InstructionSet, Portable};
        Lanes(std::array::from_fn(|l| Portable::mul_add(self.0[l], b.0[l], c.0[l])))
    }

    #[inline(always)]
    unsafe fn without(mut self, lane: usize) -> Self {
        if let Some(number) = self.0.get_mut(lane) {
            *number = T::ZERO;
        }
        self
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
