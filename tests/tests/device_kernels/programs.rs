//! The example and the command, as they are, with the backends in a directory.

use crate::devices;
use flash_tests::plugins::{self, built};
use serde_json::Value;
use tempfile::TempDir;

/// Kinetic energies of the main job after steps 1 to 10, to five digits, as published.
const PUBLISHED: [f64; 10] =
    [26.405, 313.77, 926.56, 1866.4, 3135.6, 4737.6, 6676.6, 8957.7, 11587.0, 14572.0];

/// A directory with the plugin in it, as a user would install it.
fn installed() -> TempDir {
    let place = plugins::directory();
    let name = built().opencl.file_name().unwrap();
    std::fs::copy(&built().opencl, place.path().join(name)).unwrap();
    place
}

/// The report of the example on a runtime.
fn report(place: &TempDir, runtime: &str, more: &[&str]) -> Value {
    report_with(&[], place, runtime, more)
}

fn report_with(variables: &[(&str, &str)], place: &TempDir, runtime: &str, more: &[&str]) -> Value {
    let file = place.path().join("report.json");
    let arguments = [&["--runtime", runtime, "--quiet", "--report", file.to_str().unwrap()], more].concat();
    let mut program = plugins::program(&built().nbody, place.path(), &arguments);
    let output = program.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", plugins::text_of(&output));
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

fn energies(report: &Value) -> Vec<f64> {
    report["kinetic_energy"].as_array().unwrap().iter().map(|e| e.as_f64().unwrap()).collect()
}

fn check_published(report: &Value, runtime: &str) {
    let energies = energies(report);
    assert_eq!(energies.len(), PUBLISHED.len());
    for (step, (energy, published)) in energies.iter().zip(PUBLISHED).enumerate() {
        // One unit of the fifth digit.
        let unit = 10f64.powi(published.log10().floor() as i32 - 4);
        let step = step + 1;
        assert!(
            (energy - published).abs() <= 1.001 * unit,
            "{runtime}, step {step}: {energy}, not {published}"
        );
    }
}

#[test]
fn the_example_prints_the_ten_published_energies_on_every_device() {
    let devices = devices("programs::the_example_prints_the_ten_published_energies_on_every_device");
    if devices.is_empty() {
        return;
    }
    let place = installed();
    for device in &devices {
        let report = report(&place, device, &[]);
        assert_eq!(report["devices"], serde_json::json!([device]));
        check_published(&report, device);
    }
    // In the usual form: `ALL_CPU,OPENCL,INTEL_FPGA`.
    let mut keys: Vec<&str> = devices.iter().map(|id| id.split(':').next().unwrap()).collect();
    keys.dedup();
    let all = format!("ALL_CPU,{}", keys.join(","));
    // As they are, and with memories of their own for all of the plugin's.
    for copy in ["0", "1"] {
        let report = report_with(&[("FLASH_OPENCL_COPY", copy)], &place, &all, &[]);
        assert_eq!(report["devices"].as_array().unwrap().len(), devices.len() + 1);
        check_published(&report, &all);
    }
}

#[test]
fn the_examples_forms_and_precisions_agree_on_every_device() {
    let place = installed();
    let problem = ["--bodies", "1500", "--steps", "3"];
    let with = |more: &[&'static str]| [&problem[..], more].concat();
    let expected = energies(&report(&place, "ALL_CPU", &with(&["--precision", "f64"])));
    for device in devices("programs::the_examples_forms_and_precisions_agree_on_every_device") {
        for (more, tolerance) in [
            (&["--precision", "f64"][..], 1e-12),
            (&["--precision", "f64", "--form", "one-kernel"], 1e-12),
            (&["--form", "one-kernel"], 1e-5),
        ] {
            for (energy, expected) in energies(&report(&place, &device, &with(more))).iter().zip(&expected) {
                let error = (energy - expected).abs() / expected;
                assert!(error <= tolerance, "{device} {more:?}: {energy} and {expected}");
            }
        }
    }
}

#[test]
fn flash_list_shows_the_devices_of_the_installed_plugin() {
    let devices = devices("programs::flash_list_shows_the_devices_of_the_installed_plugin");
    if devices.is_empty() {
        return;
    }
    let place = installed();
    let output = plugins::flash(place.path(), &["list", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", plugins::text_of(&output));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let backends = list["backends"].as_array().unwrap();
    for key in ["OPENCL", "INTEL_FPGA"] {
        let backend = backends.iter().find(|backend| backend["key"] == key).unwrap();
        assert!(backend["plugin"].as_str().unwrap().starts_with(place.path().to_str().unwrap()));
        let shown =
            backend["devices"].as_array().unwrap().iter().map(|device| device["id"].as_str().unwrap());
        let ours = devices.iter().filter(|device| device.starts_with(key));
        assert_eq!(shown.collect::<Vec<_>>(), ours.collect::<Vec<_>>());
        for device in backend["devices"].as_array().unwrap() {
            let limits = &device["properties"]["limits"];
            assert!(limits["work_group_size"].as_u64().unwrap() > 0, "{device}");
            assert!(limits["buffer_bytes"].as_u64().unwrap() > 1 << 20, "{device}");
            assert!(!device["properties"]["platform"].as_str().unwrap().is_empty(), "{device}");
        }
    }
}

#[test]
fn without_opencl_the_plugin_loads_and_says_what_is_missing() {
    let (place, none) = (installed(), plugins::directory());
    // A file that is found before the system's own libraries, and is no library.
    std::fs::write(none.path().join("libOpenCL.so.1"), "").unwrap();
    let none = none.path().to_str().unwrap();
    for (variable, value, expected) in [
        ("LD_LIBRARY_PATH", none, "expected the OpenCL loader libOpenCL.so.1, found none"),
        (
            "OPENCL_DYLIB_PATH",
            "libc.so.6",
            "expected an OpenCL loader, found a library without clGetPlatformIDs",
        ),
        ("OCL_ICD_VENDORS", none, "expected an OpenCL platform, found the loader alone"),
    ] {
        if variable != "LD_LIBRARY_PATH" && devices("programs::without_opencl").is_empty() {
            continue;
        }
        let output = plugins::flash(place.path(), &["list", "--json"])
            .env_remove("OCL_ICD_FILENAMES")
            .env(variable, value)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", plugins::text_of(&output));
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        for key in ["OPENCL", "INTEL_FPGA"] {
            let backend = list["backends"].as_array().unwrap().iter().find(|backend| backend["key"] == key);
            let backend = backend.unwrap();
            assert_eq!(backend["state"], "unavailable", "{variable}: {backend}");
            assert!(backend["reason"].as_str().unwrap().contains(expected), "{variable}: {backend}");
        }
    }
}
