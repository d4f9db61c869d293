//! What processes have, by `/proc`.

use std::collections::BTreeSet;
use std::fs;

/// Bytes that memory may grow by: pages that an allocator keeps for itself.
const SLACK: u64 = 1 << 20;
/// Threads for functions that block, which come when they are needed and go when they are idle.
const BLOCKING: u64 = 8;

/// What a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in memory.
    resident: u64,
    /// Open files.
    files: usize,
    threads: u64,
}

impl Usage {
    /// That of a process.
    ///
    /// # Panics
    /// If it is none of this user.
    pub fn of(process: u32) -> Usage {
        let text = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
        let field = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name)).expect("a field of `status`");
            rest.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
        };
        let files = fs::read_dir(format!("/proc/{process}/fd")).expect("its open files").count();
        Usage { resident: 1024 * field("VmRSS:"), files, threads: field("Threads:") }
    }

    /// True if it has as many open files and threads as before.
    pub fn is_as_open_as(&self, before: &Usage) -> bool {
        (self.files, self.threads) == (before.files, before.threads)
    }

    /// The same files and threads, with the memory of later.
    pub fn with_memory_of(self, later: Usage) -> Usage {
        Usage { resident: later.resident, ..self }
    }

    /// By how many bytes its memory has grown.
    ///
    /// # Errors
    /// If it has grown by more than 1 MiB, has another number of open files, or more threads than those that
    /// come and go with functions that block.
    pub fn flat(&self, before: Usage, what: &str) -> Result<u64, String> {
        let grown = self.resident.saturating_sub(before.resident);
        let flat = grown < SLACK && self.files == before.files && self.threads <= before.threads + BLOCKING;
        flat.then_some(grown).ok_or_else(|| format!("{what}: {before:?} has become {self:?}"))
    }
}

/// The processes that any thread of a process has started.
pub fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let all = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut all: Vec<u32> = all
        .flat_map(|ids| ids.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect();
    all.sort_unstable();
    all
}

/// The files of FLASH in `/dev/shm`.
pub fn shared_files() -> BTreeSet<String> {
    let all = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = all.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("flash")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_counts_and_grown_memory_does() {
        let before = Usage::of(std::process::id());
        let more = Usage { files: before.files + 1, ..before };
        assert!(!more.is_as_open_as(&before));
        assert_eq!(Usage { resident: before.resident + 5, ..before }.flat(before, ""), Ok(5));
        let grown = Usage { resident: before.resident + SLACK, ..before };
        assert!(grown.flat(before, "").is_err());
    }
}
