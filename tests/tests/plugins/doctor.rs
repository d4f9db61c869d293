//! `flash doctor`: what is in order is said, what is not is a problem with what to do, and nothing that a
//! plugin does keeps the other checks from being made.

use crate::processes::{HEAD, loading, probing, thrown};
use flash_tests::plugins::{self, Language};
use serde::Deserialize;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The output of `flash doctor --json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Doctor {
    result: String,
    checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    state: String,
    check: String,
    subject: Option<String>,
    found: String,
    advice: Option<String>,
}

/// The checks that a command makes, which ends with 1 just if one is a problem.
#[track_caller]
fn checks(mut command: Command) -> Vec<Check> {
    let output = command.output().unwrap();
    let doctor: Doctor = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", plugins::text_of(&output)));
    let is_problem = |check: &Check| check.state == "problem";
    let (code, result) = if doctor.checks.iter().any(is_problem) { (1, "problem") } else { (0, "ok") };
    assert_eq!(
        (output.status.code(), &*doctor.result),
        (Some(code), result),
        "{}",
        plugins::text_of(&output)
    );
    for check in &doctor.checks {
        assert!(["ok", "note", "problem"].contains(&&*check.state), "{check:?}");
        assert!(!is_problem(check) || check.advice.is_some(), "a problem says what to do: {check:?}");
    }
    doctor.checks
}

fn doctor(path: impl Into<OsString>) -> Command {
    plugins::flash(path, &["doctor", "--json", "--time-limit", "10"])
}

/// The check of a subject must have this state, and these words in what was found and what to do.
#[track_caller]
fn has(checks: &[Check], state: &str, check: &str, subject: &str, words: &[&str]) {
    let is = |one: &&Check| one.check == check && one.subject.as_deref().unwrap_or_default() == subject;
    let found: Vec<&Check> = checks.iter().filter(is).collect();
    let right = |one: &&Check| {
        let text = format!("{} {}", one.found, one.advice.as_deref().unwrap_or_default());
        one.state == state && words.iter().all(|word| text.contains(word))
    };
    assert!(
        found.iter().any(right),
        "no {state} {check} {subject} with {words:?} in {found:#?} of {checks:#?}"
    );
}

#[test]
fn an_installation_in_order_has_no_problem_and_a_launch_is_right() {
    let found = checks(doctor(""));
    assert!(found.iter().all(|check| check.state != "problem"), "{found:#?}");
    for (check, word) in
        [("cpu", "of"), ("memory", "free"), ("stack", "8.0 MiB for threads"), ("shadows", "nothing")]
    {
        has(&found, "ok", check, "", &[word]);
    }
    has(&found, "note", "path", "", &["no folder, since the path of plugins is empty: 0 files"]);
    has(&found, "ok", "device", "ALL_CPU:0", &["cpu", "embedded"]);
    has(&found, "ok", "launch", "ALL_CPU:0", &["results are right"]);
    assert!(!found.iter().any(|check| check.subject.as_deref() == Some("NULL:0")), "for tests: {found:#?}");

    let text = plugins::flash("", &["doctor"]).output().unwrap();
    let lines = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text.status.code(), Some(0), "{lines}");
    assert!(lines.contains("ok       launch    ALL_CPU:0: small kernels run"), "{lines}");
    assert!(lines.lines().last().unwrap().contains("problems: 0"), "{lines}");

    let mut unset = doctor("");
    unset.env_remove("FLASH_BACKEND_PATH");
    has(&checks(unset), "note", "path", "", &["flash-backends`, since FLASH_BACKEND_PATH is unset"]);
}

#[test]
fn a_plugin_that_ends_or_stops_the_process_is_a_problem_and_all_else_is_checked() {
    let place = plugins::directory();
    let place = place.path();
    loading(place, "a_good", "");
    let cases = [
        (loading(place, "b_exit", "exit(0);"), "ended with exit code 0 before it was done"),
        (loading(place, "c_abort", "fprintf(stderr, \"no licence\\n\"); abort();"), "it wrote `no licence`"),
        (loading(place, "d_hang", "for (;;) pause();"), "did not end within 10 s"),
        (probing(place, "e_crash", "CRASH"), "ended by signal 11 (SIGSEGV)"),
        (thrown(place), "ended by signal 6 (SIGABRT)"),
    ];
    let found = checks(doctor(place));
    for (file, words) in &cases {
        has(&found, "problem", "plugin", &file.display().to_string(), &[words, "take it out of the path"]);
    }
    has(&found, "ok", "plugin", &place.join("a_good.so").display().to_string(), &["A_GOOD"]);
    has(&found, "ok", "device", "A_GOOD:0", &["a_good.so"]);
    has(&found, "note", "launch", "A_GOOD:0", &["none was made", "has no kernel"]);
    has(&found, "ok", "launch", "ALL_CPU:0", &["results are right"]);
}

/// The backend of `tests/c/backend.c` whose `submit` does this.
fn submitting(place: &Path, body: &str) {
    let begin = "static flash_error *submit(struct flash_device *device, const flash_submission *work) {";
    let source = plugins::c_source("backend.c");
    assert!(source.contains(begin));
    let text = format!("{HEAD}{}", source.replace(begin, &format!("{begin} {body};")));
    plugins::shared(Language::C, &text, &[], &place.join("backend.so"));
}

#[test]
fn a_first_launch_that_is_wrong_crashes_or_hangs_is_a_problem() {
    for (body, words) in [
        ("", ""),
        ("return NULL", "expected"),
        ("CRASH", "the process ended by signal 11 (SIGSEGV)"),
        ("for (;;) pause()", "the process did not end within 10 s"),
    ] {
        let place = plugins::directory();
        submitting(place.path(), body);
        let found = checks(doctor(place.path()));
        match body {
            "" => has(&found, "ok", "launch", "MY_ACCEL:0", &["results are right"]),
            _ => has(&found, "problem", "launch", "MY_ACCEL:0", &[words, "flash conformance MY_ACCEL:0"]),
        }
        has(&found, "ok", "launch", "ALL_CPU:0", &["results are right"]);
    }
}

#[test]
fn variables_that_do_not_fit_and_a_path_that_is_not_there_are_problems() {
    let place = plugins::directory();
    let (open, missing) = (place.path().join("open"), place.path().join("missing"));
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = doctor(format!("{}:{}", open.display(), missing.display()));
    command.envs([
        ("FLASH_CPU_COPYY", "1"),
        ("FLASH_CPU_DEVICES", "many"),
        ("FLASH_CPU_THREADS", ""),
        ("FLASH_CPU_LINGER_US", "100"),
        ("FLASH_OF_SOMETHING_ELSE", "1"),
    ]);
    let output = command.output().unwrap();
    assert!(output.stderr.is_empty(), "it is said once: {}", plugins::text_of(&output));
    let found = checks(command);
    has(&found, "problem", "settings", "FLASH_CPU_COPYY", &["is no setting: FLASH_CPU_COPY is one", "unset"]);
    has(
        &found,
        "problem",
        "settings",
        "FLASH_CPU_DEVICES",
        &["expected a whole number from 1 to 1024, found `many`"],
    );
    has(&found, "note", "settings", "FLASH_CPU_THREADS", &["empty"]);
    has(&found, "ok", "settings", "FLASH_CPU_LINGER_US", &["`100`"]);
    has(&found, "note", "settings", "FLASH_OF_SOMETHING_ELSE", &["no setting"]);
    has(
        &found,
        "problem",
        "path",
        &missing.display().to_string(),
        &["nothing of that name", "FLASH_BACKEND_PATH"],
    );
    has(&found, "problem", "path", &open.display().to_string(), &["everybody can write", "chmod o-w"]);
}

#[test]
fn what_takes_the_place_of_something_else_is_a_note() {
    let place = plugins::directory();
    let file = loading(place.path(), "a_good", "");
    let copy = place.path().join("b.so");
    std::fs::copy(&file, &copy).unwrap();
    std::os::unix::fs::symlink(&file, place.path().join("c.so")).unwrap();
    let found = checks(doctor(format!("{}:{}", place.path().display(), file.display())));
    has(&found, "note", "plugin", &file.display().to_string(), &["the same file as"]);
    has(&found, "note", "shadows", "A_GOOD", &["b.so is not used", "a_good.so has already"]);
    has(&found, "note", "plugin", &place.path().join("c.so").display().to_string(), &["the same file as"]);
    assert!(found.iter().all(|check| check.state != "problem"), "{found:#?}");
}

#[test]
fn a_folder_for_compiled_programs_that_cannot_be_used_is_a_problem() {
    let place = plugins::directory();
    let (file, open, new) =
        (place.path().join("file"), place.path().join("open"), place.path().join("a/new"));
    std::fs::write(&file, "").unwrap();
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    let with = |variable: &str, value: &Path| {
        let mut command = doctor("");
        command.env(variable, value);
        checks(command)
    };
    let shown = |path: &Path| path.display().to_string();
    has(&with("FLASH_CACHE_DIR", &file), "problem", "cache", &shown(&file), &["set FLASH_CACHE_DIR"]);
    has(&with("FLASH_CACHE_DIR", &open), "problem", "cache", &shown(&open), &["everybody can"]);
    has(&with("FLASH_CACHE_DIR", &new), "ok", "cache", &shown(&new), &["0 compiled programs"]);
    assert!(!new.exists(), "nothing is made");
    has(&with("FLASH_CACHE_LIMIT", Path::new("0")), "note", "cache", "", &["FLASH_CACHE_LIMIT is 0"]);
}
