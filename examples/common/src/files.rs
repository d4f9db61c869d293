//! Files that a run reads before it begins, and files that it writes at its end. That those to
//! write can be written is seen before the run. The name `-` is standard input or output.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::Refused;

/// What `--help` says of files that a run writes.
pub const FILES: &str = "\
Files that are written:
  A file takes its place as a whole, when the run has succeeded. Whatever stops a run, the old file
  is still there, or none. Its mode stays; another hard link of it keeps the old contents.";

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

/// A file to write, or standard output. A regular file keeps what it holds until its new contents are whole
/// on the disk: they are written beside it and take its place at once. So a run that fails, is interrupted or
/// finds the disk full leaves the old file, and none where none was. The new file has the mode and, where
/// that is allowed, the owner of the old one. A symbolic link stays and its file is replaced; another hard
/// link of that file keeps the old contents.
pub struct Target {
    /// As it was given.
    path: PathBuf,
    option: &'static str,
    place: Place,
}

/// What contents are written to.
enum Place {
    Stdout,
    /// A regular file, which may not be there, and no symbolic link.
    File(PathBuf),
    /// A pipe, a device, or a file in a directory that cannot be written: opened before the run.
    Open(File),
}

impl Target {
    /// Sees that `path` can be written, and changes nothing. `option` is the one that named it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(path: &Path, option: &'static str) -> Result<Self> {
        let place = if is_standard(path) { Ok(Place::Stdout) } else { Place::find(path) };
        let place = place.with_context(|| {
            format!(
                "{option}: expected a file that can be written, found that `{}` cannot be opened \
                 (nothing was run): make its directory, or name another file",
                path.display()
            )
        })?;
        Ok(Self { path: path.to_owned(), option, place })
    }

    /// As [`open`](Self::open), of a file that may be named.
    ///
    /// # Errors
    /// If it is named and cannot be written.
    pub fn open_if(path: &Option<PathBuf>, option: &'static str) -> Result<Option<Self>> {
        path.as_ref().map(|path| Self::open(path, option)).transpose()
    }

    /// Replaces what is in the file. A closed standard output is no error.
    ///
    /// # Errors
    /// If it cannot be written. A regular file then is as it was.
    pub fn write(self, contents: &[u8]) -> Result<()> {
        let written = match &self.place {
            Place::Stdout => print(contents),
            Place::File(path) => replace(path, contents),
            Place::Open(file) => overwrite(file, contents),
        };
        written.with_context(|| {
            let place = match self.place {
                Place::Stdout => "standard output".into(),
                _ => format!("`{}`", self.path.display()),
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

impl Place {
    fn find(path: &Path) -> std::io::Result<Place> {
        let path = follow(path)?;
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(std::io::Error::from(ErrorKind::IsADirectory));
        }
        let opened = OpenOptions::new().write(true).open(&path);
        match opened {
            Ok(file) if !file.metadata()?.is_file() => return Ok(Place::Open(file)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A file without a name, which is gone when it is closed.
        match (tempfile::tempfile_in(directory_of(&path)), opened) {
            (Ok(_), _) => Ok(Place::File(path)),
            (Err(_), Ok(file)) => Ok(Place::Open(file)),
            (Err(error), Err(_)) => Err(error),
        }
    }
}

/// The file that a name means: where it is a symbolic link, the one at the end, which need not be there.
fn follow(path: &Path) -> std::io::Result<PathBuf> {
    // As many as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = directory_of(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(std::io::Error::other("expected at most 40 symbolic links, one after the other, found more"))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Puts a new file into the place of the one at a path, if there is one.
fn replace(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let old = fs::metadata(path).ok();
    let mode = Permissions::from_mode(0o666);
    let mut new = tempfile::Builder::new().permissions(mode).tempfile_in(directory_of(path))?;
    new.write_all(contents)?;
    if let Some(old) = old {
        // Only the superuser gives files away.
        let _ = std::os::unix::fs::fchown(new.as_file(), Some(old.uid()), Some(old.gid()));
        new.as_file().set_permissions(old.permissions())?;
    }
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(())
}

fn overwrite(mut file: &File, contents: &[u8]) -> std::io::Result<()> {
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
        let parent = directory_of(path);
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
    use std::os::unix::fs::symlink;

    fn write(path: &Path, contents: &str) {
        Target::open(path, "--output").expect("can be written").write(contents.as_bytes()).expect("written");
    }

    fn names(directory: &Path) -> Vec<String> {
        let files = fs::read_dir(directory).expect("a directory");
        let name = |file: std::io::Result<fs::DirEntry>| file.expect("a file").file_name();
        let mut names: Vec<_> = files.map(|file| name(file).into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_there_is_kept_until_the_end_and_replaced_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("kept");
        fs::write(&path, "a long old text").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("its mode set");
        drop(Target::open(&path, "--output").expect("opened"));
        assert_eq!(fs::read_to_string(&path).expect("kept"), "a long old text");
        write(&path, "new");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["kept"]);
    }

    #[test]
    fn a_new_file_is_there_only_when_it_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("new");
        let target = Target::open(&path, "--output").expect("opened");
        // An interrupted program leaves what is there now.
        assert!(names(directory.path()).is_empty());
        target.write(b"").expect("written");
        fs::write(directory.path().join("plain"), "").expect("written");
        let mode = |name: &str| fs::metadata(directory.path().join(name)).expect("there").mode();
        assert_eq!(mode("new"), mode("plain"));
    }

    #[test]
    fn links_stay_and_their_files_are_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("folder")).expect("a folder");
        symlink("folder/other", at("link")).expect("a link");
        symlink("../file", at("folder/other")).expect("a link");
        // The link dangles at first.
        for contents in ["first", "second"] {
            write(&at("link"), contents);
            assert_eq!(fs::read_to_string(at("file")).expect("there"), contents);
        }
        assert_eq!(names(directory.path()), ["file", "folder", "link"]);
        assert_eq!(names(&at("folder")), ["other"]);
        symlink("round", at("round")).expect("a link");
        assert!(Target::open(&at("round"), "--output").is_err());
    }

    #[test]
    fn what_cannot_be_written_whole_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("kept");
        fs::write(&path, "old").expect("written");
        let target = Target::open(&path, "--output").expect("opened");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        assert!(target.write(b"new").is_err());
        assert_eq!(names(directory.path()), ["kept"]);
    }

    #[test]
    fn devices_are_written_and_not_replaced() {
        write(Path::new("/dev/null"), "anything");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
    }
}
