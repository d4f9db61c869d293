//! What kernels share on the CPU: number types, instruction sets, their registers, and loops over arrays.
//!
//! Intrinsics, assembly and names of CPU features are here, and nowhere else in the library. What a CPU needs
//! for an instruction set is in `features!`; `spans!` compiles a kernel's loop for each of them.
//!
//! A kernel's loop is written once, over lanes that are arrays, and compiled once per instruction set.
//! Everything that `InstructionSet::run` calls is inlined into a function that has the set's features, and
//! the compiler turns the lanes into registers. A `Vector` is an explicit register, where a loop needs one:
//! to store past the caches, which the registers of crates such as pulp cannot do.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod cpu;
mod elementwise;
mod factors;
mod streams;
mod sums;
mod transposed;
mod vector;

#[cfg(target_arch = "x86_64")]
pub use cpu::{AmxBf16, Avx512Bf16};
pub use cpu::{Avx2, Avx512, Portable};
pub(crate) use cpu::{InstructionSet, features, one_stream, register_bits, spans, widest};
pub(crate) use elementwise::{Operation, PAST_CACHES, elementwise};
pub(crate) use factors::Factors;
#[cfg(target_arch = "x86_64")]
pub(crate) use factors::{Pair, Pairs, line};
pub(crate) use streams::prefetch;
pub(crate) use sums::{dot, dots};
pub(crate) use transposed::transposed;
#[cfg(target_arch = "x86_64")]
pub(crate) use vector::InverseRoot;
pub(crate) use vector::{Vector, in_order};

use flash_core::kernel::Element;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// The number types of the kernels: `f32` and `f64`.
pub trait Number:
    Factor<Sum = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + PartialOrd
    + Default
    + Into<f64>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The smallest normal number.
    const SMALLEST: Self;
    /// A register of 512 bits.
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    type Bits512: Vector<Self>;
    /// A register of 256 bits.
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    type Bits256: Vector<Self>;
    /// Any register.
    #[doc(hidden)]
    type Any: Vector<Self>;
    /// The nearest number of this type.
    fn nearest(value: f64) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
}

/// The element type of matrices to be multiplied: a [`Number`], or [`bf16`](half::bf16).
pub trait Factor: Element {
    /// The type of sums of their products: `f32` for `bf16`, and numbers' own type.
    type Sum: Number;
    /// The same number.
    fn to_sum(self) -> Self::Sum;
}

impl Factor for half::bf16 {
    type Sum = f32;
    #[inline(always)]
    fn to_sum(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

macro_rules! number {
    ($($t:ident: $bits512:ident $bits256:ident $lanes:literal;)*) => {$(
        impl Factor for $t {
            type Sum = $t;
            #[inline(always)]
            fn to_sum(self) -> $t {
                self
            }
        }

        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const SMALLEST: $t = $t::MIN_POSITIVE;
            #[cfg(target_arch = "x86_64")]
            type Bits512 = std::arch::x86_64::$bits512;
            #[cfg(target_arch = "x86_64")]
            type Bits256 = std::arch::x86_64::$bits256;
            type Any = vector::Lanes<$t, $lanes>;
            #[inline(always)]
            fn nearest(value: f64) -> $t {
                value as $t
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                self.mul_add(b, c)
            }
        }
    )*};
}
number! {
    f32: __m512 __m256 4;
    f64: __m512d __m256d 2;
}
