//! The program as a user meets it.

use flash_examples::Program;
use hicr::PROGRAMS;
use serde_json::Value;

const HICR: Program = Program(env!("CARGO_BIN_EXE_hicr"));

fn report(line: &[&str]) -> Value {
    let text = HICR.succeed(&[line, &["--json"]].concat(), &[]);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line:?}: {error}: {text}"))
}

#[test]
fn help_names_each_program_and_shows_how_to_begin() {
    let help = HICR.succeed(&["--help"], &[]);
    for program in PROGRAMS {
        assert!(help.contains(program.name) && help.contains(program.shows), "{}: {help}", program.name);
    }
    for words in ["flash run -n 4 -- hicr --over processes", "--over devices --key ALL_CPU", "Exit codes"] {
        assert!(help.contains(words), "{words}: {help}");
    }
}

#[test]
fn a_report_is_of_the_root_alone() {
    let found = report(&["detect", "topologies", "put-get", "-n", "3"]);
    assert_eq!(found["detect"]["instances"].as_array().map(Vec::len), Some(3));
    assert_eq!(found["topologies"]["instances"], 3);
    assert_eq!(found["put-get"]["counted"], 300);
    let text = HICR.succeed(&["gemm", "--over", "devices", "--key", "ALL_CPU"], &[]);
    assert!(text.contains("resource ALL_CPU:0, space `host/0`"), "{text}");
}

#[test]
fn processes_that_are_lacking_are_created_or_refused() {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        let found = report(&["topologies", "objects", "--over", "processes", "-n", "2"]);
        let pids = found["topologies"]["pids"].as_array().expect("two");
        assert!(pids.len() == 2 && pids[0] != pids[1], "{found}");
    }
    let alone = report(&["detect", "--over", "processes", "-n", "1"]);
    assert_eq!(alone["detect"]["instances"].as_array().map(Vec::len), Some(1));
    let most = std::thread::available_parallelism().map_or(1, |count| count.get()) + 1;
    let error = HICR.fail(&["detect", "--over", "processes", "-n", &most.to_string()], 1, &[]);
    assert!(error.contains("no instance for this template: there is no host"), "{error}");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    for (line, words) in [
        (&["calls", "--over", "devices"][..], "calls: it does not run over devices: it is between instances"),
        (&["calls", "-n", "1"], "calls: expected 2 instances or more, found -n 1"),
        (&["nothing"], "invalid value 'nothing'"),
        (&["-n", "0"], "invalid value '0'"),
    ] {
        let error = HICR.fail(line, 2, &[]);
        assert!(error.contains(words), "{line:?}: {error}");
    }
    let error = HICR.fail(&["detect", "--over", "devices", "--key", "NOTHING"], 1, &[]);
    assert!(error.contains("available keys"), "{error}");
}
