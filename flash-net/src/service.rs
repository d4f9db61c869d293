//! Agents that several programs use, one after the other or at once: finding them, and asking them.
//!
//! A service listens on a socket in a folder that only its user can enter, and answers processes of that user
//! alone. A program hands it a world of its own, in which a process of the service joins as a peer; after
//! that both talk as any two peers do. Programs share nothing but the service.

use crate::error::NetError;
use crate::launch::{peer_of, peer_uid};
use crate::transport::Peer;
use crate::world::World;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one side of a socket waits for the other to write.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer, at most.
const ANSWER: u64 = 1 << 20;

/// What is asked.
const SERVE: u8 = b'S';
const STATE: u8 = b'Q';
/// What an answer begins with.
const DONE: u8 = b'+';
const REFUSED: u8 = b'-';

fn system(what: &'static str) -> impl Fn(io::Error) -> NetError {
    move |source| NetError::System { what, source }
}

fn refuse(what: &'static str, why: String) -> NetError {
    NetError::World { what, why }
}

/// The folder of the services of this process's user.
fn folder() -> PathBuf {
    // SAFETY: a question to the system.
    let user = unsafe { libc::getuid() };
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("flash"),
        None => std::env::temp_dir().join(format!("flash-{user}")),
    }
}

/// Refuses a folder that another user can have put there.
fn check(folder: &Path) -> Result<(), NetError> {
    let what = "looking for agents that are listening";
    let found = fs::symlink_metadata(folder).map_err(system(what))?;
    // SAFETY: a question to the system.
    let user = unsafe { libc::getuid() };
    if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let why = format!(
        "expected {} to be a folder of user {user} that no other can enter, found one of user {} with mode {:o}",
        folder.display(),
        found.uid(),
        found.mode() & 0o7777
    );
    Err(refuse(what, why))
}

/// The socket of a service, and the file that its process keeps locked.
fn paths(name: &str) -> Result<[PathBuf; 2], NetError> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !fits || name.starts_with('.') {
        let why = format!("expected 1 to 64 letters, digits, `-`, `_` and `.`, found `{name}`");
        return Err(refuse("reading the name of an agent", why));
    }
    Ok(["socket", "lock"].map(|kind| folder().join(format!("{name}.{kind}"))))
}

/// The names of all services of this user, in order. What is left of those that have ended is removed.
///
/// # Errors
/// A folder that another user can write.
pub fn services() -> Result<Vec<String>, NetError> {
    let folder = folder();
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    check(&folder)?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".lock")?.to_owned())).collect();
    names.retain(|name| {
        let Ok([socket, lock]) = paths(name) else { return false };
        let has_ended = File::open(&lock).is_ok_and(|file| file.try_lock().is_ok());
        if has_ended {
            let _ = (fs::remove_file(socket), fs::remove_file(lock));
        }
        !has_ended
    });
    names.sort();
    Ok(names)
}

/// Asks a service to join a world as a peer, which no process is yet. Its process.
///
/// # Errors
/// If there is no such service, or it refuses.
pub fn ask_to_serve(name: &str, world: &World, peer: Peer) -> Result<u32, NetError> {
    let answer = ask(name, |socket| {
        socket.write_all(&[SERVE]).map_err(system("asking an agent"))?;
        world.send_over(socket, peer)
    })?;
    let wrong = || refuse("asking an agent", format!("expected the number of a process, found `{answer}`"));
    answer.parse().map_err(|_| wrong())
}

/// What a service says of itself.
///
/// # Errors
/// If there is no such service.
pub fn state_of(name: &str) -> Result<String, NetError> {
    ask(name, |socket| socket.write_all(&[STATE]).map_err(system("asking an agent")))
}

fn ask(
    name: &str,
    question: impl FnOnce(&mut UnixStream) -> Result<(), NetError>,
) -> Result<String, NetError> {
    let what = "asking an agent";
    let [path, _] = paths(name)?;
    let none = |error: io::Error| {
        let there = services().unwrap_or_default().join(", ");
        let why = format!(
            "no agent listens as `{name}` ({error}); available: {}; start one with `flash serve KEY --listen {name}`",
            if there.is_empty() { "none" } else { &there }
        );
        refuse(what, why)
    };
    let mut socket = UnixStream::connect(&path).map_err(none)?;
    check(&folder())?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(system(what))?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(system(what))?;
    question(&mut socket)?;
    socket.shutdown(Shutdown::Write).map_err(system(what))?;
    let mut answer = Vec::new();
    (&mut socket).take(ANSWER).read_to_end(&mut answer).map_err(system(what))?;
    let text = String::from_utf8_lossy(answer.get(1..).unwrap_or_default()).into_owned();
    match answer.first() {
        Some(&DONE) => Ok(text),
        Some(&REFUSED) => Err(refuse(what, text)),
        _ => Err(refuse(what, format!("`{name}` ended before it answered"))),
    }
}

/// A service of this process. Its name is free again when it is dropped, or its process ends.
#[derive(Debug)]
pub struct Service {
    listener: UnixListener,
    path: PathBuf,
    /// Locked for as long as the service is there.
    _lock: File,
}

/// What a program wants.
#[derive(Debug)]
pub enum Wanted {
    /// That a process joins its world as this peer.
    Serve(World, Peer),
    /// To know what the service has to say of itself.
    State,
}

/// A program that waits for an answer.
#[derive(Debug)]
pub struct Visitor(UnixStream);

impl Service {
    /// Listens under a name.
    ///
    /// # Errors
    /// If the name does not fit, another process has it, or the folder is not this user's own.
    pub fn listen(name: &str) -> Result<Service, NetError> {
        let what = "listening for programs";
        let [path, lock] = paths(name)?;
        let folder = folder();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(system("making the folder of agents that are listening"))?;
        check(&folder)?;
        let lock = loop {
            let file = File::create(&lock).map_err(system(what))?;
            if file.try_lock().is_err() {
                return Err(refuse(what, format!("another process listens as `{name}`: see `flash agents`")));
            }
            // Another process may have removed it before it was locked.
            let same = |there: fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == there.ino());
            if fs::metadata(&lock).is_ok_and(same) {
                break file;
            }
        };
        // That of a process which ended without taking it along.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(system(what))?;
        Ok(Service { listener, path, _lock: lock })
    }

    /// The next program of this user. Others get no answer.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> Result<Visitor, NetError> {
        let what = "waiting for a program";
        loop {
            let (socket, _) = self.listener.accept().map_err(system(what))?;
            // SAFETY: a question to the system.
            let user = unsafe { libc::getuid() };
            if peer_uid(&socket).is_ok_and(|found| found == user) {
                socket.set_read_timeout(Some(PATIENCE)).map_err(system(what))?;
                socket.set_write_timeout(Some(PATIENCE)).map_err(system(what))?;
                return Ok(Visitor(socket));
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Visitor {
    /// The program's process.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn process(&self) -> Result<u32, NetError> {
        peer_of(&self.0).map(|(process, _)| process)
    }

    /// What it wants.
    ///
    /// # Errors
    /// If it says nothing that can be understood, in time.
    pub fn wants(&mut self) -> Result<Wanted, NetError> {
        let what = "reading what a program wants";
        let mut kind = [0];
        self.0.read_exact(&mut kind).map_err(system(what))?;
        match kind[0] {
            SERVE => World::receive_over(&self.0).map(|(world, peer)| Wanted::Serve(world, peer)),
            STATE => Ok(Wanted::State),
            other => Err(refuse(what, format!("expected {SERVE} or {STATE}, found {other}"))),
        }
    }

    /// Answers, or says why not. A program that has gone needs no answer.
    pub fn answer(mut self, answer: Result<String, String>) {
        let (kind, text) = match &answer {
            Ok(text) => (DONE, text),
            Err(text) => (REFUSED, text),
        };
        let _ = self.0.write_all(&[&[kind], text.as_bytes()].concat());
    }
}
