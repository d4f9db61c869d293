//! NVIDIA's compilers for any x86-64 Linux machine, with or without a GPU: NVIDIA publishes them as Python
//! packages. They are unpacked into the build directory. `check` reports what they say of the kernels.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::wheels::Wheels;
use crate::{in_ci, opencl, root};

/// The packages, under one version. NVRTC's own folder has only NVRTC: it is searched for libraries, and a
/// driver must be the system's.
const COMPILERS: Wheels = Wheels {
    title: "NVIDIA's CUDA compilers, 128 MB",
    packages: "xtask/cuda-compilers.txt",
    keep: |file| {
        let name = file.file_name()?;
        let kept = match file.parent()?.file_name()?.to_str()? {
            // The package has every library a second time, in another variant.
            "lib" => name.to_str()?.starts_with("libnvrtc") && !name.to_str()?.contains(".alt."),
            "bin" => name == "ptxas",
            _ => false,
        };
        let folder = file.parent()?.file_name()?;
        kept.then(|| Path::new(folder).join(name))
    },
    finish,
};

/// What to check.
#[derive(clap::Args)]
pub struct Options {
    /// Also write the table to FILE, as a JSON list
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Installs what is missing. Packages that cannot be installed are named; with CI that is an error.
pub fn install() -> Result<()> {
    let folder = folder()?;
    if COMPILERS.are_in(&folder) {
        return Ok(());
    }
    match COMPILERS.fetch(&folder) {
        Err(error) if !in_ci() => {
            eprintln!("setup: missing: NVIDIA's CUDA compilers (for CUDA kernels): {error:#}");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Packages are unpacked without permissions; and programs look first for the name without a version.
#[cfg(unix)]
fn finish(kept: &Path) -> Result<()> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let ptxas = ptxas(kept);
    fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", ptxas.display()))?;
    let libraries = crate::wheels::files(&kept.join("lib"))?;
    let names = libraries.iter().filter_map(|file| file.file_name());
    let name = names.into_iter().find(|name| name.to_string_lossy().starts_with("libnvrtc.so."));
    let name = name.context("the packages have no libnvrtc.so")?;
    symlink(name, kept.join("lib/libnvrtc.so")).context("cannot name libnvrtc.so")
}

#[cfg(not(unix))]
fn finish(_: &Path) -> Result<()> {
    bail!("they are published for Linux on x86-64 alone")
}

/// The variable that makes NVRTC visible to programs: its folder, before those of the caller.
pub fn environment() -> Result<(&'static str, String)> {
    const PATH: &str = "LD_LIBRARY_PATH";
    let ours = libraries()?;
    let theirs = env::var_os(PATH).unwrap_or_default();
    let theirs = env::split_paths(&theirs).filter(|path| !path.as_os_str().is_empty() && *path != ours);
    let joined = env::join_paths([ours.clone()].into_iter().chain(theirs))
        .context("the build directory cannot stand in a list of paths")?;
    Ok((PATH, opencl::utf8(Path::new(&joined))?))
}

/// Compiles every CUDA kernel, prints the resources of each, and fails if one does not compile or spills
/// registers.
pub fn check(options: &Options) -> Result<ExitCode> {
    install()?;
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--workspace", "--bin", "check-cuda"])
        .current_dir(root())
        .status()
        .context("cargo does not start")?;
    if !built.success() {
        bail!("the check does not build");
    }
    let mut command = checker()?.context("NVIDIA's CUDA compilers are missing")?;
    command.args(&options.json);
    let status = command.status().context("the check does not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program that checks, which `cargo test --workspace` builds, too; `None` without the compilers.
pub fn checker() -> Result<Option<Command>> {
    let ptxas = ptxas(&folder()?);
    let mut command = Command::new(opencl::target()?.join("debug/check-cuda"));
    command.arg(&ptxas).envs([environment()?]);
    Ok(ptxas.is_file().then_some(command))
}

/// The folder of NVRTC.
pub fn libraries() -> Result<PathBuf> {
    Ok(folder()?.join("lib"))
}

fn ptxas(folder: &Path) -> PathBuf {
    folder.join("bin/ptxas")
}

/// The folder in the build directory for all of this.
fn folder() -> Result<PathBuf> {
    Ok(opencl::target()?.join("cuda"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_packages_only_the_compilers_are_kept() {
        let keep = |file: &str| (COMPILERS.keep)(Path::new(file));
        assert_eq!(keep("nvidia/cu13/lib/libnvrtc.so.13"), Some("lib/libnvrtc.so.13".into()));
        assert_eq!(
            keep("nvidia/cu13/lib/libnvrtc-builtins.so.13.0"),
            Some("lib/libnvrtc-builtins.so.13.0".into())
        );
        assert_eq!(keep("nvidia/cu13/lib/libnvrtc.alt.so.13"), None);
        assert_eq!(keep("nvidia/cu13/bin/ptxas"), Some("bin/ptxas".into()));
        assert_eq!(keep("nvidia/cu13/bin/nvcc"), None);
        assert_eq!(keep("nvidia/cu13/lib/libcuda.so.1"), None);
        assert_eq!(keep("nvidia_cuda_nvrtc-13.0.88.dist-info/RECORD"), None);
    }
}
