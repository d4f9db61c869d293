//! Rules for the host code of all example programs.

use std::fs;
use std::path::{Path, PathBuf};

/// Sources of the programs beside this folder.
fn sources() -> Vec<(PathBuf, String)> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of examples");
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let programs = entries(examples).into_iter().filter(|folder| folder.join("src/main.rs").is_file());
    let files: Vec<PathBuf> =
        programs.flat_map(|program| entries(&program.join("src"))).filter(is_source).collect();
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("text"))).collect()
}

/// The paper's count: lines of set-up, inputs and dispatch, without blank ones and comments.
#[test]
fn host_code_has_at_most_ten_lines() {
    let mut found = 0;
    for (path, text) in sources() {
        let mut lines = text.lines().map(str::trim);
        while lines.any(|line| line == "// host") {
            let host: Vec<&str> = lines.by_ref().take_while(|line| *line != "// end host").collect();
            let host: Vec<_> =
                host.into_iter().filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
            assert!((1..=10).contains(&host.len()), "{}: {} lines: {host:#?}", path.display(), host.len());
            let host = host.join("\n");
            assert!(host.contains("get_runtime") && host.contains(".exec("), "{}: {host}", path.display());
            found += 1;
        }
    }
    assert_eq!(found, 5, "two forms of the bodies, particles, fields, and heat in a cube");
}

/// The same count for the hosts of the bodies in other languages.
#[test]
fn hosts_in_c_cpp_and_fortran_have_at_most_twenty_lines() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of examples").join("nbody/hosts");
    for (file, mark) in [("nbody.c", "//"), ("nbody.cpp", "//"), ("nbody.f90", "!")] {
        let text = fs::read_to_string(folder.join(file)).expect(file);
        let (mut host, mut inside) = (Vec::new(), false);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix(mark).map(str::trim) {
                Some("host") => inside = true,
                Some("end host") => inside = false,
                None if inside => host.push(line),
                _ => {}
            }
        }
        assert!((5..=20).contains(&host.len()), "{file}: {} lines: {host:#?}", host.len());
        assert!(host.iter().any(|line| line.contains("exec")), "{file}: {host:#?}");
    }
}

#[test]
fn programs_name_no_device_but_in_runtime_keys() {
    for (path, text) in sources() {
        for (index, line) in text.lines().enumerate() {
            let bare = ["NVIDIA_GPU", "INTEL_FPGA", "OPENCL"]
                .iter()
                .fold(line.to_owned(), |line, key| line.replace(key, ""))
                .to_lowercase();
            for word in ["cuda", "opencl", "nvidia", "intel", "amd", "gpu", "fpga"] {
                assert!(!bare.contains(word), "{}:{}: {line}", path.display(), index + 1);
            }
        }
    }
}
