//! Programs: files that the environment names, and the cache on disk.

use crate::binaries::binary_for;
use crate::devices;
use crate::kernels::{BINARY, SOURCE, Scale, TEXT, given};
use flash::prelude::*;
use flash_backend::offload::KernelSpec;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// Runs an implementation of `Scale` and looks at its result.
fn runs(device: &str, name: &str) {
    let rt = get_runtime(device).unwrap();
    let (x, y) = (FlashMemory::from(vec![2.0f32; 100]), FlashMemory::from(vec![1.0f32; 100]));
    rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named(name)).exec([100]).unwrap();
    assert_eq!(*y.read().unwrap(), [7.0; 100], "{device}, {name}");
}

#[test]
fn files_with_source_or_a_program_are_loaded_when_the_program_runs() {
    if is_child() {
        return;
    }
    let all = devices("programs::files_with_source_or_a_program_are_loaded_when_the_program_runs");
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("scale.cl"), format!("#include \"helper.h\"\n{TEXT}")).unwrap();
    std::fs::write(file("helper.h"), "/* Found beside the source. */\n").unwrap();
    // One file for one device: each in a process of its own.
    for device in all {
        std::fs::write(file("scale.bin"), binary_for(&device)).unwrap();
        let (binary, source) = (file("scale.bin"), file("scale.cl"));
        let run =
            || start(&device, "binary,binary file,source file", &[(BINARY, &binary), (SOURCE, &source)]);
        finish(run());
        // What a source includes may change: such programs are not kept.
        std::fs::write(file("helper.h"), "#error changed\n").unwrap();
        let output = run().wait_with_output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("helper.h") && text.contains("changed"), "{text}");
        std::fs::write(file("helper.h"), "/* Found beside the source. */\n").unwrap();
    }
}

#[test]
fn what_a_source_asks_of_arrays_is_seen_in_its_text() {
    let details = |text: &'static str, more: Value| {
        let mut attributes = json!({ "cooperating": true });
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let implementation = given::<Scale<'_>>("seen", text, attributes);
        let mut spec = KernelSpec::read(implementation).unwrap();
        spec.payload(implementation).unwrap();
        let source = spec.source(text);
        // Nothing reads a missing table.
        assert_eq!(source.contains("#undef FLASH_ROW_LEN\n"), !spec.details, "{text}");
        spec.details
    };
    for text in ["FLASH_AT(x, FLASH_INDEX(0))", "#include \"flash_device.h\"\nFLASH_LEN(x)", "FLASH_PHASE()"]
    {
        assert!(!details(text, json!({})), "{text}");
    }
    for text in [
        "FLASH_OWN_INDEX(x)",
        "FLASH_ROW_LEN(x)",
        "FLASH_PART_BEGIN(x, 0)",
        "FLASH_PART_END(x, 0)",
        "FLASH_STRIDE(x, 0)",
        "FLASH_REDUCE(x, 0)",
        "helper(flash_run, flash_table)",
        "#include \"helper.h\"",
        "#define MY(name) FLASH_##name",
    ] {
        assert!(details(text, json!({})), "{text}");
    }
    assert!(details("LENGTH(x)", json!({ "defines": { "LENGTH": "FLASH_ROW_LEN" } })));
    assert!(details("LENGTH(x)", json!({ "build_options": "-DLENGTH=FLASH_ROW_LEN" })));
    let binary = KernelSpec::read(given::<Scale<'_>>("offline", "text", json!({}))).unwrap();
    assert!(binary.details, "it is not known what is in a program");
}

/// Names the device of a test's child process, which runs the implementations of `Scale` after the comma.
const DEVICE: &str = "FLASH_TEST_DEVICE";

/// In a child process: does its part of the test. True if this is one.
fn is_child() -> bool {
    let Ok(device) = std::env::var(DEVICE) else { return false };
    let (device, names) = device.split_once(',').expect("a device and implementations");
    names.split(',').for_each(|name| runs(device, name));
    true
}

/// Runs this test again in a process of its own.
fn start(device: &str, names: &str, variables: &[(&str, &str)]) -> Child {
    let thread = std::thread::current();
    let test = thread.name().expect("the harness names its threads");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(DEVICE, format!("{device},{names}")).envs(variables.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What it prints.
fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
    text.into_owned()
}

/// The entries of a cache, and when each was made or used.
fn entries(folder: &Path) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
    let files = std::fs::read_dir(folder).map_or(Vec::new(), |files| files.flatten().collect());
    let entry = |file: std::fs::DirEntry| {
        let bytes = std::fs::read(file.path()).unwrap();
        (file.path(), file.metadata().unwrap().modified().unwrap(), bytes)
    };
    files.into_iter().map(entry).collect()
}

#[test]
fn a_program_is_compiled_once_and_again_where_its_entry_is_broken() {
    if is_child() {
        return;
    }
    let all = devices("programs::a_program_is_compiled_once_and_again_where_its_entry_is_broken");
    let place = tempfile::tempdir().unwrap();
    for (number, device) in all.iter().enumerate() {
        let folder = place.path().join(number.to_string());
        let cache = folder.to_str().unwrap();
        let run = || finish(start(device, "text", &[("FLASH_CACHE_DIR", cache)]));
        run();
        let first = entries(&folder);
        assert_eq!(first.len(), 1, "{device}");
        run();
        let second = entries(&folder);
        assert!(second[0].1 > first[0].1 && second[0].2 == first[0].2, "{device}: used, and not made again");
        // Cut, and whole but with a program that the driver does not take.
        let (path, _, bytes) = &second[0];
        std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        run();
        assert!(entries(&folder)[0].2.len() >= bytes.len(), "{device}: a cut entry is made anew");
        let key = u64::from_le_bytes(bytes[12..20].try_into().unwrap()) as usize;
        let mut wrong = bytes.clone();
        wrong[28 + key..].fill(7);
        let sum = crc32fast::hash(&wrong[12..]);
        wrong[8..12].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(path, &wrong).unwrap();
        run();
        assert_ne!(entries(&folder)[0].2, wrong, "{device}: an entry that the driver refuses is made anew");
    }
}

#[test]
fn programs_are_compiled_and_loaded_in_any_order() {
    if is_child() {
        return;
    }
    let all = devices("programs::programs_are_compiled_and_loaded_in_any_order");
    let place = tempfile::tempdir().unwrap();
    for (number, device) in all.iter().enumerate() {
        let folder = place.path().join(number.to_string());
        let run = |names: &str, kept: usize| {
            let printed = finish(start(device, names, &[("FLASH_CACHE_DIR", folder.to_str().unwrap())]));
            assert!(!printed.contains("Symbols not found"), "{device}, {names}: {printed}");
            assert_eq!(entries(&folder).len(), kept, "{device}, {names}: programs are kept");
        };
        run("text", 1);
        // One from disk, then one that is compiled.
        run("text,divisions", 2);
        run("text,divisions", 2);
        // One that is compiled, then some from disk, then another that is compiled.
        run("index32,divisions,text,conversions", 4);
        run("divisions,text,conversions,index32", 4);
        // All from disk.
        run("conversions,index32,divisions", 4);
    }
}

#[test]
fn processes_share_a_cache() {
    if is_child() {
        return;
    }
    let all = devices("programs::processes_share_a_cache");
    let place = tempfile::tempdir().unwrap();
    let cache = [("FLASH_CACHE_DIR", place.path().to_str().unwrap())];
    for device in &all {
        let children: Vec<Child> = (0..3).map(|_| start(device, "text", &cache)).collect();
        children.into_iter().map(finish).for_each(drop);
    }
    assert_eq!(entries(place.path()).len(), all.len(), "one entry per device, and nothing half written");
}
