//! The suite that every backend passes, on every backend that there is.

use flash_core::backend::conformance::{self, Report};
use flash_tests::plugins::{self, Language};
use std::path::PathBuf;

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
    plugins::in_child("embedded", Vec::new, || {
        passes(&conformance::run("ALL_CPU").unwrap(), &["queues of its own"]);
    });
}

#[test]
fn the_null_backend_passes_in_all_but_results() {
    let skipped = [
        "host memory is registered",
        "queues of its own",
        "a kernel that fails is an error of its launch, and the device is usable after",
    ];
    plugins::in_child("null", Vec::new, || passes(&conformance::run("NULL").unwrap(), &skipped));
}

#[test]
fn a_cpu_backend_split_into_devices_passes() {
    let prepare = || vec![("FLASH_CPU_DEVICES", "3".into()), ("FLASH_CPU_THREADS", "4".into())];
    plugins::in_child("split", prepare, || {
        passes(&conformance::run("ALL_CPU").unwrap(), &["queues of its own"; 3]);
    });
}

/// Memories of their own, with copies between any two.
#[test]
fn cpu_devices_with_memories_of_their_own_pass() {
    let prepare = || {
        vec![
            ("FLASH_CPU_COPY", "1".into()),
            ("FLASH_CPU_DEVICES", "2".into()),
            ("FLASH_CPU_THREADS", "2".into()),
        ]
    };
    plugins::in_child("copy", prepare, || {
        let skipped = [
            "arrays begin anywhere in the host's memory, and others come in their places",
            "queues of its own",
        ];
        passes(&conformance::run("ALL_CPU").unwrap(), &skipped.repeat(2));
    });
}

#[test]
fn the_cpu_backend_passes_as_a_plugin() {
    let prepare = || vec![("FLASH_BACKEND_PATH", plugins::built().cpu.clone().into_os_string())];
    plugins::in_child("plugin", prepare, || {
        passes(&conformance::run("ALL_CPU").unwrap(), &["queues of its own"]);
        let reports = flash_core::backend::list();
        let used =
            reports.iter().find(|r| !r.devices.is_empty() && r.key.as_deref() == Some("ALL_CPU")).unwrap();
        assert!(used.plugin.ends_with("libflash_backend_cpu_plugin.so"), "{used:?}");
    });
}

#[test]
fn a_rust_plugin_with_events_passes() {
    let prepare = || vec![("FLASH_BACKEND_PATH", plugins::built().broken.clone().into_os_string())];
    plugins::in_child("events", prepare, || {
        let report = conformance::run("BROKEN").unwrap();
        let failed: Vec<_> =
            report.checks.iter().filter(|c| matches!(c.verdict, conformance::Verdict::Failed(_))).collect();
        // It does not exchange the buffers of phased arguments: the suite must tell.
        let names: Vec<&str> = failed.iter().map(|c| c.name).collect();
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
    });
}

#[test]
fn a_backend_in_c_passes() {
    let prepare = || {
        let place = plugins::directory().keep();
        plugins::shared(Language::C, &plugins::c_source("backend.c"), &[], &place.join("libmy_accel.so"));
        vec![("FLASH_BACKEND_PATH", place.into_os_string())]
    };
    plugins::in_child("C", prepare, || {
        let skipped = [
            "an unknown property is an error, an unknown extension NULL",
            "host memory is registered",
            "user events fire once, and tell everyone who waits",
            "a user event carries its error",
            "a launch waits for its events",
            "a launch whose event failed does not run",
            "queues of its own",
            "the kernel's time is reported",
        ];
        passes(&conformance::run("MY_ACCEL").unwrap(), &skipped);
        // For tests: only its own key selects it.
        let all = flash_core::get_runtime("ALL_ACCEL").unwrap();
        assert!(all.devices().iter().all(|d| !d.id().starts_with("MY_ACCEL")), "{all:?}");
        std::fs::remove_dir_all(PathBuf::from(std::env::var_os("FLASH_BACKEND_PATH").unwrap())).unwrap();
    });
}

#[test]
fn a_key_that_is_not_there_is_an_error() {
    let message = conformance::run("ABACUS").unwrap_err().to_string();
    assert!(message.contains("there is no backend `ABACUS`"), "{message}");
}
