//! Ordinary ranks: the processes of a job of MPI, where this one is in such a job. Calls with one go to MPI,
//! in a communicator of FLASH's own.
//!
//! Small numbers are ordinary ranks; child ranks and buffers have numbers of their own (`table.rs`).

use crate::config::Config;
use crate::error::{Code, Error, Result};
use crate::mailbox::ANY_TAG;
use crate::table::Kind;
use crate::world::Status;
use flash_backend::settings;
use flash_net::World;
use flash_net_mpi::{Arrival, Ranks, Transfer, TransferError};
use std::path::Path;
use std::sync::OnceLock;

/// Decided by the first program of the process.
static RANKS: OnceLock<Result<&'static Ranks, String>> = OnceLock::new();

/// True if this process is an agent, or has agents, in the world of `flash run` or of a program.
pub fn is_in_world() -> bool {
    !matches!(World::from_environment(), Ok(None))
}

/// Joins the other processes, where there are some and the configuration has no devices of theirs.
pub fn begin(config: &Config) {
    RANKS.get_or_init(|| {
        if is_in_world() {
            return Err(
                "the other processes of this job are agents, which `flash run` has started".to_owned()
            );
        }
        if let Some(key) = config.keys().find(|key| key.split(',').any(|part| part.starts_with("RANK"))) {
            return Err(format!(
                "the other processes of this job are agents, as the configuration has the key `{key}`"
            ));
        }
        let library = settings::process_text("rank.mpi_lib");
        Ranks::join(library.as_deref().map(Path::new)).map_err(|error| error.to_string())
    });
}

/// The ordinary ranks, if there are any.
pub fn joined() -> Option<&'static Ranks> {
    RANKS.get()?.as_ref().ok().copied()
}

/// An ordinary rank: its number, and what it is reached by.
#[derive(Clone, Copy)]
pub struct Ordinary {
    ranks: &'static Ranks,
    rank: u32,
}

/// A transfer that was begun.
pub struct Going {
    ranks: &'static Ranks,
    transfer: Transfer,
    /// Of a send, what it is.
    sent: Option<Status>,
}

/// The ordinary rank that a number is; `None`: it is none, but a handle or a wildcard.
///
/// # Errors
/// [`Code::Rank`] if there is no such rank, or no MPI.
pub fn of(number: i32) -> Result<Option<Ordinary>> {
    let (Ok(rank), None) = (u32::try_from(number), Kind::of(number)) else { return Ok(None) };
    let refused = |found: String| Err(Error::new(Code::Rank, found));
    match RANKS.get() {
        Some(Ok(ranks)) if rank < ranks.size() => Ok(Some(Ordinary { ranks, rank })),
        Some(Ok(ranks)) => refused(format!(
            "expected a child rank, or a rank from 0 to {}, found {number}",
            ranks.size() - 1
        )),
        Some(Err(why)) => refused(format!(
            "expected a child rank, found {number}, which is none; it is no ordinary rank either: {why}"
        )),
        None => Err(Error::new(
            Code::Init,
            "expected a call between MPIX_Initialize and MPIX_Finalize, found one outside",
        )),
    }
}

impl Ordinary {
    /// Begins to send.
    ///
    /// # Errors
    /// [`Code::Tag`]; [`Code::Other`] with MPI's words.
    ///
    /// # Safety
    /// The bytes stay, and are not written, until the transfer is over.
    pub unsafe fn send(&self, from: *const u8, bytes: usize, tag: i32) -> Result<Going> {
        crate::world::check_tag(tag)?;
        // SAFETY: the caller vouches.
        let transfer = unsafe { self.ranks.send(from, bytes, self.rank, tag) }.map_err(failed)?;
        let sent = Some(Status { source: self.rank as i32, tag, bytes: 0 });
        Ok(Going { ranks: self.ranks, transfer, sent })
    }

    /// Begins to receive at most this many bytes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// The place stays, and nothing else uses it, until the transfer is over.
    pub unsafe fn receive(&self, into: *mut u8, bytes: usize, tag: i32) -> Result<Going> {
        // SAFETY: the caller vouches.
        let transfer = unsafe { self.ranks.receive(into, bytes, self.rank, wanted(tag)?) };
        Ok(Going { ranks: self.ranks, transfer: transfer.map_err(failed)?, sent: None })
    }

    /// Says what comes next, and waits for it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn probe(&self, tag: i32) -> Result<Status> {
        self.ranks.probe(self.rank, wanted(tag)?).map(status).map_err(failed)
    }

    /// Says what comes next, if it is there.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn probe_now(&self, tag: i32) -> Result<Option<Status>> {
        Ok(self.ranks.probe_now(self.rank, wanted(tag)?).map_err(failed)?.map(status))
    }
}

impl Going {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`Code::Count`] for a message that is longer than its place, and is lost; [`Code::Other`] with MPI's
    /// words.
    pub fn wait(self) -> Result<Status> {
        let Going { ranks, transfer, sent } = self;
        let arrival = ranks.wait(transfer).map_err(failed)?;
        Ok(sent.unwrap_or(status(arrival)))
    }

    /// What it is, if it is over; then it is not asked again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); it is over, too.
    pub fn test(&mut self) -> Result<Option<Status>> {
        let arrival = self.ranks.test(&mut self.transfer).map_err(failed)?;
        Ok(arrival.map(|arrival| self.sent.unwrap_or(status(arrival))))
    }
}

fn wanted(tag: i32) -> Result<Option<i32>> {
    match tag {
        ANY_TAG => Ok(None),
        tag => crate::world::check_tag(tag).map(|()| Some(tag)),
    }
}

fn status(Arrival { source, tag, bytes }: Arrival) -> Status {
    Status { source: source as i32, tag, bytes: bytes as u64 }
}

fn failed(error: TransferError) -> Error {
    let code = match error {
        TransferError::Truncated(_) => Code::Count,
        _ => Code::Other,
    };
    Error::new(code, format!("a message of an ordinary rank: {error}"))
}
