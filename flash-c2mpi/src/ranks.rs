//! Ordinary ranks: the processes of a job of MPI, where this one is in such a job. Calls with one go to MPI,
//! in communicators of FLASH's own.
//!
//! Small numbers are ordinary ranks; child ranks and buffers have numbers of their own (`table.rs`).
//!
//! Elements go as they are, and compute objects as frames (`frame.rs`), each on its channel, so that a receive
//! of elements takes elements. What has none says so, on the channel of words: that it has none, or why, if it
//! is what a child rank should have made of a forwarded message. Words are sent first, so they are there, or
//! on their way, when a message without elements has come.

use crate::config::Config;
use crate::error::{Code, Error, Result};
use crate::frame;
use crate::mailbox::{ANY_SOURCE, ANY_TAG};
use crate::table::Kind;
use crate::world::Status;
use flash_backend::settings;
use flash_net::World;
use flash_net_mpi::{Arrival, Channel, Ranks, Transfer, TransferError, until};
use smallvec::{SmallVec, smallvec};
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

/// A message to or from ordinary ranks that was begun.
pub struct Going {
    ranks: &'static Ranks,
    /// What is not over. Of a receive it is one.
    transfers: SmallVec<[Transfer; 2]>,
    /// Of a send, what it is.
    sent: Option<Status>,
    /// The bytes that are sent, if they are its own.
    kept: Vec<u8>,
}

/// Where messages come from: one rank, or any.
#[derive(Clone, Copy)]
pub struct Source {
    ranks: &'static Ranks,
    rank: Option<u32>,
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

/// The ordinary ranks that a receive names: one, or any, if there are some. `None`: a child rank or a buffer.
///
/// # Errors
/// As [`of`].
pub fn source(number: i32) -> Result<Option<Source>> {
    match number {
        ANY_SOURCE => Ok(joined().map(|ranks| Source { ranks, rank: None })),
        number => Ok(of(number)?.map(|Ordinary { ranks, rank }| Source { ranks, rank: Some(rank) })),
    }
}

impl Ordinary {
    /// Its number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// True if it is this process.
    pub fn is_here(&self) -> bool {
        self.rank == self.ranks.rank()
    }

    /// True if any thread may send to it.
    pub fn takes_threads(&self) -> bool {
        self.ranks.take_threads()
    }

    /// Begins to send elements.
    ///
    /// # Errors
    /// [`Code::Tag`]; [`Code::Other`] with MPI's words.
    ///
    /// # Safety
    /// The bytes stay, and are not written, until the message is over.
    pub unsafe fn send(&self, from: *const u8, bytes: usize, tag: i32) -> Result<Going> {
        crate::world::check_tag(tag)?;
        if bytes == 0 {
            return self.send_words(Vec::new(), tag);
        }
        // SAFETY: the caller vouches.
        let transfer = unsafe { self.ranks.send(Channel::Elements, (from, bytes), self.rank, tag) };
        Ok(self.sending(smallvec![transfer.map_err(failed)?], Vec::new(), tag))
    }

    /// Begins to send elements that it keeps.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_kept(&self, bytes: Vec<u8>, tag: i32) -> Result<Going> {
        // SAFETY: they stay with the message.
        let mut going = unsafe { self.send(bytes.as_ptr(), bytes.len(), tag)? };
        if !bytes.is_empty() {
            going.kept = bytes;
        }
        Ok(going)
    }

    /// Begins to say why there are no elements.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_failure(&self, error: &Error, tag: i32) -> Result<Going> {
        self.send_words(frame::failed(error), tag)
    }

    /// Begins to send a compute object's frame.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_object(&self, frame: Vec<u8>, tag: i32) -> Result<Going> {
        crate::world::check_tag(tag)?;
        // SAFETY: they stay with the message.
        let transfer =
            unsafe { self.ranks.send(Channel::Objects, (frame.as_ptr(), frame.len()), self.rank, tag) };
        Ok(self.sending(smallvec![transfer.map_err(failed)?], frame, tag))
    }

    /// A message without elements, and what is said about it before.
    fn send_words(&self, words: Vec<u8>, tag: i32) -> Result<Going> {
        let (to, none) = (self.rank, (std::ptr::null(), 0));
        let mut going = self.sending(SmallVec::new(), words, tag);
        let words = (going.kept.as_ptr(), going.kept.len());
        for (channel, what) in [(Channel::Words, words), (Channel::Elements, none)] {
            // SAFETY: the words stay with the message.
            going.transfers.push(unsafe { self.ranks.send(channel, what, to, tag) }.map_err(failed)?);
        }
        Ok(going)
    }

    fn sending(&self, transfers: SmallVec<[Transfer; 2]>, kept: Vec<u8>, tag: i32) -> Going {
        let sent = Some(Status { source: self.rank as i32, tag, bytes: 0 });
        Going { ranks: self.ranks, transfers, sent, kept }
    }

    /// Begins to receive at most this many bytes of elements.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// The place stays, and nothing else uses it, until the message is over.
    pub unsafe fn receive(&self, into: *mut u8, bytes: usize, tag: i32) -> Result<Going> {
        // SAFETY: the caller vouches.
        let transfer = unsafe { self.ranks.receive(into, bytes, self.rank, wanted(tag)?) };
        let transfers = smallvec![transfer.map_err(failed)?];
        Ok(Going { ranks: self.ranks, transfers, sent: None, kept: Vec::new() })
    }
}

impl Source {
    /// True if it is not one rank alone.
    pub fn is_any(&self) -> bool {
        self.rank.is_none()
    }

    /// Receives at most this many bytes of elements, if a message has come.
    ///
    /// # Errors
    /// As [`Going::wait`].
    ///
    /// # Safety
    /// There is room for them.
    pub unsafe fn receive_now(&self, into: *mut u8, bytes: usize, tag: i32) -> Result<Option<Status>> {
        let from = (self.rank, wanted(tag)?);
        // SAFETY: the caller vouches.
        let taken = unsafe { self.ranks.take(Channel::Elements, from, |_| (into, bytes)) };
        let Some((_, transfer)) = taken.map_err(failed)? else { return Ok(None) };
        let arrival = self.ranks.wait(transfer).map_err(failed)?;
        arrived(self.ranks, arrival).map(Some)
    }

    /// Receives the frame of a compute object, if one has come.
    ///
    /// # Errors
    /// [`Code::Tag`]; [`Code::Other`] with MPI's words.
    pub fn receive_object_now(&self, tag: i32) -> Result<Option<(Vec<u8>, Status)>> {
        take_bytes(self.ranks, Channel::Objects, (self.rank, wanted(tag)?))
    }

    /// Says what comes next, if it is there.
    ///
    /// # Errors
    /// As [`receive_object_now`](Self::receive_object_now).
    pub fn probe_now(&self, tag: i32) -> Result<Option<Status>> {
        let from = (self.rank, wanted(tag)?);
        for channel in [Channel::Elements, Channel::Objects] {
            if let Some(found) = self.ranks.probe_now(channel, from).map_err(failed)? {
                return Ok(Some(status(found)));
            }
        }
        Ok(None)
    }
}

/// Receives all bytes of a message, if it has come.
fn take_bytes(
    ranks: &'static Ranks,
    channel: Channel,
    from: (Option<u32>, Option<i32>),
) -> Result<Option<(Vec<u8>, Status)>> {
    let mut bytes = Vec::new();
    // SAFETY: the vector has that room, and is not touched until the transfer is over.
    let taken = unsafe {
        ranks.take(channel, from, |count| {
            bytes = vec![0u8; count];
            (bytes.as_mut_ptr(), count)
        })
    };
    let Some((_, transfer)) = taken.map_err(failed)? else { return Ok(None) };
    match ranks.wait(transfer) {
        Ok(arrival) => {
            bytes.truncate(arrival.bytes);
            Ok(Some((bytes, status(arrival))))
        }
        Err(error) => {
            // It may still be written.
            std::mem::forget(bytes);
            Err(failed(error))
        }
    }
}

/// What has come as elements. Of a message without any, the words say why.
fn arrived(ranks: &'static Ranks, arrival: Arrival) -> Result<Status> {
    if arrival.bytes == 0 {
        let from = (Some(arrival.source), Some(arrival.tag));
        let (words, _) = until(|| take_bytes(ranks, Channel::Words, from))?;
        if !words.is_empty() {
            frame::Frame::read(&words, |_, _, _| None)?;
        }
    }
    Ok(status(arrival))
}

impl Going {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`Code::Count`] for a message that is longer than its place, and is lost; what went wrong with the
    /// function that should have made it; [`Code::Other`] with MPI's words.
    pub fn wait(mut self) -> Result<Status> {
        until(|| self.test())
    }

    /// What it is, if it is over; then it is not asked again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); it is over, too.
    pub fn test(&mut self) -> Result<Option<Status>> {
        while let Some(transfer) = self.transfers.last_mut() {
            let Some(arrival) = self.ranks.test(transfer).map_err(failed)? else { return Ok(None) };
            self.transfers.pop();
            if self.sent.is_none() {
                return arrived(self.ranks, arrival).map(Some);
            }
        }
        Ok(self.sent)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if !self.transfers.is_empty() {
            // They go on.
            std::mem::forget(std::mem::take(&mut self.kept));
        }
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

pub(crate) fn failed(error: TransferError) -> Error {
    let code = match error {
        TransferError::Truncated(_) => Code::Count,
        _ => Code::Other,
    };
    Error::new(code, format!("a message of an ordinary rank: {error}"))
}
