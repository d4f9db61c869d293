//! The suite that every backend passes.

use crate::devices;
use flash_conformance as conformance;

/// Checks of features that these devices lack.
const SKIPPED: [&str; 2] = [
    "host memory is registered",
    "a kernel that fails is an error of its launch, and the device is usable after",
];
/// Checks of features that devices with memories of their own lack.
const IN_PLACE: &str = "arrays begin anywhere in the host's memory, and others come in their places";

fn all_pass(test: &str) {
    for device in devices(test) {
        let report = conformance::run(&flash_core::Context::default(), &device).unwrap();
        assert!(report.passed(), "{report}");
        let mut skipped: Vec<&str> = report.skipped().map(|(name, _)| name).collect();
        let own_memory = std::env::var("FLASH_OPENCL_COPY").is_ok_and(|copy| copy == "1");
        assert_eq!(skipped.iter().position(|name| *name == IN_PLACE), own_memory.then_some(1), "{report}");
        skipped.retain(|name| *name != IN_PLACE);
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
        // All other backends go on.
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
    assert_eq!(ids.iter().filter(|id| id.contains("/cpus:")).count(), 1, "{ids:?}");
    assert!(all.devices().iter().all(|d| !d.info().emulated), "{all:?}");
    if let Ok(fpga) = flash::get_runtime("INTEL_FPGA") {
        let emulated = |d: &&flash_core::devices::DeviceHandle| d.info().emulated;
        let by_name = |d: &&flash_core::devices::DeviceHandle| d.info().name.contains("Emulat");
        let [said, named] = [
            fpga.devices().iter().copied().filter(|d| emulated(d)).count(),
            fpga.devices().iter().copied().filter(|d| by_name(d)).count(),
        ];
        assert_eq!(said, named, "{fpga:?}");
        assert!(all.devices().iter().all(|d| !d.id().starts_with("INTEL_FPGA") || !by_name(d)), "{all:?}");
    }
}

/// The devices that `cargo xtask setup` installs are available, where its environment is the test's.
#[test]
fn every_installed_platform_has_its_device() {
    const TEST: &str = "suite::every_installed_platform_has_its_device";
    let folder = std::env::var("OCL_ICD_VENDORS").unwrap_or_default();
    if !folder.ends_with("opencl/vendors") {
        return flash_tests::skip(TEST, "OCL_ICD_VENDORS is not what `cargo xtask env` says");
    }
    let installed = std::fs::read_dir(folder).unwrap().count();
    let found = devices(TEST);
    assert_eq!((installed, found.len()), (3, 3), "{found:?}");
    let keys: Vec<&str> = found.iter().map(|id| id.split(':').next().unwrap()).collect();
    assert_eq!(keys.iter().filter(|key| **key == "OPENCL").count(), 2, "{found:?}");
    // A CPU works in the host's memory, unless it is told to copy.
    for device in &found {
        let device = flash::get_runtime(device).unwrap().devices()[0];
        assert!(device.info().host_memory, "{device:?}");
    }
}

#[test]
fn a_class_selects_devices() {
    if devices("suite::a_class_selects_devices").iter().all(|id| !id.starts_with("OPENCL")) {
        return;
    }
    let cpus = flash::get_runtime("OPENCL:cpu").unwrap();
    assert!(cpus.devices().iter().all(|d| d.info().class == flash_backend::Class::Cpu), "{cpus:?}");
    let error = flash::get_runtime("OPENCL:abacus").unwrap_err().to_string();
    assert!(
        error.contains("there is no device `OPENCL:abacus`") && error.contains("OPENCL:0 (cpu)"),
        "{error}"
    );
}

#[test]
fn others_share_a_device_by_its_native_handles() {
    for id in devices("suite::others_share_a_device_by_its_native_handles") {
        let device = flash::get_runtime(&id).unwrap().devices()[0];
        let handle = |kind| device.native_handle(kind).unwrap() as usize;
        let queue = std::ptr::with_exposed_provenance_mut(handle("queue"));
        let of_queue = |what| opencl3::command_queue::get_command_queue_info(queue, what).unwrap().to_ptr();
        let expected = [handle("context"), handle("device")].map(|handle| handle as isize);
        let info = [opencl3::command_queue::CL_QUEUE_CONTEXT, opencl3::command_queue::CL_QUEUE_DEVICE];
        assert_eq!(info.map(of_queue), expected, "{id}");
        let error = device.native_handle("stream").unwrap_err().to_string();
        assert!(error.contains("`stream`") && error.contains("`queue`, `context` and `device`"), "{error}");
    }
}
