//! Plugins that end, stop or disturb the process that looks at them: the command goes on, and names them.

use crate::command::{Entry, list};
use crate::loader::refused;
use flash_tests::plugins::{self, Language};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// What every text below begins with.
pub const HEAD: &str = "#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int *volatile nowhere;
#define CRASH (*nowhere = 1)
";

/// The plugin of `tests/c/broken.c`, with a key of its own, whose constructor does this.
pub fn loading(place: &Path, name: &str, body: &str) -> PathBuf {
    let text = format!(
        "{HEAD}{}\n__attribute__((constructor)) static void loading(void) {{ {body} }}\n",
        plugins::c_source("broken.c")
    );
    let key = format!("-DKEY=\"{}\"", name.to_uppercase());
    plugins::shared(Language::C, &text, &[&key], &place.join(name).with_extension("so"))
}

/// The same plugin, whose `probe` evaluates this first.
pub fn probing(place: &Path, name: &str, expression: &str) -> PathBuf {
    let text = format!("{HEAD}{}", plugins::c_source("broken.c"));
    let flags =
        [format!("-DKEY=\"{}\"", name.to_uppercase()), format!("-DPROBE_ANSWER=({expression}, NULL)")];
    let flags = flags.each_ref().map(String::as_str);
    plugins::shared(Language::C, &text, &flags, &place.join(name).with_extension("so"))
}

#[track_caller]
fn is_available(entries: &[Entry], key: &str) {
    let entry = entries.iter().find(|entry| entry.key.as_deref() == Some(key));
    assert!(entry.is_some_and(|e| e.state == "available" && e.devices.len() == 1), "{key}: {entries:#?}");
}

/// `flash list --json` with a time limit that only what hangs needs.
fn list_in(place: &Path, seconds: &str) -> Vec<Entry> {
    #[derive(serde::Deserialize)]
    struct List {
        backends: Vec<Entry>,
    }
    let output = plugins::flash(place, &["list", "--json", "--time-limit", seconds]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
    serde_json::from_slice::<List>(&output.stdout).unwrap().backends
}

#[test]
fn a_plugin_that_ends_the_process_is_named_and_the_list_is_complete() {
    let place = plugins::directory();
    let place = place.path();
    loading(place, "a_good", "");
    let before = "a plugin that loads and lists its devices";
    let cases = [
        (loading(place, "b_exit", "exit(0);"), "ended with exit code 0 before it was done"),
        (loading(place, "c_exit", "fprintf(stderr, \"no licence\\n\"); _exit(3);"), "it wrote `no licence`"),
        (loading(place, "d_abort", "abort();"), "ended by signal 6 (SIGABRT)"),
        (loading(place, "e_crash", "CRASH;"), "ended by signal 11 (SIGSEGV)"),
        (probing(place, "f_exit", "exit(7)"), "ended with exit code 7 before it was done"),
        (probing(place, "g_crash", "CRASH"), "ended by signal 11 (SIGSEGV)"),
        (thrown(place), "ended by signal 6 (SIGABRT)"),
    ];
    loading(place, "z_good", "");
    let entries = list(place);
    for (file, words) in &cases {
        refused(&entries, file, &[before, words]);
    }
    is_available(&entries, "A_GOOD");
    is_available(&entries, "Z_GOOD");
    let text = plugins::flash(place, &["list"]).output().unwrap();
    assert!(
        text.status.success() && plugins::text_of(&text).contains("SIGSEGV"),
        "{}",
        plugins::text_of(&text)
    );
}

/// A library whose constructor throws.
pub fn thrown(place: &Path) -> PathBuf {
    let text = "struct Loading { Loading() { throw 7; } } loading;\nextern \"C\" const void *flash_plugin_query(unsigned, const void *) { return nullptr; }\n";
    plugins::shared(Language::Cpp, text, &[], &place.join("h_throw.so"))
}

#[test]
fn a_plugin_that_hangs_is_named_and_the_list_is_complete() {
    let place = plugins::directory();
    let place = place.path();
    loading(place, "a_good", "");
    let hanging =
        [loading(place, "b_hang", "for (;;) pause();"), probing(place, "c_hang", "({ for (;;) pause(); })")];
    loading(place, "z_good", "");
    let entries = list_in(place, "10");
    for file in &hanging {
        refused(&entries, file, &["did not end within 10 s"]);
    }
    is_available(&entries, "A_GOOD");
    is_available(&entries, "Z_GOOD");
}

/// What a plugin does to the standard files, and a second process of it, reach neither list nor reader.
#[test]
fn a_plugin_that_writes_closes_or_forks_does_not_disturb_the_list() {
    let place = plugins::directory();
    let place = place.path();
    let bodies = [
        ("writes", "printf(\"hello from \\\"writes\\\"\\n\"); fflush(stdout); if (write(1, \"{\\n\", 2)) {}"),
        ("closes", "close(0); close(1); close(2);"),
        ("forks", "if (fork() == 0) { sleep(1000); _exit(0); }"),
        ("goes_on", "if (fork() < 0) _exit(1);"),
        ("fills", "for (int i = 0; i < 100000; ++i) puts(\"one of very many lines\"); fflush(stdout);"),
    ];
    for (name, body) in bodies {
        loading(place, name, body);
    }
    let entries = list(place);
    for (name, _) in bodies {
        is_available(&entries, &name.to_uppercase());
    }
    let output = plugins::flash(place, &["list"]).output().unwrap();
    let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(!text.contains("hello from") && errors.contains("hello from \"writes\""), "{text}\n{errors}");
}

fn conformance(place: &Path, arguments: &[&str]) -> Output {
    let mut command = plugins::flash(place, &["conformance"]);
    command.args(arguments).output().unwrap()
}

/// What `submit` does, and what is said of the check that calls it.
const IN_THE_MIDDLE: &[(&str, &str, &str)] = &[
    ("crash", "CRASH", "the process ended by signal 11 (SIGSEGV)"),
    ("exit", "exit(3)", "the process ended with exit code 3 before it was done"),
    ("hang", "({ for (;;) pause(); })", "the process did not end within 10 s"),
];

/// The first check that submits something.
const FIRST: &str = "copies and launches wait for each other";

#[test]
fn a_check_that_ends_or_stops_the_process_has_failed_and_the_next_ones_run() {
    for (name, expression, words) in IN_THE_MIDDLE {
        let place = plugins::directory();
        let begin = "static flash_error *submit(struct flash_device *device, const flash_submission *work) {";
        let ends = format!("{begin} fprintf(stderr, \"last words\\n\"); {expression};");
        let text = format!("{HEAD}{}", plugins::c_source("backend.c").replace(begin, &ends));
        assert!(text.contains("last words"));
        plugins::shared(Language::C, &text, &[], &place.path().join("middle.so"));
        let only = ["MY_ACCEL", "--time-limit", "10"];
        // A hanging check takes its whole time; one of them tells.
        if *name == "hang" {
            let mut child = plugins::flash(place.path(), &["conformance"]);
            let mut child = child.args(only).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let mut lines = lines.skip_while(|line| !line.starts_with("FAILED"));
            let line = lines.next().unwrap();
            assert!(line.contains(FIRST) && line.contains(words), "{line}");
            // The next check hangs as well.
            assert!(lines.any(|line| line.starts_with("FAILED") && line.contains(words)));
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let output = conformance(place.path(), &only);
        let text = plugins::text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let failed = format!("FAILED   MY_ACCEL:0 {FIRST}: {words}\n         | last words\n");
        assert!(text.contains(&failed), "no `{failed}` in {text}");
        assert!(text.contains("passed   MY_ACCEL:0 memory is allocated zeroed, aligned and apart"), "{text}");
        // As many checks as where nothing ends the process, but for the last one, which is of its end.
        let all = conformance(Path::new(""), &["NULL"]);
        let count = |text: &str| {
            text.lines().filter(|line| line.contains("_ACCEL:0 ") || line.contains("NULL:0 ")).count()
        };
        assert_eq!(count(&text), count(&plugins::text_of(&all)), "{text}");

        let output = conformance(place.path(), &["MY_ACCEL", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), report["result"].as_str()), (Some(1), Some("failed")));
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == FIRST).unwrap();
        assert_eq!(
            (check["verdict"].as_str(), check["output"].as_str()),
            (Some("failed"), Some("last words"))
        );
        assert_eq!(check["reason"].as_str(), Some(*words));
    }
}

#[test]
fn a_backend_that_ends_the_process_before_the_first_check_or_after_the_last_has_failed() {
    let place = plugins::directory();
    probing(place.path(), "early", "exit(0)");
    let output = conformance(place.path(), &["EARLY"]);
    let text = plugins::text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let words = "devices are found: the process ended with exit code 0 before it was done";
    assert!(text.contains(words) && text.contains("1 failed"), "{text}");

    let late = format!(
        "{HEAD}{}\n__attribute__((destructor)) static void end(void) {{ abort(); }}\n",
        plugins::c_source("backend.c")
    );
    plugins::shared(Language::C, &late, &[], &place.path().join("late.so"));
    let output = conformance(place.path(), &["MY_ACCEL"]);
    let text = plugins::text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("FAILED   MY_ACCEL the process ends as it should: the process ended by signal 6"),
        "{text}"
    );
}

/// A command that is stopped takes the child along, whatever that does.
#[test]
fn the_child_ends_with_the_command() {
    let place = plugins::directory();
    // It tells its number, and hangs.
    let file = place.path().join("number");
    let body = format!(
        "FILE *file = fopen(\"{0}.part\", \"w\"); fprintf(file, \"%d\\n\", getpid()); fclose(file); rename(\"{0}.part\", \"{0}\"); for (;;) pause();",
        file.display()
    );
    loading(place.path(), "hangs", &body);
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let mut command = plugins::flash(place.path(), &["conformance", "HANGS"]);
        let mut child = command.process_group(0).stdout(Stdio::null()).spawn().unwrap();
        let number = loop {
            if let Ok(text) = std::fs::read_to_string(&file) {
                break text.trim().parse::<u32>().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        std::fs::remove_file(&file).unwrap();
        assert_ne!(number, child.id());
        // SAFETY: a child of this process, which was not waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        assert!(!child.wait().unwrap().success());
        // Gone, or a zombie without a parent that waits.
        let lives = || {
            let state = std::fs::read_to_string(format!("/proc/{number}/stat")).ok();
            state.is_some_and(|state| !state.contains(") Z"))
        };
        while lives() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn one_check_runs_in_the_process_of_the_command() {
    let output = conformance(Path::new(""), &["NULL", "--check", "are copied"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0], "passed   NULL:0 boxes of one, two and three dimensions are copied");
    let output = conformance(Path::new(""), &["NULL", "--check", "abacus"]);
    let text = plugins::text_of(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("no check has `abacus` in its name; available:\n  10,000 launches"), "{text}");
    // A debugger sees the crash itself.
    let place = plugins::directory();
    probing(place.path(), "crash", "CRASH");
    let output = conformance(place.path(), &["CRASH", "--check", ""]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGSEGV));
}
