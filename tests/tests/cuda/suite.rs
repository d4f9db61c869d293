//! The suite that every backend passes, and the message where there is no device.

use crate::{devices, has_driver, with_emulated};
use flash_conformance as conformance;

/// Checks of features that these devices lack.
const SKIPPED: [&str; 2] = [
    "arrays begin anywhere in the host's memory, and others come in their places",
    "a kernel that fails is an error of its launch, and the device is usable after",
];

#[test]
fn every_device_passes_the_suite() {
    for device in devices("suite::every_device_passes_the_suite") {
        let report = conformance::run(&flash_core::Context::default(), &device).unwrap();
        assert!(report.passed(), "{report}");
        let skipped: Vec<&str> = report.skipped().map(|(name, _)| name).collect();
        assert_eq!(skipped, SKIPPED, "{report}");
    }
}

/// The reason why `NVIDIA_GPU` is unavailable. All other backends go on.
fn unavailable(words: &str) {
    let error = flash::get_runtime("NVIDIA_GPU").unwrap_err().to_string();
    assert!(error.contains("`NVIDIA_GPU` is unavailable") && error.contains(words), "{error}");
    assert_eq!(flash::get_runtime("ALL_ACCEL").unwrap().devices()[0].id(), "ALL_CPU:0");
}

#[test]
fn without_a_driver_the_backend_is_unavailable_and_says_why() {
    if flash_tests::emulated::on_gpu() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let place = empty.path().to_str().unwrap();
    flash_tests::in_process(&[("LD_LIBRARY_PATH", place)], || {
        unavailable("expected NVIDIA's driver library libcuda.so.1, found none: install the driver");
    });
}

#[test]
fn without_a_device_the_backend_is_unavailable_and_says_why() {
    let test = "suite::without_a_device_the_backend_is_unavailable_and_says_why";
    with_emulated(test, &[("FLASH_EMULATED_CUDA_DEVICES", "0")], || {
        unavailable("expected an NVIDIA GPU, found the driver alone");
    });
}

#[test]
fn a_driver_that_fails_is_named_with_its_code() {
    let test = "suite::a_driver_that_fails_is_named_with_its_code";
    with_emulated(test, &[("FLASH_EMULATED_CUDA_FAULT", "cuInit=999")], || {
        unavailable("cuInit: CUDA_ERROR_UNKNOWN (999)");
    });
}

#[test]
fn a_driver_that_is_too_old_makes_the_backend_unavailable() {
    let test = "suite::a_driver_that_is_too_old_makes_the_backend_unavailable";
    with_emulated(test, &[("FLASH_EMULATED_CUDA_VERSION", "12040")], || {
        unavailable("expected a driver for CUDA 12.8 or newer, found one for 12.4: update the driver");
    });
}

#[test]
fn an_emulated_device_is_taken_by_its_key_alone() {
    let test = "suite::an_emulated_device_is_taken_by_its_key_alone";
    if has_driver(test) && !flash_tests::emulated::on_gpu() {
        let all = flash::get_runtime("ALL_ACCEL").unwrap();
        assert!(all.devices().iter().all(|device| !device.id().starts_with("NVIDIA_GPU")), "{all:?}");
    }
}
