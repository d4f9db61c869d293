//! CPU features that not every CPU of its kind has.

/// True if this CPU has a feature, by the name that `is_x86_feature_detected!` or
/// `is_aarch64_feature_detected!` uses, and the operating system lets this process use it. False for unknown
/// names.
///
/// Linux lets a process use the registers of `amx-tile` when it asks. This function asks when it is called
/// with the name of such a feature: no earlier, since signals then need larger stacks, and no later, since a
/// caller that is told of the feature uses it. Linux refuses while a thread has a small stack for signals;
/// its first answer stays.
///
/// # Examples
/// ```
/// # #[cfg(target_arch = "x86_64")]
/// assert_eq!(flash_core::kernel::cpu_has("avx2"), is_x86_feature_detected!("avx2"));
/// assert!(!flash_core::kernel::cpu_has("wings"));
/// ```
pub fn cpu_has(feature: &str) -> bool {
    match feature {
        #[cfg(target_arch = "x86_64")]
        "amx-tile" => amx::has(amx::TILE),
        #[cfg(target_arch = "x86_64")]
        "amx-bf16" => amx::has(amx::BF16),
        #[cfg(target_arch = "x86_64")]
        "amx-int8" => amx::has(amx::INT8),
        _ => detect(feature),
    }
}

/// Defines `detect`, and the names that [`cpu_has`] knows.
macro_rules! features {
    ($detected:ident: [$($name:tt)*] [$($other:literal)*]) => {
        /// The names of the features that a CPU of this kind may have.
        pub const CPU_FEATURES: &[&str] = &[$($name,)* $($other,)*];

        fn detect(feature: &str) -> bool {
            match feature {
                $($name => std::arch::$detected!($name),)*
                _ => false,
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
features!(is_x86_feature_detected: ["sse3" "ssse3" "sse4.1" "sse4.2" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt"
    "popcnt" "aes" "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16"
    "avx512vbmi" "avx512vbmi2" "avx512ifma" "avx512bitalg" "avx512vpopcntdq" "vaes" "gfni"]
    ["amx-tile" "amx-bf16" "amx-int8"]);
#[cfg(target_arch = "aarch64")]
features!(is_aarch64_feature_detected: ["neon" "sve" "sve2" "fp16" "dotprod" "bf16" "i8mm"] []);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
features!(none: [] []);

/// Tiles, for which the standard library's detection is not stable and does not ask the operating system.
#[cfg(target_arch = "x86_64")]
mod amx {
    use std::sync::LazyLock;

    /// Bits of EDX, of CPUID's leaf 7 (Intel's manual, volume 2, CPUID).
    pub const BF16: u32 = 1 << 22;
    pub const TILE: u32 = 1 << 24;
    pub const INT8: u32 = 1 << 25;

    pub fn has(bit: u32) -> bool {
        static USABLE: LazyLock<u32> = LazyLock::new(|| usable(there(), allowed));
        *USABLE & bit != 0
    }

    /// Of these features those that may be used: none without the registers.
    pub(super) fn usable(there: u32, allowed: impl FnOnce() -> bool) -> u32 {
        if there & TILE != 0 && allowed() { there } else { 0 }
    }

    fn there() -> u32 {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        // Miri has no CPUID.
        if cfg!(miri) || __cpuid(0).eax < 7 { 0 } else { __cpuid_count(7, 0).edx }
    }

    /// Asks Linux, and no other system, for the registers. Versions before 5.16 do not know the request and
    /// refuse.
    fn allowed() -> bool {
        #[cfg(target_os = "linux")]
        {
            const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
            const XFEATURE_XTILEDATA: libc::c_ulong = 18;
            // SAFETY: arch_prctl(2) takes two numbers for this request, and no memory of this process.
            unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
        }
        #[cfg(not(target_os = "linux"))]
        false
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::features::{amx, cpu_has};

    #[test]
    fn tiles_are_there_only_if_the_operating_system_allows_them() {
        let all = amx::TILE | amx::BF16;
        assert_eq!(amx::usable(all, || true), all);
        assert_eq!(amx::usable(all, || false), 0);
        assert_eq!(amx::usable(amx::BF16, || panic!("it asks for what is not there")), 0);
        assert!(!cpu_has("amx-bf16") || cpu_has("amx-tile"));
    }
}
