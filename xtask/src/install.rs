//! Installs FLASH for host programs in C, C++ and Fortran, and the `flash` program, under a prefix:
//!
//! | file | what it is |
//! |---|---|
//! | `bin/flash` | the program |
//! | `lib/libflash.so` | the library, with the CPU backend and the library of kernels in it |
//! | `lib/libmpix.so` | C2MPI, the interface of the HALO paper, with the same in it |
//! | `lib/flash-backends/` | plugins of devices, which the libraries and the program find there |
//! | `lib/flash-kernels/` | the library of kernels as a plugin, for host programs in Rust without it |
//! | `include/` | `flash.h`, `flash.hpp`, `mpix.h`; `mpix_accel.h`, `flash_backend.h` and `flash_device.h` for devices and kernels |
//! | `share/flash/flash_host.f90`, `mpix.f90` | Fortran modules, which a program compiles |
//! | `lib/pkgconfig/`, `lib/cmake/flash/` | for pkg-config and CMake |

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root;

/// What to install, and where.
#[derive(clap::Args)]
pub struct Options {
    /// The folder to install to; made where it is not there
    #[arg(long, value_name = "FOLDER")]
    prefix: PathBuf,
    /// Build in release mode
    #[arg(long)]
    release: bool,
    /// A folder of cargo's in which all of it is built already
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with = "release")]
    built: Option<PathBuf>,
}

/// The packages that are built.
const PACKAGES: [&str; 6] = [
    "flash-c",
    "flash-c2mpi",
    "flash-cli",
    "flash-backend-opencl-fpga-plugin",
    "flash-backend-cuda-plugin",
    "flash-kernels-plugin",
];

/// What is built, and the file that it becomes.
const BUILT: [(&str, &str); 6] = [
    ("flash", "bin/flash"),
    ("libflash_c.so", "lib/libflash.so"),
    ("libflash_c2mpi.so", "lib/libmpix.so"),
    ("libflash_backend_opencl_fpga_plugin.so", "lib/flash-backends/libflash_backend_opencl_fpga_plugin.so"),
    ("libflash_backend_cuda_plugin.so", "lib/flash-backends/libflash_backend_cuda_plugin.so"),
    ("libflash_kernels_plugin.so", "lib/flash-kernels/libflash_kernels_plugin.so"),
];

/// Files of the repository, and those that they become.
const FILES: [(&str, &str); 12] = [
    ("flash-c/include/flash.h", "include/flash.h"),
    ("flash-c/include/flash.hpp", "include/flash.hpp"),
    ("flash-c2mpi/include/mpix.h", "include/mpix.h"),
    ("flash-c2mpi/include/mpix_accel.h", "include/mpix_accel.h"),
    ("flash-backend/include/flash_backend.h", "include/flash_backend.h"),
    ("flash-backend/include/flash_device.h", "include/flash_device.h"),
    ("flash-c/fortran/flash_host.f90", "share/flash/flash_host.f90"),
    ("flash-c2mpi/fortran/mpix.f90", "share/flash/mpix.f90"),
    ("flash-c/cmake/flash.pc.in", "lib/pkgconfig/flash.pc"),
    ("flash-c2mpi/mpix.pc.in", "lib/pkgconfig/mpix.pc"),
    ("flash-c/cmake/flashConfig.cmake", "lib/cmake/flash/flashConfig.cmake"),
    ("flash-c/cmake/flashConfigVersion.cmake.in", "lib/cmake/flash/flashConfigVersion.cmake"),
];

/// Builds and installs.
pub fn run(options: &Options) -> Result<()> {
    let built = match &options.built {
        Some(folder) => folder.clone(),
        None => build(options.release)?,
    };
    let prefix = absolute(&options.prefix)?;
    for (from, to) in BUILT {
        let from = built.join(from);
        ensure!(from.is_file(), "expected {}, as cargo builds it: it is not there", from.display());
        // A copy beside it that takes its place: a program that runs keeps the old one.
        copy(&from, &prefix.join(to))?;
    }
    for (from, to) in FILES {
        let (from, to) = (root().join(from), prefix.join(to));
        match from.extension().is_some_and(|ending| ending == "in") {
            true => {
                let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
                let prefix = prefix.to_str().context("a prefix whose name is text")?;
                write(&to, text.replace("@prefix@", prefix).replace("@version@", env!("CARGO_PKG_VERSION")))?;
            }
            false => copy(&from, &to)?,
        }
    }
    // The program looks for plugins beside itself.
    let link = prefix.join("bin/flash-backends");
    if link.symlink_metadata().is_err() {
        symlink("../lib/flash-backends", &link).with_context(|| format!("cannot make {}", link.display()))?;
    }
    eprintln!(
        "installed in {}; `PKG_CONFIG_PATH={}/lib/pkgconfig`, `-DCMAKE_PREFIX_PATH={}`",
        prefix.display(),
        prefix.display(),
        prefix.display()
    );
    Ok(())
}

/// Where it is built.
fn build(release: bool) -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.arg("build").args(release.then_some("--release")).current_dir(root());
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let status = command.status().context("cargo does not start")?;
    ensure!(status.success(), "it does not build: what the compiler says is above");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join(if release { "release" } else { "debug" }))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let place = folder_of(to)?;
    let beside = place.join(format!(".{}.new", to.file_name().context("a file")?.display()));
    fs::copy(from, &beside)
        .and_then(|_| fs::rename(&beside, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn write(to: &Path, text: String) -> Result<()> {
    folder_of(to)?;
    fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

fn folder_of(file: &Path) -> Result<&Path> {
    let folder = file.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}
