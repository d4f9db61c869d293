//! An installation as a user has it: programs outside of the repository find it by CMake and pkg-config, in
//! C, C++ and Fortran.

use flash_tests::plugins::{self, Language, text_of};
use flash_tests::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The kinetic energies after each step, as published, see `examples/nbody/src/problem.rs`.
const PUBLISHED: [f64; 10] =
    [26.405, 313.77, 926.56, 1866.4, 3135.6, 4737.6, 6676.6, 8957.7, 11587.0, 14572.0];

struct Installed {
    folder: &'static Path,
    /// The plugin of the key `TEST`, which is not installed.
    test_plugin: PathBuf,
}

/// What `cargo xtask install` makes of what is built.
fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let built = plugins::build(&[
            "flash-c",
            "flash-c2mpi",
            "flash-cli",
            "flash-backend-opencl-fpga-plugin",
            "flash-backend-cuda-plugin",
            "flash-backend-test-plugin",
            "flash-kernels-plugin",
            "xtask",
        ]);
        let folder = plugins::directory_of_process();
        let mut install = Command::new(built.join("xtask"));
        install.arg("install").arg("--prefix").arg(folder).arg("--built").arg(&built);
        // A second time over the first.
        for _ in 0..2 {
            let output = install.output().expect("xtask starts");
            assert!(output.status.success(), "{}", text_of(&output));
        }
        Installed { folder, test_plugin: built.join("libflash_backend_test_plugin.so") }
    })
}

impl Installed {
    fn at(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }
}

/// A command with no variable that the library reads.
fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("FLASH_") || name.starts_with("CMAKE_") || name == "PKG_CONFIG_PATH" {
            command.env_remove(name);
        }
    }
    command
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", text_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Skips the test if a program is not here.
fn lacks(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    if let Some(program) = missing {
        skip(test, &format!("no {program}"));
    }
    missing.is_some()
}

/// The sources of the example's hosts, copied out of the repository.
fn hosts() -> TempDir {
    let (from, to) = (plugins::workspace().join("examples/nbody/hosts"), plugins::directory());
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

/// `step energy` on each line.
fn energies(output: &str) -> Vec<f64> {
    let line = |(index, line): (usize, &str)| {
        let (step, energy) = line.trim().split_once(' ').unwrap_or_else(|| panic!("{output}"));
        assert_eq!(step.parse(), Ok(index + 1), "{output}");
        energy.trim().parse().unwrap_or_else(|_| panic!("{output}"))
    };
    output.lines().enumerate().map(line).collect()
}

/// Within one unit of the fifth digit, as the published ones are rounded.
#[track_caller]
fn agree(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let unit = 10f64.powi(expected.log10().floor() as i32 - 4);
        assert!((found - expected).abs() <= unit * 1.001, "{found} for {expected}");
    }
}

#[test]
fn the_program_and_the_plugins_are_there_and_found() {
    let installed = installed();
    for file in [
        "include/flash.h",
        "include/flash.hpp",
        "include/flash_backend.h",
        "include/flash_device.h",
        "share/flash/flash_host.f90",
        "include/mpix.h",
        "include/mpix_accel.h",
        "lib/libflash.so",
        "lib/libmpix.so",
        "lib/flash-kernels/libflash_kernels_plugin.so",
    ] {
        assert!(installed.at(file).is_file(), "{file}");
    }
    let list = succeeds(command(installed.at("bin/flash")).args(["list", "--json"]));
    for plugin in ["libflash_backend_cuda_plugin.so", "libflash_backend_opencl_fpga_plugin.so"] {
        assert!(list.contains(plugin), "no {plugin} in {list}");
    }
    let kernels = installed.at("lib/flash-kernels");
    let list = succeeds(command(installed.at("bin/flash")).arg("list").env("FLASH_BACKEND_PATH", kernels));
    assert!(list.contains("flash-kernels"), "{list}");
}

#[test]
fn a_project_finds_it_by_cmake_and_the_hosts_of_three_languages_have_the_published_energies() {
    let test = "a_project_finds_it_by_cmake_and_the_hosts_of_three_languages_have_the_published_energies";
    if lacks(test, &["cmake", "make", "gfortran"]) {
        return;
    }
    let (installed, project) = (installed(), hosts());
    let build = project.path().join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed.folder.display());
    let strict = "-Wall -Wextra -pedantic -Werror";
    succeeds(
        command("cmake")
            .arg("-S")
            .arg(project.path())
            .arg("-B")
            .arg(&build)
            .args([&prefix, "-DCMAKE_BUILD_TYPE=Release"])
            .args([format!("-DCMAKE_C_FLAGS={strict}"), format!("-DCMAKE_CXX_FLAGS={strict}")]),
    );
    succeeds(command("cmake").arg("--build").arg(&build));
    for program in ["nbody-c", "nbody-cpp", "nbody-fortran"] {
        let program = build.join(program);
        agree(&energies(&succeeds(command(&program).arg("ALL_CPU"))), &PUBLISHED);
        // Devices with memories of their own, of a plugin.
        let mut apart = command(&program);
        apart.args(["TEST", "16000", "3"]).env("FLASH_TEST", "devices=2");
        apart.env("FLASH_BACKEND_PATH", &installed.test_plugin);
        agree(&energies(&succeeds(&mut apart)), &PUBLISHED[..3]);
        // What is wrong comes out with its words.
        let output = run(command(&program).arg("ABACUS"));
        let text = text_of(&output);
        assert!(output.status.code() == Some(1) && text.contains("available keys: ALL"), "{text}");
        // The library finds its plugins beside itself.
        assert!(text.contains("NVIDIA_GPU") || text.contains("flash-backends"), "{text}");
    }

    // Another version is refused.
    let file = project.path().join("CMakeLists.txt");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("find_package(flash 0.1 REQUIRED)"));
    fs::write(&file, text.replace("flash 0.1", "flash 1.0")).unwrap();
    let output = run(command("cmake").arg("-S").arg(project.path()).arg("-B").arg(&build).arg(&prefix));
    assert!(!output.status.success() && text_of(&output).contains("1.0"), "{}", text_of(&output));
}

#[test]
fn a_program_finds_it_by_pkg_config() {
    if lacks("a_program_finds_it_by_pkg_config", &["pkg-config"]) {
        return;
    }
    let (installed, project) = (installed(), hosts());
    let ask = |what: &[&str]| {
        let mut ask = command("pkg-config");
        succeeds(ask.args(what).arg("flash").env("PKG_CONFIG_PATH", installed.at("lib/pkgconfig")))
    };
    assert_eq!(ask(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    assert!(Path::new(ask(&["--variable=fortran"]).trim()).is_file());
    assert!(Path::new(ask(&["--variable=plugindir"]).trim()).is_dir());
    let (flags, program) = (ask(&["--cflags", "--libs"]), project.path().join("nbody"));
    let mut compile = command("cc");
    compile.arg("-O2").arg("-o").arg(&program).arg(project.path().join("nbody.c"));
    succeeds(compile.args(flags.split_whitespace()).arg("-lm"));
    agree(&energies(&succeeds(command(&program).args(["ALL_CPU", "16000", "1"]))), &PUBLISHED[..1]);
}

/// A block of `docs/c.md` that begins with a file's name in a comment, with its language.
fn programs() -> Vec<(Language, String, String)> {
    let page = fs::read_to_string(plugins::workspace().join("docs/c.md")).unwrap();
    let mut programs = Vec::new();
    for (fence, mark, language) in
        [("c", "/* ", Language::C), ("cpp", "// ", Language::Cpp), ("fortran", "! ", Language::Fortran)]
    {
        for block in page.split(&format!("```{fence}\n")).skip(1) {
            let code = block.split("```").next().unwrap();
            let name = code.lines().next().and_then(|line| line.strip_prefix(mark));
            let name = name.unwrap_or_else(|| panic!("a block without a file's name: {code}"));
            programs.push((language, name.trim_end_matches(" */").to_owned(), code.to_owned()));
        }
    }
    programs
}

#[test]
fn every_program_of_the_page_compiles_without_warnings_and_runs() {
    if lacks("every_program_of_the_page_compiles_without_warnings_and_runs", &["gfortran"]) {
        return;
    }
    let (installed, place) = (installed(), plugins::directory());
    let programs = programs();
    for language in [Language::C, Language::Cpp, Language::Fortran] {
        assert!(programs.iter().any(|(of, ..)| *of == language), "{language:?}");
    }
    for (language, name, code) in programs {
        let program = place.path().join(format!("{name}.out"));
        let source = place.path().join(&name);
        fs::write(&source, &code).unwrap();
        let strict = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
        let mut compile = match language {
            Language::C => command("cc"),
            Language::Cpp => command("c++"),
            Language::Fortran => command("gfortran"),
        };
        match language {
            Language::C => compile.arg("-std=c99").args(strict),
            Language::Cpp => compile.arg("-std=c++17").args(strict),
            Language::Fortran => {
                let module = installed.at("share/flash/flash_host.f90");
                compile.args(["-std=f2008", "-Wall", "-Werror", "-J"]).arg(place.path()).arg(module)
            }
        };
        let (include, library) = (installed.at("include"), installed.at("lib"));
        compile.arg(&source).arg("-o").arg(&program).arg("-I").arg(include);
        compile.arg("-L").arg(&library).arg("-lflash").arg(format!("-Wl,-rpath,{}", library.display()));
        succeeds(compile.current_dir(place.path()));
        let output = succeeds(command(&program).current_dir(place.path()));
        assert!(!output.trim().is_empty(), "{name} prints nothing");
    }
}

#[test]
fn the_fortran_module_has_every_function_of_the_header() {
    let read = |file: &str| fs::read_to_string(plugins::workspace().join(file)).unwrap();
    let (header, module) = (read("flash-c/include/flash.h"), read("flash-c/fortran/flash_host.f90"));
    let lines = header.lines().filter(|line| !line.starts_with(['/', ' ', '#']) && line.contains("flash_"));
    let declared = lines.filter_map(|line| {
        let name = line.split('(').next()?.rsplit([' ', '*']).next()?;
        (line.contains('(') && name.starts_with("flash_")).then_some(name)
    });
    let mut count = 0;
    for name in declared.filter(|name| !name.starts_with("flash_as_")) {
        let here =
            [format!("function {name}("), format!("subroutine {name}("), format!("interface {name}\n")];
        assert!(here.iter().any(|here| module.contains(here)), "flash_host.f90 lacks {name}");
        count += 1;
    }
    assert!(count >= 28, "{count}");
}
