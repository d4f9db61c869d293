//! Errors, and why a peer is gone.

use crate::transport::{Peer, PeerInfo};
use std::fmt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Why a call of the transport failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Nothing was sent: take frames, wait, and post again.
    #[error(
        "the mailbox to {to} is full: expected room for {bytes} bytes; nothing was sent, post it again later"
    )]
    Full {
        /// The receiver.
        to: Peer,
        /// Of the frame.
        bytes: usize,
    },
    /// The peer is gone.
    #[error("{0}")]
    Lost(Box<Loss>),
    /// A frame of more bytes than the transport takes.
    #[error(
        "a frame to {to} has {bytes} bytes, expected at most {most}: send it in pieces or through shared memory"
    )]
    TooLong {
        /// The receiver.
        to: Peer,
        /// Of the frame.
        bytes: usize,
        /// Those of the longest frame.
        most: usize,
    },
    /// There is no such peer.
    #[error("there is no {found}: this world has peers 0 to {}", peers - 1)]
    NoPeer {
        /// The number asked for.
        found: Peer,
        /// Peers of the world.
        peers: usize,
    },
    /// The arena has no free range of this size.
    #[error(
        "shared memory for {bytes} bytes: {used} of the {size} bytes of this process's arena are in use, and the \
         rest has no free range of this size; free some, or start the world with larger arenas"
    )]
    OutOfMemory {
        /// Asked for.
        bytes: u64,
        /// Bytes in use.
        used: u64,
        /// Bytes of the arena.
        size: u64,
    },
    /// An alignment that the arena does not give.
    #[error("shared memory aligned to {found} bytes: expected a power of two of at most 4096")]
    Alignment {
        /// Asked for.
        found: u64,
    },
    /// A range that is not in the arena.
    #[error("bytes {offset} to {offset} + {bytes} of shared memory: the arena has {size} bytes")]
    Range {
        /// Its first byte.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// Bytes of the arena.
        size: u64,
    },
    /// A block that is not in use.
    #[error("a free of offset {offset} of shared memory: no block in use starts there")]
    NotABlock {
        /// Of the arena.
        offset: u64,
    },
    /// A world that cannot be made, opened or joined.
    #[error("{what}: {why}")]
    World {
        /// What was tried.
        what: &'static str,
        /// Expected and found.
        why: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl NetError {
    /// The system's answer to the last call.
    pub(crate) fn last(what: &'static str) -> NetError {
        NetError::System { what, source: std::io::Error::last_os_error() }
    }
}

/// A peer that is gone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// Its number.
    pub peer: Peer,
    /// What it is called, if it had joined.
    pub name: Option<String>,
    /// Its process, if it had joined.
    pub pid: Option<u32>,
    /// Its host (boot id), if it had joined.
    pub host: Option<String>,
    /// How it was noticed.
    pub how: How,
    /// When it was last known to live, to within some milliseconds.
    pub last_heard: Option<Instant>,
}

/// How a loss was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// It left the world in good order.
    Left,
    /// Its process ended. The status is there if it was a child of this process.
    Ended(Option<ExitStatus>),
    /// It gave no sign of life for this long: it is stopped, or hangs.
    Silent(Duration),
    /// It wrote what no correct peer writes.
    Protocol(String),
    /// Messages to it or from it fail, for the reason that the library below gives.
    Unreachable(String),
}

impl Loss {
    /// The loss of a peer that had said this of itself, if it had joined.
    pub fn new(peer: Peer, info: Option<&PeerInfo>, how: How, last_heard: Option<Instant>) -> Loss {
        Loss {
            peer,
            name: info.map(|info| info.name.clone()),
            pid: info.map(|info| info.pid),
            host: info.map(|info| info.host.clone()),
            how,
            last_heard,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.peer)?;
        self.name.iter().filter(|name| !name.is_empty()).try_for_each(|name| write!(f, " `{name}`"))?;
        if let Some(pid) = self.pid {
            write!(f, " (process {pid}")?;
            self.host.iter().try_for_each(|host| write!(f, " of host {host}"))?;
            write!(f, ")")?;
        }
        match &self.how {
            How::Left => write!(f, " has left"),
            How::Ended(None) => write!(f, " is gone: its process ended"),
            How::Ended(Some(status)) => write!(f, " is gone: its process ended, {status}"),
            How::Silent(limit) => {
                write!(f, " is silent: no sign of life for {limit:?}; it is stopped or hangs")
            }
            How::Protocol(found) => write!(f, " is not trusted any more: {found}"),
            How::Unreachable(why) => write!(f, " is gone: messages to it fail: {why}"),
        }?;
        match self.last_heard {
            Some(at) => write!(f, "; last heard {:.3} s ago", at.elapsed().as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Loss {}
