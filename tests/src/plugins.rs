//! What tests of plugins share: compiling C, building the plugins of the workspace, the `flash`
//! command, and running a test's body in a process that loads plugins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// Which part of which test a child process is to run.
const CHILD: &str = "FLASH_TEST_PART";

/// Set by `cargo xtask test`, which has built all that tests load and start.
const BUILT: &str = "FLASH_TEST_BUILT";

/// The language of a source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C11.
    C,
    /// C++17.
    Cpp,
    /// Fortran 2008, free form.
    Fortran,
}

impl Language {
    fn compiler(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Language::C => ("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror"], "c"),
            Language::Cpp => ("c++", &["-std=c++17", "-Wall", "-Wextra", "-Werror"], "cpp"),
            Language::Fortran => ("gfortran", &["-std=f2008", "-Wall", "-Werror"], "f90"),
        }
    }

    /// True if its compiler is there.
    pub fn is_there(self) -> bool {
        Command::new(self.compiler().0).arg("--version").output().is_ok_and(|o| o.status.success())
    }
}

/// The workspace's root.
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// A directory of its own, which only its owner can write; removed when it is dropped.
pub fn directory() -> TempDir {
    tempfile::Builder::new().prefix("flash-plugins-").tempdir().expect("a temporary directory can be made")
}

/// The same for what all tests of this process share: removed when the process ends, where nothing in a
/// static is dropped.
pub fn directory_of_process() -> &'static Path {
    static MADE: Mutex<Vec<(u32, TempDir)>> = Mutex::new(Vec::new());

    extern "C" fn remove() {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        // A child of `fork` has its parent's list.
        for (process, directory) in made.drain(..) {
            if process == std::process::id() {
                drop(directory);
            } else {
                let _ = directory.keep();
            }
        }
    }

    let directory = directory();
    let path: &'static Path = Box::leak(directory.path().into());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_empty() {
        // SAFETY: a function of this program, which does not unwind.
        let refused = unsafe { libc::atexit(remove) };
        assert_eq!(refused, 0, "the end of the process can have a function");
    }
    made.push((std::process::id(), directory));
    path
}

/// Compiles a source text with warnings as errors.
///
/// # Errors
/// The compiler's output.
///
/// # Panics
/// If the compiler cannot be started.
pub fn compile(language: Language, text: &str, flags: &[&str], output: &Path) -> Result<(), String> {
    let (compiler, strict, suffix) = language.compiler();
    let place = directory();
    let source = place.path().join("source").with_extension(suffix);
    std::fs::write(&source, text).expect("a source file can be written");
    let mut command = Command::new(compiler);
    command.current_dir(place.path()).args(strict).args(flags);
    if language != Language::Fortran {
        command.arg("-I").arg(workspace().join("flash-backend/include"));
    }
    let done = command.arg("-o").arg(output).arg(&source).output();
    let done = done.unwrap_or_else(|e| panic!("{compiler} cannot be started: {e}"));
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// Compiles and throws the result away.
///
/// # Panics
/// If it does not compile.
pub fn compile_only(language: Language, text: &str, flags: &[&str]) {
    let place = directory();
    let flags = [flags, &["-c"]].concat();
    if let Err(message) = compile(language, text, &flags, &place.path().join("out.o")) {
        panic!("{language:?} does not compile:\n{message}");
    }
}

/// Makes a shared library of a source text.
///
/// # Panics
/// If it does not compile.
pub fn shared(language: Language, text: &str, flags: &[&str], output: &Path) -> PathBuf {
    let flags = [&["-O1", "-shared", "-fPIC"], flags].concat();
    if let Err(message) = compile(language, text, &flags, output) {
        panic!("{} does not compile:\n{message}", output.display());
    }
    output.to_owned()
}

/// A source file of `tests/c`.
///
/// # Panics
/// If there is none of that name.
pub fn c_source(name: &str) -> String {
    let path = workspace().join("tests/c").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What cargo builds for these tests.
pub struct Built {
    /// The `flash` command.
    pub flash: PathBuf,
    /// The CPU backend as a plugin.
    pub cpu: PathBuf,
    /// The kernels as a plugin.
    pub kernels: PathBuf,
    /// The OpenCL backends as a plugin.
    pub opencl: PathBuf,
    /// The CUDA backend as a plugin.
    pub cuda: PathBuf,
    /// The test backend as a plugin.
    pub test: PathBuf,
    /// The N-body example.
    pub nbody: PathBuf,
    /// A plugin that panics where `FLASH_BROKEN` says.
    pub broken: PathBuf,
    /// The template of a backend, copied into a crate, as a plugin.
    pub template: PathBuf,
    /// A plugin that links kernels and a backend for its own use.
    pub private: PathBuf,
}

/// The plugins and the command, built once with the profile of this program.
///
/// # Panics
/// If they do not build.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let place = build(&[
            "flash-cli",
            "flash-backend-cpu-plugin",
            "flash-backend-opencl-fpga-plugin",
            "flash-backend-cuda-plugin",
            "flash-backend-test-plugin",
            "flash-kernels-plugin",
            "flash-tests-broken",
            "flash-tests-template",
            "flash-tests-private",
            "nbody",
        ]);
        let library = |name: &str| place.join(format!("lib{name}.so"));
        Built {
            flash: place.join("flash"),
            nbody: place.join("nbody"),
            cpu: library("flash_backend_cpu_plugin"),
            kernels: library("flash_kernels_plugin"),
            opencl: library("flash_backend_opencl_fpga_plugin"),
            cuda: library("flash_backend_cuda_plugin"),
            test: library("flash_backend_test_plugin"),
            broken: library("flash_tests_broken"),
            template: library("flash_tests_template"),
            private: library("flash_tests_private"),
        }
    })
}

/// Builds packages with the profile of this program, unless they are built; where their libraries and
/// programs are.
///
/// # Panics
/// If they do not build.
pub fn build(packages: &[&str]) -> PathBuf {
    // <target>/<profile>/deps/<this>
    let this = std::env::current_exe().expect("this program has a path");
    let place = this.ancestors().nth(2).expect("a test lies in <target>/<profile>/deps").to_owned();
    // What is built alone gets fewer features of what it depends on than with the tests: most of it is built
    // anew.
    if std::env::var_os(BUILT).is_some() {
        return place;
    }
    let target = place.parent().expect("a profile's directory lies in the target directory");
    let profile = match place.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(workspace())
        .args(["build", "--offline", "--quiet", "--profile", profile, "--target-dir"])
        .arg(target);
    command.args(packages.iter().flat_map(|package| ["-p", package]));
    let output = command.output().expect("cargo can be started");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    place
}

/// A command that inherits none of the variables that the library reads.
fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| n.starts_with("FLASH_") && !["FLASH_SKIP_LOG", BUILT].contains(&n)) {
            command.env_remove(name);
        }
    }
    command
}

/// The `flash` command with a search path.
pub fn flash(path: impl Into<OsString>, arguments: &[&str]) -> Command {
    program(&built().flash, path, arguments)
}

/// The variable with which a program finds OpenCL devices. Where there are none, the test is skipped, and
/// there is no variable.
///
/// # Panics
/// If the backend does not build.
pub fn opencl(test: &str) -> Option<(&'static str, &'static str)> {
    let plugin = built().opencl.to_str().expect("a path of text");
    match crate::context(&[("plugin_path", plugin)]).runtime("OPENCL") {
        Ok(_) => Some(("FLASH_BACKEND_PATH", plugin)),
        Err(error) => {
            crate::skip(test, &format!("no OpenCL device: {error}"));
            None
        }
    }
}

/// A program that was built, with a search path.
pub fn program(program: &Path, path: impl Into<OsString>, arguments: &[&str]) -> Command {
    let mut command = clean(Command::new(program));
    command.env("FLASH_BACKEND_PATH", path.into()).args(arguments);
    command
}

/// Standard output and standard error, for messages.
pub fn text_of(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs `body`, a part of the calling test, in a process of its own with the variables that
/// `prepare` gives: the library loads plugins once per process. Call it from the test's function
/// itself; `part` tells several calls apart. In the child, only `body` runs.
///
/// # Panics
/// If the body does, with the child's output.
pub fn in_child<F: FnOnce()>(part: &str, prepare: impl FnOnce() -> Vec<(&'static str, OsString)>, body: F) {
    let name = std::any::type_name::<F>().split("::{{closure}}").next().unwrap_or_default();
    let name = name.split_once("::").map_or(name, |(_, rest)| rest);
    let this = format!("{name} {part}");
    if let Ok(wanted) = std::env::var(CHILD) {
        if wanted == this {
            body();
            // Another part of the same test need not be looked at.
            println!("part done: {this}");
        }
        return;
    }
    let mut command = clean(Command::new(std::env::current_exe().expect("this program has a path")));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, &this).envs(prepare());
    let output = command.output().expect("this program can be run again");
    let text = text_of(&output);
    assert!(
        output.status.success() && text.contains(&format!("part done: {this}")),
        "{this}: {}",
        text.replace('\n', "\n  | ")
    );
}

/// True in a process that runs a part of a test: what only prepares parts is left out there.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}
