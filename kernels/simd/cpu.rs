//! What this CPU can do: the instruction sets that kernels are compiled for, and how its memory likes to be
//! read.
//!
//! CPU features are named here, and nowhere else in the library.

use super::{Number, Vector};
use flash_core::kernel::cpu_has;
use std::sync::LazyLock;

/// Instructions that a CPU may have. The types that implement it are the implementations' names.
pub(crate) trait InstructionSet {
    /// Whether a fused multiplication and addition is an instruction, and not a call.
    const FUSED: bool;

    /// Its registers.
    type Vector<T: Number>: Vector<T>;

    /// Whether this CPU has them, and the operating system allows them.
    fn there() -> bool;

    /// # Panics
    /// If this CPU lacks them.
    #[inline(always)]
    fn assert_there() {
        assert!(Self::there(), "this CPU lacks the instructions");
    }

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

/// Calls `body`, compiled for the widest registers that this CPU has. No bit depends on them: nothing is
/// fused.
#[inline(always)]
pub(crate) fn widest<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if Avx512::there() {
        return Avx512::run(body);
    } else if Avx2::there() {
        return Avx2::run(body);
    }
    body()
}

/// What instruction sets need of a CPU: the features that functions are compiled for, and these with those
/// that only assembly uses.
///
/// | | |
/// |---|---|
/// | `features! { Avx2: set(Bits256) /// DOC }` | `Avx2` is an [`InstructionSet`] with registers `Bits256` |
/// | `features! { Avx2: kernel(OPTIONS) ITEM }` | `#[kernel(OPTIONS)] ITEM`, for CPUs that have all of them |
macro_rules! features {
    (Avx2: $($to:tt)*) => { crate::simd::features! { @to Avx2 "avx2,fma" "avx2,fma" $($to)* } };
    (Avx512: $($to:tt)*) => {
        crate::simd::features! {
            @to Avx512
            "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
            "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
            $($to)*
        }
    };
    (Avx512Bf16: $($to:tt)*) => {
        crate::simd::features! {
            @to Avx512Bf16
            "avx512bf16,avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
            "avx512bf16,avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
            $($to)*
        }
    };
    (AmxBf16: $($to:tt)*) => {
        crate::simd::features! {
            @to AmxBf16
            "avx512bf16,avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
            "amx-tile,amx-bf16,avx512bf16,avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
            $($to)*
        }
    };
    (Portable: kernel($($options:tt)*) $($item:tt)*) => { #[flash_core::kernel($($options)*)] $($item)* };
    (@to $set:ident $compiled:tt $all:tt kernel($($options:tt)*) $($item:tt)*) => {
        #[flash_core::kernel($($options)*, cpu_features = $all)]
        $($item)*
    };
    (@to $set:ident $compiled:tt $all:tt set($bits:ident) $(#[$doc:meta])*) => {
        $(#[$doc])*
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
        pub struct $set;

        #[cfg(target_arch = "x86_64")]
        impl InstructionSet for $set {
            const FUSED: bool = true;
            type Vector<T: Number> = T::$bits;

            #[inline(always)]
            fn there() -> bool {
                static THERE: LazyLock<bool> = LazyLock::new(|| $all.split(',').all(cpu_has));
                *THERE
            }

            #[inline(always)]
            fn run<R>(body: impl FnOnce() -> R) -> R {
                #[target_feature(enable = $compiled)]
                fn with<R>(body: impl FnOnce() -> R) -> R {
                    body()
                }
                Self::assert_there();
                // SAFETY: this CPU has the instructions.
                unsafe { with(body) }
            }
        }
    };
}
pub(crate) use features;

features! {
    Avx512: set(Bits512)
    /// Registers of 512 bits.
}
features! {
    Avx2: set(Bits256)
    /// Registers of 256 bits.
}
features! {
    Avx512Bf16: set(Bits512)
    /// Registers of 512 bits, with instructions for sums of products of pairs of bf16, which treat subnormal
    /// numbers as 0, in factors and sums.
}
features! {
    AmxBf16: set(Bits512)
    /// The same with tiles, which treat numbers below `f32::MIN_POSITIVE` as 0, in factors and sums.
}

/// Registers a kernel's spans for every instruction set. `body` is inlined always.
///
/// | | of | calls |
/// |---|---|---|
/// | `spans! { Vdp<T>, VdpSpan, 1, body }` | `f32` and `f64` | `body::<Set, T>(run, arguments)` |
/// | `spans! { Accelerate<f32>, AccelerateSpan, 1, body }` | one type | `body::<Set, f32>(run, arguments)` |
/// | `spans! { Walk, WalkSpan, 1, body }` | a definition without types | `body::<Set>(run, arguments)` |
macro_rules! spans {
    (@one $set:ident $priority:tt $definition:ident<T>, $arguments:ident, $rank:literal, $body:ident) => {
        crate::simd::spans! {
            @impl $set [for(f32, f64), priority = $priority] [<T: crate::simd::Number>]
            [$definition<'_, T>], [$arguments<'_, T>], $rank, [$body::<Self, T>]
        }
    };
    (@one $set:ident $priority:tt $definition:ident<$t:ident>, $arguments:ident, $rank:literal, $body:ident) => {
        crate::simd::spans! {
            @impl $set [for($t), priority = $priority] []
            [$definition<'_, $t>], [$arguments<'_, $t>], $rank, [$body::<Self, $t>]
        }
    };
    (@one $set:ident $priority:tt $definition:ident, $arguments:ident, $rank:literal, $body:ident) => {
        crate::simd::spans! {
            @impl $set [priority = $priority] []
            [$definition<'_>], [$arguments<'_>], $rank, [$body::<Self>]
        }
    };
    (
        @impl $set:ident [$($options:tt)*] [$($generics:tt)*]
        [$($definition:tt)*], [$($arguments:tt)*], $rank:literal, [$($body:tt)*]
    ) => {
        crate::simd::features! {
            $set: kernel($($options)*)
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
        }
    };
    ($($kernel:tt)*) => {
        #[cfg(target_arch = "x86_64")]
        crate::simd::spans! { @one Avx512 30 $($kernel)* }
        #[cfg(target_arch = "x86_64")]
        crate::simd::spans! { @one Avx2 20 $($kernel)* }
        crate::simd::spans! { @one Portable 10 $($kernel)* }
    };
}
pub(crate) use spans;

/// The width of this CPU's registers for vectors that kernels use: 512 with AVX-512, 256 with AVX2, else 128.
pub(crate) fn register_bits() -> u32 {
    #[cfg(target_arch = "x86_64")]
    if Avx512::there() {
        return 512;
    } else if Avx2::there() {
        return 256;
    }
    128
}

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
