//! The receiving side of the transport: messages that have come, and what each means.
//!
//! One thread at a time has it. No receive blocks: a long message comes in while others are taken, one of
//! each peer.

use crate::functions::Request;
use crate::hello::Hello;
use crate::library::Probed;
use crate::outbox::WINDOW;
use crate::transport::{LONGEST, MpiTransport, PIECE, Remote};
use flash_net::{How, Loss, Peer, Transport};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{MutexGuard, TryLockError};

/// Frames that wait at most to be handed over, while nothing waits to be sent.
const FRAMES: usize = 64;

/// What a message is.
pub(crate) const HELLO: c_int = 7001;
/// A frame, or the last piece of one.
pub(crate) const LAST: c_int = 7002;
/// A piece of a frame, more of which follow.
pub(crate) const MORE: c_int = 7003;
/// Messages that were taken: their number.
pub(crate) const TAKEN: c_int = 7004;
pub(crate) const PING: c_int = 7005;
pub(crate) const PONG: c_int = 7006;
/// The sender leaves. A byte: whether all are there, so that MPI is finalized.
pub(crate) const BYE: c_int = 7007;
/// The first process of a host has made the memory that they share: the number of its descriptor.
pub(crate) const WORLD: c_int = 7008;
/// The sender does not share memory with others of its host: why, as text.
pub(crate) const APART: c_int = 7009;

/// The receiving side.
pub(crate) struct Receiver {
    pub peers: Vec<Inbox>,
    /// Frames that were received.
    pub ready: VecDeque<(Peer, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Messages of single peers are looked for: one is being received, or a peer is lost.
    pub apart: bool,
}

#[derive(Default)]
pub(crate) struct Inbox {
    /// The message that is being received; others of the peer come after it.
    receiving: Option<(Request, Vec<u8>, c_int)>,
    /// The pieces of a frame that have come.
    pieces: Vec<u8>,
    /// Messages taken, of which the peer was not told.
    pub taken: u64,
}

impl Receiver {
    /// Of this many peers.
    pub fn new(peers: u32) -> Receiver {
        Receiver {
            peers: (0..peers).map(|_| Inbox::default()).collect(),
            ready: VecDeque::new(),
            spare: Vec::new(),
            apart: false,
        }
    }

    /// A buffer for later messages.
    pub fn keep(&mut self, buffer: Vec<u8>) {
        /// Larger ones go back to the system, and so do those that are too many.
        const KEPT: (usize, usize) = (2 << 20, 8);
        if buffer.capacity() <= KEPT.0 && self.spare.len() < KEPT.1 {
            self.spare.push(buffer);
        }
    }
}

impl MpiTransport {
    /// The receiving side, unless another thread has it.
    pub(crate) fn try_receiver(&self) -> Option<MutexGuard<'_, Receiver>> {
        match self.receiver.try_lock() {
            Ok(receiver) => Some(receiver),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Frames that may wait to be handed over. A process with something to send takes all that the peers may
    /// send: a message that says that there is room comes after frames that were sent before it.
    pub(crate) fn most_ready(&self) -> usize {
        match self.has_pending() {
            true => WINDOW as usize * self.peers.len(),
            false => FRAMES,
        }
    }

    /// Receives what has come, until that many frames are ready. True if some are.
    pub(crate) fn fill(&self, receiver: &mut Receiver, most: usize) -> bool {
        if receiver.apart {
            self.fill_apart(receiver);
        }
        while receiver.ready.len() < most && !receiver.apart {
            match self.mpi.probe(None) {
                Ok(Some(probed)) => match u32::try_from(probed.source) {
                    Ok(from) if (from as usize) < self.peers.len() => {
                        self.begin(receiver, Peer(from), probed)
                    }
                    // No process of the world; nothing can be said of it.
                    _ => break,
                },
                Ok(None) => break,
                // It says that some peer has failed.
                Err(_) => {
                    receiver.apart = true;
                    self.fill_apart(receiver);
                }
            }
        }
        !receiver.ready.is_empty()
    }

    /// The same, with a look at each peer.
    fn fill_apart(&self, receiver: &mut Receiver) {
        let mut apart = false;
        for (peer, remote) in self.others() {
            if self.is_distrusted(remote) {
                apart = true;
                continue;
            }
            self.finish(receiver, peer);
            while receiver.ready.len() < self.most_ready()
                && receiver.peers[peer.0 as usize].receiving.is_none()
            {
                match self.mpi.probe(Some(peer.0)) {
                    Ok(Some(probed)) => self.begin(receiver, peer, probed),
                    Ok(None) => break,
                    Err(why) => {
                        self.lose(peer, How::Unreachable(why));
                        break;
                    }
                }
            }
            apart |= receiver.peers[peer.0 as usize].receiving.is_some() || remote.gone.get().is_some();
        }
        receiver.apart = apart;
        let is_receiving = receiver.peers.iter().any(|inbox| inbox.receiving.is_some());
        self.is_receiving.store(is_receiving, Relaxed);
    }

    /// Whether nothing of the peer is received any more.
    fn is_distrusted(&self, remote: &Remote) -> bool {
        let is = |loss: &Loss| matches!(loss.how, How::Protocol(_) | How::Unreachable(_));
        remote.gone.get().is_some_and(is)
    }

    /// Begins to receive a message that has come.
    fn begin(&self, receiver: &mut Receiver, from: Peer, probed: Probed) {
        let refuse = |what: String| {
            self.lose(from, How::Protocol(what));
        };
        let Ok(bytes) = usize::try_from(probed.bytes) else {
            receiver.apart = true;
            return refuse(format!("a message of {} bytes", probed.bytes));
        };
        let mut buffer = receiver.spare.pop().unwrap_or_default();
        buffer.clear();
        if bytes > PIECE || buffer.try_reserve_exact(bytes).is_err() {
            receiver.apart = true;
            return refuse(format!("a message of {bytes} bytes, for which there is no memory"));
        }
        // SAFETY: the buffer has room, and stays in `receiving` until the request is complete.
        match unsafe { self.mpi.receive(buffer.as_mut_ptr(), bytes, from.0, probed.tag) } {
            Ok(mut request) => match self.mpi.test(&mut request) {
                Ok(true) => {
                    // SAFETY: the message had that many bytes, and was received.
                    unsafe { buffer.set_len(bytes) };
                    self.came(receiver, from, probed.tag, buffer);
                }
                Ok(false) => {
                    // SAFETY: bytes of the message; it is looked at when all have come.
                    unsafe { buffer.set_len(bytes) };
                    receiver.peers[from.0 as usize].receiving = Some((request, buffer, probed.tag));
                    self.is_receiving.store(true, Relaxed);
                    receiver.apart = true;
                }
                Err(why) => {
                    std::mem::forget(buffer);
                    receiver.apart = true;
                    self.lose(from, How::Unreachable(why));
                }
            },
            Err(why) => {
                receiver.apart = true;
                self.lose(from, How::Unreachable(why));
            }
        }
    }

    /// Ends what is being received of a peer, if all of it has come.
    fn finish(&self, receiver: &mut Receiver, from: Peer) {
        let inbox = &mut receiver.peers[from.0 as usize];
        let Some((request, _, _)) = &mut inbox.receiving else { return };
        match self.mpi.test(request) {
            Ok(false) => {}
            Ok(true) => {
                if let Some((_, buffer, tag)) = inbox.receiving.take() {
                    self.came(receiver, from, tag, buffer);
                }
            }
            Err(why) => {
                // The library may still write to it.
                std::mem::forget(inbox.receiving.take());
                self.lose(from, How::Unreachable(why));
            }
        }
    }

    /// A message has come.
    fn came(&self, receiver: &mut Receiver, from: Peer, tag: c_int, message: Vec<u8>) {
        let remote = &self.peers[from.0 as usize];
        let refuse = |receiver: &mut Receiver, what: String| {
            receiver.apart = true;
            self.lose(from, How::Protocol(what));
        };
        remote.heard.store(remote.heard.load(Relaxed) + 1, Relaxed);
        if remote.info.get().is_none() && tag != HELLO {
            return refuse(receiver, format!("its first message has the tag {tag}, expected {HELLO}"));
        }
        let inbox = &mut receiver.peers[from.0 as usize];
        match tag {
            LAST if inbox.pieces.is_empty() => receiver.ready.push_back((from, message)),
            LAST | MORE => {
                let length = inbox.pieces.len() + message.len();
                if length > LONGEST || inbox.pieces.try_reserve(message.len()).is_err() {
                    return refuse(receiver, format!("a frame of {length} bytes and more"));
                }
                inbox.pieces.extend_from_slice(&message);
                if tag == LAST {
                    let frame = std::mem::take(&mut inbox.pieces);
                    receiver.ready.push_back((from, frame));
                } else {
                    // No frame of its own: what it took is said at once.
                    inbox.taken += 1;
                }
                receiver.spare.push(message);
            }
            TAKEN => {
                let count = message.as_slice().try_into().map(u32::from_le_bytes).ok();
                let mut outbox = self.outbox(remote);
                let is_possible = count.is_some_and(|count| outbox.taken(u64::from(count)));
                if is_possible && std::mem::take(&mut outbox.is_full) {
                    self.wake();
                }
                drop(outbox);
                if !is_possible {
                    return refuse(receiver, format!("it says that it has taken {count:?} messages"));
                }
                receiver.spare.push(message);
            }
            PING => {
                inbox.taken += 1;
                // A full peer has other signs of life, and a lost one needs none.
                drop(self.send_sign(from, PONG));
            }
            PONG => inbox.taken += 1,
            BYE => {
                if message != [1] {
                    self.is_whole.store(false, Release);
                }
                self.lose(from, How::Left);
                receiver.apart = true;
            }
            HELLO => match Hello::read(&message) {
                Some(hello) if remote.info.get().is_none() => self.meet(from, remote, hello),
                found => return refuse(receiver, format!("its message of itself is {found:?}")),
            },
            WORLD => match message.as_slice().try_into().map(u32::from_le_bytes) {
                Ok(descriptor) if remote.world.get().is_none() => drop(remote.world.set(descriptor)),
                _ => return refuse(receiver, format!("its shared memory is {message:?}")),
            },
            APART => {
                let why = String::from_utf8_lossy(&message).replace(char::is_control, " ");
                let _ = remote.apart.set(why);
            }
            other => return refuse(receiver, format!("a message has the tag {other}")),
        }
        self.say_taken(receiver, from);
    }

    /// Says how many messages of a peer were taken, when they are a part of the window.
    pub(crate) fn say_taken(&self, receiver: &mut Receiver, from: Peer) {
        let inbox = &mut receiver.peers[from.0 as usize];
        if inbox.taken < WINDOW / 4 {
            return;
        }
        let count = std::mem::take(&mut inbox.taken) as u32;
        let remote = &self.peers[from.0 as usize];
        if remote.gone.get().is_some() {
            return;
        }
        let mut outbox = self.outbox(remote);
        let sent = outbox
            .settle(&self.mpi)
            .and_then(|()| outbox.send(&self.mpi, from.0, TAKEN, count.to_le_bytes().into_iter(), false));
        drop(outbox);
        if let Err(why) = sent {
            self.lose(from, How::Unreachable(why));
        }
    }
}
