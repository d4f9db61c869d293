//! Compiled programs on disk, for all processes of a user.
//!
//! An entry is found by its whole key (the text that was compiled, options, device, driver version), which it
//! contains, and is checked by its checksum: a damaged one, or one of another key, does not count. Entries
//! are written beside their place and renamed, so that no reader sees half of one and two processes may write
//! the same one. The least recently used are removed when there are too many bytes.

use crate::failure::Unavailable;
use crate::host_settings::HostSettings;
use crate::settings::{self, is_privileged};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// A folder of compiled programs.
///
/// | setting | meaning | default |
/// |---|---|---|
/// | `cache_dir` | the folder | `flash` in `XDG_CACHE_HOME`, or in `.cache` of the home directory |
/// | `cache_limit` | bytes of all entries together; 0: nothing is kept | 512 MiB |
#[derive(Clone, Debug)]
pub struct ProgramCache {
    /// `None`: nothing is kept.
    folder: Option<PathBuf>,
    limit: u64,
}

const MAGIC: [u8; 8] = *b"FLASHPR1";
const LIMIT: u64 = 512 << 20;
/// Bytes before the key: magic, sum, lengths of key and program.
const HEAD: usize = 8 + 4 + 8 + 8;
const EXTENSION: &str = "program";

impl ProgramCache {
    /// The one that settings say.
    ///
    /// # Errors
    /// If the limit is no number.
    pub fn of_settings(settings: &HostSettings<'_>) -> Result<ProgramCache, Unavailable> {
        let limit = settings.number("cache_limit", 0..=u64::MAX)?.unwrap_or(LIMIT);
        // The folders of the user who started a program with more rights are not its own.
        let of = |name: &str| {
            let folder = std::env::var_os(name).filter(|v| !v.is_empty() && !is_privileged());
            folder.map(PathBuf::from)
        };
        let folder = (settings.text("cache_dir").map(PathBuf::from))
            .or_else(|| Some(of("XDG_CACHE_HOME")?.join("flash")))
            .or_else(|| Some(of("HOME")?.join(".cache/flash")));
        Ok(ProgramCache { folder: folder.filter(|_| limit > 0), limit })
    }

    /// The one that the settings of the process's default context say.
    ///
    /// # Errors
    /// If the limit is no number.
    pub fn of_process() -> Result<ProgramCache, Unavailable> {
        ProgramCache::of_settings(&HostSettings::of(settings::of_default_context()))
    }

    /// A cache in a folder.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> ProgramCache {
        ProgramCache { folder: Some(folder.into()).filter(|_| limit > 0), limit }
    }

    /// Its folder; `None`: nothing is kept.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Bytes that all entries may have.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The number of entries, and the bytes of all of them. None: the folder is not there yet.
    ///
    /// # Errors
    /// If the folder cannot be read or written, or is world-writable.
    pub fn look(&self) -> io::Result<(usize, u64)> {
        let Some(folder) = self.folder() else { return Ok((0, 0)) };
        match fs::metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let there = folder.ancestors().find(|folder| folder.is_dir());
                return there.map_or(Err(error), writable).map(|()| (0, 0));
            }
            Err(error) => return Err(error),
            Ok(_) => trusted(folder)?,
        }
        let mut found = (0, 0);
        for file in fs::read_dir(folder)? {
            let file = file?;
            if file.path().extension().is_some_and(|extension| extension == EXTENSION) {
                found = (found.0 + 1, found.1 + file.metadata()?.len());
            }
        }
        writable(folder).map(|()| found)
    }

    /// The program of a key; `None` if there is none, or it is damaged.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        trusted(self.folder.as_ref()?).ok()?;
        let bytes = fs::read(&path).ok()?;
        let program = program_of(&bytes, key)?.to_vec();
        // Marks it as used; without permission to do so it is removed earlier.
        let _ = File::options().write(true).open(&path).and_then(|f| f.set_modified(SystemTime::now()));
        Some(program)
    }

    /// Keeps a program. If that fails, it is compiled again next time; a notice is printed once.
    pub fn keep(&self, key: &str, program: &[u8]) {
        static ONCE: std::sync::Once = std::sync::Once::new();
        if let Err(why) = self.put(key, program) {
            ONCE.call_once(|| {
                crate::notice::notice(format_args!(
                    "compiled programs are not kept: {why}: set FLASH_CACHE_DIR to a folder of yours"
                ));
            });
        }
    }

    /// Writes a program to disk.
    ///
    /// # Errors
    /// If the folder cannot be written, or is world-writable.
    pub fn put(&self, key: &str, program: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (Some(path), Some(folder)) = (self.path(key), &self.folder) else {
            return Ok(());
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        trusted(folder)?;
        let body = [
            &(key.len() as u64).to_le_bytes()[..],
            &(program.len() as u64).to_le_bytes(),
            key.as_bytes(),
            program,
        ]
        .concat();
        let sum = crc32fast::hash(&body).to_le_bytes();
        let number = COUNT.fetch_add(1, Relaxed);
        let part = path.with_extension(format!("{}-{number}.part", std::process::id()));
        let written = fs::write(&part, [&MAGIC[..], &sum, &body].concat());
        written.and_then(|()| fs::rename(&part, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })?;
        self.trim(folder, &path)
    }

    /// Removes an entry, such as one that the driver does not take.
    pub fn forget(&self, key: &str) {
        if let Some(path) = self.path(key) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        // Two sums of different kinds. In a collision the whole key in the entry decides.
        let number = key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let name = format!("{number:016x}{:08x}.{EXTENSION}", crc32fast::hash(key.as_bytes()));
        Some(self.folder.as_ref()?.join(name))
    }

    /// Removes the least recently used until the rest is within the limit; `newest` stays.
    fn trim(&self, folder: &Path, newest: &Path) -> io::Result<()> {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut bytes = 0;
        for file in fs::read_dir(folder)?.flatten() {
            let (path, Ok(meta)) = (file.path(), file.metadata()) else { continue };
            let used = meta.modified().unwrap_or(now);
            match path.extension().and_then(|e| e.to_str()) {
                Some(EXTENSION) => {
                    bytes += meta.len();
                    entries.push((used, meta.len(), path));
                }
                // A write that was interrupted.
                Some("part") if now.duration_since(used).is_ok_and(|age| age > Duration::from_secs(3600)) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        entries.sort();
        for (_, len, path) in entries {
            if bytes <= self.limit {
                break;
            }
            // Another process may have removed it just now.
            if path != newest && fs::remove_file(path).is_ok() {
                bytes -= len;
            }
        }
        Ok(())
    }
}

/// Checks that files can be made in a folder, by making one.
fn writable(folder: &Path) -> io::Result<()> {
    let file = folder.join(format!(".flash-{}.part", std::process::id()));
    fs::write(&file, "a byte or more")?;
    fs::remove_file(&file)
}

/// Refuses a folder that others may write: a program is code.
fn trusted(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder)?.permissions().mode() & 0o002 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("expected a folder that only its owner can write, found one that everybody can: {folder:?}"),
    ))
}

/// The program in an entry, if it is intact and of this key.
fn program_of<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let word = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let sum = u32::from_le_bytes(head.get(8..12)?.try_into().ok()?);
    let whole = head[..8] == MAGIC && sum == crc32fast::hash(&bytes[12..]);
    let (found, program) = rest.split_at_checked(usize::try_from(word(12)?).ok()?)?;
    (whole && found == key.as_bytes() && program.len() as u64 == word(20)?).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("flash-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and times of files")]
    fn what_was_put_is_found_by_its_whole_key_and_by_no_other() {
        let folder = folder("found");
        let cache = ProgramCache::new(&folder, 1 << 20);
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"program").unwrap();
        cache.put("b", b"").unwrap();
        assert_eq!(cache.get("a").as_deref(), Some(&b"program"[..]));
        assert_eq!(cache.get("b").as_deref(), Some(&b""[..]));
        // An entry of another key in the place of this one.
        fs::copy(cache.path("a").unwrap(), cache.path("c").unwrap()).unwrap();
        assert_eq!(cache.get("c"), None);
        cache.forget("a");
        assert_eq!(cache.get("a"), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and times of files")]
    fn an_entry_that_was_cut_or_changed_anywhere_is_none() {
        let folder = folder("cut");
        let cache = ProgramCache::new(&folder, 1 << 20);
        cache.put("key", b"some program").unwrap();
        let path = cache.path("key").unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(cache.get("key"), None, "cut at byte {cut}");
            let mut changed = whole.clone();
            changed[cut] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert_eq!(cache.get("key"), None, "byte {cut} changed");
        }
        cache.put("key", b"some program").unwrap();
        assert!(cache.get("key").is_some());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and times of files")]
    fn the_longest_unused_go_where_there_are_too_many_bytes() {
        let folder = folder("limit");
        let cache = ProgramCache::new(&folder, 3_500);
        for (age, key) in [(30, "a"), (20, "b"), (10, "c")] {
            cache.put(key, &[7; 1_000]).unwrap();
            let file = File::options().write(true).open(cache.path(key).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        // Used now: `b` is the least recently used.
        assert!(cache.get("a").is_some());
        cache.put("d", &[7; 1_000]).unwrap();
        let there = ["a", "b", "c", "d"].map(|key| cache.get(key).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(files(&folder).len(), 3);
        let none = ProgramCache::new(&folder, 0);
        none.put("e", b"program").unwrap();
        assert_eq!((none.get("e"), files(&folder).len()), (None, 3));
        fs::remove_dir_all(folder).unwrap();
    }

    /// A disk that is full cuts a write short: here it is the limit of a process, in a child.
    #[test]
    #[cfg_attr(miri, ignore = "processes")]
    fn a_write_that_fails_leaves_no_file() {
        let folder = folder("full");
        let cache = ProgramCache::new(&folder, 1 << 20);
        cache.put("before", b"program").unwrap();
        let program = vec![7; 100_000];
        // SAFETY: the child is a copy of this thread alone. It uses files, and the allocator, which glibc
        // keeps usable in a child; it takes no lock of another thread, and ends with `_exit`.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                // Without an action for the signal, a write beyond the limit is an error.
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                let limit = libc::rlimit { rlim_cur: 50_000, rlim_max: 50_000 };
                let is_set = libc::setrlimit(libc::RLIMIT_FSIZE, &limit) == 0;
                libc::_exit(if is_set && cache.put("key", &program).is_err() { 7 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
        assert_eq!(files(&folder), [cache.path("before").unwrap()]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_everybody_can_write_is_refused() {
        let folder = folder("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let cache = ProgramCache::new(&folder, 1 << 20);
        let error = cache.put("key", b"program").unwrap_err();
        assert!(error.to_string().contains("that everybody can"), "{error}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        cache.put("key", b"program").unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(cache.get("key"), None, "another user may have changed it");
        fs::remove_dir_all(folder).unwrap();
    }
}
