//! Kernels with code for devices, on every available OpenCL device: the code that each device gets, and the
//! kernels for bodies and for diffusion, on each device and on all of them together.

mod bounds;
mod checked;
mod choice;
mod diffusion;
mod given;
mod nbody;
mod programs;
mod texts;

use flash::prelude::*;
use flash_backend_opencl_fpga as _;
use flash_core::devices::list;
use flash_tests::emulated;

/// The OpenCL devices of both backends, by id. Without any the test reports that it cannot run.
fn devices(test: &str) -> Vec<String> {
    of_keys(test, &["OPENCL", "INTEL_FPGA"])
}

/// The same; in a process with CUDA's driver, in which the test is run, too, only its devices.
fn devices_of_all_kinds(test: &str) -> Vec<String> {
    if emulated::has_driver() {
        return of_keys(test, &["NVIDIA_GPU"]);
    }
    match flash_backend_cuda::nvrtc::version() {
        Some(_) => emulated::run_emulated(test),
        None => flash_tests::skip(test, "no CUDA compiler: `cargo xtask setup` downloads it"),
    }
    devices(test)
}

fn of_keys(test: &str, keys: &[&str]) -> Vec<String> {
    let ours = |key: &Option<String>| key.as_deref().is_some_and(|key| keys.contains(&key));
    let reports = list();
    let devices = reports.iter().filter(|report| ours(&report.key)).flat_map(|report| &report.devices);
    let devices: Vec<String> = devices.map(|device| device.id.clone()).collect();
    if devices.is_empty() {
        flash_tests::skip(test, "no device: `cargo xtask setup` makes three for OpenCL");
    }
    devices
}

/// A runtime of the CPU and these devices.
fn with_cpu(devices: &[String]) -> RuntimeObj {
    get_runtime(&format!("ALL_CPU,{}", devices.join(","))).unwrap()
}

/// The devices and implementations that ran, `device implementation`, each once.
fn ran(profile: &Profile) -> Vec<String> {
    let mut ran: Vec<String> =
        profile.take().iter().map(|launch| format!("{} {}", launch.device, launch.implementation)).collect();
    ran.sort();
    ran.dedup();
    ran
}
