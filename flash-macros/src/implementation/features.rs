//! The names of CPU features: those that `is_x86_feature_detected!` and
//! `is_aarch64_feature_detected!` know.

use syn::{Error, LitStr};

const X86: &[&str] = &[
    "adx",
    "aes",
    "amx-bf16",
    "amx-complex",
    "amx-fp16",
    "amx-int8",
    "amx-tile",
    "avx",
    "avx10.1",
    "avx10.2",
    "avx2",
    "avx512bf16",
    "avx512bitalg",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512f",
    "avx512fp16",
    "avx512ifma",
    "avx512vbmi",
    "avx512vbmi2",
    "avx512vl",
    "avx512vnni",
    "avx512vp2intersect",
    "avx512vpopcntdq",
    "avxifma",
    "avxneconvert",
    "avxvnni",
    "avxvnniint16",
    "avxvnniint8",
    "bmi1",
    "bmi2",
    "cmpxchg16b",
    "f16c",
    "fma",
    "fxsr",
    "gfni",
    "kl",
    "lzcnt",
    "movbe",
    "pclmulqdq",
    "popcnt",
    "rdrand",
    "rdseed",
    "rtm",
    "sha",
    "sha512",
    "sm3",
    "sm4",
    "sse",
    "sse2",
    "sse3",
    "sse4.1",
    "sse4.2",
    "sse4a",
    "ssse3",
    "tbm",
    "vaes",
    "vpclmulqdq",
    "widekl",
    "xsave",
    "xsavec",
    "xsaveopt",
    "xsaves",
];

const AARCH64: &[&str] = &[
    "aes",
    "asimd",
    "bf16",
    "bti",
    "crc",
    "dit",
    "dotprod",
    "dpb",
    "dpb2",
    "f32mm",
    "f64mm",
    "fcma",
    "fhm",
    "flagm",
    "fp",
    "fp16",
    "frintts",
    "i8mm",
    "jsconv",
    "lse",
    "lse2",
    "mte",
    "neon",
    "paca",
    "pacg",
    "pmull",
    "rand",
    "rcpc",
    "rcpc2",
    "rdm",
    "sb",
    "sha2",
    "sha3",
    "sm4",
    "ssbs",
    "sve",
    "sve2",
    "sve2-aes",
    "sve2-bitperm",
    "sve2-sha3",
    "sve2-sm4",
    "tme",
];

/// The features, checked, separated by commas without spaces.
pub fn read(list: &LitStr) -> syn::Result<String> {
    let value = list.value();
    let features: Vec<&str> = value.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if features.is_empty() {
        return Err(Error::new(
            list.span(),
            "this list is empty: name CPU features, such as `avx2,fma`, or remove `cpu_features`",
        ));
    }
    for name in &features {
        if !X86.contains(name) && !AARCH64.contains(name) {
            let hint = match closest(name) {
                Some(known) => format!("; there is `{known}`"),
                None => String::new(),
            };
            return Err(Error::new(
                list.span(),
                format!(
                    "`{name}` is no CPU feature that Rust can detect at run time{hint}; the names are those of `is_x86_feature_detected!` and `is_aarch64_feature_detected!`"
                ),
            ));
        }
    }
    Ok(features.join(","))
}

/// The feature that was probably meant: equal except for case and punctuation.
fn closest(name: &str) -> Option<&'static str> {
    let bare = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    X86.iter().chain(AARCH64).find(|known| bare(known) == bare(name)).copied()
}
