//! The suite that every backend passes, on every backend that there is.

use flash_conformance::{self as conformance, Report};
use flash_core::Context;
use flash_tests::plugins::{self, Language};
use std::path::Path;

/// A context with the plugins of a directory or file.
fn with_plugins(path: &Path) -> Context {
    Context::builder().set("plugin_path", path.display()).build().unwrap()
}

/// Fails with the report, unless just these checks were skipped.
#[track_caller]
fn passes(report: &Report, skipped: &[&str]) {
    assert!(report.passed(), "{report}");
    assert!(report.checks.len() > 20, "{report}");
    let there: Vec<&str> = report.skipped().map(|(name, _)| name).collect();
    assert_eq!(there, skipped, "{report}");
}

#[test]
fn the_embedded_cpu_backend_passes() {
    passes(&conformance::run(&Context::default(), "ALL_CPU").unwrap(), &[]);
}

#[test]
fn the_null_backend_passes_in_all_but_results() {
    let skipped = [
        "memory that is cleared is zero",
        "host memory is registered",
        "a kernel that fails is an error of its launch, and the device is usable after",
    ];
    passes(&conformance::run(&Context::default(), "NULL").unwrap(), &skipped);
}

#[test]
fn a_cpu_backend_split_into_devices_passes() {
    let context = Context::builder().set("cpu.devices", 3).build().unwrap();
    let shared =
        [&["two devices share a memory exactly where they list one memory space"][..], &FOREIGN].concat();
    passes(&conformance::run(&context, "ALL_CPU").unwrap(), &shared.repeat(2));
}

/// What a device without the host's memory, or beside another of the same memory, is not asked.
const FOREIGN: [&str; 2] = [
    "copies between two devices are right where `can_copy` says yes, else refused",
    "an array in another device's memory is refused",
];

#[test]
fn cpu_devices_with_memories_of_their_own_pass() {
    let context = Context::builder().set("cpu.devices", 2).set("cpu.copy", true).build().unwrap();
    let skipped = ["arrays begin anywhere in the host's memory, and others come in their places"];
    passes(&conformance::run(&context, "ALL_CPU").unwrap(), &skipped.repeat(2));
}

#[test]
fn test_devices_pass() {
    for (setup, devices, pairs) in [
        ("", 1, &[][..]),
        ("devices=3", 3, &[]),
        ("devices=2 peers=no queue=caller", 2, &[]),
        ("devices=2 space=5 ns=10 rate=1e9", 2, &FOREIGN),
    ] {
        let plugin = plugins::built().test.display().to_string();
        let context = Context::builder().set("plugin_path", plugin).set("test.setup", setup).build().unwrap();
        let skipped = ["arrays begin anywhere in the host's memory, and others come in their places"];
        let report = conformance::run(&context, "TEST").unwrap();
        let pairs = pairs.repeat(devices - 1);
        passes(&report, &[&skipped.repeat(devices)[..], &pairs].concat());
        // Only its own key selects it.
        let all = context.runtime("ALL_ACCEL").unwrap();
        assert!(all.devices().iter().all(|d| !d.id().starts_with("TEST")), "{all:?}");
    }
}

#[test]
fn the_cpu_backend_passes_as_a_plugin() {
    let context = with_plugins(&plugins::built().cpu);
    passes(&conformance::run(&context, "ALL_CPU").unwrap(), &[]);
    let reports = context.list();
    let used = reports.iter().find(|r| !r.devices.is_empty() && r.key.as_deref() == Some("ALL_CPU")).unwrap();
    assert!(used.plugin.ends_with("libflash_backend_cpu_plugin.so"), "{used:?}");
}

#[test]
fn a_rust_plugin_with_events_passes() {
    let report = conformance::run(&with_plugins(&plugins::built().broken), "BROKEN").unwrap();
    let failed: Vec<_> =
        report.checks.iter().filter(|c| matches!(c.verdict, conformance::Verdict::Failed(_))).collect();
    // It does not exchange the buffers of phased arguments: the suite must tell.
    let names: Vec<&str> = failed.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "an implementation without code is refused",
            "the second buffer of a phased argument keeps what was written, if it is to",
            "phased arguments: all elements are items' own",
            "phased arguments: elements that no item owns keep theirs",
            "an unknown option is ignored, or refused where it is required",
            "many threads submit at once",
        ],
        "{report}"
    );
}

#[test]
fn a_backend_in_c_passes() {
    let place = plugins::directory();
    plugins::shared(Language::C, &plugins::c_source("backend.c"), &[], &place.path().join("libmy_accel.so"));
    let context = with_plugins(place.path());
    let skipped = [
        "an unknown property is an error, an unknown extension NULL",
        "memory that is cleared is zero",
        "host memory is registered",
        "user events fire once, and tell all that wait",
        "a user event carries its error",
        "a launch waits for its events",
        "a launch whose event failed does not run",
    ];
    passes(&conformance::run(&context, "MY_ACCEL").unwrap(), &skipped);
    // For tests: only its own key selects it.
    let all = context.runtime("ALL_ACCEL").unwrap();
    assert!(all.devices().iter().all(|d| !d.id().starts_with("MY_ACCEL")), "{all:?}");
}

/// What `mpix_accel.h` makes of tables. None of the suite's kernels is for it; what needs none is right.
#[test]
fn nothing_fails_of_an_accelerator_in_c_with_a_memory_of_its_own() {
    let folder = plugins::workspace().join("flash-c2mpi");
    let text = std::fs::read_to_string(folder.join("tests/accelerator.c")).unwrap();
    let include = format!("-I{}", folder.join("include").display());
    for memory in [&[][..], &["-DMEMORY"]] {
        let place = plugins::directory();
        let flags = [&[&*include], memory].concat();
        plugins::shared(Language::C, &text, &flags, &place.path().join("lab.so"));
        let report = conformance::run(&with_plugins(place.path()), "LAB").unwrap();
        let is_failed =
            |check: &&conformance::Check| matches!(check.verdict, conformance::Verdict::Failed(_));
        assert_eq!(report.checks.iter().filter(is_failed).count(), 0, "{report}");
    }
}

/// Its steps are those of its head: a key of its own, and the last line.
#[test]
fn the_template_copied_into_a_crate_is_a_backend_and_says_what_to_fill_in() {
    let template = &plugins::built().template;
    let output = plugins::flash(template, &["conformance", "MY_ACCEL", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), report["result"].as_str()), (Some(0), Some("passed")), "{report}");
    assert_eq!(report["dry"], true, "the suite checks no results until `query` is removed");
    let source = plugins::workspace().join("flash-conformance/src/null.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let mut marks = source.split("FILL IN").skip(2);
    for word in [
        "why `submit`",
        "const KEY",
        "const TARGET",
        "fn probe",
        "DeviceInfo {",
        "fn prepare",
        "fn submit",
        "fn query",
    ] {
        assert!(marks.next().is_some_and(|text| text.contains(word)), "what to do about `{word}`");
    }
    assert!(marks.next().is_some_and(|text| text.contains("register_backend!")) && marks.next().is_none());
}

/// A target of its own, and none of the suite's kernels for it: most of it cannot be tested.
#[test]
fn a_report_without_kernels_for_the_target_is_incomplete_and_has_not_passed() {
    let place = plugins::directory();
    let text = plugins::c_source("backend.c").replace("FLASH_STR(\"cpu\")", "FLASH_STR(\"abacus\")");
    plugins::shared(Language::C, &text, &[], &place.path().join("abacus.so"));
    let report = conformance::run(&with_plugins(place.path()), "MY_ACCEL").unwrap();
    assert!(!report.passed(), "{report}");
    let untested: Vec<_> =
        report.checks.iter().filter(|c| matches!(c.verdict, conformance::Verdict::Untested(_))).collect();
    assert!(untested.len() > 15, "{report}");
    let words = "untested MY_ACCEL:0 every work item runs exactly once, through every door: the suite has no kernel \
                 `conformance.count` for abacus\n";
    assert!(report.to_string().contains(words), "{report}");
    assert!(report.summary().contains(" untested, 0 failed; incomplete: "), "{report}");

    let output = plugins::flash(place.path(), &["conformance", "MY_ACCEL", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), json["result"].as_str()), (Some(1), Some("incomplete")));
    let count =
        json["checks"].as_array().unwrap().iter().filter(|check| check["verdict"] == "untested").count();
    assert_eq!(count, untested.len());
}

#[test]
fn a_key_that_is_not_there_is_an_error() {
    let message = conformance::run(&Context::default(), "ABACUS").unwrap_err().to_string();
    assert!(message.contains("there is no backend `ABACUS`"), "{message}");
}
