//! Files to write at the end of a run, tried before it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file that is open for writing and keeps what it holds until the run has succeeded.
pub struct Target {
    path: PathBuf,
    option: &'static str,
    file: File,
    /// This program made the file, and has written nothing to it yet.
    empty: bool,
}

impl Target {
    /// Opens `path` without changing what is in it. `option` is the one that named it.
    pub fn open(path: &Path, option: &'static str) -> Result<Self> {
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
        Ok(Self { path: path.to_owned(), option, file, empty })
    }

    /// Replaces what is in the file.
    pub fn write(mut self, contents: &[u8]) -> Result<()> {
        self.empty = false;
        self.replace(contents).with_context(|| {
            format!(
                "{}: expected to write {} bytes to `{}`, found that it failed: make room, or name \
                 another file, and run again",
                self.option,
                contents.len(),
                self.path.display()
            )
        })
    }

    fn replace(&mut self, contents: &[u8]) -> std::io::Result<()> {
        // Pipes and devices have no length to set.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(contents)?;
        self.file.flush()
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
