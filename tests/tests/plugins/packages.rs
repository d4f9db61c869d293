//! Packages of kernels: `flash pack`, a directory of plugins with packages in it, and their kernels by name
//! and by definitions that agree with them.

use flash_core::kernel::views::{Item, Read, ReadWrite};
use flash_core::{Context, FlashMemory, KernelDefinition, RuntimeObj};
use flash_tests::plugins::{self, Language, text_of};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

const MANIFEST: &str = r#"{
    "name": "lab", "version": "1.2", "description": "Vectors.",
    "kernels": [{
        "name": "lab.saxpy", "alias": "SAXPY", "dimensions": ["i"],
        "arguments": [
            {"name": "a", "view": "scalar", "element": "f32"},
            {"name": "x", "view": "item", "element": "f32"},
            {"name": "y", "view": "item", "access": "read_write", "element": "f32"}
        ],
        "implementations": [
            {"target": "opencl", "file": "texts/saxpy.cl", "cooperating": true},
            {"target": "cpu", "file": "saxpy.so", "symbol": "saxpy", "processor": "PROCESSOR"},
            {"target": "cpu", "file": "other.so", "symbol": "saxpy", "processor": "none"}
        ]
    }]
}"#;

const TEXT: &str =
    "FLASH_KERNEL saxpy(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(y, i) += a * FLASH_AT(x, i);
    }
}
";

/// The files of a package, in a folder.
fn files(folder: &Path) {
    fs::create_dir(folder.join("texts")).unwrap();
    fs::write(folder.join("texts/saxpy.cl"), TEXT).unwrap();
    plugins::shared(Language::C, &plugins::c_source("functions.c"), &[], &folder.join("saxpy.so"));
    fs::write(folder.join("other.so"), "of another processor").unwrap();
    fs::write(folder.join("manifest.json"), MANIFEST.replace("PROCESSOR", std::env::consts::ARCH)).unwrap();
}

fn flash(path: &Path, arguments: &[&str]) -> Output {
    plugins::flash(path, arguments).output().unwrap()
}

/// A folder of plugins with the package, which `flash pack` makes of the files in another folder.
fn packed(folder: &Path, into: &Path) {
    files(folder);
    let manifest = folder.join("manifest.json");
    let package = into.join("lab.ha");
    let output = flash(Path::new(""), &["pack", manifest.to_str().unwrap(), "-o", package.to_str().unwrap()]);
    let text = text_of(&output);
    assert!(output.status.success() && text.contains("lab.ha: 1 kernels, 4 files"), "{text}");
}

/// A definition that agrees with the package's kernel. Nothing here implements it.
#[derive(KernelDefinition)]
#[kernel(name = "lab.saxpy", dims(i))]
struct Saxpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

fn runs(rt: &RuntimeObj) {
    let n = 1000;
    let x = FlashMemory::from((0..n).map(|i| i as f32).collect::<Vec<f32>>());
    let y = FlashMemory::from(vec![1f32; n]);
    let by_name = rt.kernel("lab.saxpy").unwrap();
    rt.submit(by_name.args((2f32, &x, &y)).unwrap()).exec([n]).unwrap();
    rt.submit(Saxpy::of(3.0, &x, &y)).exec([n]).unwrap();
    let y = y.read().unwrap();
    assert!(y.iter().enumerate().all(|(i, y)| *y == 1.0 + 5.0 * i as f32), "{:?}", &y[..4]);
}

#[test]
fn kernels_of_a_package_run_by_name_and_by_definition_on_each_device() {
    let (folder, place) = (plugins::directory(), plugins::directory());
    packed(folder.path(), place.path());
    for (key, path) in [("ALL_CPU", None), ("OPENCL:cpu", Some(&plugins::built().opencl))] {
        let mut paths = place.path().display().to_string();
        if let Some(plugin) = path {
            paths += &format!(":{}", plugin.display());
        }
        let context = Context::builder().set("plugin_path", paths).build().unwrap();
        match context.runtime(key) {
            Ok(rt) => runs(&rt),
            Err(error) if path.is_some() && std::env::var_os("CI").is_none() => eprintln!("{key}: {error}"),
            Err(error) => panic!("{key}: {error}"),
        }
    }
}

#[test]
fn a_package_is_listed_as_a_plugin_and_by_itself() {
    let (folder, place) = (plugins::directory(), plugins::directory());
    packed(folder.path(), place.path());
    // That it is for devices that are not here is no fault; that it is for no other ones is worth knowing.
    let text = text_of(&flash(place.path(), &["list"]));
    assert!(text.contains("lab.ha") && text.contains("lab.saxpy") && !text.contains("refused"), "{text}");
    let manifest = folder.path().join("manifest.json");
    let pack = |name: &str, target: &str| {
        let text = fs::read_to_string(&manifest).unwrap().replace("\"cpu\"", &format!("\"{target}\""));
        let changed = folder.path().join(format!("{name}.json"));
        fs::write(&changed, text.replace("lab.saxpy", &format!("lab.{name}"))).unwrap();
        let package = place.path().join(format!("{name}.ha"));
        let line = ["pack", changed.to_str().unwrap(), "-o", package.to_str().unwrap()];
        assert!(flash(Path::new(""), &line).status.success());
        package
    };
    for (name, target, expected) in [
        ("elsewhere", "my-isa", "found those for my-isa, opencl"),
        ("misspelt", "cpuu", "`cpuu` for the implementation `saxpy` of kernel `lab.misspelt`; write `cpu`"),
    ] {
        let package = pack(name, target);
        let text = text_of(&flash(place.path(), &["list"]));
        assert!(text.contains(expected) && text.contains("refused") == (name == "misspelt"), "{text}");
        fs::remove_file(package).unwrap();
    }

    let package = place.path().join("lab.ha");
    let package = package.to_str().unwrap();
    let text = text_of(&flash(Path::new(""), &["unpack", package, "--list"]));
    for expected in [
        "lab 1.2\nVectors.\n",
        "lab.saxpy(a: f32, x: Item<Read<f32>> along [0], y: Item<ReadWrite<f32>> along [0]) over i, alias SAXPY",
        "opencl     saxpy (texts/saxpy.cl)",
        "20 bytes  other.so",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let output = flash(Path::new(""), &["unpack", package, "--list", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kernels"][0]["implementations"][0]["target"], "opencl");

    // Unpacked and packed again, it is the same.
    let again = folder.path().join("again");
    let into = ["unpack", package, "--into", again.to_str().unwrap()];
    assert!(flash(Path::new(""), &into).status.success());
    let output = flash(Path::new(""), &into);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("expected no such file, found one"), "{}", text_of(&output));
    let (manifest, other) = (again.join("manifest.json"), again.join("other.ha"));
    let line = ["pack", manifest.to_str().unwrap(), "--output", other.to_str().unwrap()];
    assert!(flash(Path::new(""), &line).status.success());
    assert_eq!(fs::read(other).unwrap(), fs::read(package).unwrap());
}

#[test]
fn what_is_wrong_with_a_package_is_said_and_the_others_are_used() {
    let (folder, place) = (plugins::directory(), plugins::directory());
    packed(folder.path(), place.path());
    let good = fs::read(place.path().join("lab.ha")).unwrap();
    fs::write(place.path().join("cut.ha"), &good[..good.len() / 2]).unwrap();
    fs::write(place.path().join("empty.ha"), "").unwrap();
    let open = place.path().join("open.ha");
    fs::write(&open, &good).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
    // Its library is none.
    let broken = folder.path().join("manifest.json");
    let text = fs::read_to_string(&broken).unwrap();
    fs::write(&broken, text.replace("none", std::env::consts::ARCH).replace("lab.saxpy", "lab.broken"))
        .unwrap();
    let package = place.path().join("broken.ha");
    let line = ["pack", broken.to_str().unwrap(), "-o", package.to_str().unwrap()];
    assert!(flash(Path::new(""), &line).status.success());

    let output = flash(place.path(), &["list"]);
    let text = text_of(&output);
    assert!(output.status.success(), "{text}");
    for expected in [
        "an archive without files",
        "a file that only its owner can write",
        "expected a library `other.so` with a function `saxpy`, found",
        "lab.saxpy",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let context = Context::builder().set("plugin_path", place.path().display()).build().unwrap();
    runs(&context.runtime("ALL_CPU").unwrap());
}

#[test]
fn a_manifest_that_cannot_be_packed_is_an_error_of_its_place() {
    let folder = plugins::directory();
    files(folder.path());
    let manifest = folder.path().join("manifest.json");
    let line = ["pack", manifest.to_str().unwrap(), "-o"];
    let package = folder.path().join("lab.ha");
    let fails = |output: &Path, expected: &str| {
        let found = flash(Path::new(""), &[&line[..], &[output.to_str().unwrap()]].concat());
        let text = text_of(&found);
        assert!(found.status.code() == Some(2) && text.contains(expected), "{expected}: {text}");
        assert!(!package.exists());
    };
    fails(&folder.path().join("lab.tar"), "expected a name that ends in `.ha`");
    fails(Path::new("/nowhere/lab.ha"), "No such file");
    fs::remove_file(folder.path().join("saxpy.so")).unwrap();
    fails(&package, "expected the file `saxpy.so`, found");
    fs::write(&manifest, MANIFEST.replace("\"view\": \"scalar\"", "\"view\": \"skalar\"")).unwrap();
    fails(&package, "unknown variant `skalar`");
}
