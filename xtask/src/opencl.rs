//! Three OpenCL devices for any x86-64 Linux machine: PoCL, which the system's packages bring
//! (`setup.rs`), and Intel's runtime for CPUs and FPGA emulation platform, which Intel publishes as Python
//! packages of shared libraries. The latter go into the build directory, and so does a folder of `.icd`
//! files that name all runtimes there are: one variable, `OCL_ICD_VENDORS`, then makes them visible
//! together, and nothing outside the build directory knows of them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use anyhow::{Context, Result, bail};

use crate::wheels::{Wheels, files};
use crate::{cuda, in_ci, mpi, root, setup};

/// Folder of Intel's libraries: a new version gets a new folder.
const INTEL: &str = "intel-2023.2.4";

/// The packages, under that version. The libraries find each other in one folder. The OpenCL loader in one of
/// the packages is left out: the system's is used.
const RUNTIME: Wheels = Wheels {
    title: "Intel's OpenCL runtimes, 300 MB",
    packages: "xtask/opencl-runtimes.txt",
    keep: |file| {
        let (name, folder) = (file.file_name()?, file.parent()?);
        let kept = folder.ends_with("data/lib") && !name.to_string_lossy().starts_with("libOpenCL.");
        kept.then(|| name.into())
    },
    finish: |_| Ok(()),
};

/// Runtimes of the libraries, by the names that their `.icd` files get.
const RUNTIMES: &[(&str, &str)] =
    &[("intel-cpu.icd", "libintelocl.so"), ("intel-fpga-emulator.icd", "libintelocl_emu.so")];

/// Backends of the workspace that programs find as plugins.
const BACKENDS: &[&str] = &["opencl-fpga", "cuda"];

/// The variable that names the folder of `.icd` files, or one of them.
const VISIBLE: &str = "OCL_ICD_VENDORS";

/// Where the system's packages register their runtimes.
const VENDORS: &str = "/etc/OpenCL/vendors";

/// Installs what is missing and writes the folder of `.icd` files. Packages that cannot be installed are
/// named; with CI that is an error.
pub fn install() -> Result<()> {
    setup::opencl()?;
    let place = place()?;
    let intel = place.join(INTEL);
    if !intel.is_dir()
        && let Err(error) = RUNTIME.fetch(&intel)
    {
        if in_ci() {
            return Err(error);
        }
        eprintln!("setup: missing: Intel's OpenCL runtimes (for tests of devices): {error:#}");
    }
    write_icds(&vendors()?, Path::new(VENDORS), &intel)
}

/// Prints what a shell has to evaluate so that programs see the devices.
pub fn print_environment() -> Result<()> {
    install()?;
    cuda::install()?;
    mpi::install()?;
    for (name, value) in environment()?.into_iter().chain([plugins()?]) {
        println!("export {name}={}", quoted(&value));
    }
    Ok(())
}

/// Runs a program of the workspace with the devices; its exit status becomes this command's.
pub fn run(program: &str, arguments: &[String]) -> Result<ExitCode> {
    install()?;
    cuda::install()?;
    let status = Command::new("cargo")
        .args(["run", "--release", "--quiet", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(["--bin", program, "--"])
        .args(arguments)
        .envs(environment()?)
        .envs([plugins()?])
        .status()
        .context("cargo does not start")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// A variable and its value.
pub type Variable = (&'static str, String);

/// The variables that make the devices visible to OpenCL, its compiler to CUDA, and libraries of MPI to
/// tests.
pub fn environment() -> Result<Vec<Variable>> {
    let vendors = (VISIBLE, utf8(&vendors()?)?);
    Ok([vendors, cuda::environment()?, mpi::environment()?]
        .into_iter()
        .chain(processor_for_intel())
        .collect())
}

/// What shows OpenCL the devices on which all kernels have the bits that they should: on processors of others
/// Intel's compiler has wrong code for some functions, whatever it compiles for. `None`: there are none.
pub fn right_devices() -> Result<Option<Variable>> {
    let vendors = vendors()?;
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let shown = if processors.contains("GenuineIntel") { vendors } else { vendors.join("pocl.icd") };
    let any = shown.is_file() || files(&shown).is_ok_and(|icds| !icds.is_empty());
    any.then(|| Ok((VISIBLE, utf8(&shown)?))).transpose()
}

/// The processor for which Intel's runtime is to compile, where it guesses wrong: of AMD's processors, and of
/// Intel's that are newer than it is, it takes another part of its mathematical functions than of what it
/// compiles for, and on AMD's with AVX-512 its compiler aborts.
fn processor_for_intel() -> Option<Variable> {
    const VARIABLE: &str = "CL_CONFIG_CPU_TARGET_ARCH";
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is = |maker: &str, feature: &str| processors.contains(maker) && processors.contains(feature);
    let known = if is("AuthenticAMD", " avx ") {
        "corei7-avx"
    } else if is("GenuineIntel", " avx512f ") {
        "skx"
    } else {
        return None;
    };
    env::var_os(VARIABLE).is_none().then(|| (VARIABLE, known.to_owned()))
}

/// The variable that makes the backends visible to FLASH, once they are built: their plugins, before those of
/// the caller.
fn plugins() -> Result<Variable> {
    const PATH: &str = "FLASH_BACKEND_PATH";
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--quiet"]).current_dir(root()).stdout(io::stderr());
    for backend in BACKENDS {
        command.arg("--package").arg(format!("flash-backend-{backend}-plugin"));
    }
    if !command.status().context("cargo does not start")?.success() {
        bail!("the backends do not build");
    }
    let release = target()?.join("release");
    let library = |backend: &&str| format!("libflash_backend_{}_plugin.so", backend.replace('-', "_"));
    let ours: Vec<PathBuf> = BACKENDS.iter().map(|backend| release.join(library(backend))).collect();
    let theirs = env::var_os(PATH).unwrap_or_default();
    let theirs =
        env::split_paths(&theirs).filter(|path| !path.as_os_str().is_empty() && !ours.contains(path));
    let joined = env::join_paths(ours.iter().cloned().chain(theirs))
        .context("the build directory cannot stand in a list of paths")?;
    Ok((PATH, utf8(Path::new(&joined))?))
}

/// A path as the value of a variable.
pub fn utf8(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}

/// Whether the system has a runtime whose library has this word in its name.
pub fn is_registered(word: &str) -> bool {
    let icds = files(Path::new(VENDORS)).unwrap_or_default();
    icds.iter().filter_map(|icd| fs::read_to_string(icd).ok()).any(|library| library.contains(word))
}

/// The folder of `.icd` files.
fn vendors() -> Result<PathBuf> {
    Ok(place()?.join("vendors"))
}

/// The folder in the build directory for all of this.
fn place() -> Result<PathBuf> {
    Ok(target()?.join("opencl"))
}

/// The build directory: this program is `<target>/<profile>/xtask`.
pub fn target() -> Result<PathBuf> {
    let this = env::current_exe().context("this program has no path")?;
    Ok(this.ancestors().nth(2).context("this program lies in no build directory")?.to_owned())
}

/// Writes the `.icd` files: those of the system, and those of the existing libraries of Intel.
fn write_icds(to: &Path, system: &Path, intel: &Path) -> Result<()> {
    let mut icds = Vec::new();
    for icd in files(system).unwrap_or_default() {
        if let Some(name) = icd.file_name().filter(|_| icd.extension().is_some_and(|e| e == "icd")) {
            let text = fs::read(&icd).with_context(|| format!("cannot read {}", icd.display()))?;
            icds.push((PathBuf::from(name), text));
        }
    }
    for (name, library) in RUNTIMES {
        let library = intel.join(library);
        if library.is_file() {
            icds.push((PathBuf::from(name), format!("{}\n", library.display()).into_bytes()));
        }
    }
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for stale in files(to)?.iter().filter(|file| !icds.iter().any(|(name, _)| to.join(name) == **file)) {
        fs::remove_file(stale).with_context(|| format!("cannot remove {}", stale.display()))?;
    }
    for (name, text) in icds {
        let file = to.join(name);
        // Not written again: a program may be reading it.
        if fs::read(&file).ok().as_ref() != Some(&text) {
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(())
}

/// Quoted as one word for a shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_value_is_one_word_of_a_shell() -> Result<()> {
        let value = "a folder's $HOME; \"x\" \\";
        let shell = Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(value))).output()?;
        assert_eq!(String::from_utf8(shell.stdout)?, value);
        Ok(())
    }

    #[test]
    fn the_folder_names_what_there_is_and_nothing_else() -> Result<()> {
        let work = tempfile::tempdir()?;
        let [to, system, intel] = ["vendors", "system", "intel"].map(|name| work.path().join(name));
        let names = || -> Result<Vec<_>> {
            Ok(files(&to)?.iter().map(|file| file.file_name().unwrap_or_default().to_owned()).collect())
        };
        // Neither folder is there: the machine has no OpenCL.
        write_icds(&to, &system, &intel)?;
        assert!(names()?.is_empty());

        fs::create_dir(&system)?;
        fs::write(system.join("pocl.icd"), "libpocl.so.2")?;
        fs::write(system.join("README"), "")?;
        fs::create_dir(&intel)?;
        fs::write(intel.join("libintelocl_emu.so"), "")?;
        write_icds(&to, &system, &intel)?;
        assert_eq!(names()?, ["intel-fpga-emulator.icd", "pocl.icd"]);
        let emulator = fs::read_to_string(to.join("intel-fpga-emulator.icd"))?;
        assert_eq!(Path::new(emulator.trim_end()), intel.join("libintelocl_emu.so"));

        fs::remove_file(system.join("pocl.icd"))?;
        write_icds(&to, &system, &intel)?;
        assert_eq!(names()?, ["intel-fpga-emulator.icd"]);
        Ok(())
    }
}
