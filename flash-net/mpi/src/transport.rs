//! Frames as messages of MPI.
//!
//! A frame is a message, or several where it is longer than a message may be. A peer sends [`WINDOW`] messages
//! ahead of those that the receiver says it has taken. The receiving side is under one lock, which the thread
//! that takes frames holds, and each sending side under one of its own. What no thread waits for stays in MPI.
//!
//! A thread that waits looks: for 20 us at once, then with its processor offered to others, then with naps of up to
//! a millisecond. MPI has nothing to sleep on. On a machine with other work, a nap ends sooner than an offer.

use crate::find::Launched;
use crate::hello::Hello;
use crate::library::{Mpi, Probed, Request};
use crate::lifetime::{END, START, at_end, divide, end_with, within};
use crate::outbox::{Outbox, WINDOW};
use crate::{MpiError, find};
use flash_net::{
    How, Loss, NetError, Peer, PeerInfo, Progress, SharedHeap, SharedMemory, Ticket, Transport, Watch,
};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// What a message is.
const HELLO: c_int = 7001;
/// A frame, or the last piece of one.
const LAST: c_int = 7002;
/// A piece of a frame, more of which follow.
const MORE: c_int = 7003;
/// Messages that were taken: their number.
const TAKEN: c_int = 7004;
const PING: c_int = 7005;
const PONG: c_int = 7006;
/// The sender leaves. A byte: whether all are there, so that MPI is finalized.
const BYE: c_int = 7007;

/// Bytes of the longest message: MPI counts them in an `int`.
const PIECE: usize = 1 << 30;
/// Bytes of the longest frame.
const LONGEST: usize = 1 << 32;
/// Frames of one peer that a call of `progress` hands over at most, and all that wait to be.
const FRAMES: usize = 64;

/// How long a thread looks for frames before it offers its processor.
const SPIN: Duration = Duration::from_micros(20);
/// How long it does that before it sleeps.
const YIELD: Duration = Duration::from_micros(100);
/// A nap at least and at most; between, it is a part of what was waited for already.
const NAPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
const PART: u32 = 16;
/// Between two looks at the processes of the others.
const WATCH: Duration = Duration::from_millis(10);

/// This process's endpoint, for as long as the process.
pub struct MpiTransport {
    mpi: Mpi,
    me: Peer,
    peers: Vec<Remote>,
    receiver: Mutex<Receiver>,
    /// What ends the waits of all threads.
    wakes: AtomicU64,
    /// A frame was refused or is in flight: waiting threads look for its end.
    has_pending: AtomicBool,
    spins: AtomicBool,
    watches: Mutex<Watches>,
    /// No peer has said that some are lost.
    is_whole: AtomicBool,
    own: Hello,
    /// Bytes of a message at most.
    piece: usize,
}

/// What this endpoint knows of a peer.
#[derive(Default)]
struct Remote {
    outbox: Mutex<Outbox>,
    heard: AtomicU64,
    info: OnceLock<PeerInfo>,
    gone: OnceLock<Loss>,
    /// Whether `gone` is what users are told.
    told: AtomicBool,
}

/// The receiving side.
struct Receiver {
    peers: Vec<Inbox>,
    /// Frames that were received.
    ready: VecDeque<(Peer, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Messages of single peers are looked for: one is being received, or a peer is lost.
    apart: bool,
}

#[derive(Default)]
struct Inbox {
    /// The message that is being received; others of the peer come after it.
    receiving: Option<(Request, Vec<u8>, c_int)>,
    /// The pieces of a frame that have come.
    pieces: Vec<u8>,
    /// Messages taken, of which the peer was not told.
    taken: u64,
}

struct Watches {
    looked: Instant,
    processes: Vec<(Peer, Watch)>,
    heard: Vec<(u64, Option<Instant>)>,
}

impl MpiTransport {
    /// Opens the library (`given`, or the launcher's) and joins the processes that the launcher has started,
    /// once per process. Divides the processors of a host among them where the launcher has not.
    ///
    /// Waits until all have called this. If they do not within a minute, the process ends with an error.
    ///
    /// # Errors
    /// No library, another one than the launcher's, or a program that uses MPI itself.
    pub fn join(launched: &Launched, given: Option<&Path>) -> Result<&'static MpiTransport, MpiError> {
        MpiTransport::join_in_pieces(launched, given, PIECE)
    }

    /// The same with messages of at most this many bytes; longer frames are sent in pieces.
    #[doc(hidden)]
    pub fn join_in_pieces(
        launched: &Launched,
        given: Option<&Path>,
        piece: usize,
    ) -> Result<&'static MpiTransport, MpiError> {
        let mpi = find::library(given, launched)?;
        divide(launched);
        let (rank, size) = within(START, || mpi.initialize(), launched)?;
        if (rank, size) != (launched.rank, launched.size) {
            return Err(MpiError::new(format!(
                "{} ({}): expected to be rank {} of {}, as the launcher says, found rank {rank} of {size}: this library is not the launcher's; say which is with FLASH_MPI_LIB",
                mpi.path().display(),
                mpi.version(),
                launched.rank,
                launched.size,
            )));
        }
        let own = Hello::own();
        let transport: &'static MpiTransport = Box::leak(Box::new(MpiTransport {
            mpi,
            me: Peer(rank),
            peers: (0..size).map(|_| Remote::default()).collect(),
            receiver: Mutex::new(Receiver {
                peers: (0..size).map(|_| Inbox::default()).collect(),
                ready: VecDeque::new(),
                spare: Vec::new(),
                apart: false,
            }),
            wakes: AtomicU64::new(0),
            has_pending: AtomicBool::new(false),
            spins: AtomicBool::new(own.cpus.len() > 1),
            watches: Mutex::new(Watches {
                looked: Instant::now(),
                processes: Vec::new(),
                heard: vec![(0, None); size as usize],
            }),
            is_whole: AtomicBool::new(true),
            own,
            piece: piece.clamp(1, PIECE),
        }));
        at_end(transport);
        let hello = transport.own.bytes();
        for (peer, remote) in transport.others() {
            let mut outbox = transport.outbox(remote);
            if let Err(why) = outbox.send(&transport.mpi, peer.0, HELLO, hello.iter().copied(), false) {
                drop(outbox);
                transport.lose(peer, How::Unreachable(why));
            }
        }
        let _ = transport.peers[rank as usize].info.set(transport.own.info());
        Ok(transport)
    }

    /// Says to the others that this process ends, and finalizes MPI if all are there.
    pub(crate) fn leave(&self) {
        let is_lost =
            |(_, remote): (Peer, &Remote)| remote.gone.get().is_some_and(|loss| loss.how != How::Left);
        let is_whole = self.is_whole.load(Acquire) && !self.others().any(is_lost);
        let until = Instant::now() + END;
        for (peer, remote) in self.others() {
            if remote.gone.get().is_none() {
                let bye = [u8::from(is_whole)];
                let _ = self.outbox(remote).send(&self.mpi, peer.0, BYE, bye.into_iter(), false);
            }
        }
        // What is on its way arrives.
        let is_idle = |(_, remote): (Peer, &Remote)| {
            remote.gone.get().is_some() || {
                let mut outbox = self.outbox(remote);
                outbox.settle(&self.mpi).is_err() || outbox.is_idle()
            }
        };
        while !self.others().all(is_idle) && Instant::now() < until {
            std::thread::sleep(NAPS[0]);
            if let Some(mut receiver) = self.try_receiver() {
                self.fill(&mut receiver);
                receiver.ready.clear();
            }
        }
        match is_whole {
            true => {
                let text = format!(
                    "FLASH: rank {}: the other processes of the job have not ended within {} s\n",
                    self.me.0,
                    END.as_secs()
                );
                let _ = std::thread::Builder::new().name("flash-mpi-end".into()).spawn(move || {
                    std::thread::sleep(END);
                    end_with(&text);
                });
                self.mpi.finalize();
            }
            false => self.mpi.leave(),
        }
    }

    /// The library.
    pub fn mpi(&self) -> &Mpi {
        &self.mpi
    }

    fn others(&self) -> impl Iterator<Item = (Peer, &Remote)> {
        (0..).map(Peer).zip(&self.peers).filter(|(peer, _)| *peer != self.me)
    }

    fn remote(&self, peer: Peer) -> Result<&Remote, NetError> {
        self.peers.get(peer.0 as usize).ok_or(NetError::NoPeer { found: peer, peers: self.peers.len() })
    }

    fn outbox<'a>(&self, remote: &'a Remote) -> MutexGuard<'a, Outbox> {
        remote.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a peer is gone, if it is not noted.
    fn lose(&self, peer: Peer, how: How) -> &Loss {
        let remote = &self.peers[peer.0 as usize];
        let loss = remote
            .gone
            .get_or_init(|| Loss::new(peer, remote.info.get(), how, self.watches().heard[peer.0 as usize].1));
        self.wake();
        loss
    }

    fn lost_error(&self, peer: Peer, why: String) -> NetError {
        NetError::Lost(Box::new(self.lose(peer, How::Unreachable(why)).clone()))
    }

    /// Sends a message that is no frame. `Full` is an answer, too.
    fn send_sign(&self, to: Peer, tag: c_int) -> Result<(), NetError> {
        let remote = self.remote(to)?;
        if let Some(loss) = remote.gone.get() {
            return Err(NetError::Lost(Box::new(loss.clone())));
        }
        let mut outbox = self.outbox(remote);
        let sent = outbox.settle(&self.mpi).and_then(|()| match outbox.has_room(1) {
            true => outbox.send(&self.mpi, to.0, tag, [].into_iter(), true).map(|()| true),
            false => Ok(false),
        });
        drop(outbox);
        match sent {
            Ok(true) => Ok(()),
            Ok(false) => Err(NetError::Full { to, bytes: 0 }),
            Err(why) => Err(self.lost_error(to, why)),
        }
    }

    /// The receiving side, unless another thread has it.
    fn try_receiver(&self) -> Option<MutexGuard<'_, Receiver>> {
        match self.receiver.try_lock() {
            Ok(receiver) => Some(receiver),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Receives what has come, until some frames are ready. True if some are.
    fn fill(&self, receiver: &mut Receiver) -> bool {
        if receiver.apart {
            self.fill_apart(receiver);
        }
        while receiver.ready.len() < FRAMES && !receiver.apart {
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
            while receiver.ready.len() < FRAMES && receiver.peers[peer.0 as usize].receiving.is_none() {
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
            other => return refuse(receiver, format!("a message has the tag {other}")),
        }
        self.say_taken(receiver, from);
    }

    /// Says how many messages of a peer were taken, when they are a part of the window.
    fn say_taken(&self, receiver: &mut Receiver, from: Peer) {
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

    /// Learns of a peer what it says of itself, and watches its process if that is on this host.
    fn meet(&self, peer: Peer, remote: &Remote, hello: Hello) {
        let is_here =
            (&hello.host, &hello.space) == (&self.own.host, &self.own.space) && !hello.host.is_empty();
        if !is_here || hello.cpus != self.own.cpus {
            self.spins.store(true, Relaxed);
        }
        let _ = remote.info.set(hello.info());
        if is_here {
            match Watch::new(hello.pid, hello.started) {
                Ok(Some(watch)) => self.watches().processes.push((peer, watch)),
                Ok(None) => {
                    self.lose(peer, How::Ended(None));
                }
                // Its silence is all that can be noticed.
                Err(_) => {}
            }
        }
        self.wake();
    }

    /// Looks for processes that have ended, not more often than [`WATCH`].
    fn watch(&self) {
        let mut watches = self.watches();
        if watches.looked.elapsed() < WATCH {
            return;
        }
        watches.looked = Instant::now();
        for (remote, (heard, at)) in self.peers.iter().zip(&mut watches.heard) {
            let count = remote.heard.load(Relaxed);
            if *heard != count {
                (*heard, *at) = (count, Some(Instant::now()));
            }
        }
        let ended: Vec<(Peer, Option<ExitStatus>)> =
            Watch::ended(watches.processes.iter().map(|(peer, watch)| (*peer, watch)));
        watches.processes.retain(|(peer, _)| ended.iter().all(|(gone, _)| gone != peer));
        drop(watches);
        for (peer, status) in ended {
            self.lose(peer, How::Ended(status));
        }
    }

    /// Forgets what was sent, and wakes threads that wait for room.
    fn settle(&self) {
        let mut has_pending = false;
        for (peer, remote) in self.others() {
            if remote.gone.get().is_some() {
                continue;
            }
            let mut outbox = self.outbox(remote);
            let settled = outbox.settle(&self.mpi);
            if outbox.is_full && outbox.has_room(1) {
                outbox.is_full = false;
                self.wake();
            }
            has_pending |= outbox.is_full || !outbox.is_idle();
            drop(outbox);
            if let Err(why) = settled {
                self.lose(peer, How::Unreachable(why));
            }
        }
        self.has_pending.store(has_pending, Relaxed);
    }

    /// Whether there is something to do for a thread with this ticket.
    fn is_due(&self, ticket: Ticket) -> bool {
        if self.ticket() != ticket {
            return true;
        }
        // A thread that takes frames sees to all that come.
        let found = self.try_receiver().is_some_and(|mut receiver| self.fill(&mut receiver));
        if self.has_pending.load(Relaxed) {
            self.settle();
        }
        found || self.ticket() != ticket
    }
}

impl Transport for MpiTransport {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> usize {
        self.peers.len()
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        self.peers.get(peer.0 as usize)?.info.get().cloned()
    }

    fn longest(&self) -> usize {
        LONGEST.min(self.piece.saturating_mul(WINDOW as usize / 2))
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        let remote = self.remote(to)?;
        if let Some(loss) = remote.gone.get() {
            return Err(NetError::Lost(Box::new(loss.clone())));
        }
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > self.longest() {
            return Err(NetError::TooLong { to, bytes, most: self.longest() });
        }
        let messages = bytes.div_ceil(self.piece).max(1);
        let mut outbox = self.outbox(remote);
        let mut sent = outbox.settle(&self.mpi);
        if sent.is_ok() && !outbox.has_room(messages as u64) {
            outbox.is_full = true;
            self.has_pending.store(true, Relaxed);
            return Err(NetError::Full { to, bytes });
        }
        if sent.is_ok() {
            if messages == 1 {
                let mut message = outbox.buffer(bytes);
                parts.iter().for_each(|part| message.extend_from_slice(part));
                sent = outbox.send_buffer(&self.mpi, to.0, LAST, message, true);
            } else {
                let mut all = parts.iter().flat_map(|part| part.iter().copied());
                for message in 0..messages {
                    let tag = if message + 1 == messages { LAST } else { MORE };
                    let piece = all.by_ref().take(self.piece);
                    sent = sent.and_then(|()| outbox.send(&self.mpi, to.0, tag, piece, true));
                }
            }
            if !outbox.is_idle() {
                self.has_pending.store(true, Relaxed);
            }
        }
        drop(outbox);
        sent.map_err(|why| self.lost_error(to, why))
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        let Some(mut receiver) = self.try_receiver() else { return Progress::Busy };
        if !self.fill(&mut receiver) {
            return Progress::Nothing;
        }
        while let Some((from, frame)) = receiver.ready.pop_front() {
            receiver.peers[from.0 as usize].taken += 1;
            sink(from, &frame);
            self.say_taken(&mut receiver, from);
            receiver.keep(frame);
        }
        Progress::Some
    }

    fn ticket(&self) -> Ticket {
        Ticket::of(self.wakes.load(Acquire))
    }

    fn wait(&self, ticket: Ticket, until: Option<Instant>) {
        if self.is_due(ticket) {
            return;
        }
        let start = Instant::now();
        let spin = if self.spins.load(Relaxed) { SPIN } else { Duration::ZERO };
        loop {
            if self.is_due(ticket) {
                return;
            }
            let now = Instant::now();
            let rest = until.map(|until| until.saturating_duration_since(now));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return;
            }
            match now - start {
                waited if waited < spin => std::hint::spin_loop(),
                waited if waited < spin + YIELD => std::thread::yield_now(),
                waited => {
                    // A loss that it finds makes the ticket old.
                    self.watch();
                    self.settle();
                    let nap = (waited / PART).clamp(NAPS[0], NAPS[1]);
                    std::thread::sleep(rest.map_or(nap, |rest| rest.min(nap)));
                }
            }
        }
    }

    fn wake(&self) {
        self.wakes.fetch_add(1, Release);
    }

    fn lost(&self, peer: Peer) -> Option<Loss> {
        let remote = self.peers.get(peer.0 as usize)?;
        if remote.gone.get().is_none() {
            self.watch();
        }
        let loss = remote.gone.get()?;
        if !remote.told.load(Acquire) {
            // What had come before is handed over first.
            let mut receiver = self.try_receiver()?;
            receiver.apart = true;
            self.fill(&mut receiver);
            if receiver.ready.iter().any(|(from, _)| *from == peer) {
                return None;
            }
            remote.told.store(true, Release);
        }
        Some(loss.clone())
    }

    fn is_watched_by_frames(&self, peer: Peer) -> bool {
        peer != self.me
            && self.remote(peer).is_ok_and(|remote| {
                remote.info.get().is_none_or(|info| info.host.is_empty() || info.host != self.own.host)
            })
    }

    fn ping(&self, to: Peer) -> Result<(), NetError> {
        self.send_sign(to, PING)
    }

    fn heard(&self, from: Peer) -> u64 {
        self.peers.get(from.0 as usize).map_or(0, |remote| remote.heard.load(Relaxed))
    }

    fn heap(&self) -> Option<&SharedHeap> {
        None
    }

    fn memory(&self, _: Peer) -> Option<SharedMemory> {
        None
    }
}

impl std::fmt::Debug for MpiTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MpiTransport({} of {}, {:?})", self.me, self.peers.len(), self.mpi)
    }
}

impl Receiver {
    fn keep(&mut self, buffer: Vec<u8>) {
        /// Larger ones go back to the system, and so do those that are too many.
        const KEPT: (usize, usize) = (2 << 20, 8);
        if buffer.capacity() <= KEPT.0 && self.spare.len() < KEPT.1 {
            self.spare.push(buffer);
        }
    }
}
