//! The shared parts of the dense kernels on the CPU: number types, instruction sets, and loops over arrays.
//!
//! A kernel's loop is written once, over lanes that are arrays, and compiled once per instruction set.
//! Everything that `InstructionSet::run` calls is inlined into a function that has the set's features, and
//! the compiler turns the lanes into registers. A `Vector` is an explicit register, where a loop needs one:
//! to store past the caches, which the registers of crates such as pulp cannot do.

mod elementwise;
mod streams;
mod sums;
mod transposed;
mod vector;

pub(crate) use elementwise::{Operation, PAST_CACHES, elementwise};
pub(crate) use streams::{one_stream, prefetch};
pub(crate) use sums::{dot, dots};
pub(crate) use transposed::transposed;
pub(crate) use vector::{Vector, in_order};

use crate::nbody;
use flash_core::kernel::Element;
use std::sync::LazyLock;

/// The number types of the dense kernels: `f32` and `f64`.
pub trait Number: nbody::Real + Factor<Sum = Self> {
    /// 0.
    const ZERO: Self;
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
    /// `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
}

/// The element type of matrices to be multiplied: a [`Number`], or [`bf16`](half::bf16).
pub trait Factor: Element {
    /// The type of sums of their products: `f32` for `bf16`, and numbers' own type.
    type Sum: Number;
}

impl Factor for half::bf16 {
    type Sum = f32;
}

macro_rules! number {
    ($($t:ty: $bits512:ident $bits256:ident $lanes:literal;)*) => {$(
        impl Factor for $t {
            type Sum = $t;
        }

        impl Number for $t {
            const ZERO: $t = 0.0;
            #[cfg(target_arch = "x86_64")]
            type Bits512 = std::arch::x86_64::$bits512;
            #[cfg(target_arch = "x86_64")]
            type Bits256 = std::arch::x86_64::$bits256;
            type Any = vector::Lanes<$t, $lanes>;
            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                <$t>::mul_add(self, b, c)
            }
        }
    )*};
}
number! {
    f32: __m512 __m256 4;
    f64: __m512d __m256d 2;
}

/// Instructions that a CPU may have. The types that implement it are the implementations' names.
pub(crate) trait InstructionSet {
    /// Whether a fused multiplication and addition is an instruction, and not a call.
    const FUSED: bool;

    /// Its registers.
    type Vector<T: Number>: Vector<T>;

    /// Whether this CPU has them.
    fn there() -> bool;

    /// Calls `body`, with all that is inlined into it compiled for these instructions.
    fn run<R>(body: impl FnOnce() -> R) -> R;

    /// `a * b + c`, rounded once where that is fast.
    #[inline(always)]
    fn mul_add<T: Number>(a: T, b: T, c: T) -> T {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }
}

/// Registers of 512 bits.
pub struct Avx512;

/// Registers of 256 bits.
pub struct Avx2;

/// The registers that the program is compiled for.
pub struct Portable;

impl InstructionSet for Portable {
    const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));
    type Vector<T: Number> = T::Any;

    #[inline(always)]
    fn there() -> bool {
        true
    }

    #[inline(always)]
    fn run<R>(body: impl FnOnce() -> R) -> R {
        body()
    }
}

#[cfg(target_arch = "x86_64")]
impl InstructionSet for Avx512 {
    const FUSED: bool = true;
    type Vector<T: Number> = T::Bits512;

    #[inline(always)]
    fn there() -> bool {
        static THERE: LazyLock<bool> = LazyLock::new(|| {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
        });
        *THERE
    }

    #[inline(always)]
    fn run<R>(body: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
        fn with<R>(body: impl FnOnce() -> R) -> R {
            body()
        }
        assert!(Self::there(), "this CPU lacks AVX-512");
        // SAFETY: this CPU has the instructions; AVX-512 has those of AVX2 and FMA.
        unsafe { with(body) }
    }
}

#[cfg(target_arch = "x86_64")]
impl InstructionSet for Avx2 {
    const FUSED: bool = true;
    type Vector<T: Number> = T::Bits256;

    #[inline(always)]
    fn there() -> bool {
        static THERE: LazyLock<bool> =
            LazyLock::new(|| is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
        *THERE
    }

    #[inline(always)]
    fn run<R>(body: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma")]
        fn with<R>(body: impl FnOnce() -> R) -> R {
            body()
        }
        assert!(Self::there(), "this CPU lacks AVX2");
        // SAFETY: this CPU has the instructions.
        unsafe { with(body) }
    }
}

/// Registers a kernel's spans for every instruction set: `spans! { Vdp, VdpSpan, 1, body }`, where
/// `body::<I, T>(run, arguments)` is inlined always.
macro_rules! spans {
    ($definition:ident, $arguments:ident, $rank:literal, $body:ident) => {
        #[cfg(target_arch = "x86_64")]
        crate::simd::spans! {
            @one $definition, $arguments, $rank, $body, Avx512,
            [priority = 30, cpu_features = "avx512f,avx512dq,avx512vl,avx512bw"]
        }
        #[cfg(target_arch = "x86_64")]
        crate::simd::spans! {
            @one $definition, $arguments, $rank, $body, Avx2, [priority = 20, cpu_features = "avx2,fma"]
        }
        crate::simd::spans! { @one $definition, $arguments, $rank, $body, Portable, [priority = 10] }
    };
    (@one $definition:ident, $arguments:ident, $rank:literal, $body:ident, $set:ident, [$($options:tt)*]) => {
        #[flash_core::kernel(for(f32, f64), $($options)*)]
        impl<T: crate::simd::Number> flash_core::kernel::CpuSpan<$definition<'_, T>> for crate::simd::$set {
            #[inline(always)]
            fn span(run: flash_core::kernel::Span<$rank>, k: $arguments<'_, T>) {
                $body::<Self, T>(run, k);
            }

            #[inline(always)]
            fn around<R>(share: impl FnOnce() -> R) -> R {
                <Self as crate::simd::InstructionSet>::run(share)
            }
        }
    };
}
pub(crate) use spans;
