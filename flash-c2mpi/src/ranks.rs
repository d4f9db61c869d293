//! Ordinary ranks: the processes of a job of MPI, where this one is in such a job. Calls with one go to MPI,
//! in communicators of FLASH's own.
//!
//! Small numbers are ordinary ranks; child ranks and buffers have numbers of their own (`table.rs`).
//!
//! Elements go as they are, and compute objects as frames (`frame.rs`), each on its channel, so that a
//! receive of elements takes elements. What has none says so, on the channel of words: that it has none, or
//! why, if it is what a child rank should have made of a forwarded message. Words are sent first, so they are
//! there, or on their way, when a message without elements has come.

use crate::config::Config;
use crate::error::{Code, Error, Result};
use crate::frame;
use crate::mailbox::{ANY_SOURCE, ANY_TAG};
use crate::table::Kind;
use crate::world::Status;
use flash_backend::settings;
use flash_net::World;
use flash_net_mpi::{Arrival, Channel, Ranks, Transfer, TransferError, until};
use smallvec::SmallVec;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

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
pub enum Going {
    /// To one.
    Sent(Sending),
    /// From one.
    Received(Posted),
}

/// A send.
pub struct Sending {
    ranks: &'static Ranks,
    /// What is not over.
    transfers: SmallVec<[Transfer; 2]>,
    status: Status,
    /// The bytes that are sent, if they are its own.
    kept: Vec<u8>,
}

/// A receive of elements, by its number in [`RECEIVES`].
pub struct Posted {
    ranks: &'static Ranks,
    number: u64,
}

/// The receives of elements that were posted, in this order. MPI gives messages to them in this order, too,
/// so that is how the words are taken of those without elements.
static RECEIVES: Mutex<Receives> = Mutex::new(Receives { all: Vec::new(), last: 0 });

struct Receives {
    all: Vec<Receive>,
    last: u64,
}

struct Receive {
    number: u64,
    from: u32,
    state: ReceiveState,
    /// Nothing waits for it any more.
    is_left: bool,
}

enum ReceiveState {
    Goes(Transfer),
    Over(Result<Status>),
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

    /// True if a thread that the program does not know may send to it.
    pub fn takes_own_thread(&self) -> bool {
        self.ranks.take_own_thread()
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
        let mut sending = self.sending(Vec::new(), tag);
        sending.transfers.push(transfer.map_err(failed)?);
        Ok(Going::Sent(sending))
    }

    /// Begins to send elements that it keeps.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_kept(&self, bytes: Vec<u8>, tag: i32) -> Result<Going> {
        crate::world::check_tag(tag)?;
        if bytes.is_empty() {
            return self.send_words(Vec::new(), tag);
        }
        let mut sending = self.sending(bytes, tag);
        sending.begin(Channel::Elements, false)?;
        Ok(Going::Sent(sending))
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
        let mut sending = self.sending(frame, tag);
        sending.begin(Channel::Objects, false)?;
        Ok(Going::Sent(sending))
    }

    /// A message without elements, and what is said about it before.
    fn send_words(&self, words: Vec<u8>, tag: i32) -> Result<Going> {
        let mut sending = self.sending(words, tag);
        sending.begin(Channel::Words, false)?;
        sending.begin(Channel::Elements, true)?;
        Ok(Going::Sent(sending))
    }

    fn sending(&self, kept: Vec<u8>, tag: i32) -> Sending {
        let status = Status { source: self.rank as i32, tag, bytes: 0 };
        Sending { ranks: self.ranks, transfers: SmallVec::new(), status, kept }
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
        Ok(Going::Received(Posted::new(self.ranks, self.rank, transfer.map_err(failed)?)))
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
        let (ranks, from) = (self.ranks, (self.rank, wanted(tag)?));
        // Until the words of a message without elements are taken, no other thread takes one.
        let mut receives = receives();
        // SAFETY: the caller vouches.
        let taken = unsafe { ranks.take(Channel::Elements, from, |_| (into, bytes)) };
        let Some((found, transfer)) = taken.map_err(failed)? else { return Ok(None) };
        if found.bytes > 0 {
            drop(receives);
            return Ok(Some(status(ranks.wait(transfer).map_err(failed)?)));
        }
        look(ranks, &mut receives.all, found.source);
        arrived(ranks, ranks.wait(transfer).map_err(failed)?).map(Some)
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
    let mut bytes: Vec<u8> = Vec::new();
    // SAFETY: the vector has that room, and is not touched until the transfer is over.
    let taken = unsafe {
        ranks.take(channel, from, |count| {
            // Without room the message is cut off, and lost.
            if bytes.try_reserve_exact(count).is_ok() {
                bytes.resize(count, 0);
            }
            (bytes.as_mut_ptr(), bytes.len())
        })
    };
    let Some((found, transfer)) = taken.map_err(failed)? else { return Ok(None) };
    match ranks.wait(transfer) {
        Err(_) if bytes.len() < found.bytes => Err(frame::no_memory(found.bytes)),
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
            frame::Frame::read(&words, |_| None)?;
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
        match self {
            Going::Sent(sending) => sending.test(),
            Going::Received(posted) => posted.test(),
        }
    }
}

impl Sending {
    /// Begins to send what it keeps, or nothing.
    fn begin(&mut self, channel: Channel, nothing: bool) -> Result<()> {
        let bytes = if nothing { (std::ptr::null(), 0) } else { (self.kept.as_ptr(), self.kept.len()) };
        // SAFETY: they stay with the message, which keeps them until the transfer is over.
        let transfer = unsafe { self.ranks.send(channel, bytes, self.status.source as u32, self.status.tag) };
        self.transfers.push(transfer.map_err(failed)?);
        Ok(())
    }

    fn test(&mut self) -> Result<Option<Status>> {
        while let Some(transfer) = self.transfers.last_mut() {
            if self.ranks.test(transfer).map_err(failed)?.is_none() {
                return Ok(None);
            }
            self.transfers.pop();
        }
        Ok(Some(self.status))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.transfers.is_empty() {
            // They go on.
            std::mem::forget(std::mem::take(&mut self.kept));
        }
    }
}

fn receives() -> MutexGuard<'static, Receives> {
    RECEIVES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds out which receives from a rank are over, the first one first.
fn look(ranks: &'static Ranks, receives: &mut [Receive], from: u32) {
    for at in 0..receives.len() {
        let (before, receive) = receives.split_at_mut(at);
        let receive = &mut receive[0];
        if receive.from != from {
            continue;
        }
        let ReceiveState::Goes(transfer) = &mut receive.state else { continue };
        let over = match ranks.test(transfer) {
            Ok(None) => continue,
            Ok(Some(arrival)) => {
                if arrival.bytes == 0 {
                    // Those before it may have got theirs since they were looked at.
                    look(ranks, before, from);
                }
                arrived(ranks, arrival)
            }
            Err(error) => Err(failed(error)),
        };
        receive.state = ReceiveState::Over(over);
    }
}

impl Posted {
    fn new(ranks: &'static Ranks, from: u32, transfer: Transfer) -> Posted {
        let mut receives = receives();
        receives.last += 1;
        let number = receives.last;
        let state = ReceiveState::Goes(transfer);
        receives.all.push(Receive { number, from, state, is_left: false });
        Posted { ranks, number }
    }

    fn test(&mut self) -> Result<Option<Status>> {
        let mut receives = receives();
        let Some(own) = receives.all.iter().position(|receive| receive.number == self.number) else {
            return Ok(None);
        };
        let from = receives.all[own].from;
        look(self.ranks, &mut receives.all[..=own], from);
        if let ReceiveState::Goes(_) = receives.all[own].state {
            return Ok(None);
        }
        let receive = receives.all.remove(own);
        receives.all.retain(|other| !other.is_left || matches!(other.state, ReceiveState::Goes(_)));
        match receive.state {
            ReceiveState::Over(over) => over.map(Some),
            ReceiveState::Goes(_) => Ok(None),
        }
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        // It goes on, and its words are its own.
        let mut receives = receives();
        if let Some(own) = receives.all.iter_mut().find(|receive| receive.number == self.number) {
            own.is_left = true;
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
