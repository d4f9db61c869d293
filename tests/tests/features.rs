//! What the features of `flash` bring along, as cargo resolves it: nothing is built.

use flash_tests::plugins;
use std::collections::BTreeSet;
use std::process::Command;

/// The packages that `flash` is built of with some features.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(plugins::workspace());
    command.args(["tree", "--offline", "-p", "flash", "-e", "normal,build", "--prefix", "none"]);
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
}

#[test]
fn each_feature_brings_what_it_is_for_and_nothing_else() {
    let names = ["rayon", "flash-kernels", "cudarc", "postcard", "clap"];
    let of = |features: &str| with(&["--no-default-features", "--features", features], names);
    assert_eq!(of("cpu"), [true, false, false, false, false]);
    assert_eq!(of("kernels"), [false, true, false, false, false]);
    assert_eq!(of("vendor-libraries"), [false, true, true, false, false]);
    assert_eq!(of("recordings"), [false, false, false, true, false]);
    assert_eq!(of("conformance"), [false; 5]);
    assert_eq!(with(&[], names), [true, true, true, true, false], "the default");
}
