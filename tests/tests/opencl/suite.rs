//! The suite that every backend passes.

use crate::devices;
use flash_core::backend::conformance;

/// What these devices do not offer.
const SKIPPED: [&str; 3] = [
    "host memory is registered",
    "queues of its own",
    "a kernel that fails is an error of its launch, and the device is usable after",
];

fn all_pass(test: &str) {
    for device in devices(test) {
        let report = conformance::run(&device).unwrap();
        assert!(report.passed(), "{report}");
        let skipped: Vec<&str> = report.skipped().map(|(name, _)| name).collect();
        assert_eq!(skipped, SKIPPED, "{report}");
    }
}

#[test]
fn every_device_passes_the_suite() {
    all_pass("suite::every_device_passes_the_suite");
}

#[test]
fn devices_that_could_work_in_place_pass_with_memories_of_their_own() {
    flash_tests::in_process(&[("FLASH_OPENCL_COPY", "1")], || {
        all_pass("suite::devices_that_could_work_in_place_pass_with_memories_of_their_own");
    });
}

#[test]
fn without_devices_the_backends_are_unavailable_and_say_why() {
    let empty = tempfile::tempdir().unwrap();
    let place = empty.path().to_str().unwrap();
    flash_tests::in_process(&[("OCL_ICD_VENDORS", place), ("OCL_ICD_FILENAMES", "")], || {
        for key in ["OPENCL", "INTEL_FPGA"] {
            let error = flash::get_runtime(key).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}` is unavailable: expected")), "{error}");
        }
        // The rest of the world goes on.
        assert_eq!(flash::get_runtime("ALL_ACCEL").unwrap().devices()[0].id(), "ALL_CPU:0");
    });
}

#[test]
fn a_group_takes_the_cpu_once_and_no_emulator() {
    if devices("suite::a_group_takes_the_cpu_once_and_no_emulator").is_empty() {
        return;
    }
    let all = flash::get_runtime("ALL_ACCEL").unwrap();
    let ids: Vec<&str> = all.devices().iter().map(|d| d.info().physical_id.as_str()).collect();
    assert_eq!(ids.iter().filter(|id| id.starts_with("cpu")).count(), 1, "{ids:?}");
    assert!(all.devices().iter().all(|d| !d.info().emulated), "{all:?}");
}

#[test]
fn a_class_selects_devices() {
    if devices("suite::a_class_selects_devices").iter().all(|id| !id.starts_with("OPENCL")) {
        return;
    }
    let cpus = flash::get_runtime("OPENCL:cpu").unwrap();
    assert!(cpus.devices().iter().all(|d| d.info().class == flash_core::backend::Class::Cpu), "{cpus:?}");
    let error = flash::get_runtime("OPENCL:abacus").unwrap_err().to_string();
    assert!(
        error.contains("there is no device `OPENCL:abacus`") && error.contains("OPENCL:0 (cpu)"),
        "{error}"
    );
}
