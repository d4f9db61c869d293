//! The program as a user meets it: its command line, files, exit codes and figures.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Reference problem of 512 iterations with moves that are the same everywhere: exact.
const EXACT: [&str; 4] = ["--source", "splitmix", "--iterations", "512"];

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diffusion"));
    command.stdin(Stdio::null());
    command
}

fn run(line: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let output: Output =
        program().args(line).envs(variables.iter().copied()).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// Runs a line that has to succeed, and gives what it prints.
fn succeed(line: &[&str]) -> String {
    let (code, stdout, stderr) = run(line, &[]);
    assert_eq!(code, 0, "{line:?}: {stderr}");
    stdout
}

/// Runs a line that has to fail with this code, and gives the error.
fn fail(line: &[&str], expected: i32) -> String {
    let (code, stdout, stderr) = run(line, &[]);
    assert_eq!((code, &stdout[..]), (expected, ""), "{line:?}: {stderr}");
    assert!(!stderr.contains("panicked") && !stderr.trim().is_empty(), "{line:?}: {stderr}");
    stderr
}

/// Where a program finds the devices of the key `TEST`.
fn test_devices() -> (&'static str, &'static str) {
    let plugin = flash_tests::plugins::built().test.to_str();
    ("FLASH_BACKEND_PATH", plugin.expect("a path of text"))
}

/// A directory for one test.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path of text").to_owned()
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), contents).expect("written");
        self.path(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("the file is there")
    }

    /// Runs a line that has to succeed, and gives its report.
    fn report(&self, line: &[&str], variables: &[(&str, &str)]) -> Value {
        let path = self.path("report.json");
        let (code, stdout, stderr) = run(&[line, &["--quiet", "--report", &path]].concat(), variables);
        assert_eq!((code, stdout, stderr), (0, String::new(), String::new()), "{line:?} {variables:?}");
        serde_json::from_slice(&self.bytes("report.json")).expect("JSON")
    }
}

/// The report has the exact counts.
fn assert_exact(report: &Value, place: &str) {
    assert_eq!(report["sums"], json!([106_909, 197, 5603]), "{place}");
    assert_eq!(report["centre"], json!([57_462, 53, 2049]), "{place}");
    let hashes = json!(["efcf5e40d2f59e90", "9bdfbe2e2d1c0f72", "9dcf895e092d5f31"]);
    assert_eq!(report["fnv1a64"], hashes, "{place}");
}

// Particles

#[test]
fn the_exact_problem_has_its_counts_on_any_number_of_threads_and_devices() {
    let place = Place::new();
    let plugin = test_devices();
    for (devices, runtime, variable) in [
        (1, "ALL_CPU", ("FLASH_CPU_THREADS", "1")),
        (1, "ALL_CPU", ("FLASH_CPU_THREADS", "2")),
        (1, "ALL_CPU", ("FLASH_CPU_THREADS", "7")),
        (2, "ALL_CPU", ("FLASH_CPU_DEVICES", "2")),
        (3, "TEST", ("FLASH_TEST", "devices=3")),
        (4, "TEST", ("FLASH_TEST", "devices=4")),
    ] {
        let report = place.report(&[&EXACT[..], &["--runtime", runtime]].concat(), &[variable, plugin]);
        assert_exact(&report, &format!("{variable:?}"));
        assert_eq!(report["devices"].as_array().expect("a list").len(), devices, "{variable:?}");
    }
}

#[test]
fn the_report_says_what_was_run_and_what_came_of_it() {
    let place = Place::new();
    let report = place.report(&EXACT, &[]);
    let keys: Vec<&str> = report.as_object().expect("an object").keys().map(|key| &key[..]).collect();
    let expected = [
        "centre",
        "devices",
        "dispatch_overhead_percent",
        "fnv1a64",
        "iterations",
        "particles",
        "runtime",
        "seconds",
        "source",
        "sums",
    ];
    assert_eq!(keys.len(), expected.len(), "{keys:?}");
    assert!(expected.iter().all(|key| keys.contains(key)), "{keys:?}");
    assert_eq!((&report["runtime"], &report["source"]), (&json!("ALL_ACCEL"), &json!("splitmix")));
    assert_eq!((&report["particles"], &report["iterations"]), (&json!(256), &json!(512)));
    assert!(report["seconds"].as_f64().expect("a number") > 0.0);
    assert!(report["dispatch_overhead_percent"].as_f64().expect("a number") >= 0.0);
    assert_exact(&report, "ALL_ACCEL");
}

#[test]
fn the_published_problem_is_near_the_published_sums() {
    let place = Place::new();
    let path = place.path("report.json");
    let text = succeed(&["--report", &path]);
    let report: Value = serde_json::from_slice(&place.bytes("report.json")).expect("JSON");
    assert_eq!(report["source"], "philox");
    // The words are those of the library; the rounding of their inverse differs with the kind of CPU.
    for (found, (published, apart)) in
        report["sums"].as_array().expect("a list").iter().zip([(2_012_665u64, 10), (198, 0), (96_728, 1)])
    {
        assert!(found.as_u64().expect("a count").abs_diff(published) <= apart, "{found} for {published}");
    }
    for part in ["published", "2012665", "198", "96728", "G moves/s", "dispatch overhead"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!succeed(&["--iterations", "10"]).contains("published"));
}

#[test]
fn moves_from_a_file_are_counted_as_by_hand() {
    let place = Place::new();
    // Two particles: one crosses to the next cell and comes back, one leaves the circle, then the grid.
    let moves = place.file("moves.csv", "# made by hand\nrx,ry\n1,0\n0.6,0\n-1,0\n9,9\n0.25,-0.25\n0,0\n");
    let line = ["--input", &moves, "--particles", "2", "--grid", "3"];
    let report = place.report(&line, &[]);
    assert_eq!(report["source"], "file");
    assert_eq!((&report["particles"], &report["iterations"]), (&json!(2), &json!(3)));
    // Both start at (1, 1). The first is at (2, 1), (1, 1), (1.25, 0.75): inside always, and enters two
    // cells. The second is at (1.6, 1), which is inside (2, 1), and then out of the grid.
    assert_eq!(report["sums"], json!([4, 1, 3]));
    assert_eq!(report["centre"], json!([2, 1, 1]));
}

#[test]
fn no_iterations_count_nothing() {
    let place = Place::new();
    let report = place.report(&["--iterations", "0"], &[]);
    assert_eq!(report["sums"], json!([0, 0, 0]));
    assert_eq!(report["dispatch_overhead_percent"], Value::Null);
}

#[test]
fn pictures_are_written_and_do_not_change_counts() {
    let place = Place::new();
    let (image, animation) = (place.path("counts.png"), place.path("particles.gif"));
    let report = place.report(&[&EXACT[..], &["--image", &image, "--animate", &animation]].concat(), &[]);
    assert_exact(&report, "in launches of one picture each");
    assert!(place.bytes("counts.png").starts_with(b"\x89PNG"));
    let gif = place.bytes("particles.gif");
    assert!(gif.starts_with(b"GIF89a"));
    assert_eq!(gif[6..10], [440u16.to_le_bytes(), 440u16.to_le_bytes()].concat());
}

#[test]
fn a_file_called_minus_goes_out_and_nothing_else_is_printed() {
    let report: Value =
        serde_json::from_str(&succeed(&[&EXACT[..], &["--report", "-"]].concat())).expect("JSON");
    assert_exact(&report, "on standard output");
    let place = Place::new();
    let moves = place.file("moves.csv", "rx,ry\n1,0\n0.6,0\n");
    let (input, image) = (fs::File::open(&moves).expect("there"), place.path("counts.png"));
    let line = ["--particles", "2", "--input"];
    succeed(&[&line[..], &[&moves, "--quiet", "--image", &image]].concat());
    let output = program().args(line).args(["-", "--image", "-"]).stdin(input).output().expect("it starts");
    assert_eq!(output.stdout, place.bytes("counts.png"));
    assert!(fail(&["--report", "-", "--image", "-"], 2).contains("standard output twice"));
    let field = place.file("field.pgm", "P2 2 1 9 9 0");
    let report: Value = serde_json::from_str(&succeed(&["--field", &field, "--report", "-"])).expect("JSON");
    assert_eq!(report["width"], json!(2));
}

// Fields

#[test]
fn a_field_spreads_and_keeps_its_mean() {
    let place = Place::new();
    // One white pixel.
    let pixels = (0..64 * 48).map(|i| if i == 24 * 64 + 32 { "255 " } else { "0 " });
    let field = place.file("field.pgm", format!("P2 64 48 255\n{}", pixels.collect::<String>()));
    let (image, animation) = (place.path("both.png"), place.path("field.gif"));
    let line = ["--field", &field, "--coefficient", "0.2", "--iterations", "50"];
    let files = ["--image", &image, "--animate", &animation];
    let report = place.report(&[&line[..], &files].concat(), &[]);
    let of = |when: &str, what: &str| report[when][what].as_f64().expect("a number");
    assert!((of("before", "mean") * 3072.0 - 1.0).abs() < 1e-6, "{report}");
    assert!((of("after", "mean") / of("before", "mean") - 1.0).abs() < 1e-4, "{report}");
    // 1 / (4 pi D t), what is left of a point.
    let left = 1.0 / (4.0 * std::f64::consts::PI * 0.2 * 50.0);
    assert!((of("after", "most") / left - 1.0).abs() < 0.02, "{report}");
    assert!(of("after", "least") >= 0.0 && of("after", "deviation") < of("before", "deviation"), "{report}");
    assert_eq!((&report["width"], &report["height"]), (&json!(64), &json!(48)));

    // The picture that was written is as large as both side by side; it can be a field again.
    let again = place.report(&["--field", &image, "--iterations", "1"], &[]);
    assert_eq!((&again["width"], &again["height"]), (&json!(64 + 8 + 64), &json!(48)));
    assert!(place.bytes("field.gif").starts_with(b"GIF89a"));

    let test = [&line[..], &["--runtime", "TEST"]].concat();
    let two = place.report(&test, &[("FLASH_TEST", "devices=2"), test_devices()]);
    assert_eq!(two["after"], report["after"], "over two devices");
    let text = succeed(&line);
    assert!(text.contains("before") && text.contains("after") && text.contains("deviation"), "{text}");
}

#[test]
fn an_unstable_field_is_refused_with_the_largest_stable_step() {
    let place = Place::new();
    let field = place.file("field.pgm", "P2 2 2 9 1 2 3 4");
    let report = place.path("report.json");
    let error = fail(&["--field", &field, "--coefficient", "0.5", "--report", &report], 2);
    assert!(error.contains("largest stable step") && error.contains("0.5"), "{error}");
    assert!(!Path::new(&report).exists(), "nothing was run");
    succeed(&["--field", &field, "--coefficient", "0.5", "--step", "0.5"]);
    succeed(&["--field", &field, "--coefficient", "0.25"]);
}

// What is wrong

#[test]
fn a_field_that_is_too_wide_for_a_picture_is_refused_before_the_run() {
    let place = Place::new();
    let field = place.file("wide.pgm", format!("P2 40000 1 1 {}", "1 ".repeat(40_000)));
    let (picture, report) = (place.path("picture"), place.path("report.json"));
    let line = ["--field", &field, "--report", &report, "--iterations", "1"];
    let error = fail(&[&line[..], &["--image", &picture]].concat(), 2);
    assert!(error.contains("--image: expected a picture of 1 to 65535 pixels"), "{error}");
    assert!(!Path::new(&report).exists() && !Path::new(&picture).exists(), "nothing was run");
    succeed(&[&line[..], &["--animate", &picture]].concat());
}

#[test]
fn wrong_use_ends_with_2_and_says_what_is_right() {
    for (line, part) in [
        ("--particles 0", "1..=16777216"),
        ("--particles=-1", "1..=16777216"),
        ("--particles 99999999", "1..=16777216"),
        ("--iterations many", "iterations"),
        ("--iterations 1.5", "iterations"),
        ("--grid 0", "1..=4096"),
        ("--grid 5000", "1..=4096"),
        ("--radius -1", "zero or positive"),
        ("--radius nan", "zero or positive"),
        ("--seed=-1", "--seed"),
        ("--source dice", "philox, splitmix"),
        ("--coefficient 0.1", "--field"),
        ("--step 0.1", "--field"),
        ("--field f.png --coefficient 0", "above zero"),
        ("--field f.png --coefficient inf", "above zero"),
        ("--field f.png --step -1", "above zero"),
        ("--field f.png --particles 5", "cannot be used with"),
        ("--input f.csv --iterations 5", "cannot be used with"),
        ("--input f.csv --field f.png", "cannot be used with"),
        ("--nonsense", "--nonsense"),
        ("file.csv", "file.csv"),
    ] {
        let error = fail(&line.split(' ').collect::<Vec<_>>(), 2);
        assert!(error.contains(part), "{line}: {part} in {error}");
    }
}

#[test]
fn malformed_files_end_with_2_and_are_named_with_the_place() {
    let place = Place::new();
    for (name, text, part) in [
        ("header.csv", "x,y\n1,2\n", "header.csv, line 1: expected the header `rx,ry`, found `x,y`"),
        ("three.csv", "rx,ry\n1,2,3\n", "three.csv, line 2: expected 2 fields"),
        ("word.csv", "rx,ry\n1,two\n", "word.csv, line 2, column 2:"),
        ("odd.csv", "rx,ry\n1,2\n", "odd.csv: expected a multiple of 256 moves"),
    ] {
        let input = place.file(name, text);
        let error = fail(&["--input", &input], 2);
        assert!(error.contains(part), "{part} in {error}");
    }
    for (name, text, part) in [
        ("other.gif", "GIF89a", "expected a PGM (P2 or P5) or PNG"),
        ("cut.pgm", "P5 9 9 255 ab", "it is cut"),
    ] {
        let field = place.file(name, text);
        let error = fail(&["--field", &field], 2);
        assert!(error.contains(part) && error.contains(name), "{part} in {error}");
    }
}

#[test]
fn what_cannot_be_opened_or_run_ends_with_1_and_leaves_no_file() {
    let place = Place::new();
    for option in ["--input", "--field"] {
        let missing = place.path("missing");
        let error = fail(&[option, &missing], 1);
        assert!(error.contains(option) && error.contains(&missing), "{error}");
    }
    for option in ["--report", "--image", "--animate"] {
        // A run would take hours.
        let nowhere = place.path("nowhere/file");
        let error = fail(&["--particles", "1000000", "--iterations", "1000000", option, &nowhere], 1);
        assert!(error.contains(option) && error.contains(&nowhere), "{error}");
    }
    let (new, old) = (place.path("new.json"), place.file("old.png", "old"));
    let error = fail(&["--runtime", "NO_SUCH_KEY", "--report", &new, "--image", &old], 1);
    assert!(error.contains("NO_SUCH_KEY"), "{error}");
    assert!(!Path::new(&new).exists(), "a failed run leaves no file");
    assert_eq!(place.bytes("old.png"), b"old", "a failed run keeps what was there");
}

#[test]
fn one_file_for_two_purposes_is_refused() {
    let place = Place::new();
    let path = place.path("both");
    for [one, other] in [["--report", "--image"], ["--image", "--animate"], ["--report", "--animate"]] {
        let error = fail(&[one, &path, other, &path], 2);
        assert!(error.contains(one) && error.contains(other), "{error}");
        assert!(!Path::new(&path).exists());
    }
    let field = place.file("field.pgm", "P2 1 1 1 1");
    assert!(fail(&["--field", &field, "--image", &field], 2).contains("--field and --image"));
    assert_eq!(place.bytes("field.pgm"), b"P2 1 1 1 1");
}

#[test]
fn help_teaches_every_option() {
    let help = succeed(&["--help"]);
    for part in [
        "--particles",
        "--iterations",
        "--grid",
        "--radius",
        "--seed",
        "--source",
        "--input",
        "--field",
        "--coefficient",
        "--step",
        "--runtime",
        "--report",
        "--image",
        "--animate",
        "--quiet",
        "Examples:",
        "Input file:",
        "Exit codes:",
        "rx,ry",
        "philox",
        "standard output",
        "splitmix",
    ] {
        assert!(help.contains(part), "{part} in {help}");
    }
}
