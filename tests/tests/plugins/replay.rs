//! `flash replay` and `flash diff`, on what `nbody --record` writes.

use flash::kernels::nbody::Integrate;
use flash::prelude::*;
use flash::recording::{Data, Recording};
use flash_tests::plugins::{self, Language};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const BODIES: &str = "100";

/// A directory with `run.json` and `run.flash`: three steps of nbody, six submissions.
fn recorded() -> TempDir {
    let place = plugins::directory();
    for name in ["run.json", "run.flash"] {
        let path = place.path().join(name);
        let line = ["--quiet", "--steps", "3", "--runtime", "ALL_CPU", "--bodies", BODIES, "--record"];
        let output = Command::new(&plugins::built().nbody).args(line).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", plugins::text_of(&output));
    }
    place
}

/// A directory with the backend in C, and with an integrator for it that is off by a factor.
fn accelerator(off_by: Option<&str>) -> TempDir {
    let place = plugins::directory();
    plugins::shared(Language::C, &plugins::c_source("backend.c"), &[], &place.path().join("backend.so"));
    if let Some(factor) = off_by {
        let define = format!("-DOFF_BY={factor}");
        plugins::shared(Language::C, &plugins::c_source("off.c"), &[&define], &place.path().join("off.so"));
    }
    place
}

fn flash(plugins: &Path, line: &[&str]) -> Output {
    plugins::flash(plugins, line).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", plugins::text_of(output)))
}

#[test]
fn a_recorded_run_is_replayed_and_both_forms_give_the_same() {
    let place = recorded();
    let [one, other] = ["run.json", "run.flash"].map(|name| {
        let file = place.path().join(name);
        let output = flash(Path::new(""), &["replay", text(&file), "--runtime", "ALL_CPU", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
        json(&output)
    });
    assert!(one["file"].as_str().unwrap().ends_with("run.json") && one["runtime"] == "ALL_CPU");
    let file = std::fs::File::open(place.path().join("run.flash")).unwrap();
    let mut piped = plugins::flash("", &["replay", "-", "--runtime", "ALL_CPU", "--json"]);
    let piped = json(&piped.stdin(file).output().unwrap());
    assert!(piped["file"] == "-" && piped["memories"] == one["memories"], "{piped}");
    assert_eq!(one["submissions"], 6);
    let launches = one["launches"].as_array().unwrap();
    let kernels: Vec<&str> = launches.iter().map(|l| l["kernel"].as_str().unwrap()).collect();
    assert_eq!(kernels, ["flash.nbody.accelerate", "flash.nbody.integrate"].repeat(3));
    for (i, launch) in launches.iter().enumerate() {
        assert_eq!(launch["submission"], i);
        assert_eq!((launch["device"].as_str(), launch["items"].as_u64()), (Some("ALL_CPU:0"), Some(100)));
        assert!(launch["wall_nanoseconds"].as_u64().unwrap() > 0, "{launch}");
    }
    let memories = one["memories"].as_array().unwrap();
    assert_eq!(memories.len(), 3, "accelerations, positions, velocities; masses are only read: {one}");
    assert!(memories.iter().all(|m| m["element"] == "[f32; 3]" && m["bytes"] == 1200), "{one}");

    // The checksums are those of what a replay in this program gives.
    let recording = Recording::load(place.path().join("run.flash")).unwrap();
    let replayed = get_runtime("ALL_CPU").unwrap().replay(&recording).unwrap();
    for memory in memories {
        let bytes = replayed.bytes(memory["index"].as_u64().unwrap() as usize).unwrap();
        assert_eq!(memory["crc32"], format!("{:08x}", crc32fast::hash(&bytes)));
    }
    assert_eq!(one["memories"], other["memories"]);

    // On two devices a submission is cut: its launches have its items between them. Equally, until it is
    // known how fast the devices are.
    let mut command =
        plugins::flash(Path::new(""), &["replay", text(&place.path().join("run.flash")), "--json"]);
    let two = json(&command.args(["--runtime", "ALL_CPU"]).env("FLASH_CPU_DEVICES", "2").output().unwrap());
    for submission in 0..6 {
        let launches = two["launches"].as_array().unwrap().iter().filter(|l| l["submission"] == submission);
        let (devices, items): (Vec<_>, Vec<_>) =
            launches.map(|l| (l["device"].as_str().unwrap(), l["items"].as_u64().unwrap())).unzip();
        assert_eq!(items.iter().sum::<u64>(), 100, "{two}");
        assert!(
            submission > 1 || (devices.contains(&"ALL_CPU:0") && devices.contains(&"ALL_CPU:1")),
            "{two}"
        );
    }
    assert_eq!(two["memories"], other["memories"], "the same bits");

    let file = place.path().join("run.flash");
    let output = flash(Path::new(""), &["replay", text(&file)]);
    let table = String::from_utf8(output.stdout).unwrap();
    for part in ["run.flash: 6 submissions on ALL_ACCEL", "flash.nbody.integrate", "ALL_CPU:0", "CRC-32"] {
        assert!(table.contains(part), "no `{part}` in:\n{table}");
    }
}

#[test]
fn recordings_of_version_1_are_replayed_under_the_present_names_of_their_kernels() {
    let place = plugins::workspace().join("tests/kernels/recordings");
    let [one, other] = ["version_1.json", "version_1.flash"].map(|name| {
        let file = place.join(name);
        let output = flash(Path::new(""), &["replay", text(&file), "--runtime", "ALL_CPU:0", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
        json(&output)
    });
    let launches = one["launches"].as_array().unwrap();
    let kernels: Vec<&str> = launches.iter().map(|launch| launch["kernel"].as_str().unwrap()).collect();
    assert_eq!(kernels.len(), 13, "{one}");
    assert!(kernels.iter().all(|kernel| kernel.starts_with("flash.")), "{kernels:?}");
    assert_eq!(one["memories"], other["memories"], "the same bits");

    let newer = std::fs::read_to_string(place.join("version_1.json")).unwrap().replacen("1", "3", 1);
    let place = plugins::directory();
    let file = place.path().join("newer.json");
    std::fs::write(&file, newer).unwrap();
    let output = flash(Path::new(""), &["replay", text(&file)]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let expected =
        "newer.json: expected version 1 to 2 of the format, found 3, which a newer FLASH wrote: read";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn runtimes_that_compute_the_same_agree() {
    let (place, accelerator) = (recorded(), accelerator(None));
    let file = place.path().join("run.json");
    let line = ["diff", text(&file), "--a", "ALL_CPU", "--b", "MY_ACCEL"];
    let output = flash(accelerator.path(), &line);
    assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("ALL_CPU and MY_ACCEL agree in 6 submissions (tolerance 0)"), "{text}");

    let output = flash(accelerator.path(), &[&line[..], &["--json"]].concat());
    let report = json(&output);
    assert!(
        report["agree"] == true && report["difference"].is_null() && report["submissions"] == 6,
        "{report}"
    );
}

#[test]
fn one_device_and_two_agree_where_a_map_looks_into_an_array() {
    let (rt, place) = (get_runtime("ALL_CPU").unwrap(), plugins::directory());
    let (start, column): (FlashMemory<u64>, FlashMemory<u32>) =
        ((0..=60).map(|row| row * row).collect(), (0..3600).map(|i| i * 7 % 60).collect());
    let value: FlashMemory<f32> = (0..3600).map(|i| (i % 23) as f32).collect();
    let b: FlashMemory<f32> = (0..180).map(|i| 0.1 * i as f32).collect();
    let (b, c) = (b.with_shape([3, 60]).unwrap(), FlashMemory::zeroed([3, 60]));
    let a = flash::kernels::Csr::new([60, 60], start, column, value).unwrap();
    let product = flash::kernels::smmm(&a, &b, &c).unwrap();
    let file = place.path().join("sparse.flash");
    rt.submit(product).defer([60]).recording(Data::With).unwrap().save(&file).unwrap();
    let mut command =
        plugins::flash(&plugins::built().test, &["diff", text(&file), "--a", "TEST:0", "--b", "TEST"]);
    let output = command.env("FLASH_TEST", "devices=2").output().unwrap();
    let message = plugins::text_of(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.contains("TEST:0 and TEST agree in 1 submission"), "{message}");
}

#[test]
fn the_first_difference_is_found_and_a_tolerance_allows_for_it() {
    let (place, accelerator) = (recorded(), accelerator(Some("1e-5f")));
    let file = place.path().join("run.flash");
    let diff = |more: &[&str]| {
        let line = ["diff", text(&file), "--a", "ALL_CPU", "--b", "MY_ACCEL"];
        flash(accelerator.path(), &[&line[..], more].concat())
    };
    let output = diff(&[]);
    let message = plugins::text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in [
        "ALL_CPU and MY_ACCEL differ first in submission 1 (`flash.nbody.integrate`), argument `pos`, element 17",
        "\n  ALL_CPU   [",
        "\n  MY_ACCEL  [",
        "\n1 of the 100 elements differ (tolerance 0)\n",
    ] {
        assert!(message.contains(part), "no `{part}` in:\n{message}");
    }
    assert!(output.stderr.is_empty());

    let output = diff(&["--json", "--tolerance", "1e-6"]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    let found = &report["difference"];
    assert_eq!((found["submission"].as_u64(), found["index"].as_u64()), (Some(1), Some(17)), "{report}");
    assert!(found["kernel"] == "flash.nbody.integrate" && found["argument"] == "pos", "{report}");
    assert!(found["differing"] == 1 && found["elements"] == 100 && report["submissions"] == 2, "{report}");
    assert_ne!(found["a"], found["b"]);

    // Three steps of 1e-5 each.
    let output = diff(&["--tolerance", "1e-4"]);
    assert_eq!(output.status.code(), Some(0), "{}", plugins::text_of(&output));
}

#[test]
fn wrong_files_and_usage_are_exit_status_2_and_say_what_to_do() {
    let place = recorded();
    let path = |name: &str| text(&place.path().join(name)).to_owned();
    let out = FlashMemory::<[f32; 3]>::zeroed(4);
    let [pos, vel] = [(); 2].map(|()| FlashMemory::<[f32; 3]>::zeroed(4));
    let rt = get_runtime("ALL_CPU").unwrap();
    let pipeline = rt.submit(Integrate::of(0.5f32, &out, &pos, &vel)).defer([4]);
    pipeline.recording(Data::Without).unwrap().save(path("bare.json")).unwrap();
    let whole = std::fs::read(path("run.flash")).unwrap();
    std::fs::write(path("cut.flash"), &whole[..whole.len() - 1]).unwrap();
    std::fs::write(path("text"), "name,mass\n").unwrap();
    let edited =
        std::fs::read_to_string(path("run.json")).unwrap().replacen("{\"memory\":0}", "{\"memory\":9}", 1);
    std::fs::write(path("edited.json"), edited).unwrap();
    for (name, expected) in [
        ("bare.json", "record it with `pipeline.recording(Data::With)?"),
        ("cut.flash", "the file is damaged or cut off"),
        ("text", "found `name,mas`"),
        ("edited.json", "submission 0 (`flash.nbody.accelerate`), argument `pos`: it is memory 9"),
        ("missing", "cannot be read"),
    ] {
        let file = path(name);
        for line in [&["replay", &file][..], &["diff", &file, "--a", "ALL_CPU", "--b", "ALL_CPU"]] {
            let output = flash(Path::new(""), line);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{line:?}: {message}");
            assert!(message.starts_with("error: ") && message.contains(expected), "{message}");
            assert!(message.contains(&file) && output.stdout.is_empty(), "{message}");
        }
    }
    let file = path("run.flash");
    for line in [
        &["replay"][..],
        &["diff", &file],
        &["diff", &file, "--a", "ALL_CPU"],
        &["diff", &file, "--a", "ALL_CPU", "--b", "ALL_CPU", "--tolerance", "-1"],
        &["diff", &file, "--a", "ALL_CPU", "--b", "ALL_CPU", "--tolerance", "nan"],
        &["diff", &file, "--a", "ALL_CPU", "--b", "ABACUS"],
    ] {
        let output = flash(Path::new(""), line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{line:?}");
    }
    let output = flash(Path::new(""), &["replay", &file, "--runtime", "ABACUS"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("there is no backend `ABACUS`"), "{message}");
}

#[test]
fn help_teaches_how_to_record() {
    for (command, parts) in [
        (
            "replay",
            &["pipeline.recording(Data::With)?.save(\"FILE\")", "--runtime", "CRC-32", "\"launches\""][..],
        ),
        ("diff", &["--tolerance", "0 they agree, 1 they differ, 2 they could not", "\"differing\""]),
    ] {
        let output = flash(Path::new(""), &[command, "--help"]);
        let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(text.contains(part), "no `{part}` in:\n{text}");
        }
    }
}
