//! Words that some folders must not have.

use super::source::{Kind, Source, code, files, pieces};

#[test]
fn host_programs_name_no_vendor_and_no_kernel_language() {
    for folder in ["examples/nbody/src", "examples/diffusion/src"] {
        for source in files(folder) {
            for (_, piece) in pieces(&source.text).into_iter().filter(|(kind, _)| *kind == Kind::Code) {
                let code = piece.to_lowercase();
                for word in ["cuda", "opencl", "nvidia", "intel"] {
                    assert!(!code.contains(word), "{} says `{word}`", source.path.display());
                }
            }
        }
    }
}

#[test]
fn nothing_sleeps_or_polls_with_a_delay_on_the_way_of_a_launch() {
    for folder in ["flash", "flash-core/src", "backends", "kernels"] {
        // The suite gives a backend time to do something wrong.
        let others = |source: &Source| !source.path.starts_with("flash-core/src/backend/conformance");
        for source in files(folder).into_iter().filter(others) {
            let is_test = source.path.iter().any(|part| part == "tests" || part == "tests.rs");
            let code = if is_test { String::new() } else { code(&source.text) };
            for call in ["thread::sleep", "park_timeout", "usleep", "nanosleep"] {
                assert!(!code.contains(call), "{} calls `{call}`", source.path.display());
            }
        }
    }
}
