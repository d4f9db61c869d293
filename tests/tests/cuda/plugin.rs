//! The plugin in a directory, with the command and the example as they are.

use flash_tests::plugins::{self, built};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// A directory with the plugin in it, as a user would install it.
fn installed() -> TempDir {
    let place = plugins::directory();
    let name = built().cuda.file_name().unwrap();
    std::fs::copy(&built().cuda, place.path().join(name)).unwrap();
    place
}

/// The plugin's backend in the command's output.
fn listed(mut command: Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", plugins::text_of(&output));
    let mut list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let backends = list["backends"].as_array_mut().unwrap();
    backends.drain(..).find(|backend| backend["key"] == "NVIDIA_GPU").expect("the plugin's backend")
}

#[test]
fn without_a_driver_the_plugin_loads_and_says_why_it_is_unavailable() {
    if flash_tests::emulated::on_gpu() {
        return;
    }
    let place = installed();
    let found = listed(plugins::flash(place.path(), &["list", "--json"]));
    assert_eq!(found["state"], "unavailable", "{found}");
    let reason = found["reason"].as_str().unwrap();
    assert!(reason.contains("expected NVIDIA's driver library libcuda.so.1, found none"), "{reason}");
}

#[test]
fn the_example_runs_unchanged_and_gives_what_the_cpu_gives() {
    if flash_backend_cuda::nvrtc::version().is_none() {
        let test = "plugin::the_example_runs_unchanged_and_gives_what_the_cpu_gives";
        return flash_tests::skip(test, "no CUDA compiler: `cargo xtask setup` downloads it");
    }
    let place = installed();
    let driver = match flash_tests::emulated::on_gpu() {
        true => Vec::new(),
        false => flash_tests::emulated::environment(),
    };
    let mut list = plugins::flash(place.path(), &["list", "--json"]);
    list.envs(driver.iter().cloned());
    assert_eq!(listed(list)["devices"][0]["id"], "NVIDIA_GPU:0");

    let energies = |runtime: &str, more: &[&str]| -> Vec<f64> {
        let fixed = ["--runtime", runtime, "--quiet", "--report", "-", "--bodies", "200", "--steps", "4"];
        let mut program = plugins::program(&built().nbody, place.path(), &[&fixed, more].concat());
        let output = program.envs(driver.iter().cloned()).output().unwrap();
        assert!(output.status.success(), "{}", plugins::text_of(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["kinetic_energy"].as_array().unwrap().iter().map(|e| e.as_f64().unwrap()).collect()
    };
    for (precision, bound) in [("f32", 1e-5), ("f64", 1e-12)] {
        let more = ["--precision", precision];
        let (found, expected) = (energies("NVIDIA_GPU", &more), energies("ALL_CPU", &more));
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max);
        assert!(found.len() == 4 && off <= bound, "{precision}: {found:?}, not {expected:?}");
    }
}
