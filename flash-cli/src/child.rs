//! This program once more, as a child process: for work that may end a process, stop it for ever, or write
//! what it likes.
//!
//! The child says how far it is in lines, over a socket that stands in for its standard input; what it writes
//! to standard output and standard error is collected. It goes on when the parent has taken the line: what is
//! read together with a line was written before it. A child whose parent has gone ends at once.

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// At most this much of what a child writes between two lines is kept.
const OUTPUT: usize = 64 << 10;
/// How often the parent looks whether the child lives, beside reading: what it forked may hold the sockets.
const LOOK: Duration = Duration::from_millis(50);

/// A child, which ends when this is dropped.
pub struct Child {
    process: std::process::Child,
    lines: Source,
    output: Source,
    /// It waits until a line of it is taken.
    waits: bool,
}

/// What a child does next.
pub enum Next {
    /// It says a line.
    Line(String),
    /// It has ended by itself.
    Ended(ExitStatus),
    /// It did not say a line in time, and was ended.
    Late,
}

/// One of its sockets, with what was read and not taken.
struct Source {
    socket: UnixStream,
    bytes: Vec<u8>,
    is_open: bool,
}

impl Source {
    fn pair() -> io::Result<(Source, OwnedFd)> {
        let (socket, other) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        Ok((Source { socket, bytes: Vec::new(), is_open: true }, other.into()))
    }

    /// Reads what is there, up to some number of bytes in all; the rest is lost.
    fn read(&mut self, most: usize) {
        let mut chunk = [0; 8192];
        while self.is_open {
            match self.socket.read(&mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(count) => {
                    let room = most.saturating_sub(self.bytes.len()).min(count);
                    self.bytes.extend_from_slice(&chunk[..room]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.is_open = false,
            }
        }
    }

    /// The first whole line, if there is one.
    fn line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line = self.bytes.drain(..=end).collect::<Vec<_>>();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

impl Child {
    /// Starts this program with these arguments.
    pub fn start<A: AsRef<OsStr>>(arguments: &[A]) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let ((lines, line_end), (output, output_end)) = (Source::pair()?, Source::pair()?);
        let mut command = Command::new(&program);
        command.args(arguments).stdin(line_end).stdout(output_end.try_clone()?).stderr(output_end);
        // It is no process of the world, or of the job of MPI, that this one may be in.
        for variable in [flash_net::WORLD_VARIABLE].iter().chain(&flash_net_mpi::RANK_VARIABLES) {
            command.env_remove(variable);
        }
        let process = command.spawn().with_context(|| format!("cannot start {} again", program.display()))?;
        Ok(Child { process, lines, output, waits: false })
    }

    /// Waits until it says a line, ends, or the time is over.
    pub fn next(&mut self, deadline: Instant) -> anyhow::Result<Next> {
        if std::mem::take(&mut self.waits) {
            // If it has ended, that is seen below.
            let _ = self.lines.socket.write(&[0]);
        }
        loop {
            let ended = self.process.try_wait()?;
            self.lines.read(usize::MAX);
            // After the line: all that was written before it is there.
            self.output.read(OUTPUT);
            if let Some(line) = self.lines.line() {
                self.waits = true;
                return Ok(Next::Line(line));
            }
            if let Some(status) = ended {
                return Ok(Next::Ended(status));
            }
            let now = Instant::now();
            if now >= deadline {
                self.process.kill()?;
                self.process.wait()?;
                self.output.read(OUTPUT);
                return Ok(Next::Late);
            }
            wait([&self.lines, &self.output], LOOK.min(deadline - now));
        }
    }

    /// What it has written since this was asked last.
    pub fn output(&mut self) -> String {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.output.bytes)).into_owned();
        text.trim_end().to_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a child has said and written.
pub struct Answer<M> {
    pub said: Vec<M>,
    /// If it never said its last message: how it ended.
    pub end: Result<(), String>,
    pub output: String,
}

/// Starts this program with these arguments, and hears its messages up to the last one.
pub fn ask<M: DeserializeOwned>(
    arguments: &[&OsStr],
    limit: Duration,
    is_last: impl Fn(&M) -> bool,
) -> anyhow::Result<Answer<M>> {
    let mut child = Child::start(arguments)?;
    let deadline = Instant::now() + limit;
    let mut said = Vec::new();
    let end = loop {
        match child.next(deadline)? {
            Next::Line(line) => {
                said.push(serde_json::from_str(&line)?);
                if said.last().is_some_and(&is_last) {
                    break Ok(());
                }
            }
            Next::Ended(status) => break Err(end(status)),
            Next::Late => break Err(late(limit)),
        }
    };
    Ok(Answer { said, end, output: child.output() })
}

/// Waits until something can be read of what is open, or the time is over.
fn wait(sources: [&Source; 2], time: Duration) {
    let event = |source: &Source| libc::pollfd {
        // A negative one is left out.
        fd: if source.is_open { source.socket.as_raw_fd() } else { -1 },
        events: libc::POLLIN,
        revents: 0,
    };
    let mut events = sources.map(event);
    let milliseconds = time.as_millis().clamp(1, 1000) as libc::c_int;
    // SAFETY: an array of two, of this frame. Whatever it answers, the caller reads and looks again.
    unsafe { libc::poll(events.as_mut_ptr(), 2, milliseconds) };
}

/// How a process ended that was not done.
pub fn end(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("ended with exit code {} before it was done", status.code().unwrap_or_default());
    };
    let name = match signal {
        libc::SIGILL => " (SIGILL)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    };
    format!("ended by signal {signal}{name}")
}

/// The text for a process that took too long.
pub fn late(limit: Duration) -> String {
    format!("did not end within {} s", limit.as_secs())
}

/// A child's way to its parent.
pub struct Parent {
    socket: UnixStream,
    /// One for each line that it has taken.
    taken: Receiver<()>,
    process: u32,
}

impl Parent {
    /// In a child that [`Child::start`] has started. Call it before anything else.
    pub fn new() -> io::Result<Parent> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut watched = socket.try_clone()?;
        let (take, taken) = std::sync::mpsc::channel();
        let (begun, begins) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("flash-parent".into()).spawn(move || {
            let _ = begun.send(());
            // Its end closes when it ends.
            while watched.read_exact(&mut [0]).is_ok() && take.send(()).is_ok() {}
            leave(1);
        })?;
        // A thread that starts while the loader is in the constructor of a plugin waits until that has ended.
        let _ = begins.recv();
        Ok(Parent { socket, taken, process: std::process::id() })
    }

    /// Says a line, and waits until it is taken. Without a parent the process ends.
    pub fn say(&mut self, message: &impl Serialize) {
        // A process that a plugin has forked goes the child's way, too.
        if std::process::id() != self.process {
            leave(0);
        }
        let line = serde_json::to_string(message).map(|text| text + "\n");
        let said = line.map_err(io::Error::from).and_then(|line| self.socket.write_all(line.as_bytes()));
        if said.is_err() || self.taken.recv().is_err() {
            leave(1);
        }
    }

    /// Ends the process, without what libraries do at its end.
    pub fn done(self) -> ! {
        leave(if std::process::id() == self.process { 0 } else { 1 })
    }
}

fn leave(code: i32) -> ! {
    // SAFETY: it ends the process, whatever state it is in.
    unsafe { libc::_exit(code) }
}
