//! Pictures that the setting `graph_dot` (`FLASH_GRAPH_DOT`) asks for: at the end of each graph, and of those
//! that run when the user interrupts the program (Ctrl-C).
//!
//! A signal's handler may do next to nothing, so it writes a byte into a pipe, and a thread that reads there
//! draws. Where nothing else handles the signal, that thread then ends the process as the signal would have.
//! A second signal ends it at once.

use crate::lane::lock;
use crate::picture::Picture;
use flash_backend::{notice, settings};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::{emulate_default_handler, register};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

struct Asked {
    path: PathBuf,
    /// Graphs that run, in the order of their starts.
    running: Mutex<Vec<Picture>>,
}

/// What is asked for, if anything is.
fn asked() -> Option<&'static Asked> {
    static ASKED: OnceLock<Option<Asked>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| {
        let path = settings::process_text("graph_dot")?.into();
        Some(Asked { path, running: Mutex::default() })
    });
    asked.as_ref()
}

/// A graph starts.
pub(crate) fn starts(picture: &Picture) {
    let Some(asked) = asked() else { return };
    lock(&asked.running).push(picture.clone());
    static LISTENS: OnceLock<()> = OnceLock::new();
    LISTENS.get_or_init(|| {
        if let Err(error) = listen(asked) {
            notice(format_args!(
                "FLASH_GRAPH_DOT: no picture at Ctrl-C, as it cannot be listened for: {error}"
            ));
        }
    });
}

/// A graph has ended.
pub(crate) fn ended(picture: &Picture) {
    let Some(asked) = asked() else { return };
    // With the lock, so that an interrupt shows either the graph that runs, or the one that has ended.
    let mut running = lock(&asked.running);
    running.retain(|other| !other.is_of(picture));
    asked.tell(picture.write(&asked.path));
}

impl Asked {
    /// Draws the graphs that run: all of them in the language of Graphviz, the last one as SVG.
    fn interrupted(&self) {
        let running = lock(&self.running);
        let Some(last) = running.last() else { return };
        if Picture::is_svg(&self.path) {
            return self.tell(last.write(&self.path));
        }
        self.tell(flash_trace::hooks::replace(&self.path, |file| {
            running.iter().try_for_each(|picture| file.write_all(picture.dot().as_bytes()))
        }));
    }

    /// Says once that pictures cannot be written.
    fn tell(&self, written: io::Result<()>) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        if let Err(error) = written
            && !TOLD.swap(true, Ordering::Relaxed)
        {
            let path: &dyn Display = &self.path.display();
            notice(format_args!(
                "FLASH_GRAPH_DOT: expected a file that can be written, found that `{path}` cannot: {error}"
            ));
        }
    }
}

/// Lets a thread draw when the program is interrupted, unless that is ignored.
fn listen(asked: &'static Asked) -> io::Result<()> {
    // SAFETY: it only asks, and a struct of numbers may be zero.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(SIGINT, std::ptr::null(), &mut before) {
            0 => before.sa_sigaction,
            _ => return Err(io::Error::last_os_error()),
        }
    };
    if before == libc::SIG_IGN {
        return Ok(());
    }
    let (mut reader, writer) = UnixStream::pair()?;
    writer.set_nonblocking(true)?;
    let (ends, process) = (before == libc::SIG_DFL, std::process::id());
    let listen = move || {
        // Never closed: the handler lasts as long as the process.
        while reader.read(&mut [0; 1]).is_ok_and(|count| count > 0) {
            asked.interrupted();
            if ends {
                let _ = emulate_default_handler(SIGINT);
            }
        }
    };
    thread::Builder::new().name("flash-graph-dot".into()).spawn(listen)?;
    let again = AtomicBool::new(false);
    let handler = move || {
        // The thread is not in a child of `fork`, and may hang in a file system.
        let alone = std::process::id() != process || again.swap(true, Ordering::Relaxed);
        if ends && alone {
            let _ = emulate_default_handler(SIGINT);
        }
        if std::process::id() == process {
            // SAFETY: a byte of this frame, and a descriptor that is open as long as the handler lasts.
            unsafe { libc::write(writer.as_raw_fd(), [1_u8].as_ptr().cast(), 1) };
        }
    };
    // SAFETY: the handler calls getpid, write, and what ends the process: a signal's handler may call these.
    // It neither locks nor allocates.
    unsafe { register(SIGINT, handler)? };
    Ok(())
}
