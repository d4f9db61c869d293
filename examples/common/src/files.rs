//! Files that a run reads before it begins, and files that it writes at its end. Those to write are opened
//! before the run. The name `-` is standard input or output.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::Refused;

/// The contents of a file, or of standard input where its name is `-`. `option` is the one that named it.
///
/// # Errors
/// If it cannot be read.
pub fn read(path: &Path, option: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match is_standard(path) {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        false => fs::read(path),
    };
    read.with_context(|| {
        format!(
            "{option}: expected a file that can be read, found that `{}` cannot: check its name",
            path.display()
        )
    })
}

/// Whether a file is standard input, or standard output, where nothing else is printed then: its name is `-`.
/// A file with that name is `./-`.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A file that is open for writing and keeps what it holds until the run has succeeded; or standard output.
pub struct Target {
    path: PathBuf,
    option: &'static str,
    /// None: standard output.
    file: Option<File>,
    /// This program made the file, and has written nothing to it yet.
    empty: bool,
}

impl Target {
    /// Opens `path` without changing what is in it. `option` is the one that named it.
    ///
    /// # Errors
    /// If it cannot be opened for writing.
    pub fn open(path: &Path, option: &'static str) -> Result<Self> {
        if is_standard(path) {
            return Ok(Self { path: path.to_owned(), option, file: None, empty: false });
        }
        let (opened, empty) = match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).open(path), false)
            }
            opened => (opened, true),
        };
        let file = opened.with_context(|| {
            format!(
                "{option}: expected a file that can be written, found that `{}` cannot be opened \
                 (nothing was run): make its directory, or name another file",
                path.display()
            )
        })?;
        Ok(Self { path: path.to_owned(), option, file: Some(file), empty })
    }

    /// Replaces what is in the file. A closed standard output is no error.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(mut self, contents: &[u8]) -> Result<()> {
        self.empty = false;
        let written = match &mut self.file {
            Some(file) => replace(file, contents),
            None => print(contents),
        };
        written.with_context(|| {
            let place = match self.file {
                Some(_) => format!("`{}`", self.path.display()),
                None => "standard output".into(),
            };
            format!(
                "{}: expected to write {} bytes to {place}, found that it failed: make room, or name \
                 another file, and run again",
                self.option,
                contents.len(),
            )
        })
    }
}

fn replace(file: &mut File, contents: &[u8]) -> std::io::Result<()> {
    // Pipes and devices have no length to set.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(contents)?;
    file.flush()
}

fn print(contents: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(contents).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

impl Drop for Target {
    /// A run that failed leaves no empty file behind.
    fn drop(&mut self) {
        if self.empty {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses a command line in which two options name one file, or standard output, if one of the two is
/// written. Options that are not given are `None`; the first `reads` of them are only read.
///
/// # Errors
/// [`Refused`], naming the options.
pub fn differ(options: &[(&str, Option<&Path>)], reads: usize) -> Result<()> {
    let given = |(number, (option, path)): (usize, &(&str, Option<&Path>))| {
        path.map(|path| (number, option.to_string(), path.to_owned()))
    };
    let given: Vec<_> = options.iter().enumerate().filter_map(given).collect();
    for (i, (place, one, first)) in given.iter().enumerate() {
        // What comes from standard input is not on standard output.
        let input = *place < reads && is_standard(first);
        for (number, other, second) in &given[i + 1..] {
            if *number >= reads && !input && same_file(first, second) {
                let found = if is_standard(first) { "standard output twice" } else { "one" };
                return Err(Refused(format!(
                    "{one} and {other}: expected two files, found {found}: give them different names"
                ))
                .into());
            }
        }
    }
    Ok(())
}

/// Whether both names mean one file, which need not be there yet.
fn same_file(one: &Path, other: &Path) -> bool {
    if is_standard(one) || is_standard(other) {
        return is_standard(one) && is_standard(other);
    }
    let resolved = |path: &Path| -> PathBuf {
        if let Ok(path) = path.canonicalize() {
            return path;
        }
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
        parent.join(path.file_name().unwrap_or_default())
    };
    // Special files such as /dev/null take any number of writers.
    let special = |path: &Path| path.exists() && !path.is_file();
    resolved(one) == resolved(other) && !special(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_kept_until_the_end_and_replaced_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("kept");
        fs::write(&path, "a long old text").expect("written");
        drop(Target::open(&path, "--output").expect("opened"));
        assert_eq!(fs::read_to_string(&path).expect("kept"), "a long old text");
        let target = Target::open(&path, "--output").expect("opened");
        target.write(b"new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
    }

    #[test]
    fn a_new_file_stays_only_if_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("new");
        drop(Target::open(&path, "--output").expect("opened"));
        assert!(!path.exists());
        let target = Target::open(&path, "--output").expect("opened");
        target.write(b"").expect("written");
        assert!(path.exists());
    }
}
