//! The kernels of the library: each implementation that this machine can run, whole and cut, in both
//! precisions, against references in double precision.

mod cuda_libraries;
mod edges;
mod elementwise;
mod factors;
mod halves;
mod libraries;
mod matrices;
mod names;
mod products;
mod recordings;
mod signals;
mod sparse;
mod stars;
mod together;

use flash::RuntimeObj;
use flash::kernels::simd::Number;
use flash::prelude::*;
use flash_backend_opencl_fpga as _;
use flash_core::devices::list;
use flash_tests::emulated;

/// A number type, with the operations that tests need.
trait Real: Number + PartialEq + std::fmt::Debug {
    const EPSILON: f64;
    const NAME: &str;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    /// All of its bits.
    fn bits(self) -> u64;
}

impl Real for f32 {
    const EPSILON: f64 = f32::EPSILON as f64;
    const NAME: &str = "f32";
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}

impl Real for f64 {
    const EPSILON: f64 = f64::EPSILON;
    const NAME: &str = "f64";
    fn of(value: f64) -> f64 {
        value
    }
    fn wide(self) -> f64 {
        self
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// Numbers between -1 and 1 that both precisions hold exactly, in no order.
fn numbers<T: Real>(n: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::of(f64::from((state >> 40) as u32) / f64::from(1 << 23) - 1.0)
    };
    (0..n).map(|_| next()).collect()
}

/// Runtimes of the CPU that run the implementation of each of these names, as far as this machine can: the
/// launch whole, and cut in three.
fn implementations(test: &str, names: &[&str]) -> Vec<(String, RuntimeObj)> {
    let cpu = get_runtime("ALL_CPU").unwrap();
    let there = |name: &str| match name {
        #[cfg(target_arch = "x86_64")]
        "avx512" => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl"),
        #[cfg(target_arch = "x86_64")]
        "avx2" => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        #[cfg(target_arch = "x86_64")]
        "avx512_bf16" => is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vl"),
        #[cfg(not(target_arch = "x86_64"))]
        "avx512" | "avx512_bf16" | "avx2" => false,
        "amx_bf16" => flash::kernel::cpu_has("amx-tile") && flash::kernel::cpu_has("amx-bf16"),
        _ => true,
    };
    let mut runtimes = Vec::new();
    for name in names {
        if !there(name) {
            flash_tests::skip(test, &format!("no {}", name.to_uppercase().replace("AVX5", "AVX-5")));
            continue;
        }
        let whole = cpu.options(Implementation::named(*name));
        runtimes.push((format!("{name}, whole"), whole.clone()));
        runtimes.push((format!("{name}, cut"), whole.options(Subspaces(3))));
    }
    runtimes
}

/// Runtimes of the implementations for instruction sets, and of the available OpenCL devices and GPUs. OpenCL
/// devices that are the CPU run the kernels for any device, too. Without a GPU, the test is run once more on
/// an emulated one only.
fn all(test: &str) -> Vec<(String, RuntimeObj)> {
    all_of(test, &SETS)
}

/// The same, with the CPU implementations of these names.
fn all_of(test: &str, names: &[&str]) -> Vec<(String, RuntimeObj)> {
    let reports = list();
    let devices_of = |keys: &[&str]| -> Vec<&str> {
        let ours = |key: &Option<String>| key.as_deref().is_some_and(|key| keys.contains(&key));
        let reports = reports.iter().filter(|report| ours(&report.key));
        reports.flat_map(|report| report.devices.iter().map(|device| device.id.as_str())).collect()
    };
    let (mut runtimes, mut devices) = (Vec::new(), devices_of(&["NVIDIA_GPU"]));
    if !emulated::has_driver() {
        match flash_backend_cuda::nvrtc::version() {
            Some(_) => emulated::run_emulated(test),
            None => flash_tests::skip(test, "no CUDA compiler: `cargo xtask setup` downloads it"),
        }
    }
    if !emulated::is_here() {
        runtimes = implementations(test, names);
        let opencl = devices_of(&["OPENCL", "INTEL_FPGA"]);
        if opencl.is_empty() {
            flash_tests::skip(test, "no OpenCL device: `cargo xtask setup` makes three");
        }
        for device in &opencl {
            let rt = get_runtime(device).unwrap().options(Implementation::named("any"));
            runtimes.push((format!("{device}, any, whole"), rt.clone()));
            runtimes.push((format!("{device}, any, cut"), rt.options(Subspaces(3))));
        }
        devices.extend(opencl);
    }
    for device in devices {
        let whole = get_runtime(device).unwrap();
        runtimes.push((format!("{device}, whole"), whole.clone()));
        runtimes.push((format!("{device}, cut"), whole.options(Subspaces(3))));
    }
    runtimes
}

/// True for a number of operations that takes too long here: an emulated device does some millions in a
/// second.
fn is_too_much(operations: usize) -> bool {
    emulated::is_here() && operations > 600_000
}

/// The CPU implementations that every kernel has: for each instruction set, and the readable one.
const SETS: [&str; 4] = ["avx512", "avx2", "portable", "plain"];

/// Asserts that every element is within `bound` of the expected one; NaNs and infinities must be equal.
#[track_caller]
fn near<T: Real>(found: &[T], expected: &[f64], bound: impl Fn(usize) -> f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, &expected)) in found.iter().zip(expected).enumerate() {
        let found = found.wide();
        let same = (found.is_nan() && expected.is_nan()) || found == expected;
        let apart = (found - expected).abs();
        assert!(
            same || apart <= bound(i),
            "{what}: element {i} of {}: expected {expected:e}, found {found:e}, {apart:e} apart",
            T::NAME
        );
    }
}
