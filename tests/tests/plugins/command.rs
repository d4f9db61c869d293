//! The `flash` command.

use flash_tests::plugins::{self, Language};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Output, Stdio};

/// An element of `backends` in the output of `flash list --json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub key: Option<String>,
    pub plugin: String,
    pub state: String,
    pub reason: Option<String>,
    pub devices: Vec<Device>,
}

/// An element of `devices`; there is more in it.
#[derive(Debug, Deserialize)]
pub struct Device {
    pub id: String,
    pub name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    backends: Vec<Entry>,
}

/// `flash list --json` with a search path: it succeeds whatever the files are like.
pub fn list(path: impl Into<OsString>) -> Vec<Entry> {
    list_with(path, &[])
}

/// The same with variables.
pub fn list_with(path: impl Into<OsString>, variables: &[(&str, &str)]) -> Vec<Entry> {
    let output = plugins::flash(path, &["list", "--json"]).envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
    let list: List = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", plugins::text_of(&output)));
    list.backends
}

fn run(arguments: &[&str]) -> Output {
    plugins::flash("", arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn json_has_just_the_fields_that_are_documented() {
    let output = run(&["list", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cpu = value["backends"].as_array().unwrap().iter().find(|b| b["key"] == "ALL_CPU").unwrap();
    let fields: Vec<&str> = cpu.as_object().unwrap().keys().map(String::as_str).collect();
    for field in ["key", "plugin", "state", "reason", "devices"] {
        assert!(fields.contains(&field), "{cpu}");
    }
    assert_eq!(fields.len(), 5, "{cpu}");
    assert_eq!((cpu["plugin"].as_str(), cpu["state"].as_str()), (Some("embedded"), Some("available")));
    assert!(cpu["reason"].is_null());
    let device = &cpu["devices"][0];
    assert_eq!(device["id"], "ALL_CPU:0");
    assert!(
        device["threads"].as_u64().unwrap() > 0 && !device["name"].as_str().unwrap().is_empty(),
        "{device}"
    );
}

#[test]
fn the_table_shows_plugins_reasons_devices_and_kernels() {
    let place = plugins::directory();
    std::fs::write(place.path().join("text.so"), "hello").unwrap();
    plugins::shared(Language::C, &plugins::c_source("kernels.c"), &[], &place.path().join("kernels.so"));
    plugins::shared(Language::C, &plugins::c_source("backend.c"), &[], &place.path().join("backend.so"));
    let output = plugins::flash(place.path(), &["list"]).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for part in [
        "ALL_CPU   available    embedded\n",
        "RANK      unavailable  embedded\n",
        "MY_ACCEL  available    ",
        "(my-accel 1.0)",
        "-         available    ",
        "(my-kernels 2.1)",
        "-         refused      ",
        "    expected a shared library (ELF), found a text file\n",
        "for tests, never part of a group",
        "one thread, in C",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    // Columns stand one below the other.
    let heads = ["DEVICE", "KERNEL"];
    for (head, column) in heads.iter().zip(["THREADS", "IMPLEMENTATION"]) {
        let lines: Vec<&str> =
            text.lines().skip_while(|l| !l.starts_with(head)).take_while(|l| !l.is_empty()).collect();
        let at = lines[0].find(column).unwrap();
        for line in lines.iter().filter(|l| !l.starts_with(' ')) {
            assert_eq!(line.as_bytes()[at - 1], b' ', "{text}");
            assert_ne!(line.as_bytes()[at], b' ', "{text}");
        }
    }
    let kernel = text.lines().find(|l| l.starts_with("plugins.fill")).unwrap_or_else(|| panic!("{text}"));
    assert!(kernel.contains(" fast ") && kernel.ends_with("kernels.so"), "{kernel}");
    assert!(
        text.lines().any(|l| l.starts_with("flash.nbody.accelerate") && l.ends_with("embedded")),
        "{text}"
    );
    // What is for tests is listed on demand.
    let lines = |text: &str| {
        text.lines().filter(|l| ["NULL", "conformance."].iter().any(|s| l.starts_with(s))).count()
    };
    assert!(lines(&text) == 0 && text.trim_end().ends_with("more are for tests: --all shows them"), "{text}");
    let all = stdout(&plugins::flash(place.path(), &["list", "--all"]).output().unwrap());
    assert!(lines(&all) > 2 && !all.contains("for tests: --all"), "{all}");
}

#[test]
fn the_text_of_a_kernel_is_shown_by_its_name_and_by_the_end_of_it() {
    let place = plugins::directory();
    plugins::shared(Language::C, &plugins::c_source("kernels.c"), &[], &place.path().join("kernels.so"));
    let of = |name: &str| plugins::flash(place.path(), &["kernels", "--text", name]).output().unwrap();
    let whole = of("flash.spmv");
    let text = stdout(&whole);
    assert!(whole.status.success(), "{text}");
    // A heading for each kind of device and each set of types, and the text itself.
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("// `flash.spmv`, ")).collect();
    for part in ["`spmv.cu`, for cuda, ", "`any`, for opencl, "] {
        for value in ["value: f32", "value: f64"] {
            let one = heads.iter().filter(|head| head.contains(part) && head.contains(value));
            assert_eq!(one.count(), 1, "{part} of {value} in {heads:#?}");
        }
    }
    assert!(
        heads.is_sorted_by_key(|head| head.rsplit_once(", of ").unwrap().0.rsplit_once("for ").unwrap().1)
    );
    assert_eq!(text.matches("FLASH_KERNEL spmv(").count(), heads.len());
    assert_eq!(stdout(&of("spmv")), text);
    // Neither is there a kernel of any name, nor has each a text.
    for name in ["no.such", "plugins.fill"] {
        let refused = of(name);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("none named `{name}`")) && said.contains("flash.spmv"), "{said}");
        assert!(said.contains("FLASH_TEXTS=DIR"), "{said}");
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn a_program_writes_the_texts_of_its_kernels_where_it_is_told_to() {
    let place = plugins::directory();
    let texts = place.path().join("some/texts");
    let run = |folder: &std::path::Path| {
        let mut command = plugins::flash(place.path(), &["kernels", "--text", "flash.spmv"]);
        command.env("FLASH_TEXTS", folder).output().unwrap()
    };
    let output = run(&texts);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let written = std::fs::read_to_string(texts.join("flash.spmv.c")).unwrap();
    assert_eq!(written.trim_end(), stdout(&output).trim_end());
    assert!(texts.join("flash.nbody.accelerate.c").exists());
    // A file is no folder: the program says so once, and goes on.
    let output = run(&texts.join("flash.spmv.c"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.matches("FLASH_TEXTS: expected a folder").count() == 1, "{said}");
}

#[test]
fn a_list_is_made_where_nothing_is_found() {
    let output = plugins::flash("/nonexistent/plugins", &["list"]).output().unwrap();
    let text = stdout(&output);
    assert!(
        output.status.success() && text.contains("nothing of that name") && text.contains("ALL_CPU"),
        "{text}"
    );
}

#[test]
fn a_directory_beside_the_program_is_the_default() {
    let place = plugins::directory();
    let program = place.path().join("flash");
    std::fs::copy(&plugins::built().flash, &program).unwrap();
    std::fs::create_dir(place.path().join("flash-backends")).unwrap();
    plugins::shared(
        Language::C,
        &plugins::c_source("backend.c"),
        &[],
        &place.path().join("flash-backends/backend.so"),
    );
    let list = |path: Option<&str>| {
        let mut command = std::process::Command::new(&program);
        command.args(["list", "--json"]).env_remove("FLASH_BACKEND_PATH");
        command.envs(path.map(|p| ("FLASH_BACKEND_PATH", p)));
        stdout(&command.output().unwrap())
    };
    assert!(list(None).contains("MY_ACCEL"));
    assert!(!list(Some("")).contains("MY_ACCEL"), "a path that is set, if to nothing, is the path");
}

#[test]
fn help_teaches() {
    let output = run(&["--help"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    for part in [
        "Examples:",
        "flash doctor",
        "flash list --json",
        "flash conformance MY_ACCEL",
        "flash replay nbody.flash",
        "flash diff nbody.flash --a ALL_CPU --b MY_ACCEL",
        "FLASH_BACKEND_PATH",
        "FLASH_ALLOW_WORLD_WRITABLE",
        "FLASH_CPU_THREADS",
        "FLASH_CPU_DEVICES",
        "FLASH_TEST",
        "FLASH_CPU_LINGER_US",
        "FLASH_BLOCKING_THREADS",
        "FLASH_GRAPH_DOT",
        "FLASH_TEXTS",
        "FLASH_HOST_BUDGET",
        "FLASH_HOST_GRANULE",
        "FLASH_CHECK_BOUNDS",
        "FLASH_CHECK_MAPS",
        "FLASH_CHECK_WRITES",
        "Exit status: 0",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let list = stdout(&run(&["list", "--help"]));
    assert!(list.contains("\"backends\"") && list.contains("--json"), "{list}");
    let conformance = stdout(&run(&["conformance", "--help"]));
    for part in
        ["MY_ACCEL:1", "--check <NAME>", "debugger", "--time-limit <SECONDS>", "\"result\"", "incomplete"]
    {
        assert!(conformance.contains(part), "no `{part}` in:\n{conformance}");
    }
    let doctor = stdout(&run(&["doctor", "--help"]));
    for part in ["--json", "\"advice\"", "--time-limit <SECONDS>", "Exit status 1"] {
        assert!(doctor.contains(part), "no `{part}` in:\n{doctor}");
    }
    assert!(
        ![list, conformance, doctor].iter().any(|text| text.contains("--worker")),
        "it is for the command itself"
    );
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn wrong_usage_is_exit_status_2() {
    for arguments in [&[][..], &["lst"], &["list", "--jsn"], &["list", "extra"], &["conformance"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn conformance_prints_a_report_and_fails_where_a_check_does() {
    let output = run(&["conformance", "NULL"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.lines()
            .all(|l| l.starts_with("passed ") || l.starts_with("skipped ") || l.starts_with("NULL: ")),
        "{text}"
    );
    let last = text.lines().last().unwrap();
    assert!(
        last.ends_with(", 0 failed; no result was checked, since the device says `conformance.dry`"),
        "{text}"
    );

    let output = plugins::flash(&plugins::built().broken, &["conformance", "BROKEN"]).output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FAILED   BROKEN:0 "), "{text}");

    let output = run(&["conformance", "ABACUS"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with("error: ") && message.contains("there is no backend `ABACUS`"), "{message}");
    assert!(message.contains("looked for in no folder, since the path of plugins is empty"), "{message}");
    let output = plugins::flash("/nowhere", &["conformance", "ABACUS"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("looked for in `/nowhere`, the path of plugins"), "{message}");

    let output = run(&["conformance", "null"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no backend `null`; write `NULL`"), "{message}");

    let mut unset = plugins::flash("", &["conformance", "ABACUS"]);
    let output = unset.env_remove("FLASH_BACKEND_PATH").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("flash-backends`, since FLASH_BACKEND_PATH is unset"), "{message}");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for arguments in [&["list"][..], &["list", "--json"], &["conformance", "NULL"], &["--help"]] {
        let mut command = plugins::flash("", arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {}", output.status);
    }
}

#[test]
fn the_command_was_built_from_this_workspace() {
    assert!(Path::new(&plugins::built().flash).is_file());
}

#[test]
fn variables_that_do_not_fit_are_reported_once_and_the_defaults_hold() {
    let mut flash = plugins::flash("", &["list"]);
    flash.env("FLASH_CPU_DEVICES", "many").env("FLASH_CPU_COPYY", "1").env("FLASH_CPU_THREADS", "");
    let output = flash.output().unwrap();
    assert!(output.status.success(), "{}", plugins::text_of(&output));
    let errors = String::from_utf8(output.stderr).unwrap();
    let expected = [
        "flash: FLASH_CPU_COPYY is no setting: FLASH_CPU_COPY is one",
        "flash: FLASH_CPU_DEVICES: expected a whole number from 1 to 1024, found `many`; the default holds",
    ];
    assert_eq!(errors.lines().collect::<Vec<_>>(), expected);
    assert!(String::from_utf8(output.stdout).unwrap().contains("ALL_CPU:0"));
}

#[test]
fn topology_shows_this_machine_and_says_what_is_lacking() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (picture, machine) = (file("m.svg"), file("m.json"));
    let output = run(&["topology", "--json", "--svg", &picture]);
    assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let host = &json["hosts"][0];
    let devices = host["devices"].as_array().unwrap();
    let cpu = devices.iter().find(|device| device["id"] == "ALL_CPU:0").unwrap();
    assert_eq!((&cpu["class"], &cpu["spaces"][0]["kind"]), (&"cpu".into(), &"host".into()), "{json}");
    assert!(!host["sockets"][0]["cores"].as_array().unwrap().is_empty(), "{json}");
    assert!(std::fs::read_to_string(&picture).unwrap().contains("cpu 0"));
    // The machine of a file is this one, so there is still one.
    std::fs::write(&machine, &output.stdout).unwrap();
    let text = stdout(&run(&["topology", "--with", &machine]));
    assert_eq!(text.matches("NUMA node 0").count(), 1, "{text}");
    let code = |arguments: &[&str]| {
        let output = run(arguments);
        (output.status.code(), plugins::text_of(&output))
    };
    assert_eq!(code(&["topology", "--needs", &machine]).0, Some(0));
    let more = r#"{"hosts": [{"devices": [{"class": "gpu", "threads": 4000000000}]}]}"#;
    std::fs::write(&machine, more).unwrap();
    let (status, said) = code(&["topology", "--needs", &machine]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no device for the class `gpu`, 4000000000 threads"), "{said}");
    std::fs::write(&machine, "{\"host\": []}").unwrap();
    for (arguments, expected, part) in [
        (["--with", &machine], 2, "unknown field `host`"),
        (["--needs", &file("none")], 1, "cannot be read"),
        (["--svg", &file("none/m.svg")], 1, "cannot be written"),
    ] {
        let (status, said) = code(&["topology", arguments[0], arguments[1]]);
        assert!(status == Some(expected) && said.contains(part), "{status:?}: {part} is not in {said}");
    }
}

#[test]
fn halo_check_shows_the_faults_of_a_configuration_with_their_places() {
    let place = plugins::directory();
    let file = place.path().join("halo.json");
    let check = |text: &str, arguments: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let all = [&["halo", "check", file.to_str().unwrap()], arguments].concat();
        let output = plugins::flash("", &all).output().unwrap();
        (output.status.code(), plugins::text_of(&output))
    };
    let sound = r#"{"host_list": [{"host_name": "a", "port": "80"}], "func_list": [{"func_alias": "MMM", "sw_fid": "12345"}]}"#;
    let (status, said) = check(sound, &[]);
    assert!(status == Some(0) && said.contains("1 functions (MMM)"), "{said}");
    assert!(said.contains("halo.json:1:35: note: `port` is kept"), "{said}");
    let (status, said) = check("{\n  \"func_list\": [{\"func_alias\": 7}]\n}", &[]);
    assert!(status == Some(1) && said.contains("halo.json:2:32: func_alias: expected a text"), "{said}");
    let (status, said) = check("{", &["--json"]);
    assert!(
        status == Some(1) && said.contains("\"result\": \"faulty\"") && said.contains("\"column\": 1"),
        "{said}"
    );
    let output = plugins::flash("", &["halo", "check", "/no/such/file"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let schema = plugins::flash("", &["halo", "schema"]).output().unwrap();
    assert!(plugins::text_of(&schema).contains("func_list"));
}
