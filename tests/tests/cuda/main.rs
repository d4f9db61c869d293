//! The CUDA backend: on the emulated driver, each test in a process of its own; with `FLASH_TEST_GPU` on the
//! machine's GPU.

mod batches;
#[path = "../opencl/boxes.rs"]
mod boxes;
mod faults;
mod grids;
#[path = "../opencl/kernels.rs"]
mod kernels;
#[path = "../opencl/launches.rs"]
mod launches;
mod library;
mod memory;
mod plugin;
mod programs;
mod several;
mod suite;

use flash_backend_cuda as _;
use flash_core::devices::list;

flash_conformance::conformance!();

/// The kind of devices.
const TARGET: &str = "cuda";

/// True if there is a driver to test. Without one the test is run in a process of its own, which has one.
fn has_driver(test: &str) -> bool {
    if flash_backend_cuda::nvrtc::version().is_none() {
        flash_tests::skip(test, "no CUDA compiler: `cargo xtask setup` downloads it");
        return false;
    }
    if !flash_tests::emulated::has_driver() {
        flash_tests::emulated::run_emulated(test);
        return false;
    }
    true
}

/// Runs a test on an emulated driver with these settings, in a process of its own; a GPU has no such
/// settings.
fn with_emulated(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if has_driver(test) && !flash_tests::emulated::on_gpu() {
        flash_tests::in_process_of(test, settings, body);
    }
}

/// The ids of all devices; none where the test has run in a process of its own.
fn devices(test: &str) -> Vec<String> {
    if !has_driver(test) {
        return Vec::new();
    }
    let reports = list();
    let ours = reports.iter().find(|report| report.key.as_deref() == Some("NVIDIA_GPU")).unwrap();
    let devices: Vec<String> = ours.devices.iter().map(|device| device.id.clone()).collect();
    assert!(!devices.is_empty(), "{}", ours.outcome);
    devices
}
