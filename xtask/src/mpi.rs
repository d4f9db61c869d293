//! Libraries and launchers of MPI, of every family that FLASH's transport knows, for any x86-64 Linux
//! machine: their makers publish them as Python packages. They are unpacked into the build directory, beside
//! each other, and nothing outside it knows of them.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::wheels::{Wheels, files};
use crate::{in_ci, opencl};

/// The packages, each with the folder that it gets.
const PACKAGES: &[(&str, Wheels)] = &[
    ("open-mpi-4", wheels("Open MPI 4, 5 MB", "xtask/mpi/open-mpi-4.txt")),
    ("open-mpi-5", wheels("Open MPI 5, 7 MB", "xtask/mpi/open-mpi-5.txt")),
    ("mpich-4", wheels("MPICH 4, 8 MB", "xtask/mpi/mpich-4.txt")),
    ("mpich-5", wheels("MPICH 5, 13 MB", "xtask/mpi/mpich-5.txt")),
    ("intel-mpi", wheels("Intel MPI, 129 MB", "xtask/mpi/intel-mpi.txt")),
];

const fn wheels(title: &'static str, packages: &'static str) -> Wheels {
    Wheels { title, packages, keep, finish }
}

/// `NAME.data/data/bin/mpiexec` is kept as `bin/mpiexec`. Intel's benchmarks and tuner are not.
fn keep(file: &Path) -> Option<PathBuf> {
    let mut parts = file.components();
    let is_data = |part: Component| part.as_os_str().to_string_lossy().ends_with(".data");
    if !parts.next().is_some_and(is_data) || parts.next()?.as_os_str() != "data" {
        return None;
    }
    let kept = parts.as_path();
    let name = kept.file_name()?.to_string_lossy();
    let large = ["IMB-", "mpitune", "libmpcp", "libmpifort", "libmpi_ilp64"];
    (!large.iter().any(|large| name.starts_with(large))).then(|| kept.to_owned())
}

/// Packages are unpacked without permissions.
#[cfg(unix)]
fn finish(kept: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for program in files(&kept.join("bin"))? {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn finish(_: &Path) -> Result<()> {
    anyhow::bail!("they are published for Linux on x86-64 alone")
}

/// Installs what is missing. Packages that cannot be installed are named; with CI that is an error.
pub fn install() -> Result<()> {
    for (name, wheels) in PACKAGES {
        let folder = place()?.join(name);
        if wheels.are_in(&folder) {
            continue;
        }
        match wheels.fetch(&folder) {
            Err(error) if !in_ci() => {
                eprintln!("setup: missing: {} (for processes over MPI): {error:#}", wheels.title);
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

/// The variable that tells tests where they are.
pub fn environment() -> Result<(&'static str, String)> {
    Ok(("FLASH_TEST_MPI", opencl::utf8(&place()?)?))
}

fn place() -> Result<PathBuf> {
    Ok(opencl::target()?.join("mpi"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_package_is_kept_and_benchmarks_are_not() {
        let kept = |file: &str| keep(Path::new(file));
        assert_eq!(kept("mpich-5.0.2.data/data/bin/mpiexec"), Some("bin/mpiexec".into()));
        assert_eq!(kept("impi_rt-1.data/data/opt/mpi/etc/a.dat"), Some("opt/mpi/etc/a.dat".into()));
        for file in ["mpich-5.0.2.dist-info/RECORD", "impi_rt-1.data/data/bin/IMB-RMA", "a.data/scripts/b"] {
            assert_eq!(kept(file), None, "{file}");
        }
    }
}
