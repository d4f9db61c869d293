//! The program as a user meets it: its command line, files, exit codes and figures.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flash::recording::Recording;
use serde_json::Value;
use tempfile::TempDir;

/// Kinetic energies of the reference problem after steps 1 to 10, as published.
const PUBLISHED: [f64; 10] =
    [26.405, 313.77, 926.56, 1866.4, 3135.6, 4737.6, 6676.6, 8957.7, 11587.0, 14572.0];
const HEADER: &str = "name,mass,x,y,z,vx,vy,vz\n";
const TWO: &str = "name,mass,x,y,z,vx,vy,vz\nleft,1,-1,0,0,0,0.5,0\nright,1,1,0,0,0,-0.5,0\n";

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nbody"));
    command.stdin(Stdio::null());
    command
}

fn nbody(line: &[&str]) -> Output {
    program().args(line).output().expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Runs a line that has to succeed.
fn succeed(line: &[&str]) -> Output {
    let output = nbody(line);
    assert_eq!(code(&output), 0, "{line:?}: {}", stderr(&output));
    output
}

/// Runs a line that has to fail with this code, and gives the error.
fn fail(line: &[&str], expected: i32) -> String {
    let output = nbody(line);
    let error = stderr(&output);
    assert_eq!(code(&output), expected, "{line:?}: {error}");
    assert_eq!(stdout(&output), "", "{line:?}: nothing but an error");
    assert!(!error.contains("panicked"), "{line:?}: {error}");
    assert!(!error.trim().is_empty(), "{line:?}: an error says something");
    error
}

fn solar_system() -> String {
    format!("{}/data/solar-system.csv", env!("CARGO_MANIFEST_DIR"))
}

/// A directory for one test.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().expect("a path of text").to_owned()
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, contents).expect("written");
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).expect("the file is there")
    }

    /// Runs a line that has to succeed, and gives its report.
    fn report(&self, line: &[&str]) -> Value {
        let path = self.path("report.json");
        succeed(&[line, &["--quiet", "--report", &path]].concat());
        serde_json::from_str(&self.read("report.json")).expect("JSON")
    }
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap_or_else(|| panic!("a list, not {list}"));
    list.iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn assert_close(found: f64, expected: f64, relative: f64) {
    let error = (found - expected).abs() / expected.abs();
    assert!(error <= relative, "{found} for {expected}: {error:e} off");
}

// Figures

#[test]
fn the_reference_problem_has_the_published_energies() {
    let place = Place::new();
    let path = place.path("report.json");
    let output = succeed(&["--report", &path]);
    let report: Value = serde_json::from_str(&place.read("report.json")).expect("JSON");

    assert_eq!(report["bodies"], 16000);
    assert_eq!(report["steps"], 10);
    assert_eq!(report["precision"], "f32");
    assert_eq!(report["runtime"], "ALL_ACCEL");
    let energies = numbers(&report["kinetic_energy"]);
    assert_eq!(energies.len(), PUBLISHED.len());
    for (found, published) in energies.iter().zip(PUBLISHED) {
        let unit = 10f64.powi(published.log10().floor() as i32 - 4);
        assert!((found - published).abs() <= unit * 1.001, "{found} for {published}");
    }

    let text = stdout(&output);
    assert!(text.contains("kinetic energy") && text.contains("published"), "{text}");
    for published in ["26.405", "313.77", "926.56", "1866.4", "11587", "14572"] {
        assert!(text.contains(published), "{published} in {text}");
    }
    assert!(!text.contains("differs"), "{text}");
    let last = text.lines().last().expect("lines");
    assert!(last.contains("G interactions/s") && last.contains("dispatch overhead"), "{last}");
    assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
}

#[test]
fn the_solar_system_keeps_its_energy() {
    let place = Place::new();
    let line = "--gravity 1 --softening 0 --precision f64 --dt 0.01 --steps 10000 --total-energy";
    let mut line: Vec<&str> = line.split(' ').collect();
    let input = solar_system();
    line.extend(["--input", &input]);
    let report = place.report(&line);

    let initial = report["initial_total_energy"].as_f64().expect("a number");
    assert!((initial - -0.169075164).abs() < 5e-10, "{initial}");
    let total = numbers(&report["total_energy"]);
    assert_eq!(total.len(), 10000);
    for total in total {
        assert_close(total, initial, 5e-4);
    }
    assert_eq!(report["bodies"], 5);
}

#[test]
fn single_precision_stays_near_double_precision() {
    let place = Place::new();
    let run =
        |precision: &str| place.report(&["--bodies", "500", "--total-energy", "--precision", precision]);
    let (single, double) = (run("f32"), run("f64"));
    for list in ["kinetic_energy", "total_energy"] {
        let lists = numbers(&single[list]).into_iter().zip(numbers(&double[list]));
        for (single, double) in lists {
            assert_close(single, double, 1e-5);
        }
    }
}

#[test]
fn both_forms_compute_the_same() {
    let place = Place::new();
    let run =
        |form: &str| place.report(&["--bodies", "300", "--precision", "f64", "--steps", "5", "--form", form]);
    let (two, one) = (run("two-kernels"), run("one-kernel"));
    let lists = numbers(&two["kinetic_energy"]).into_iter().zip(numbers(&one["kinetic_energy"]));
    for (two, one) in lists {
        assert_close(one, two, 1e-12);
    }
    assert_eq!(numbers(&one["seconds"]).len(), 5);
}

#[test]
fn many_devices_give_the_energies_of_one() {
    let place = Place::new();
    // Devices with memories of their own.
    let plugin = flash_tests::plugins::built().test.clone();
    let run = |form: &[&str], variables: &[(&str, &str)]| {
        let path = place.path("report.json");
        let line = ["--bodies", "500", "--steps", "4", "--total-energy", "--quiet"];
        let runtime =
            if variables.iter().any(|(name, _)| *name == "FLASH_TEST") { "TEST" } else { "ALL_CPU" };
        let mut command =
            flash_tests::plugins::program(Path::new(env!("CARGO_BIN_EXE_nbody")), &plugin, &line);
        command.args(form).args(["--runtime", runtime, "--report", &path]);
        let output = command.envs(variables.iter().copied()).output().expect("the program starts");
        assert_eq!(code(&output), 0, "{variables:?}: {}", stderr(&output));
        let report: Value = serde_json::from_str(&place.read("report.json")).expect("JSON");
        let devices = report["devices"].as_array().expect("a list").len();
        (devices, numbers(&report["kinetic_energy"]), numbers(&report["total_energy"]))
    };
    for form in [["--form", "two-kernels"], ["--form", "one-kernel"]] {
        let (devices, kinetic, total) = run(&form, &[]);
        assert_eq!(devices, 1);
        for variables in [[("FLASH_CPU_DEVICES", "2")], [("FLASH_TEST", "devices=2")]] {
            assert_eq!(run(&form, &variables), (2, kinetic.clone(), total.clone()), "{form:?} {variables:?}");
        }
    }
}

#[test]
fn steps_in_one_launch_end_where_single_steps_do() {
    let place = Place::new();
    let (at_once, stepped) = (place.path("at-once.csv"), place.path("stepped.csv"));
    let line = ["--form", "one-kernel", "--bodies", "300", "--steps", "5", "--output"];
    succeed(&[&line[..], &[&at_once, "--quiet"]].concat());
    succeed(&[&line[..], &[&stepped]].concat());
    assert_eq!(place.read("at-once.csv"), place.read("stepped.csv"));
}

// The report

#[test]
fn the_report_holds_one_value_per_step_and_null_for_what_was_not_asked() {
    let place = Place::new();
    let report = place.report(&["--bodies", "64", "--steps", "3", "--runtime", "ALL_CPU"]);
    let mut keys: Vec<&str> = report.as_object().expect("an object").keys().map(|key| &key[..]).collect();
    keys.sort_unstable();
    let expected = [
        "bodies",
        "devices",
        "dispatch_overhead_percent",
        "initial_total_energy",
        "interactions_per_second",
        "kinetic_energy",
        "precision",
        "runtime",
        "seconds",
        "steps",
        "total_energy",
    ];
    assert_eq!(keys, expected);
    assert_eq!(report["runtime"], "ALL_CPU");
    assert_eq!(numbers(&report["kinetic_energy"]).len(), 3);
    assert_eq!(report["initial_total_energy"], Value::Null);
    assert_eq!(report["total_energy"], Value::Null);
    let devices = report["devices"].as_array().expect("a list");
    assert!(!devices.is_empty() && devices.iter().all(Value::is_string), "{report}");
    let seconds = numbers(&report["seconds"]);
    assert!(seconds.len() == 3 && seconds.iter().all(|&seconds| seconds > 0.0), "{report}");
    let rate = report["interactions_per_second"].as_f64().expect("a number");
    assert_close(rate, 64.0 * 64.0 * 3.0 / seconds.iter().sum::<f64>(), 1e-9);
    let overhead = report["dispatch_overhead_percent"].as_f64().expect("a number");
    assert!(overhead >= 0.0, "{report}");

    let report = place.report(&["--bodies", "64", "--steps", "3", "--total-energy"]);
    assert!(report["initial_total_energy"].is_f64(), "{report}");
    assert_eq!(numbers(&report["total_energy"]).len(), 3);
}

#[test]
fn no_steps_give_the_initial_state_and_empty_lists() {
    let place = Place::new();
    let report = place.report(&["--bodies", "64", "--steps", "0", "--total-energy"]);
    for list in ["kinetic_energy", "total_energy", "seconds"] {
        assert_eq!(report[list], Value::Array(vec![]), "{list}");
    }
    assert!(report["initial_total_energy"].is_f64(), "{report}");
    assert_eq!(report["interactions_per_second"], Value::Null);
    assert_eq!(report["dispatch_overhead_percent"], Value::Null);

    let output = succeed(&["--bodies", "64", "--steps", "0"]);
    assert!(stdout(&output).lines().any(|line| line.trim().starts_with("0 ")), "{output:?}");
    for form in ["one-kernel", "two-kernels"] {
        let state = place.path("state.csv");
        succeed(&["--bodies", "64", "--steps", "0", "--quiet", "--form", form, "--output", &state]);
        assert!(place.read("state.csv").starts_with(HEADER));
    }
}

// What is printed

#[test]
fn quiet_prints_nothing() {
    let output = succeed(&["--bodies", "64", "--quiet", "--total-energy"]);
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
}

#[test]
fn every_step_is_printed_and_total_energies_only_if_asked_for() {
    let output = stdout(&succeed(&["--bodies", "64", "--steps", "12"]));
    for step in 0..=12 {
        let starts = |line: &str| line.split_whitespace().next() == Some(&step.to_string());
        assert!(output.lines().any(starts), "step {step} in {output}");
    }
    assert!(!output.contains("total energy") && !output.contains("published"), "{output}");
    let output = stdout(&succeed(&["--bodies", "64", "--total-energy"]));
    assert!(output.contains("total energy"), "{output}");
}

#[test]
fn a_recorded_run_ends_where_the_run_does_in_both_forms_and_precisions() {
    for line in [&["--form", "two-kernels"][..], &["--form", "one-kernel"], &["--precision", "f64"]] {
        let place = Place::new();
        let (json, binary, output) = (place.path("run.json"), place.path("run.bin"), place.path("after.csv"));
        let run = [line, &["--bodies", "40", "--steps", "3", "--quiet", "--output", &output]].concat();
        succeed(&[&run[..], &["--record", &json]].concat());
        succeed(&[&run[..], &["--record", &binary]].concat());
        assert!(place.read("run.json").starts_with('{'), "a name in .json makes JSON");
        let recording = Recording::load(&binary).expect("a recording");
        assert_eq!(Recording::load(&json).expect("a recording"), recording);
        assert!(recording.has_data());

        let replayed = flash::get_runtime("ALL_ACCEL").expect("a runtime").replay(&recording).expect("a run");
        let (last, kernel) = (recording.submissions.len() - 1, recording.kernels.last().expect("a kernel"));
        let pos = kernel.arguments.iter().position(|a| a.name == "pos").expect("positions");
        let pos = recording.submissions[last].arguments[pos].memory().expect("a memory");
        let found: Vec<String> = match line.contains(&"f64") {
            true => replayed.read::<[f64; 3]>(pos).expect("f64").iter().map(|x| format!("{x:?}")).collect(),
            false => replayed.read::<[f32; 3]>(pos).expect("f32").iter().map(|x| format!("{x:?}")).collect(),
        };
        let after = place.read("after.csv");
        let expected: Vec<String> = after
            .lines()
            .skip(1)
            .map(|body| {
                let columns: Vec<&str> = body.split(',').collect();
                format!("[{}]", columns[2..5].join(", "))
            })
            .collect();
        assert_eq!(found, expected, "{line:?}");
    }
}

#[test]
fn help_names_every_option_and_shows_examples() {
    let output = stdout(&succeed(&["--help"]));
    for part in [
        "--bodies",
        "--steps",
        "--dt",
        "--softening",
        "--gravity",
        "--precision",
        "--runtime",
        "--input",
        "--output",
        "--report",
        "--record",
        "--image",
        "--animate",
        "--total-energy",
        "--quiet",
        "--form",
        "Examples:",
        "16000",
        "6.67259e-11",
        "standard output",
        "Exit codes:",
    ] {
        assert!(output.contains(part), "{part} in {output}");
    }
    assert!(stdout(&succeed(&["--version"])).contains("nbody"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = program()
        .args(["--bodies", "8", "--steps", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut byte = [0];
    let mut pipe = child.stdout.take().expect("a pipe");
    pipe.read_exact(&mut byte).expect("a first byte");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let output = program().args(["--bodies", "8"]).stdout(full()).output().expect("started");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("stdout"), "{}", stderr(&output));
    for (path, stdout) in [("/dev/full", Stdio::null()), ("-", full().into())] {
        let line = ["--bodies", "8", "--quiet", "--output", path];
        let error = program().args(line).stdout(stdout).output().expect("started");
        assert_eq!(code(&error), 1);
        assert!(stderr(&error).contains("--output"), "{}", stderr(&error));
    }
}

// Files in and out

#[test]
fn the_output_is_the_next_input() {
    let place = Place::new();
    for precision in ["f32", "f64"] {
        let (half, chained, whole) = (place.path("half"), place.path("chained"), place.path("whole"));
        let run =
            |line: &[&str]| succeed(&[line, &["--dt", "0.01", "--precision", precision, "--quiet"]].concat());
        run(&["--bodies", "50", "--steps", "5", "--output", &half]);
        run(&["--input", &half, "--steps", "5", "--output", &chained]);
        run(&["--bodies", "50", "--steps", "10", "--output", &whole]);
        assert_eq!(place.read("chained"), place.read("whole"), "{precision}");
        assert!(place.read("whole").contains("\nbody0,") && place.read("whole").contains("\nbody49,"));
    }
}

#[test]
fn the_output_may_replace_the_input_and_keeps_names() {
    let place = Place::new();
    let state = place.file("state.csv", format!("# mine\n{HEADER}\"a, b\",1,0,0,0,1,0,0\n"));
    succeed(&["--input", &state, "--output", &state, "--steps", "2", "--dt", "0.5", "--quiet"]);
    assert_eq!(place.read("state.csv"), format!("{HEADER}\"a, b\",1.0,1.0,0.0,0.0,1.0,0.0,0.0\n"));
}

#[test]
fn a_file_called_minus_comes_in_or_goes_out_and_nothing_else_is_printed() {
    let place = Place::new();
    let (after, recording) = (place.path("after.csv"), place.path("run.flash"));
    let out = |line: &[&str], input: Stdio| {
        let mut command = program();
        command.args(line).args(["--steps", "2"]).current_dir(place.path("")).stdin(input);
        let output = command.output().expect("the program starts");
        assert_eq!((code(&output), stderr(&output)), (0, String::new()), "{line:?}");
        output.stdout
    };
    let eight = |options: &[&str]| out(&[&["--bodies", "8"], options].concat(), Stdio::null());
    assert!(eight(&["--quiet", "--output", &after, "--record", &recording]).is_empty());
    assert_eq!(eight(&["--output", "-"]), place.read("after.csv").into_bytes());
    assert_eq!(eight(&["--record", "-"]), fs::read(&recording).expect("there"));
    let report: Value = serde_json::from_slice(&eight(&["--report", "-"])).expect("nothing but JSON");
    assert_eq!(numbers(&report["kinetic_energy"]).len(), 2);
    assert!(eight(&["--image", "-"]).starts_with(b"\x89PNG"));
    assert!(eight(&["--animate", "-"]).starts_with(b"GIF89a"));

    let next = out(&["--input", &after, "--output", "-"], Stdio::null());
    let input = fs::File::open(&after).expect("there");
    assert_eq!(out(&["--input", "-", "--output", "-"], input.into()), next);
    for [one, other] in [["--output", "--report"], ["--record", "--image"]] {
        assert!(fail(&[one, "-", other, "-"], 2).contains("standard output twice"));
    }
    assert_eq!(fs::read_dir(place.path("")).expect("a folder").count(), 2, "no file is called so");
    out(&["--bodies", "8", "--quiet", "--output", "./-"], Stdio::null());
    assert_eq!(place.read("-"), place.read("after.csv"));
}

#[test]
fn no_steps_copy_the_state() {
    let place = Place::new();
    let copy = place.path("copy.csv");
    succeed(&[
        "--input",
        &solar_system(),
        "--output",
        &copy,
        "--steps",
        "0",
        "--precision",
        "f64",
        "--quiet",
    ]);
    let lines = |text: String| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let (copy, original) =
        (lines(place.read("copy.csv")), lines(fs::read_to_string(solar_system()).expect("data")));
    assert_eq!(copy.len(), original.len());
    for (copy, original) in copy.iter().zip(&original).skip(1) {
        for (copy, original) in copy.split(',').zip(original.split(',')).skip(1) {
            let (copy, original): (f64, f64) =
                (copy.parse().expect("a number"), original.parse().expect("a number"));
            assert_eq!(copy, original);
        }
    }
}

#[test]
fn files_of_other_systems_are_read() {
    let place = Place::new();
    let run = |name: &str, text: String| {
        let input = place.file(name, text);
        let out = place.path("out.csv");
        succeed(&["--input", &input, "--output", &out, "--quiet"]);
        place.read("out.csv")
    };
    let plain = run("plain", TWO.into());
    assert_eq!(run("crlf", TWO.replace('\n', "\r\n")), plain);
    assert_eq!(run("mark", format!("\u{feff}{TWO}")), plain);
    assert_eq!(run("blank", format!("\n{TWO}\n\n  \n# end\n")), plain);
    assert_eq!(run("quoted", TWO.replace("left", "\"left\"")), plain);
    assert_eq!(run("unended", TWO.trim_end().into()), plain);
}

#[test]
fn one_body_and_massless_bodies_move_straight_on() {
    let place = Place::new();
    for mass in ["0", "1"] {
        let input = place.file("one.csv", format!("{HEADER}only,{mass},0,0,0,1,0,0\n"));
        let out = place.path("out.csv");
        succeed(&[
            "--input",
            &input,
            "--output",
            &out,
            "--softening",
            "0",
            "--dt",
            "1",
            "--quiet",
            "--total-energy",
        ]);
        assert!(place.read("out.csv").contains(&format!("only,{mass}.0,10.0,0.0,0.0,1.0,")));
    }
}

#[test]
fn time_may_run_backwards() {
    let place = Place::new();
    let input = place.file("two.csv", TWO);
    succeed(&["--input", &input, "--dt", "-1e-3", "--gravity", "-1", "--quiet"]);
}

#[test]
fn pictures_show_the_final_state_and_the_way_there() {
    let place = Place::new();
    let size = [384u32, 384].map(u32::to_be_bytes).concat();
    let (image, animation) = (place.path("after.png"), place.path("way.gif"));
    for form in ["two-kernels", "one-kernel"] {
        let line = ["--bodies", "64", "--steps", "3", "--quiet", "--form", form];
        succeed(&[&line[..], &["--image", &image, "--animate", &animation]].concat());
        let (image, animation) = (fs::read(&image).expect("there"), fs::read(&animation).expect("there"));
        assert!(image.starts_with(b"\x89PNG") && image[16..24] == size, "{form}");
        assert!(animation.starts_with(b"GIF89a"), "{form}");
        // The initial state, one after each step, and the last once more: it stays. Each has its delay.
        let control = [0x21, 0xf9, 0x04];
        assert_eq!(animation.windows(3).filter(|bytes| *bytes == control).count(), 5, "{form}");
    }
    for [one, other] in [["--image", "--animate"], ["--output", "--image"], ["--record", "--animate"]] {
        let error = fail(&[one, &image, other, &image], 2);
        assert!(error.contains(one) && error.contains(other), "{error}");
    }
}

// What is wrong with a command line

#[test]
fn wrong_use_ends_with_2() {
    let lines = [
        "--bodies 0",
        "--bodies -1",
        "--bodies many",
        "--bodies 1e4",
        "--bodies 99999999999999",
        "--steps -1",
        "--steps 1.5",
        "--dt nan",
        "--dt inf",
        "--dt fast",
        "--softening -1",
        "--softening nan",
        "--gravity nan",
        "--gravity -inf",
        "--precision f16",
        "--form three",
        "--nonsense",
        "file.csv",
        "--bodies",
        "--dt 0.1 --dt 0.2",
        "--dt 1e39",
        "--softening 1e30",
        "--softening 1e-200 --precision f64",
        "--gravity 1e-60",
    ];
    for line in lines {
        let line: Vec<&str> = line.split(' ').collect();
        fail(&line, 2);
    }
    assert!(fail(&["--dt", "nan"], 2).contains("finite"));
    assert!(fail(&["--dt", "1e39"], 2).contains("--precision f64"));
    let error = fail(&["--bodies", "5", "--input", &solar_system()], 2);
    assert!(error.contains("--bodies") && error.contains("--input"), "{error}");
}

#[test]
fn one_file_for_two_purposes_ends_with_2_and_is_not_touched() {
    let place = Place::new();
    let path = place.path("both");
    fail(&["--bodies", "8", "--output", &path, "--report", &path], 2);
    assert!(!Path::new(&path).exists());
    let input = place.file("two.csv", TWO);
    let alias = format!("{}/./two.csv", place.path(""));
    fail(&["--input", &input, "--report", &alias], 2);
    fail(&["--input", &input, "--record", &alias], 2);
    assert_eq!(place.read("two.csv"), TWO);
    fail(&["--bodies", "8", "--output", &path, "--record", &path], 2);
    assert!(!Path::new(&path).exists());
}

#[test]
fn an_unknown_runtime_ends_with_1_and_is_named() {
    let place = Place::new();
    let (new, old) = (place.path("new.csv"), place.file("old.json", "old"));
    let line = ["--bodies", "8", "--runtime", "NO_SUCH_KEY"];
    let files = ["--output", &new, "--report", &old];
    let error = fail(&[line, files].concat(), 1);
    assert!(error.contains("NO_SUCH_KEY"), "{error}");
    assert!(!Path::new(&new).exists(), "a failed run leaves no file");
    assert_eq!(place.read("old.json"), "old", "a failed run keeps what was there");
}

// What is wrong with files

#[test]
fn a_malformed_input_ends_with_2_and_names_line_and_column() {
    let place = Place::new();
    let body = |fields: &str| format!("# one\n{HEADER}# three\na,1,2,3,4,5,6,7\n\n{fields}\n");
    let cases: &[(String, usize, usize)] = &[
        (String::new(), 1, 1),
        ("# nothing else\n".into(), 1, 1),
        (HEADER.into(), 1, 1),
        ("a,1,2,3,4,5,6,7\n".into(), 1, 1),
        ("name,mass,x,y,z,vx,vy\n".into(), 1, 8),
        ("name,mass,x,y,z,vx,vz,vy\n".into(), 1, 7),
        ("name,mass,x,y,z,vx,vy,vz,vz\n".into(), 1, 9),
        (body(HEADER.trim()), 6, 2),
        (body("b,1,2,3,4,5,6"), 6, 8),
        (body("b,1,2,3,4,5,6,7,8"), 6, 9),
        (body("b,heavy,2,3,4,5,6,7"), 6, 2),
        (body("b,1,,3,4,5,6,7"), 6, 3),
        (body("b,1,2,3,NaN,5,6,7"), 6, 5),
        (body("b,1,2,3,4,5,6,inf"), 6, 8),
        (body("b,-1,2,3,4,5,6,7"), 6, 2),
        (body("b,1,2,1e39,4,5,6,7"), 6, 4),
        (body("\"b,1,2,3,4,5,6,7"), 6, 1),
    ];
    for (text, line, column) in cases {
        let input = place.file("bad.csv", text);
        let (out, report) = (place.path("out.csv"), place.path("report.json"));
        let error = fail(&["--input", &input, "--output", &out, "--report", &report], 2);
        let where_ = format!("bad.csv, line {line}, column {column}:");
        assert!(error.contains(&where_), "{where_} for {text:?}: {error}");
        assert!(error.contains("expected") && error.contains("found"), "{error}");
        assert!(!Path::new(&out).exists() && !Path::new(&report).exists(), "{text:?}");
    }
    let input = place.file("bad.csv", [HEADER.as_bytes(), b"a,1,\xff"].concat());
    let error = fail(&["--input", &input], 2);
    assert!(error.contains("line 2, column 3:") && error.contains("UTF-8"), "{error}");
}

#[test]
fn a_number_beyond_single_precision_is_read_in_double_precision() {
    let place = Place::new();
    let input = place.file("far.csv", format!("{HEADER}far,1,1e39,0,0,0,0,0\n"));
    assert!(fail(&["--input", &input], 2).contains("--precision f64"));
    succeed(&["--input", &input, "--precision", "f64", "--quiet"]);
}

#[test]
fn bodies_in_one_place_need_softening() {
    let place = Place::new();
    let input = place.file("one.csv", format!("{HEADER}a,1,0,0,0,0,0,0\nb,1,0,-0,0,0,0,0\n"));
    let error = fail(&["--input", &input, "--softening", "0"], 2);
    assert!(error.contains("`a`") && error.contains("`b`"), "{error}");
    succeed(&["--input", &input, "--quiet"]);
}

#[test]
fn an_input_that_cannot_be_read_ends_with_1() {
    let place = Place::new();
    for path in [place.path("missing.csv"), place.path("")] {
        let error = fail(&["--input", &path], 1);
        assert!(error.contains("--input") && error.contains(&path), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_run() {
    let place = Place::new();
    for option in ["--report", "--output", "--record", "--image", "--animate"] {
        // A run would take hours.
        for path in [place.path("missing/file"), place.path("")] {
            let error = fail(&["--bodies", "100000", "--steps", "1000000", option, &path], 1);
            assert!(error.contains(option) && error.contains(&path), "{error}");
        }
    }
}

#[test]
fn a_disk_that_is_full_leaves_the_old_file() {
    let place = Place::new();
    let state = place.path("state.csv");
    succeed(&["--bodies", "64", "--steps", "0", "--quiet", "--output", &state]);
    let before = place.read("state.csv");
    // No file may have more than 1024 bytes: the signal for that is ignored, and writing fails.
    let script = "trap '' XFSZ; ulimit -f 2; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_nbody"),
        "--input",
        &state,
        "--output",
        &state,
        "--quiet",
    ]);
    let output = command.stdin(Stdio::null()).output().expect("started");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("--output"), "{}", stderr(&output));
    assert_eq!(place.read("state.csv"), before);
    assert_eq!(fs::read_dir(place.0.path()).expect("a directory").count(), 1);
}

#[test]
fn an_interrupted_run_leaves_no_file() {
    let place = Place::new();
    let (new, old) = (place.path("new.csv"), place.file("old.json", "old"));
    let mut command = program();
    command.args(["--bodies", "64", "--steps", "1000000000", "--output", &new, "--report", &old]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut first = [0];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("it prints");
    child.kill().expect("killed");
    assert!(!child.wait().expect("ended").success());
    assert_eq!(place.read("old.json"), "old");
    assert_eq!(fs::read_dir(place.0.path()).expect("a directory").count(), 1);
}

#[test]
fn a_state_that_is_no_longer_finite_ends_with_1_and_is_not_written() {
    let place = Place::new();
    let input = place.file("fast.csv", format!("{HEADER}fast,1,0,0,0,3e38,0,0\n"));
    let out = place.file("out.csv", "old");
    let line = ["--input", &input, "--output", &out, "--dt", "10"];
    for quiet in [&[][..], &["--quiet"]] {
        let output = nbody(&[&line[..], quiet].concat());
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        // The energies show it where they are watched, otherwise the bodies do.
        let said = stderr(&output);
        assert!(said.contains("finite") && (quiet.is_empty() || said.contains("`fast`")), "{said}");
        assert_eq!(place.read("out.csv"), "old");
    }
}
