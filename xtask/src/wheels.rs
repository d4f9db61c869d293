//! Libraries and programs that their makers publish as Python packages. pip downloads, checks and unpacks
//! them; they are not installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io, process};

use anyhow::{Context, Result, bail};

use crate::{root, setup};

/// The kept files of some packages.
pub struct Wheels {
    /// Name for display.
    pub title: &'static str,
    /// The file that names them for pip, from the workspace's root.
    pub packages: &'static str,
    /// The place of a package's file in the folder, by its path in the package; `None`: it is not kept.
    pub keep: fn(&Path) -> Option<PathBuf>,
    /// Makes a folder of the kept files usable.
    pub finish: fn(&Path) -> Result<()>,
}

/// A copy of the file that names the packages, in the folder of their kept files.
const RECEIPT: &str = "packages.txt";

impl Wheels {
    /// Whether a folder has the kept files of just these packages.
    pub fn are_in(&self, folder: &Path) -> bool {
        let read = |file: PathBuf| fs::read(file).ok();
        let found = read(folder.join(RECEIPT));
        found.is_some() && found == read(root().join(self.packages))
    }

    /// Downloads them, and makes a folder of what is kept; one that is there already is exchanged. A
    /// process that finds the folder finds it complete.
    pub fn fetch(&self, folder: &Path) -> Result<()> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!("they are published for Linux on x86-64 alone");
        }
        setup::pip()?;
        let place = folder.parent().context("a folder of the build directory")?;
        fs::create_dir_all(place).with_context(|| format!("cannot create {}", place.display()))?;
        let mut work = folder.to_owned().into_os_string();
        work.push(format!(".{}", process::id()));
        let work = PathBuf::from(work);
        let outcome = self.unpack(&work).and_then(|kept| {
            if folder.is_dir() {
                fs::rename(folder, work.join("before")).ok();
            }
            match fs::rename(kept, folder) {
                // Another process was faster.
                Err(_) if folder.is_dir() => Ok(()),
                outcome => outcome.with_context(|| format!("cannot create {}", folder.display())),
            }
        });
        fs::remove_dir_all(&work).ok();
        outcome
    }

    /// The folder of what is kept of all packages.
    fn unpack(&self, work: &Path) -> Result<PathBuf> {
        let (wheels, kept) = (work.join("wheels"), work.join("kept"));
        fs::create_dir_all(&kept).with_context(|| format!("cannot create {}", kept.display()))?;
        eprintln!("setup: downloading {}", self.title);
        let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
        let only = ["--only-binary", ":all:", "--require-hashes"];
        let packages = root().join(self.packages);
        python(&|python| {
            python.args(pip).args(only).arg("--dest").arg(&wheels).arg("--requirement").arg(&packages)
        })?;
        for wheel in files(&wheels)? {
            let package = wheel.with_extension("");
            python(&|python| python.args(["-m", "zipfile", "--extract"]).arg(&wheel).arg(&package))?;
            fs::remove_file(&wheel)?;
            self.sort(&package, &package, &kept)?;
        }
        fs::copy(&packages, kept.join(RECEIPT))?;
        (self.finish)(&kept)?;
        Ok(kept)
    }

    /// Moves what is kept of a folder of a package.
    fn sort(&self, package: &Path, folder: &Path, kept: &Path) -> Result<()> {
        for file in files(folder)? {
            if file.is_dir() {
                self.sort(package, &file, kept)?;
            } else if let Some(to) = (self.keep)(file.strip_prefix(package)?) {
                let to = kept.join(to);
                fs::create_dir_all(to.parent().context("a file in a folder")?)?;
                fs::rename(&file, &to).with_context(|| format!("cannot create {}", to.display()))?;
            }
        }
        Ok(())
    }
}

fn python(arguments: &dyn Fn(&mut Command) -> &mut Command) -> Result<()> {
    let mut command = Command::new("python3");
    arguments(&mut command).stdin(Stdio::null()).stdout(io::stderr());
    let status = command.status().context("python3 does not start")?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?} failed: {status}"),
    }
}

/// What a folder holds, in the order of names.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}
