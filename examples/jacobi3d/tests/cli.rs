//! The program as a user meets it: its command line, files, exit codes and figures.

use flash_examples::Program;
use serde_json::Value;
use tempfile::TempDir;

const JACOBI3D: Program = Program(env!("CARGO_BIN_EXE_jacobi3d"));

/// The report of a line that has to succeed.
fn report(line: &[&str]) -> Value {
    let place = TempDir::new().expect("a directory");
    let path = place.path().join("report.json");
    let printed =
        JACOBI3D.succeed(&[line, &["--quiet", "--report", path.to_str().expect("text")]].concat(), &[]);
    assert_eq!(printed, "");
    serde_json::from_slice(&std::fs::read(path).expect("the report is there")).expect("JSON")
}

#[test]
fn tasks_and_launches_give_the_same_bits_in_both_precisions() {
    for precision in ["f32", "f64"] {
        let problem = ["--size", "20", "--iterations", "7", "--precision", precision, "--check"];
        let first = report(&problem);
        assert_eq!(
            (&first["size"], &first["iterations"], &first["checked"]),
            (&20.into(), &7.into(), &true.into())
        );
        assert_eq!(first["tasks"], serde_json::json!([1, 1, 2]));
        assert_eq!((&first["runtime"], &first["devices"]), (&Value::Null, &Value::Null));
        assert!(first["updates_per_second"].as_f64().expect("a rate") > 0.0);
        for how in
            [&["--tasks", "2x3x7", "--depth", "3"][..], &["--tasks", "10x1x1"], &["--devices", "ALL_CPU"]]
        {
            let other = report(&[&problem, how].concat());
            assert_eq!(other["temperature"], first["temperature"], "{precision}, {how:?}");
            assert_eq!(other["tasks"].is_null(), how[0] == "--devices");
        }
    }
}

#[test]
fn heat_comes_from_the_first_planes_and_no_point_is_beyond_the_walls() {
    let at = |iterations: &str| report(&["--size", "16", "--iterations", iterations])["temperature"].clone();
    let value = |temperature: &Value, name: &str| temperature[name].as_f64().expect("a number");
    let [start, end] = ["0", "200"].map(at);
    assert!((value(&start, "mean") - 0.5).abs() < 0.02, "{start}");
    assert!(value(&start, "least") >= 0.25 && value(&start, "greatest") < 0.75, "{start}");
    // Six equal walls, one of them hot, give a sixth; the points begin with more.
    assert!((0.1..0.3).contains(&value(&end, "mean")), "{end}");
    assert!(value(&end, "least") > 0.0 && value(&end, "greatest") < 1.0, "{end}");
}

#[test]
fn a_run_says_what_it_did() {
    let printed = JACOBI3D.succeed(&["--size", "16", "--iterations", "4", "--check"], &[]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "16^3 points, 4 iterations, f32, tasks over 1 x 1 x 2 blocks, 8 steps deep");
    assert!(lines[1].starts_with("temperatures 0."), "{printed}");
    assert!(lines[2].contains("M updates/s"), "{printed}");
    assert_eq!(lines[3..], ["one loop on one thread gives the same bits"]);
    let printed = JACOBI3D.succeed(&["--size", "16", "--iterations", "4", "--devices", "ALL_CPU"], &[]);
    assert!(printed.starts_with("16^3 points, 4 iterations, f32, launches on ALL_CPU"), "{printed}");
    assert!(printed.contains("dispatch overhead"), "{printed}");
}

#[test]
fn files_are_a_picture_and_a_report_and_a_dash_is_standard_output() {
    let place = TempDir::new().expect("a directory");
    let path = place.path().join("cut.png");
    JACOBI3D.succeed(&["--size", "12", "--image", path.to_str().expect("text")], &[]);
    assert!(std::fs::read(path).expect("there").starts_with(b"\x89PNG"));
    let report: Value = serde_json::from_str(&JACOBI3D.succeed(&["--size", "12", "--report", "-"], &[]))
        .expect("nothing but JSON");
    assert_eq!(report["size"], 12);
}

#[test]
fn a_trace_has_a_span_for_each_task_and_launch() {
    let place = TempDir::new().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
    let (trace, picture) = (path("trace.json"), path("picture.svg"));
    let problem = ["--size", "16", "--iterations", "6", "--trace", &trace, "--picture", &picture];
    for (how, name) in [(["--tasks", "1x2x2"], "block 0, 1, 1"), (["--devices", "ALL_CPU"], "flash.star")] {
        JACOBI3D.succeed(&[&problem[..], &how].concat(), &[]);
        let text = std::fs::read_to_string(&trace).expect("there");
        serde_json::from_str::<Value>(&text).expect("JSON");
        assert!(text.matches(name).count() >= 6, "{name}: {text}");
        assert!(std::fs::read_to_string(&picture).expect("there").starts_with("<svg "));
    }
}

#[test]
fn wrong_lines_are_refused_before_anything_runs() {
    for (line, part) in [
        (&["--size", "0"][..], "--size"),
        (&["--size", "4096"], "--size"),
        (&["--depth", "0"], "--depth"),
        (&["--tasks", "1x2"], "such as 1x2x16"),
        (&["--size", "9", "--tasks", "1x1x5"], "--tasks: expected at most 4 blocks along z"),
        (&["--tasks", "1x1x2", "--devices", "ALL_CPU"], "cannot be used with"),
        (&["--report", "-", "--image", "-"], "--report and --image"),
        (&["--precision", "f16"], "f32"),
    ] {
        let error = JACOBI3D.fail(line, 2, &[]);
        assert!(error.contains(part), "{line:?}: {error}");
    }
    let error = JACOBI3D.fail(&["--devices", "NO_SUCH_KEY"], 1, &[]);
    assert!(error.contains("NO_SUCH_KEY"), "{error}");
    let error = JACOBI3D.fail(&["--report", "/no/such/folder/report.json"], 1, &[]);
    assert!(error.contains("--report"), "{error}");
}

#[test]
fn the_help_has_examples_the_problem_and_exit_codes() {
    let help = JACOBI3D.succeed(&["--help"], &[]);
    for part in ["--tasks <XxYxZ>", "--devices <KEY>", "Examples:", "The problem:", "Exit codes:"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
