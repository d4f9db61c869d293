//! The programs that are run: built here, or packed elsewhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cuda, root};

/// Programs, by the names of their targets.
pub const NBODY: &str = "nbody";
pub const FLASH: &str = "flash";
pub const BENCH: &str = "flash-bench";
/// Example programs that check their results.
pub const CHECKED: [&str; 3] = ["gemm", "cholesky", "jacobi3d"];
/// Programs of tests.
pub const TESTS: [&str; 5] = ["cuda", "kernels", "device_kernels", "once", RUNTIME];
/// The one of them whose device is chosen by a key.
pub const RUNTIME: &str = "runtime";
/// The backend, as a shared library.
pub const PLUGIN: &str = "flash_backend_cuda_plugin";
/// This program.
const XTASK: &str = "xtask";

const PACKAGES: [&str; 11] = [
    "cholesky",
    "flash-backend-cuda-plugin",
    "flash-bench",
    "flash-cli",
    "flash-tests",
    "flash-tests-kernels",
    "flash-tests-once",
    // Another package that is used has the name, too.
    concat!("gemm@", env!("CARGO_PKG_VERSION")),
    "jacobi3d",
    "nbody",
    "xtask",
];

/// The files that are packed beside this program: the others; NVRTC, which is large; and the commit.
const PROGRAMS: &str = "programs.tar.gz";
const NVRTC: &str = "nvrtc.tar.xz";
const COMMIT: &str = "commit";

/// Programs and libraries.
pub struct Kit {
    files: BTreeMap<&'static str, PathBuf>,
    /// Folders of NVRTC, in the order of the search.
    libraries: Vec<PathBuf>,
    /// The commit of the sources; empty if they are in no repository.
    pub commit: String,
}

fn targets() -> impl Iterator<Item = &'static str> {
    [NBODY, FLASH, BENCH, PLUGIN, XTASK].into_iter().chain(CHECKED).chain(TESTS)
}

/// CUDA's own NVRTC, at the usual place.
fn installed() -> PathBuf {
    "/usr/local/cuda/lib64".into()
}

impl Kit {
    /// Builds everything, optimised.
    pub fn build() -> Result<Kit> {
        cuda::install()?;
        eprintln!("gpu: building");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--lib", "--bins", "--message-format=json-render-diagnostics"]);
        cargo.args(TESTS.iter().flat_map(|test| ["--test", test]));
        cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output();
        let output = output.context("cargo does not start")?;
        if !output.status.success() {
            bail!("the programs do not build");
        }
        let files = artifacts(&String::from_utf8_lossy(&output.stdout))?;
        Ok(Kit { files, libraries: vec![cuda::libraries()?, installed()], commit: commit() })
    }

    /// Packs all that another machine needs into a folder; returns the number of bytes.
    pub fn pack(&self, folder: &Path) -> Result<u64> {
        let libraries = cuda::libraries()?;
        if !libraries.join("libnvrtc.so").exists() {
            bail!("expected NVRTC in {}, found none: `cargo xtask setup` gets it", libraries.display());
        }
        eprintln!("gpu: packing");
        let work = folder.join("programs");
        fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
        for (name, file) in &self.files {
            let to = if *name == XTASK { folder.join(name) } else { work.join(name) };
            // A running program cannot be written, but it can be replaced.
            fs::remove_file(&to).ok();
            succeed(Command::new("strip").arg("-o").arg(&to).arg(file), "strip (of binutils)")?;
        }
        archive("-cz", &folder.join(PROGRAMS), &work)?;
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
        archive("-cJ", &folder.join(NVRTC), &libraries)?;
        fs::write(folder.join(COMMIT), &self.commit)?;
        let packed = [XTASK, PROGRAMS, NVRTC, COMMIT].map(|name| folder.join(name).metadata());
        packed.into_iter().map(|data| Ok(data?.len())).sum()
    }

    /// The kit in such a folder. It is unpacked into `work`.
    pub fn unpack(folder: &Path, work: &Path) -> Result<Kit> {
        let packed = folder.join(PROGRAMS);
        if !packed.is_file() {
            let folder = folder.display();
            bail!("expected what `cargo xtask gpu --pack` makes in {folder}, found no {PROGRAMS}");
        }
        eprintln!("gpu: unpacking");
        let (programs, libraries) = (work.join("programs"), work.join("nvrtc"));
        for folder in [&programs, &libraries] {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        archive("-xz", &packed, &programs)?;
        if let Err(error) = archive("-xJ", &folder.join(NVRTC), &libraries) {
            eprintln!("gpu: this machine's own NVRTC is used: {error:#}");
        }
        let files = targets().filter(|name| *name != XTASK).map(|name| (name, programs.join(name)));
        let commit = fs::read_to_string(folder.join(COMMIT)).unwrap_or_default();
        Ok(Kit { files: files.collect(), libraries: vec![libraries, installed()], commit })
    }

    /// A kit without programs.
    #[cfg(test)]
    pub fn nothing() -> Kit {
        Kit { files: BTreeMap::new(), libraries: Vec::new(), commit: String::new() }
    }

    /// A program, or the plugin.
    pub fn file(&self, name: &str) -> Result<&Path> {
        let file = self.files.get(name).with_context(|| format!("{name} was not built"))?;
        Ok(file)
    }

    /// The variables that make the backend and NVRTC visible to programs.
    pub fn environment(&self) -> Result<Vec<(&'static str, OsString)>> {
        const PATH: &str = "LD_LIBRARY_PATH";
        let theirs = env::var_os(PATH).unwrap_or_default();
        let theirs = env::split_paths(&theirs).filter(|path| !path.as_os_str().is_empty());
        let folders = self.libraries.iter().cloned().chain(theirs);
        let joined = env::join_paths(folders).context("a folder cannot stand in a list of paths")?;
        Ok(vec![(PATH, joined), ("FLASH_BACKEND_PATH", self.file(PLUGIN)?.into())])
    }
}

/// The files that cargo built, by the names of the targets.
fn artifacts(messages: &str) -> Result<BTreeMap<&'static str, PathBuf>> {
    let mut files = BTreeMap::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let name = message["target"]["name"].as_str();
        let Some(name) = targets().find(|target| Some(*target) == name) else { continue };
        let library = || message["filenames"][0].as_str().filter(|_| name == PLUGIN);
        if let Some(file) = message["executable"].as_str().or_else(library) {
            files.insert(name, PathBuf::from(file));
        }
    }
    match targets().find(|name| !files.contains_key(name)) {
        Some(missing) => bail!("expected cargo to say where {missing} is, found nothing of it"),
        None => Ok(files),
    }
}

/// The commit of the sources, and whether they were changed since.
fn commit() -> String {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .current_dir(root())
        .stderr(Stdio::null())
        .output();
    described
        .map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Packs a folder into a file, or unpacks it.
fn archive(how: &str, file: &Path, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg(how).arg("-f").arg(file).arg("-C").arg(folder).env("XZ_OPT", "-T0");
    if how.starts_with("-c") {
        tar.arg(".");
    }
    succeed(&mut tar, &format!("tar {how}f {}", file.display()))
}

/// Runs a command that has to succeed.
fn succeed(command: &mut Command, shown: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("{shown} does not start"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, executable: Option<&str>, file: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "target": {"name": name},
            "filenames": [file],
            "executable": executable,
        })
        .to_string()
    }

    #[test]
    fn programs_are_where_cargo_says() -> Result<()> {
        let mut lines: Vec<String> =
            targets().filter(|name| *name != PLUGIN).map(|name| message(name, Some(name), "x")).collect();
        lines.push(message("flash", None, "libflash.rlib"));
        lines.push("   Compiling something".into());
        let error = artifacts(&lines.join("\n")).unwrap_err().to_string();
        assert!(error.contains(PLUGIN), "{error}");
        lines.push(message(PLUGIN, None, "plugin.so"));
        let files = artifacts(&lines.join("\n"))?;
        assert_eq!(files[PLUGIN], Path::new("plugin.so"));
        assert_eq!(files[FLASH], Path::new("flash"));
        Ok(())
    }

    #[test]
    fn what_is_packed_is_what_is_unpacked() -> Result<()> {
        let place = tempfile::tempdir()?;
        let [from, to] = ["from", "to"].map(|name| place.path().join(name));
        fs::create_dir_all(&from)?;
        fs::create_dir_all(&to)?;
        fs::write(from.join("flash"), "a program")?;
        let file = place.path().join(PROGRAMS);
        archive("-cz", &file, &from)?;
        archive("-xz", &file, &to)?;
        assert_eq!(fs::read_to_string(to.join("flash"))?, "a program");
        let error = archive("-xz", &place.path().join("nothing"), &to).unwrap_err().to_string();
        assert!(error.starts_with("tar -xzf ") && error.contains("nothing"), "{error}");
        Ok(())
    }

    #[test]
    fn a_folder_of_something_else_is_refused_by_what_it_lacks() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let error = Kit::unpack(folder.path(), &folder.path().join("run")).err().context("refused")?;
        assert!(error.to_string().contains("found no programs.tar.gz"), "{error}");
        Ok(())
    }
}
