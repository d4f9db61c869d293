//! Copies the template of a backend into this crate, with no changes but those that its head asks for.

use std::path::Path;

const TEMPLATE: &str = "../../flash-conformance/src/null.rs";

fn main() {
    println!("cargo::rerun-if-changed={TEMPLATE}");
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = std::fs::read_to_string(TEMPLATE).expect("the template can be read");
    let changes = [
        ("const KEY: &'static str = \"NULL\";", "const KEY: &'static str = \"MY_ACCEL\";"),
        ("// flash_backend::register_backend!(Null);", "flash_backend::register_backend!(Null);"),
    ];
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "expected `{from}` once in {TEMPLATE}");
        text = text.replace(from, to);
    }
    // What is included into a file has no head.
    let lines = text.lines().filter(|line| !line.starts_with("//!"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let place = std::env::var_os("OUT_DIR").expect("cargo says where");
    std::fs::write(Path::new(&place).join("backend.rs"), text).expect("the copy can be written");
}
