//! What this CPU can do: the instruction sets that kernels are compiled for, and how its memory likes to be
//! read.
//!
//! CPU features are named here and nowhere else in the library but for AMX, whose tiles only `mmm` has.

use super::{Number, Vector};
use flash_core::kernel::cpu_has;
use std::sync::LazyLock;

/// Instructions that a CPU may have. The types that implement it are the implementations' names.
pub(crate) trait InstructionSet {
    /// Whether a fused multiplication and addition is an instruction, and not a call.
    const FUSED: bool;

    /// Its registers.
    type Vector<T: Number>: Vector<T>;

    /// Whether this CPU has them.
    fn there() -> bool;

    /// Calls `body`, with all that is inlined into it compiled for these instructions.
    ///
    /// # Panics
    /// If this CPU lacks them.
    fn run<R>(body: impl FnOnce() -> R) -> R;

    /// `a * b + c`, rounded once where that is fast.
    #[inline(always)]
    fn mul_add<T: Number>(a: T, b: T, c: T) -> T {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }
}

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

/// A type that is an instruction set, by the registers that it has and its features.
macro_rules! instruction_set {
    ($(#[$doc:meta])* $set:ident, $bits:ident, $features:literal) => {
        $(#[$doc])*
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
        pub struct $set;

        #[cfg(target_arch = "x86_64")]
        impl InstructionSet for $set {
            const FUSED: bool = true;
            type Vector<T: Number> = T::$bits;

            #[inline(always)]
            fn there() -> bool {
                static THERE: LazyLock<bool> = LazyLock::new(|| $features.split(',').all(cpu_has));
                *THERE
            }

            #[inline(always)]
            fn run<R>(body: impl FnOnce() -> R) -> R {
                #[target_feature(enable = $features)]
                fn with<R>(body: impl FnOnce() -> R) -> R {
                    body()
                }
                assert!(Self::there(), "this CPU lacks {}", $features);
                // SAFETY: this CPU has the instructions.
                unsafe { with(body) }
            }
        }
    };
}

instruction_set! {
    /// Registers of 512 bits.
    Avx512, Bits512, "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
}

instruction_set! {
    /// Registers of 256 bits.
    Avx2, Bits256, "avx2,fma"
}

instruction_set! {
    /// Registers of 512 bits, with instructions for sums of products of pairs of bf16, which treat subnormal
    /// numbers as 0, in factors and sums.
    Avx512Bf16, Bits512, "avx512bf16,avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
}

/// Registers a kernel's spans for every instruction set. `body` is inlined always.
///
/// | | of | calls |
/// |---|---|---|
/// | `spans! { Vdp<T>, VdpSpan, 1, body }` | `f32` and `f64` | `body::<Set, T>(run, arguments)` |
/// | `spans! { Accelerate<f32>, AccelerateSpan, 1, body }` | one type | `body::<Set, f32>(run, arguments)` |
/// | `spans! { Walk, WalkSpan, 1, body }` | a definition without types | `body::<Set>(run, arguments)` |
macro_rules! spans {
    (@one $set:ident [$($options:tt)*] $definition:ident<T>, $arguments:ident, $rank:literal, $body:ident) => {
        crate::simd::spans! {
            @impl [for(f32, f64), $($options)*] [<T: crate::simd::Number>] $set,
            [$definition<'_, T>], [$arguments<'_, T>], $rank, [$body::<Self, T>]
        }
    };
    (@one $set:ident [$($options:tt)*] $definition:ident<$t:ident>, $arguments:ident, $rank:literal, $body:ident) => {
        crate::simd::spans! {
            @impl [for($t), $($options)*] [] $set,
            [$definition<'_, $t>], [$arguments<'_, $t>], $rank, [$body::<Self, $t>]
        }
    };
    (@one $set:ident [$($options:tt)*] $definition:ident, $arguments:ident, $rank:literal, $body:ident) => {
        crate::simd::spans! {
            @impl [$($options)*] [] $set,
            [$definition<'_>], [$arguments<'_>], $rank, [$body::<Self>]
        }
    };
    (
        @impl [$($options:tt)*] [$($generics:tt)*] $set:ident,
        [$($definition:tt)*], [$($arguments:tt)*], $rank:literal, [$($body:tt)*]
    ) => {
        #[flash_core::kernel($($options)*)]
        impl $($generics)* flash_core::kernel::CpuSpan<$($definition)*> for crate::simd::$set {
            #[inline(always)]
            fn span(run: flash_core::kernel::Span<$rank>, k: $($arguments)*) {
                $($body)*(run, k);
            }

            #[inline(always)]
            fn around<R>(share: impl FnOnce() -> R) -> R {
                <Self as crate::simd::InstructionSet>::run(share)
            }
        }
    };
    ($($kernel:tt)*) => {
        #[cfg(target_arch = "x86_64")]
        crate::simd::spans! {
            @one Avx512 [priority = 30, cpu_features = "avx512f,avx512dq,avx512vl,avx512bw"] $($kernel)*
        }
        #[cfg(target_arch = "x86_64")]
        crate::simd::spans! { @one Avx2 [priority = 20, cpu_features = "avx2,fma"] $($kernel)* }
        crate::simd::spans! { @one Portable [priority = 10] $($kernel)* }
    };
}
pub(crate) use spans;

/// True on CPUs that give most to one stream without prefetch, since their own prefetch is better: AMD's. On
/// an EPYC (Zen 4) `vdp` then reads 1.05 to 1.5 times as much, and `ewmm` goes through 1.1 times as much.
pub(crate) fn one_stream() -> bool {
    static ONE: LazyLock<bool> = LazyLock::new(|| vendor().is_some_and(|vendor| vendor == *b"AuthenticAMD"));
    *ONE
}

/// The name of the CPU's maker, as CPUID gives it.
fn vendor() -> Option<[u8; 12]> {
    #[cfg(target_arch = "x86_64")]
    {
        let leaf = std::arch::x86_64::__cpuid(0);
        let words = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
        words.as_flattened().try_into().ok()
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
