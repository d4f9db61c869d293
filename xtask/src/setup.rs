//! Finds what is missing beyond Rust and a C compiler, and installs it where it
//! can. Every need is probed by what it is used for (a program on the path, a
//! header that the compiler finds), not by a package's state, so that it counts
//! however it was installed, and a complete machine costs a few milliseconds.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

use anyhow::{Result, bail};

use crate::{cuda, in_ci, mpi, opencl};

/// Something that a test or a benchmark needs.
struct Need {
    probe: Probe,
    /// Its name on Debian and its relatives.
    package: &'static str,
    /// The tests or benchmarks that need it.
    used_by: &'static str,
}

enum Probe {
    /// An executable on the path.
    Program(&'static str),
    /// A header that `g++` finds.
    Header(&'static str),
    /// A shared library that `gcc` finds.
    Library(&'static str),
    /// An OpenCL runtime of the system whose library has this word in its name.
    Runtime(&'static str),
    /// A module of Python.
    Python(&'static str),
}

const TESTS: &[Need] = &[
    Need { probe: Probe::Program("gcc"), package: "gcc", used_by: "backends and kernels in C" },
    Need { probe: Probe::Program("g++"), package: "g++", used_by: "the plugin interface from C++" },
    Need { probe: Probe::Program("gfortran"), package: "gfortran", used_by: "kernels in Fortran" },
    Need { probe: Probe::Program("cmake"), package: "cmake", used_by: "programs that find FLASH by CMake" },
    Need { probe: Probe::Program("make"), package: "make", used_by: "what CMake makes" },
    Need {
        probe: Probe::Program("pkg-config"),
        package: "pkg-config",
        used_by: "programs that find FLASH by pkg-config",
    },
    OPENBLAS,
];

const OPENBLAS: Need = Need {
    probe: Probe::Library("libopenblas.so.0"),
    package: "libopenblas0-pthread",
    used_by: "products of matrices by OpenBLAS",
};

const OPENCL: &[Need] = &[
    Need {
        probe: Probe::Library("libOpenCL.so.1"),
        package: "ocl-icd-libopencl1",
        used_by: "OpenCL devices",
    },
    Need { probe: Probe::Runtime("pocl"), package: "pocl-opencl-icd", used_by: "an OpenCL device" },
];

const PIP: &[Need] = &[Need {
    probe: Probe::Python("pip"),
    package: "python3-pip",
    used_by: "downloading Intel's OpenCL runtimes, NVIDIA's compilers and libraries of MPI",
}];

const PEERS: &[Need] = &[
    Need { probe: Probe::Program("gcc"), package: "gcc", used_by: "the OpenMP peers" },
    Need { probe: Probe::Program("g++"), package: "g++", used_by: "the oneTBB peer" },
    Need { probe: Probe::Header("tbb/parallel_for.h"), package: "libtbb-dev", used_by: "the oneTBB peer" },
    Need {
        // Its main header finds the others in their own folder alone.
        probe: Probe::Header("starpu/1.3/starpu_config.h"),
        package: "libstarpu-dev",
        used_by: "the StarPU peer",
    },
    Need { probe: Probe::Header("zmq.h"), package: "libzmq3-dev", used_by: "the ZeroMQ peer" },
    OPENBLAS,
];

/// Installs the needs of the tests. Those that cannot be installed are named; with CI that is an error.
pub fn tests() -> Result<()> {
    provide(TESTS)?;
    opencl::install()?;
    cuda::install()?;
    mpi::install()?;
    add_miri();
    eprintln!("setup: done");
    Ok(())
}

/// Installs the needs of OpenCL devices.
pub fn opencl() -> Result<()> {
    provide(OPENCL)
}

/// Installs the needs of a download of Python packages.
pub fn pip() -> Result<()> {
    provide(PIP)
}

/// Installs the needs of the benchmarks' peers.
pub fn peers() -> Result<()> {
    provide(PEERS)
}

/// Whether a nightly toolchain with Miri is installed. Never installs a toolchain.
pub fn has_miri() -> bool {
    has_nightly() && succeeds(Command::new("cargo").args(["+nightly", "miri", "--version"]))
}

/// Miri is a component of a nightly toolchain. The toolchain is the user's choice,
/// so only the component is added, and doing without is no error.
fn add_miri() {
    if has_nightly() && !has_miri() {
        eprintln!("setup: adding Miri to the nightly toolchain");
        let added = Command::new("rustup")
            .args(["component", "add", "--toolchain", "nightly"])
            .args(["miri", "rust-src"])
            .status();
        if !added.is_ok_and(|status| status.success()) {
            eprintln!("setup: this nightly toolchain has no Miri");
        }
    }
}

fn has_nightly() -> bool {
    // Asked of rustup: `cargo +nightly` might install one.
    let list = Command::new("rustup").args(["toolchain", "list"]).stderr(Stdio::null()).output();
    list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).lines().any(is_nightly))
}

/// `nightly` for any host, but not a nightly of a date, which `+nightly` does not mean.
fn is_nightly(toolchain: &str) -> bool {
    toolchain.strip_prefix("nightly").is_some_and(|rest| {
        let host = rest.strip_prefix('-').unwrap_or(rest);
        !host.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn provide(needs: &[Need]) -> Result<()> {
    let missing = missing(needs);
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    install(&packages);

    let missing = self::missing(needs);
    for need in &missing {
        eprintln!("setup: missing: {} (for {})", need.package, need.used_by);
    }
    if !missing.is_empty() && in_ci() {
        let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
        bail!("with CI set everything but hardware must be there; install {}", packages.join(" "));
    }
    Ok(())
}

fn missing(needs: &[Need]) -> Vec<&Need> {
    needs.iter().filter(|need| !need.probe.finds()).collect()
}

impl Probe {
    fn finds(&self) -> bool {
        match self {
            Probe::Program(name) => on_path(name, env::var_os("PATH").as_deref()),
            // It prints only the name if there is no such file.
            Probe::Library(name) => Command::new("gcc")
                .arg(format!("-print-file-name={name}"))
                .output()
                .is_ok_and(|found| found.stdout.contains(&b'/')),
            Probe::Runtime(word) => opencl::is_registered(word),
            Probe::Python(module) => succeeds(Command::new("python3").args(["-m", module, "--version"])),
            Probe::Header(header) => {
                succeeds(Command::new("g++").args(["-E", "-x", "c++", "-include", header]).arg("/dev/null"))
            }
        }
    }
}

fn on_path(program: &str, path: Option<&OsStr>) -> bool {
    path.is_some_and(|path| env::split_paths(path).any(|folder| executable(&folder.join(program))))
}

#[cfg(unix)]
fn executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn executable(file: &Path) -> bool {
    file.is_file() || file.with_extension("exe").is_file()
}

/// Tries to install; the caller probes whether it worked.
fn install(packages: &[&str]) {
    let path = env::var_os("PATH");
    let names = packages.join(" ");
    if !on_path("apt-get", path.as_deref()) {
        eprintln!("setup: please install (Debian's names): {names}");
        return;
    }
    let Some(prefix) = root_prefix() else {
        eprintln!("setup: please run: sudo apt-get install --no-install-recommends {names}");
        return;
    };
    eprintln!("setup: installing {names}");
    // Old lists name packages that no longer exist, so after a failed update the installation is tried all
    // the same.
    for arguments in
        [&["update", "-q"][..], &[&["install", "-q", "-y", "--no-install-recommends"], packages].concat()]
    {
        let command = [prefix, APT, arguments].concat();
        let done = Command::new(command[0]).args(&command[1..]).stdout(io::stderr()).status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("setup: failed: {}", command.join(" "));
        }
    }
}

/// Asks nothing, and waits for another apt instead of failing.
const APT: &[&str] = &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"];

/// What to put before a command to run it as root: nothing, or `sudo -n` where that
/// asks for no password.
fn root_prefix() -> Option<&'static [&'static str]> {
    let user = Command::new("id").arg("-u").output().ok()?;
    if user.stdout.trim_ascii() == b"0" {
        return Some(&[]);
    }
    succeeds(Command::new("sudo").args(["-n", "true"])).then_some(&["sudo", "-n"])
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_only_where_the_path_leads() {
        assert!(on_path("sh", Some(OsStr::new("/nowhere:/bin"))));
        assert!(!on_path("sh", Some(OsStr::new("/nowhere"))));
        assert!(!on_path("sh", None));
    }

    #[test]
    fn a_nightly_of_a_date_is_not_nightly() {
        assert!(is_nightly("nightly-x86_64-unknown-linux-gnu (default)"));
        assert!(is_nightly("nightly"));
        assert!(!is_nightly("nightly-2026-01-01-x86_64-unknown-linux-gnu"));
        assert!(!is_nightly("stable-x86_64-unknown-linux-gnu"));
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_no_program() {
        assert!(!on_path("passwd", Some(OsStr::new("/etc"))));
    }
}
