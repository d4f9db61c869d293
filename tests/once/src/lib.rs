//! Kernels that are written once, see `tests`: what they give on devices is compared with what they give on
//! the CPU.

use flash::RuntimeObj;
use flash::prelude::*;
use flash_backend_opencl_fpga as _;
use flash_core::devices::list;
use flash_tests::emulated;

/// The devices that take texts. Without a GPU the test is run once more, on an emulated one only.
///
/// # Panics
/// If a device that is listed cannot be used.
pub fn devices(test: &str) -> Vec<(String, RuntimeObj)> {
    let reports = list();
    let of = |keys: &[&str]| -> Vec<String> {
        let ours = |key: &Option<String>| key.as_deref().is_some_and(|key| keys.contains(&key));
        let reports = reports.iter().filter(|report| ours(&report.key));
        reports.flat_map(|report| report.devices.iter().map(|device| device.id.clone())).collect()
    };
    let mut ids = of(&["NVIDIA_GPU"]);
    if !emulated::has_driver() {
        match flash_backend_cuda::nvrtc::version() {
            Some(_) => emulated::run_emulated(test),
            None => flash_tests::skip(test, "no CUDA compiler: `cargo xtask setup` downloads it"),
        }
    }
    if !emulated::is_here() {
        let opencl = of(&["OPENCL", "INTEL_FPGA"]);
        if opencl.is_empty() {
            flash_tests::skip(test, "no OpenCL device: `cargo xtask setup` makes three");
        }
        ids.extend(opencl);
    }
    ids.into_iter()
        .map(|id| {
            let rt = get_runtime(&id).expect("a device that is listed");
            (id, rt)
        })
        .collect()
}

/// The CPU, which is what the others are compared with.
///
/// # Panics
/// If there is none.
pub fn cpu() -> RuntimeObj {
    get_runtime("ALL_CPU").expect("the CPU")
}

/// Asserts that a program gives the same on the devices as on the CPU.
///
/// # Panics
/// If it does not.
pub fn compare<T: PartialEq + std::fmt::Debug>(test: &str, program: impl Fn(&RuntimeObj) -> Vec<T>) {
    compare_on(devices(test), program);
}

/// The same on some of them.
///
/// # Panics
/// If it does not.
pub fn compare_on<T: PartialEq + std::fmt::Debug>(
    devices: Vec<(String, RuntimeObj)>,
    program: impl Fn(&RuntimeObj) -> Vec<T>,
) {
    let expected = program(&cpu());
    for (device, rt) in devices {
        let found = program(&rt);
        assert_eq!(found.len(), expected.len(), "{device}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{device}: element {i}");
        }
    }
}

/// The same, up to a relative error: of functions whose results C and Rust do not fix to the last bit.
///
/// # Panics
/// If there is a larger one.
pub fn close(test: &str, error: f64, program: impl Fn(&RuntimeObj) -> Vec<f64>) {
    let expected = program(&cpu());
    for (device, rt) in devices(test) {
        let found = program(&rt);
        assert_eq!(found.len(), expected.len(), "{device}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let apart = (found - expected).abs();
            assert!(
                apart <= error * expected.abs().max(1.0),
                "{device}: element {i}: expected {expected}, found {found}"
            );
        }
    }
}
