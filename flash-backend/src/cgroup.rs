//! The limits that control groups set a process: those of its groups, and of the groups above them.

use std::path::Path;

/// Bytes of memory that this process may have; `None`: no group limits them, or that is not known.
pub fn memory_limit() -> Option<u64> {
    let group = |folder: &Path, file: &str| number(&folder.join(file));
    let limits = ["memory.max", "memory.limit_in_bytes"];
    lowest(Path::new("/sys/fs/cgroup"), &own(), limits, group)
}

/// Processors whose time this process may have, such as 1.5; `None`: no group limits it, or that is not
/// known.
pub fn processor_limit() -> Option<f64> {
    lowest(Path::new("/sys/fs/cgroup"), &own(), ["cpu.max", "cpu.cfs_quota_us"], quota)
}

/// What the system says of the process's groups.
fn own() -> String {
    std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

fn number(file: &Path) -> Option<u64> {
    // A group without a limit says "max", -1, or a number beyond all memory.
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// A group's time per period: both in one file in version 2, one file each in version 1.
fn quota(folder: &Path, file: &str) -> Option<f64> {
    let (quota, period) = match file {
        "cpu.max" => {
            let text = std::fs::read_to_string(folder.join(file)).ok()?;
            let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
            (words.next()??, words.next()??)
        }
        _ => (number(&folder.join(file))?, number(&folder.join("cpu.cfs_period_us"))?),
    };
    (period > 0).then(|| quota as f64 / period as f64)
}

/// The least limit of a process's control groups and those above them. `root` is where they are mounted,
/// `cgroups` what `/proc/self/cgroup` says: lines of a number, controllers (none in version 2) and a path. In
/// a container that path may be the host's; then the root's limit is the container's. `files`: the limit's
/// name in both versions, which `limit` looks for in a group's folder; it begins with the controller's.
fn lowest<T: PartialOrd>(
    root: &Path,
    cgroups: &str,
    files: [&str; 2],
    limit: impl Fn(&Path, &str) -> Option<T>,
) -> Option<T> {
    let controller = files[0].split('.').next().unwrap_or_default();
    let group = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), files[0]),
            _ if controllers.split(',').any(|name| name == controller) => (root.join(controller), files[1]),
            _ => return None,
        };
        let lowest = root.join(path.trim_start_matches('/'));
        let folders = lowest.ancestors().take_while(|folder| folder.starts_with(&root));
        least(folders.filter_map(|folder| limit(folder, file)))
    };
    least(cgroups.lines().filter_map(group))
}

fn least<T: PartialOrd>(limits: impl Iterator<Item = T>) -> Option<T> {
    limits.reduce(|least, limit| if limit < least { limit } else { least })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder with these files.
    fn mounted(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("flash-cgroup-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (file, text) in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn memory_is_limited_by_all_control_groups_of_the_process() {
        let files = ["memory.max", "memory.limit_in_bytes"];
        let limit = |root: &Path, cgroups: &str| {
            lowest(root, cgroups, files, |folder, file| number(&folder.join(file)))
        };
        let root = mounted("memory", &[]);
        assert_eq!(limit(&root, "0::/user/job\n"), None, "no such files");
        let root = mounted(
            "memory",
            &[
                ("user/memory.max", "1000\n"),
                ("user/job/memory.max", "max\n"),
                ("user/job/small/memory.max", "10\n"),
                ("memory/old/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.limit_in_bytes", "500\n"),
            ],
        );
        assert_eq!(limit(&root, "0::/user/job\n"), Some(1000), "the group above");
        assert_eq!(limit(&root, "0::/user/job/small\n"), Some(10));
        assert_eq!(limit(&root, "12:cpu,cpuacct:/user\n5:memory:/old\n"), Some(500));
        assert_eq!(limit(&root, "0::/../of/the/host\nnonsense\n"), None);
        std::fs::write(root.join("memory.max"), "70\n").unwrap();
        assert_eq!(limit(&root, "0::/of/the/host\n"), Some(70), "the container's");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn processors_are_limited_by_time_per_period() {
        let root = mounted(
            "cpu",
            &[
                ("user/cpu.max", "300000 100000\n"),
                ("user/job/cpu.max", "max 100000\n"),
                ("user/small/cpu.max", "50000 100000\n"),
                ("cpu/old/cpu.cfs_quota_us", "150000\n"),
                ("cpu/old/cpu.cfs_period_us", "100000\n"),
                ("cpu/free/cpu.cfs_quota_us", "-1\n"),
                ("cpu/free/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let limit = |cgroups: &str| lowest(&root, cgroups, ["cpu.max", "cpu.cfs_quota_us"], quota);
        assert_eq!(limit("0::/user/job\n"), Some(3.0), "the group above");
        assert_eq!(limit("0::/user/small\n"), Some(0.5));
        assert_eq!(limit("4:cpu,cpuacct:/old\n"), Some(1.5));
        assert_eq!(limit("4:cpu,cpuacct:/free\n5:memory:/old\n"), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
