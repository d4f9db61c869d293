//! Files that FLASH reads as text or as an archive: configurations of C2MPI, and packages of kernels.

use flash_c2mpi::config::Config;
use flash_core::devices::Package;

/// A configuration that is read has no fault, and each fault has a place.
pub fn configuration(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let report = Config::parse(&text);
    assert!(report.config.is_none() || report.faults.is_empty());
    assert!(report.config.is_some() || !report.faults.is_empty());
    let lines = text.lines().count() + 1;
    for fault in report.faults.iter().chain(&report.warnings) {
        assert!((1..=lines).contains(&fault.line) && fault.column > 0, "{fault:?}");
    }
}

/// A package that is read can be written, and read again.
pub fn package(input: &[u8]) {
    let Ok(package) = Package::read(input) else { return };
    let again = Package::read(&package.to_bytes()[..]).expect("it was just written");
    assert!(package.files().eq(again.files()));
    assert_eq!(package.kernels(), again.kernels());
}

/// A package, to begin with.
pub fn a_package() -> Vec<u8> {
    const MANIFEST: &str = r#"{"name": "lab", "version": "1", "kernels": [{
        "name": "lab.saxpy", "alias": "SAXPY", "sw_fid": "7", "dimensions": ["i", "j"],
        "arguments": [
            {"name": "a", "view": "scalar", "element": "f32"},
            {"name": "x", "view": "item", "element": "[f32; 3]", "along": ["i"]},
            {"name": "s", "view": "reduce", "access": "read_write", "element": "f64", "reduce": {"operation": "Sum"}}
        ],
        "implementations": [{"target": "opencl", "file": "a.cl", "cooperating": true, "attributes": {"entry": "a"}}]
    }]}"#;
    Package::new(MANIFEST, |_| Ok(b"text".to_vec())).expect("a sound package").to_bytes()
}

/// A configuration, to begin with.
pub const CONFIGURATION: &str = r#"{
  "host_list": [{"host_name": "here", "port": "8000", "mode": "ads_accel", "max_slots": "2"}],
  "func_list": [
    {"func_alias": "MMM", "sw_fid": "12345", "func_repl": "1", "platform_id": "fast"},
    {"func_alias": "BOTH", "pipeline": ["MMM", "MMM"], "key": "ALL_CPU", "vid": "*"}
  ],
  "platform_list": [{"platform_id": "fast", "strategy": "fastest", "key": "ALL"}]
}"#;
