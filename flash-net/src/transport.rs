//! The interface of a transport.

use crate::error::{Loss, NetError};
use crate::heap::SharedHeap;
use crate::memory::SharedMemory;
use crate::waiters::Ticket;
use std::fmt;
use std::time::{Duration, Instant};

/// The number of a process in its world; 0 is the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// A process that has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its host: the id of the host's last start.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// The processors it was given; those it may run on, if it was given none.
    pub cpus: Vec<usize>,
    /// What it is called in messages.
    pub name: String,
}

/// What a call of [`Transport::progress`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No frame had come.
    Nothing,
    /// Frames were handed over.
    Some,
    /// Another thread is taking frames.
    Busy,
}

/// Frames between the processes of a world, and the memory they share.
///
/// A peer is used once: a process that takes the place of another one gets a new world.
///
/// # Waiting
/// Any number of threads of a process may wait for what the frames bring. Each does this:
///
/// ```
/// # use flash_net::{Progress, Transport};
/// # fn wait_for(transport: &dyn Transport, is_done: impl Fn() -> bool) {
/// loop {
///     let ticket = transport.ticket();
///     if is_done() {
///         break;
///     }
///     match transport.progress(&mut |_from, _frame| { /* complete what the frame is about */ }) {
///         // What this thread took may be what another one waits for.
///         Progress::Some => transport.wake(),
///         Progress::Nothing | Progress::Busy => transport.wait(ticket, None),
///     }
/// }
/// # }
/// ```
pub trait Transport: Send + Sync + 'static {
    /// This process.
    fn me(&self) -> Peer;

    /// Processes of the world, this one and those that are gone included. They are numbered from 0; more may
    /// be added.
    fn peers(&self) -> usize;

    /// Processes that there can be.
    fn places(&self) -> usize {
        self.peers()
    }

    /// The peer, once it has joined. [`Transport::wait`] ends when one joins.
    fn info(&self, peer: Peer) -> Option<PeerInfo>;

    /// Bytes of the longest frame to a peer: [`MAX_FRAME`](crate::MAX_FRAME), or more if it shares no memory
    /// with this process.
    fn longest(&self, to: Peer) -> usize {
        let _ = to;
        crate::MAX_FRAME
    }

    /// Sends a frame of these parts, one after the other: at most [`Transport::longest`] bytes.
    /// Frames come in order, also those sent before the receiver joined.
    ///
    /// # Errors
    /// [`NetError::Full`], [`NetError::Lost`], [`NetError::TooLong`], [`NetError::NoPeer`]. Nothing was sent
    /// then. After [`NetError::Full`], [`Transport::wait`] ends when there is room.
    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError>;

    /// Sends a frame.
    ///
    /// # Errors
    /// As [`Transport::post_parts`].
    fn post(&self, to: Peer, frame: &[u8]) -> Result<(), NetError> {
        self.post_parts(to, &[frame])
    }

    /// Hands over frames that have come, a bounded number of each peer, in order per peer. The bytes are a
    /// copy, which the sender cannot change any more. The sink may post frames; a call of this in it is
    /// [`Progress::Busy`].
    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress;

    /// To be taken before looking at what [`Transport::wait`] shall wait for.
    fn ticket(&self) -> Ticket;

    /// Waits until a frame may have come that no other thread takes; or, since the ticket was taken,
    /// [`Transport::wake`] was called, a peer called [`Transport::ring`], a full mailbox got room, or a peer
    /// joined or was lost; or `until`. May return early.
    fn wait(&self, ticket: Ticket, until: Option<Instant>);

    /// As [`Transport::wait`], for a thread beside one that computes: it sleeps at once. A processor that it
    /// shared with that thread would come back to it when the other has used its time, which may be
    /// milliseconds, and comes back from a sleep as soon as it is woken.
    fn doze(&self, ticket: Ticket, until: Option<Instant>) {
        self.wait(ticket, until);
    }

    /// Ends the waits of all threads of this process.
    fn wake(&self);

    /// Ends the waits of the peer's threads, which look at memory that this process has just written.
    ///
    /// # Errors
    /// [`NetError::NoPeer`].
    fn ring(&self, peer: Peer) -> Result<(), NetError> {
        match self.ping(peer) {
            // A frame that it has not taken wakes it.
            Err(NetError::Full { .. }) => Ok(()),
            other => other,
        }
    }

    /// Why the peer is gone, if it is. Stays so. What it had sent completely before is handed over first.
    fn lost(&self, peer: Peer) -> Option<Loss>;

    /// True if the peer's signs of life come only while a thread of it looks for frames, and nothing else
    /// says that its process has ended.
    fn is_watched_by_frames(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// Ends the process of a peer, by force, and waits until it has ended, for at most this time. True: it
    /// has ended, and touches no memory any more. False, too, if this transport cannot.
    fn end(&self, _peer: Peer, _limit: Duration) -> bool {
        false
    }

    /// Asks the peer for a sign of life: its next [`Transport::progress`] sends it.
    ///
    /// # Errors
    /// As [`Transport::post_parts`].
    fn ping(&self, to: Peer) -> Result<(), NetError>;

    /// Frames and signs of life that have come from the peer.
    fn heard(&self, from: Peer) -> u64;

    /// This process's part of the memory that the peers of its host share.
    fn heap(&self) -> Option<&SharedHeap>;

    /// The part of a peer. `None` if it shares none with this process, as it is on another host.
    fn memory(&self, of: Peer) -> Option<SharedMemory>;
}

macro_rules! forwarded {
    ($of:ident, $type:ty) => {
        impl<$of: Transport + ?Sized> Transport for $type {
            fn me(&self) -> Peer {
                (**self).me()
            }

            fn peers(&self) -> usize {
                (**self).peers()
            }

            fn places(&self) -> usize {
                (**self).places()
            }

            fn info(&self, peer: Peer) -> Option<PeerInfo> {
                (**self).info(peer)
            }

            fn longest(&self, to: Peer) -> usize {
                (**self).longest(to)
            }

            fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
                (**self).post_parts(to, parts)
            }

            fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
                (**self).progress(sink)
            }

            fn ticket(&self) -> Ticket {
                (**self).ticket()
            }

            fn wait(&self, ticket: Ticket, until: Option<Instant>) {
                (**self).wait(ticket, until);
            }

            fn doze(&self, ticket: Ticket, until: Option<Instant>) {
                (**self).doze(ticket, until);
            }

            fn wake(&self) {
                (**self).wake();
            }

            fn ring(&self, peer: Peer) -> Result<(), NetError> {
                (**self).ring(peer)
            }

            fn lost(&self, peer: Peer) -> Option<Loss> {
                (**self).lost(peer)
            }

            fn is_watched_by_frames(&self, peer: Peer) -> bool {
                (**self).is_watched_by_frames(peer)
            }

            fn end(&self, peer: Peer, limit: Duration) -> bool {
                (**self).end(peer, limit)
            }

            fn ping(&self, to: Peer) -> Result<(), NetError> {
                (**self).ping(to)
            }

            fn heard(&self, from: Peer) -> u64 {
                (**self).heard(from)
            }

            fn heap(&self) -> Option<&SharedHeap> {
                (**self).heap()
            }

            fn memory(&self, of: Peer) -> Option<SharedMemory> {
                (**self).memory(of)
            }
        }
    };
}

forwarded!(T, Box<T>);
forwarded!(T, &'static T);
