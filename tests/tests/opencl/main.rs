//! The OpenCL backends, on every available OpenCL device.

mod binaries;
mod boxes;
mod early;
mod faults;
mod groups;
mod images;
mod injected;
mod kernels;
mod launches;
mod leaks;
mod programs;
mod spirv;
mod suite;

use flash::get_runtime;
use flash_backend_opencl_fpga as _;
use flash_core::devices::list;

flash_conformance::conformance!();

/// The kind of devices.
const TARGET: &str = "opencl";

/// The ids of all devices of the two backends. Without any the test reports that it cannot run.
fn devices(test: &str) -> Vec<String> {
    let ours = |key: &Option<String>| matches!(key.as_deref(), Some("OPENCL" | "INTEL_FPGA"));
    let reports = list();
    let devices = reports.iter().filter(|report| ours(&report.key)).flat_map(|report| &report.devices);
    let devices: Vec<String> = devices.map(|device| device.id.clone()).collect();
    if devices.is_empty() {
        let why: Vec<String> =
            reports.iter().filter(|r| ours(&r.key)).map(|r| r.outcome.to_string()).collect();
        flash_tests::skip(
            test,
            &format!("no OpenCL device: {}: `cargo xtask setup` makes three", why.join("; ")),
        );
    }
    devices
}

/// OpenCL's objects of a kind in this process, as the backend counts them.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Objects {
    made: u64,
    released: u64,
}

impl Objects {
    /// `buffers`, `events`, `kernels` or `programs`. Any device of the backend reports all of them.
    fn of(device: &str, kind: &str) -> Objects {
        let all = get_runtime(device).unwrap().devices()[0].query("objects").unwrap();
        let mut all: std::collections::BTreeMap<String, Objects> = serde_json::from_str(&all).unwrap();
        all.remove(kind).unwrap()
    }

    /// The number of live ones.
    fn live(self) -> u64 {
        self.made - self.released
    }
}
