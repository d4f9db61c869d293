//! Widths of comments, and words that some folders must not have.

use super::source::{Kind, Source, code, files, pieces};
use std::fs;

/// As in rustfmt.toml, which applies to code only.
const WIDTH: usize = 110;

/// Folders whose comments keep the width.
const FOLDERS: [&str; 20] = [
    "flash",
    "flash-c",
    "flash-c2mpi",
    "flash-types",
    "flash-backend",
    "flash-core",
    "flash-conformance",
    "flash-graph",
    "flash-hicr",
    "flash-net",
    "flash-tasks",
    "flash-topology",
    "flash-trace",
    "flash-macros",
    "flash-cli",
    "backends",
    "kernels",
    "examples",
    "tests",
    "xtask",
];

#[test]
fn comments_keep_the_width_of_rustfmt_toml() {
    assert!(include_str!("../../../rustfmt.toml").contains(&format!("max_width = {WIDTH}")));
    let mut wide = Vec::new();
    for source in FOLDERS.into_iter().flat_map(files) {
        for (number, line) in source.text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            // An address or a table's row cannot be cut.
            let whole = line.contains("://")
                || line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|');
            if is_comment && !whole && line.chars().count() > WIDTH {
                wide.push(format!("{}:{}", source.path.display(), number + 1));
            }
        }
    }
    assert!(
        wide.is_empty(),
        "{} comment lines of more than {WIDTH} characters:\n{}",
        wide.len(),
        wide.join("\n")
    );
}

#[test]
fn architecture_has_at_most_thirty_words() {
    let text = include_str!("../../../ARCHITECTURE.md");
    let words = text.split("## ").find(|section| section.starts_with("Words\n")).expect("a section `Words`");
    // Without the table's head.
    let rows = words.lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert!((1..=30).contains(&rows), "{rows} words");
}

#[test]
fn host_programs_name_no_vendor_and_no_kernel_language() {
    for folder in ["nbody", "diffusion", "jacobi3d", "tasks-tour", "graph-tour", "hicr"]
        .map(|name| format!("examples/{name}/src"))
    {
        for source in files(&folder) {
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
    for folder in ["flash", "flash-types/src", "flash-backend/src", "flash-core/src", "backends", "kernels"] {
        // Test devices are slow on demand.
        let others = |source: &Source| !source.path.starts_with("backends/test");
        for source in files(folder).into_iter().filter(others) {
            let is_test = source.path.iter().any(|part| part == "tests" || part == "tests.rs");
            let code = if is_test { String::new() } else { code(&source.text) };
            for call in ["thread::sleep", "park_timeout", "usleep", "nanosleep"] {
                assert!(!code.contains(call), "{} calls `{call}`", source.path.display());
            }
        }
    }
}

#[test]
fn kernels_leave_intrinsics_and_cpu_features_to_their_simd_layer() {
    let others = files("kernels").into_iter().filter(|source| !source.path.starts_with("kernels/simd"));
    for source in others {
        let code = code(&source.text);
        for word in
            ["arch::", "asm!", "_mm_", "_mm256_", "_mm512_", "target_feature", "cpu_features", "cpu_has"]
        {
            assert!(!code.contains(word), "{} says `{word}`: move it to kernels/simd", source.path.display());
        }
    }
}

#[test]
fn the_core_names_no_backend_and_no_kind_of_implementation() {
    // The class of a device, which keys may name.
    let allowed = r#"Class::Cpu => "cpu","#;
    let names =
        ["\"cpu\"", "\"opencl\"", "\"cuda\"", "ALL_CPU\"", "NVIDIA_GPU\"", "\"OPENCL\"", "INTEL_FPGA\""];
    for source in ["flash-types/src", "flash-backend/src", "flash-core/src"].into_iter().flat_map(files) {
        // Tests have backends of their own; a module of them ends its file.
        if source.path.iter().any(|part| part == "tests" || part == "tests.rs") {
            continue;
        }
        let code = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (i, line) in code.lines().enumerate() {
            let line = line.trim();
            let named = names.iter().find(|name| !line.starts_with("//") && line.contains(**name));
            assert!(named.is_none() || line == allowed, "{}, line {}: {line}", source.path.display(), i + 1);
        }
    }
}

/// `docs/reliability.md` names a test, a file or a folder in the last column of each row.
#[test]
fn the_tests_that_the_docs_name_are_there() {
    let root = crate::root();
    let page = fs::read_to_string(root.join("docs/reliability.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let named: Vec<&str> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        let (file, test) = name.split_once("::").unwrap_or((name, ""));
        let places = [root.join("tests/tests").join(file), root.join(file)];
        let place = places.iter().find(|place| place.exists());
        let place = place.unwrap_or_else(|| panic!("docs/reliability.md names `{file}`, which is not there"));
        let text = if test.is_empty() { String::new() } else { fs::read_to_string(place).expect("a file") };
        assert!(text.contains(&format!("fn {test}")) || test.is_empty(), "`{file}` has no test `{test}`");
    }
}

/// Every program of the pages is compiled and run: `tests/docs` and `flash-backend` include the pages, and no
/// block is left out of that.
#[test]
fn every_program_of_the_docs_is_a_test() {
    let root = crate::root();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (users, backends) = (read("tests/docs/src/lib.rs"), read("flash-backend/src/lib.rs"));
    let folder = fs::read_dir(root.join("docs")).expect("the folder of pages");
    let pages = folder.map(|entry| format!("docs/{}", entry.expect("a page").file_name().to_string_lossy()));
    let mut programs = 0;
    for page in pages.filter(|page| page.ends_with(".md")).chain(["README.md".to_owned()]) {
        let text = read(&page);
        let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```")).step_by(2);
        let mut rust = 0;
        for language in fences {
            let known = [
                "rust",
                "rust,standalone_crate",
                "c",
                "cpp",
                "fortran",
                "cmake",
                "toml",
                "json",
                "console",
                "text",
            ];
            assert!(known.contains(&language), "{page} has a block of `{language}`: write one of {known:?}");
            rust += usize::from(language.starts_with("rust"));
        }
        let is_included = users
            .contains(&format!("env!(\"OUT_DIR\"), \"/{}\"", page.trim_start_matches("docs/")))
            || backends.contains(&format!("include_str!(\"../../{page}\")"));
        assert!(is_included || rust == 0, "{page} has programs: include it in tests/docs/src/lib.rs");
        programs += rust;
    }
    assert!(programs > 15, "{programs} programs");
    let readme = read("README.md");
    let first = readme.split_once("](").map(|(_, rest)| rest.split(')').next().unwrap_or(rest));
    assert_eq!(first, Some("docs/start.md"), "the first link of README.md");
}
