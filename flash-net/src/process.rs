//! Processes of this host: which one this is, and whether others still run.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The id of the host's last start: tells hosts apart. Empty where the system does not say.
pub fn boot_id() -> String {
    read("/proc/sys/kernel/random/boot_id").trim().to_owned()
}

/// When a process started, in the system's unit. 0 where the system does not say, or it is gone.
pub fn started(pid: u32) -> u64 {
    // The 22nd field.
    field(pid, 19).parse().unwrap_or(0)
}

/// Whether a process was stopped by a signal. One that a debugger holds is not.
pub(crate) fn is_stopped(pid: u32) -> bool {
    field(pid, 0) == "T"
}

/// A field of what the system says of a process, counted from its state. Empty where it says nothing.
fn field(pid: u32, number: usize) -> String {
    let stat = read(&format!("/proc/{pid}/stat"));
    // The name before may have blanks and brackets.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(number).unwrap_or_default().to_owned()
}

fn read(path: &str) -> String {
    // Miri warns of each look at the real machine.
    if cfg!(miri) { String::new() } else { fs::read_to_string(path).unwrap_or_default() }
}

/// Milliseconds of a clock that goes on evenly, and is read faster than it is exact.
pub(crate) fn coarse_time() -> u64 {
    let clock = if cfg!(miri) { libc::CLOCK_MONOTONIC } else { libc::CLOCK_MONOTONIC_COARSE };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer has the type that is expected.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The processors that the calling thread may run on. Empty where the system does not say.
pub fn cpus() -> Vec<usize> {
    cpus_of(0)
}

/// The processors that a process may run on; 0 is the calling thread. Empty where the system does not say.
pub fn cpus_of(pid: u32) -> Vec<usize> {
    // SAFETY: a set of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of the size said.
    if unsafe { libc::sched_getaffinity(pid as libc::pid_t, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0
    {
        return Vec::new();
    }
    // SAFETY: the number is smaller than that of the bits.
    (0..8 * size_of::<libc::cpu_set_t>()).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// A set of processors. `None`: of none, or of numbers that a set does not have.
pub(crate) fn set_of(cpus: &[usize]) -> Option<libc::cpu_set_t> {
    let bits = 8 * size_of::<libc::cpu_set_t>();
    if cpus.is_empty() || cpus.iter().any(|cpu| *cpu >= bits) {
        return None;
    }
    // SAFETY: a set of bits, for which zeros are valid, and numbers smaller than that of the bits.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        Some(set)
    }
}

/// Keeps the calling thread, and what it starts, to these processors.
pub(crate) fn keep_to_set(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: a set of the size said.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has this signal sent to the calling process when the thread that has started it ends: for a child, between
/// fork and exec. One that is stopped ends by `SIGKILL` alone.
///
/// # Errors
/// The system's.
pub fn end_with_parent(signal: i32) -> io::Result<()> {
    // SAFETY: a system call on the calling process.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps the calling thread, and those that it starts from now on, to these processors.
///
/// # Errors
/// If there are none, or the system refuses them.
pub fn keep_to(cpus: &[usize]) -> io::Result<()> {
    let text = "expected processors of this machine, at least one";
    keep_to_set(&set_of(cpus).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, text))?)
}

/// A process that is watched: it is this one, however numbers are used again.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// Of a process that started then, as [`started`] says. `None` if there is no such process any more.
    ///
    /// # Errors
    /// If the system does not let this process watch it.
    pub(crate) fn new(pid: u32, start: u64) -> io::Result<Option<Watch>> {
        // SAFETY: a question to the system, which gives a new descriptor.
        let file = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if file < 0 {
            let error = io::Error::last_os_error();
            let gone = [libc::ESRCH, libc::EINVAL].map(Some).contains(&error.raw_os_error());
            return if gone { Ok(None) } else { Err(error) };
        }
        // SAFETY: a new descriptor, which nothing else has.
        let watch = Watch(unsafe { OwnedFd::from_raw_fd(file as i32) });
        // From here on the number stays what it is; it may have been used again before.
        Ok((start == 0 || started(pid) == start).then_some(watch))
    }

    /// Another descriptor of the same process.
    pub(crate) fn try_clone(&self) -> io::Result<Watch> {
        self.0.try_clone().map(Watch)
    }

    /// Ends the process by force. True if it has ended within the limit.
    pub(crate) fn end(&self, limit: Duration) -> bool {
        let file = self.0.as_raw_fd();
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a signal to the process of the descriptor; a process that has ended gets none.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, file, libc::SIGKILL, none, 0) };
        let mut poll = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
        let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut poll, 1, limit) > 0 }
    }

    /// Which of these have ended.
    pub(crate) fn ended<'a, T>(
        watched: impl Iterator<Item = (T, &'a Watch)>,
    ) -> Vec<(T, Option<ExitStatus>)> {
        let (names, mut polls): (Vec<(T, &Watch)>, Vec<libc::pollfd>) = watched
            .map(|(name, watch)| {
                let fd = watch.0.as_raw_fd();
                ((name, watch), libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            })
            .unzip();
        if polls.is_empty() {
            return Vec::new();
        }
        // SAFETY: `polls` has that many entries. Does not block.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 0) };
        if ready <= 0 {
            return Vec::new();
        }
        let ended = names.into_iter().zip(polls).filter(|(_, poll)| poll.revents != 0);
        ended.map(|((name, watch), _)| (name, watch.status())).collect()
    }

    /// How it ended, if it is a child of this process that was not yet waited for. It can be waited for
    /// afterwards.
    fn status(&self) -> Option<ExitStatus> {
        // SAFETY: zeros are a valid value, and are what stays there if there is no answer.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let file = self.0.as_raw_fd() as libc::id_t;
        // SAFETY: the answer has the type that is expected.
        if unsafe { libc::waitid(libc::P_PIDFD, file, &raw mut info, flags) } != 0 {
            return None;
        }
        // SAFETY: an answer of `waitid`, or zeros.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        match info.si_code {
            _ if pid == 0 => None,
            libc::CLD_EXITED => Some(ExitStatus::from_raw((status & 0xff) << 8)),
            libc::CLD_KILLED => Some(ExitStatus::from_raw(status)),
            libc::CLD_DUMPED => Some(ExitStatus::from_raw(status | 0x80)),
            _ => None,
        }
    }
}
