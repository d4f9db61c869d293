//! Physical ids: the hardware that a device is, as a path that begins with the host, so that devices of
//! different nodes are different.
//!
//! `node7/0000:3b:00.0` is a place on a bus, `node7/cpus:0-3,8` a set of CPUs, and `node7/cpus:0-3,8/1` a
//! part of their work. An id contains those that continue it after a `/`. Sets of CPUs overlap if they share
//! one.

use std::fmt::Write;
use std::sync::OnceLock;

/// The physical id of the hardware with that name in this host.
///
/// # Examples
/// ```
/// use flash_backend::{physical_cpus, physical_id};
/// assert!(physical_id("0000:3b:00.0").ends_with("/0000:3b:00.0"));
/// assert!(physical_cpus().contains("/cpus:"));
/// ```
pub fn physical_id(what: &str) -> String {
    static HOST: OnceLock<String> = OnceLock::new();
    format!("{}/{what}", HOST.get_or_init(host))
}

/// The physical id of the CPUs that this process may run on.
pub fn physical_cpus() -> String {
    physical_id(&cpus(&own()))
}

#[cfg(target_os = "linux")]
fn own() -> Vec<usize> {
    // SAFETY: a set of CPUs is an array of bits; the call writes at most its size.
    let (set, failed) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let failed = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0;
        (set, failed)
    };
    // SAFETY: all numbers are inside the set.
    let mine = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    match failed {
        // There are more CPUs than the set has bits.
        true => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
        false => (0..libc::CPU_SETSIZE as usize).filter(mine).collect(),
    }
}

#[cfg(not(target_os = "linux"))]
fn own() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// The name of a set of CPUs, by their numbers in order.
fn cpus(numbers: &[usize]) -> String {
    let mut text = CPUS.to_owned();
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        let (first, last) = (run[0], run[run.len() - 1]);
        let comma = if text == CPUS { "" } else { "," };
        let _ = match first == last {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

const CPUS: &str = "cpus:";

/// True if the two are, or contain, the same hardware.
pub fn overlap(a: &str, b: &str) -> bool {
    let inside = |part: &str, whole: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('/'));
    !a.is_empty() && (a == b || inside(a, b) || inside(b, a) || share_a_cpu(a, b))
}

fn share_a_cpu(a: &str, b: &str) -> bool {
    /// The path, the set, and the rest.
    fn taken_apart(id: &str) -> Option<(&str, &str, &str)> {
        let (path, rest) = id.rsplit_once(CPUS)?;
        let (set, part) = rest.split_once('/').unwrap_or((rest, ""));
        Some((path, set, part))
    }
    fn runs(set: &str) -> impl Iterator<Item = [usize; 2]> {
        set.split(',').filter_map(|run| {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            Some([first.parse().ok()?, last.parse().ok()?])
        })
    }
    let (Some((a_path, a, a_part)), Some((b_path, b, b_part))) = (taken_apart(a), taken_apart(b)) else {
        return false;
    };
    // Parts of one set are apart, or contain each other.
    let parts = a == b && !a_part.is_empty() && !b_part.is_empty();
    a_path == b_path && !parts && runs(a).any(|a| runs(b).any(|b| a[0].max(b[0]) <= a[1].min(b[1])))
}

/// This host's name, without the characters that would be taken for a part of the path.
fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: `name` has that many bytes; a name that is cut off may lack its NUL, which the last byte then
    // is not.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    match String::from_utf8_lossy(&name[..end]).replace('/', "-") {
        text if failed || text.is_empty() => "localhost".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_overlaps_what_it_contains_and_sets_that_share_a_cpu() {
        for (a, b) in [
            ("n/gpu", "n/gpu"),
            ("n/gpu", "n/gpu/1"),
            ("n/cpus:0-3,8", "n/cpus:3"),
            ("n/cpus:8", "n/cpus:0-3,8"),
            ("n/cpus:0-3/1", "n/cpus:2"),
            ("n/cpus:0-3/1", "n/cpus:0-3"),
            ("n/cpus:0-3/1", "n/cpus:2-5/0"),
        ] {
            assert!(overlap(a, b) && overlap(b, a), "{a} and {b}");
        }
        for (a, b) in [
            ("", ""),
            ("n/gpu", "m/gpu"),
            ("n/gpu/0", "n/gpu/1"),
            ("n/gpu", "n/gpus"),
            ("n/cpus:0-3", "m/cpus:0-3"),
            ("n/cpus:0-3,8", "n/cpus:4-7"),
            ("n/cpus:0-3/1", "n/cpus:0-3/0"),
        ] {
            assert!(!overlap(a, b) && !overlap(b, a), "{a} and {b}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the name of the host")]
    fn the_host_has_a_name() {
        let id = physical_id(&cpus(&[0, 1, 2, 4]));
        assert!(id.ends_with("/cpus:0-2,4") && id.len() > "/cpus:0-2,4".len(), "{id}");
        assert!(overlap(&physical_cpus(), &physical_cpus()));
    }
}
