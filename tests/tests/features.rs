//! What the features of `flash` bring along, as cargo resolves it: nothing is built.

use flash_tests::plugins;
use std::collections::BTreeSet;
use std::process::Command;

/// The packages that `flash` is built of with some features.
fn packages(features: &[&str]) -> BTreeSet<String> {
    packages_of("flash", features)
}

/// The packages that a package is built of with some features.
fn packages_of(package: &str, features: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(plugins::workspace());
    command.args(["tree", "--offline", "-p", package, "-e", "normal,build", "--prefix", "none"]);
    let output = command.args(features).output().expect("cargo can be started");
    assert!(output.status.success(), "{command:?}: {}", plugins::text_of(&output));
    let text = String::from_utf8(output.stdout).expect("names of packages are text");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Whether each of these packages is among them.
fn with<const N: usize>(features: &[&str], names: [&str; N]) -> [bool; N] {
    let packages = packages(features);
    assert!(packages.contains("flash-core"), "{packages:?}");
    names.map(|name| packages.contains(name))
}

#[test]
fn without_default_features_flash_is_the_core_alone() {
    let heavy =
        ["cudarc", "rayon", "clap", "flash-kernels", "flash-backend-cpu", "memmap2", "postcard", "base64"];
    assert_eq!(with(&["--no-default-features"], heavy), [false; 8]);
    let own = packages(&["--no-default-features"]).into_iter().filter(|name| name.starts_with("flash"));
    let own: Vec<String> = own.collect();
    assert_eq!(own, ["flash", "flash-backend", "flash-core", "flash-macros", "flash-types"]);
}

/// The features of a package that cargo turns on for these of `flash`.
fn features_of(package: &str, features: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(plugins::workspace());
    command.args(["tree", "--offline", "-p", "flash", "-e", "normal,build", "--prefix", "none"]);
    let output = command.args(["--format", "{p}|{f}"]).args(features).output().expect("cargo can be started");
    assert!(output.status.success(), "{command:?}: {}", plugins::text_of(&output));
    let text = String::from_utf8(output.stdout).expect("names of packages are text");
    let line = text.lines().find(|line| line.starts_with(&format!("{package} ")));
    let line = line.unwrap_or_else(|| panic!("no {package} in: {text}"));
    line.rsplit('|').next().unwrap_or_default().split(',').map(str::to_owned).collect()
}

#[test]
fn definitions_of_kernels_come_without_their_implementations() {
    let implementations = |features: &str| {
        let on = features_of("flash-kernels", &["--no-default-features", "--features", features]);
        on.contains("implementations")
    };
    assert!(!implementations("definitions"));
    assert!(!implementations("definitions,cpu,recordings"));
    assert!(implementations("kernels"));
    assert!(implementations("vendor-libraries"));
}

#[test]
fn each_feature_brings_what_it_is_for_and_nothing_else() {
    let names = ["rayon", "flash-kernels", "cudarc", "postcard", "flash-conformance", "clap"];
    let of = |features: &str| with(&["--no-default-features", "--features", features], names);
    assert_eq!(of("cpu"), [true, false, false, false, false, false]);
    assert_eq!(of("kernels"), [false, true, false, false, false, false]);
    assert_eq!(of("definitions"), [false, true, false, false, false, false]);
    assert_eq!(of("vendor-libraries"), [false, true, true, false, false, false]);
    assert_eq!(of("recordings"), [false, false, false, true, false, false]);
    assert_eq!(of("conformance"), [false, false, false, false, true, false]);
    assert_eq!(with(&[], names), [true, true, true, true, false, false], "the default");
}

/// The backends of this workspace.
const BACKENDS: [&str; 5] = [
    "flash-backend-cpu",
    "flash-backend-cuda",
    "flash-backend-opencl-fpga",
    "flash-backend-ranks",
    "flash-backend-test",
];

#[test]
fn backends_know_nothing_of_host_programs_nor_of_each_other() {
    for backend in BACKENDS.into_iter().chain(["flash-backend", "flash-tests-template"]) {
        let packages = packages_of(backend, &[]);
        for (name, is_there) in [("flash-types", true), ("flash-core", false), ("flash", false)] {
            assert_eq!(packages.contains(name), is_there, "{backend} and {name}: {packages:?}");
        }
        let others = BACKENDS.into_iter().filter(|other| *other != backend);
        let found: Vec<&str> = others.filter(|other| packages.contains(*other)).collect();
        assert!(found.is_empty(), "{backend} and {found:?}");
    }
}
