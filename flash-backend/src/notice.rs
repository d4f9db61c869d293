//! Notices: lines on standard error for a person, about something worth knowing that is no error.
//!
//! Every notice of the library and of its plugins goes through [`notice`]. Writing one never fails, never
//! panics and takes no lock, whatever standard error is: closed, a full disk, a pipe without a reader, or
//! locked by the thread that waits for the launch. A copy of the library in a plugin hands its notices to the
//! program's copy, so that one switch, [`set_notices`], silences all of them.

use flash_types::abi::{HostApi, Str};
use libc::sigset_t;
use std::fmt::Arguments;
use std::io::{Error, ErrorKind};
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

type Forward = unsafe extern "C" fn(Str);

/// False: notices are dropped. The program's copy of the library decides.
static ON: AtomicBool = AtomicBool::new(true);

/// The destination of notices in a plugin's own copy of the library: the program's [`receive`].
static FORWARD: OnceLock<Forward> = OnceLock::new();

/// Turns notices on, as they are at first, or off. Errors are not notices: they are returned.
///
/// Notices are single lines on standard error that begin with `flash: `, such as the one about a kernel with
/// too few work items for its threads. A program with an option `--quiet` turns them off.
///
/// ```
/// flash_core::set_notices(false);
/// ```
pub fn set_notices(on: bool) {
    ON.store(on, Relaxed);
}

/// Writes the line `flash: {text}` to standard error, unless notices are turned off. Never fails.
#[cold]
pub fn notice(text: Arguments<'_>) {
    match FORWARD.get() {
        // SAFETY: the program's function, which lives as long as the process; the text lives for the call.
        Some(forward) => unsafe { forward(Str::new(&text.to_string())) },
        None if ON.load(Relaxed) => write(format!("flash: {text}\n").as_bytes()),
        None => {}
    }
}

/// Called by plugins to give a notice.
pub(crate) unsafe extern "C" fn receive(text: Str) {
    // SAFETY: the caller's text lives for the call.
    let text = unsafe { text.text() };
    notice(format_args!("{text}"));
}

/// Hands the notices of this copy of the library to the program that loaded it.
///
/// # Safety
/// `host` is the interface of a host, which lives as long as the process.
pub(crate) unsafe fn forward_to(host: *const HostApi) {
    // SAFETY: the caller vouches. A host that is older than this library may be shorter than the struct.
    let has_slot =
        unsafe { (*host).struct_size } as usize >= offset_of!(HostApi, notice) + size_of::<Forward>();
    // SAFETY: the slot lies inside the host's struct.
    if let Some(forward) = has_slot.then(|| unsafe { (*host).notice }).flatten() {
        FORWARD.get_or_init(|| forward);
    }
}

/// Writes as much to standard error as can be written.
///
/// Not `std::io::stderr`: a thread that holds its lock may be waiting for the thread that gives the notice.
fn write(mut bytes: &[u8]) {
    without_pipe_signal(|| {
        while !bytes.is_empty() {
            // SAFETY: the bytes are readable; a closed descriptor is an error like any other.
            let written = unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(written) {
                Ok(written @ 1..) => bytes = &bytes[written..],
                Err(_) if Error::last_os_error().kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    });
}

/// Keeps SIGPIPE from this thread during `body`: a program that has left the signal's default action would be
/// killed by a notice that is not read.
fn without_pipe_signal(body: impl FnOnce()) {
    // SAFETY: sets of this frame, initialised by the calls before they are read. A SIGPIPE that is pending
    // after the body is taken before the mask is as it was, unless one was pending before.
    unsafe {
        let (mut pipe, mut before, mut pending): (sigset_t, sigset_t, sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before) == 0;
        body();
        if blocked {
            if !was_pending {
                let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                libc::sigtimedwait(&pipe, std::ptr::null_mut(), &at_once);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "processes and signals")]
    fn a_pipe_without_a_reader_neither_fails_nor_kills() {
        let write_to = |descriptor: i32, action: libc::sighandler_t| {
            // SAFETY: only the child uses what it opens; it calls nothing that allocates and ends with
            // `_exit`.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::signal(libc::SIGPIPE, action);
                    match descriptor {
                        -1 => drop(libc::close(2)),
                        _ => drop(libc::dup2(descriptor, 2)),
                    }
                    write(b"flash: a line\n");
                    libc::_exit(7);
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
            }
        };
        let mut ends = [0; 2];
        // SAFETY: two descriptors of this frame; the reader's is closed.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::close(ends[0]);
        }
        write_to(ends[1], libc::SIG_DFL);
        write_to(ends[1], libc::SIG_IGN);
        write_to(-1, libc::SIG_DFL);
        // SAFETY: opened above.
        unsafe { libc::close(ends[1]) };
    }
}
