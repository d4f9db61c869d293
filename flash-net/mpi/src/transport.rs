//! Frames as messages of MPI.
//!
//! A frame is a message, or several where it is longer than a message may be. A peer sends [`WINDOW`]
//! messages ahead of those that the receiver says it has taken. The receiving side is under one lock, which
//! the thread that takes frames holds, and each sending side under one of its own. What no thread waits for
//! stays in MPI.
//!
//! The processes of one host share memory, and send these messages to others only (`near.rs`).
//!
//! A thread that waits looks: for 20 us at once, then with its processor offered to others, then with naps of
//! up to a millisecond. MPI has nothing to sleep on. Beside a thread that computes it naps at once: a
//! processor that was offered to that comes back when it has used its time, which may be 4 ms. Its naps are
//! long, as each takes some microseconds of that thread's processor, and the end of what that computes ends
//! them.

use crate::find::Launched;
use crate::hello::Hello;
use crate::library::Mpi;
use crate::lifetime::{END, START, at_end, divide, end_with, within, without_its_signal};
use crate::nap::{exactly, nap};
use crate::near::Near;
use crate::outbox::{Outbox, WINDOW};
use crate::receiver::{BYE, HELLO, LAST, MORE, PING, Receiver};
use crate::{Family, MpiError, find};
use flash_net::{
    How, Loss, NetError, Peer, PeerInfo, Progress, SharedHeap, SharedMemory, Ticket, Transport, Watches,
};
use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the longest message: MPI counts them in an `int`.
pub(crate) const PIECE: usize = 1 << 30;
/// Bytes of the longest frame.
pub(crate) const LONGEST: usize = 1 << 32;
/// A nap at least and at most.
const NAPS: [Duration; 2] = [Duration::from_micros(5), Duration::from_millis(1)];
/// A nap at least beside a thread that computes.
const BESIDE_NAP: Duration = Duration::from_micros(150);

/// How a thread waits.
#[derive(Clone, Copy)]
struct Patience {
    /// How long it looks for frames before it offers its processor.
    looks: Duration,
    /// How long it does that before it naps.
    offers: Duration,
    /// A nap is this part of what was waited for already.
    part: u32,
    /// And at least this long.
    least: Duration,
}

/// Of a thread that has its processor.
const AWAKE: Patience = Patience {
    looks: Duration::from_micros(20),
    offers: Duration::from_micros(100),
    part: 64,
    least: NAPS[0],
};
/// Of one beside a thread that computes.
const BESIDE: Patience =
    Patience { looks: Duration::ZERO, offers: Duration::ZERO, part: 1, least: BESIDE_NAP };

/// While a long message is on its way, a nap is this part of what was waited for, or a smaller one.
const GOING_ON: u32 = 16;

/// Looks between two looks at the clock.
const LOOKS: u32 = 8;

/// Between two looks at the processes of the others.
const WATCH: Duration = Duration::from_millis(10);

/// This process's endpoint, for as long as the process.
pub struct MpiTransport {
    pub(crate) mpi: Mpi,
    me: Peer,
    pub(crate) peers: Vec<Remote>,
    pub(crate) receiver: Mutex<Receiver>,
    /// What ends the waits of all threads.
    wakes: AtomicU64,
    /// A frame was refused or is in flight: waiting threads look for its end.
    has_pending: AtomicBool,
    /// A message is being received.
    pub(crate) is_receiving: AtomicBool,
    spins: AtomicBool,
    watches: Watches,
    /// When it was last looked for processes that have ended.
    looked: Mutex<Instant>,
    /// No peer has said that some are lost.
    pub(crate) is_whole: AtomicBool,
    pub(crate) own: Hello,
    /// Bytes of a message at most.
    piece: usize,
    /// What the processes of this host share: frames to those go through it, and no messages but the last.
    pub(crate) near: OnceLock<Near>,
    pub(crate) why_apart: OnceLock<String>,
}

/// How a process joins.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// The library; `None`: the launcher's.
    pub library: Option<&'a Path>,
    /// How many processes of a host share memory, one after the other by their numbers; the same for all.
    /// 1: none does.
    pub shared: u32,
    /// Bytes of a message at most; longer frames are several.
    pub piece: usize,
}

impl Default for Joining<'_> {
    fn default() -> Self {
        Joining { library: None, shared: u32::MAX, piece: PIECE }
    }
}

/// What this endpoint knows of a peer.
#[derive(Default)]
pub(crate) struct Remote {
    pub outbox: Mutex<Outbox>,
    pub heard: AtomicU64,
    pub info: OnceLock<PeerInfo>,
    pub gone: OnceLock<Loss>,
    /// Whether `gone` is what users are told.
    told: AtomicBool,
    /// Of a process of this host: how many of them, as it says, share memory.
    pub shared: AtomicU32,
    /// Its descriptor of the memory that it has made for that.
    pub world: OnceLock<u32>,
    /// It has said why it shares none.
    pub apart: OnceLock<String>,
}

impl MpiTransport {
    /// Opens the library and joins the processes that the launcher has started, once per process. Divides the
    /// processors of a host among them where the launcher has not, and lets them share memory.
    ///
    /// Waits until all have called this. If they do not within a minute, the process ends with an error.
    ///
    /// # Errors
    /// No library, another one than the launcher's, or a program that uses MPI itself.
    pub fn join(launched: &Launched, joining: &Joining<'_>) -> Result<&'static MpiTransport, MpiError> {
        let mpi = find::library(joining.library, launched)?;
        let named = |expected: String| {
            MpiError::new(format!(
                "{} ({}): expected {expected}: this library is not the launcher's; say which is with FLASH_MPI_LIB",
                mpi.path().display(),
                mpi.version()
            ))
        };
        if ![launched.family, Family::Standard].contains(&mpi.family()) {
            return Err(named(format!("{}, whose launcher has started this process", launched.family)));
        }
        divide(launched);
        let (rank, size) =
            within(START, launched, "get_runtime", || without_its_signal(|| mpi.initialize()))?;
        if (rank, size) != (launched.rank, launched.size) {
            let Launched { rank: expected, size: all, .. } = launched;
            return Err(named(format!(
                "to be rank {expected} of {all}, as the launcher says, found rank {rank} of {size}"
            )));
        }
        let own = Hello::own(joining.shared.max(1));
        let transport: &'static MpiTransport = Box::leak(Box::new(MpiTransport {
            mpi,
            me: Peer(rank),
            peers: (0..size).map(|_| Remote::default()).collect(),
            receiver: Mutex::new(Receiver::new(size)),
            wakes: AtomicU64::new(0),
            has_pending: AtomicBool::new(false),
            is_receiving: AtomicBool::new(false),
            spins: AtomicBool::new(own.cpus.len() > 1),
            watches: Watches::new(size as usize),
            looked: Mutex::new(Instant::now()),
            is_whole: AtomicBool::new(true),
            own,
            piece: joining.piece.clamp(1, PIECE),
            near: OnceLock::new(),
            why_apart: OnceLock::new(),
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
        let _ = transport.peers[rank as usize].info.set(transport.own.info(Peer(rank)));
        within(START, launched, "get_runtime", || transport.share_memory());
        Ok(transport)
    }

    /// Says to the others that this process ends, and finalizes MPI if all say that all are there.
    ///
    /// A process that finalizes has received all that was sent to it, as MPICH demands: it waits until each
    /// of the others has said the same, which is the last that it sends.
    pub(crate) fn leave(&self) {
        if let Some(near) = self.near.get() {
            near.transport.leave();
        }
        let (said, until) = (u8::from(self.is_whole()), Instant::now() + END);
        for (peer, remote) in self.others() {
            if !is_lost(remote) {
                let _ = self.outbox(remote).close(&self.mpi, peer.0, BYE, said);
            }
        }
        let is_sent = |remote: &Remote| {
            let mut outbox = self.outbox(remote);
            outbox.settle(&self.mpi).is_err() || outbox.is_idle()
        };
        let has_said = |remote: &Remote| remote.gone.get().is_some() || !self.is_whole();
        let is_done = |remote: &Remote| is_lost(remote) || is_sent(remote) && has_said(remote);
        while !self.others().all(|(_, remote)| is_done(remote)) {
            if until <= Instant::now() && self.is_whole() {
                end_late(self.me);
            } else if until <= Instant::now() {
                break;
            }
            nap(NAPS[0]);
            if let Some(mut receiver) = self.try_receiver() {
                self.fill(&mut receiver, self.most_ready());
                receiver.ready.clear();
            }
            self.watch();
        }
        if !self.is_whole() {
            return self.mpi.leave();
        }
        let me = self.me;
        let _ = std::thread::Builder::new().name("flash-mpi-end".into()).spawn(move || {
            std::thread::sleep(END);
            end_late(me);
        });
        self.mpi.finalize();
    }

    /// Whether this process has lost no other, and none has said that it has.
    fn is_whole(&self) -> bool {
        self.is_whole.load(Acquire) && !self.others().any(|(_, remote)| is_lost(remote))
    }

    /// The library.
    pub fn mpi(&self) -> &Mpi {
        &self.mpi
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = (Peer, &Remote)> {
        (0..).map(Peer).zip(&self.peers).filter(|(peer, _)| *peer != self.me)
    }

    fn remote(&self, peer: Peer) -> Result<&Remote, NetError> {
        self.peers.get(peer.0 as usize).ok_or(NetError::NoPeer { found: peer, peers: self.peers.len() })
    }

    pub(crate) fn outbox<'a>(&self, remote: &'a Remote) -> MutexGuard<'a, Outbox> {
        remote.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a peer is gone, if it is not noted.
    pub(crate) fn lose(&self, peer: Peer, how: How) -> &Loss {
        let remote = &self.peers[peer.0 as usize];
        let loss = remote
            .gone
            .get_or_init(|| Loss::new(peer, remote.info.get(), how, self.watches.last_heard(peer)));
        self.wake();
        loss
    }

    fn lost_error(&self, peer: Peer, why: String) -> NetError {
        NetError::Lost(Box::new(self.lose(peer, How::Unreachable(why)).clone()))
    }

    /// Bytes of the longest frame that is sent as messages.
    fn longest_message(&self) -> usize {
        LONGEST.min(self.piece.saturating_mul(WINDOW as usize / 2))
    }

    /// Sends a message that is no frame. `Full` is an answer, too.
    pub(crate) fn send_sign(&self, to: Peer, tag: c_int) -> Result<(), NetError> {
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

    /// Learns of a peer what it says of itself, and watches its process if that is on this host.
    pub(crate) fn meet(&self, peer: Peer, remote: &Remote, hello: Hello) {
        let is_here =
            (&hello.host, &hello.space) == (&self.own.host, &self.own.space) && !hello.host.is_empty();
        remote.shared.store(if is_here { hello.shared } else { 0 }, Relaxed);
        if !is_here || hello.cpus != self.own.cpus {
            self.spins.store(true, Relaxed);
        }
        let _ = remote.info.set(hello.info(peer));
        if is_here && !self.watches.add(peer, hello.pid, hello.started) {
            self.lose(peer, How::Ended(None));
        }
        self.wake();
    }

    /// Takes messages until there is something. Frames wait to be handed over.
    pub(crate) fn take_until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            // So that all that may come before what is waited for is taken.
            self.has_pending.store(true, Relaxed);
            if let Some(mut receiver) = self.try_receiver() {
                self.fill(&mut receiver, self.most_ready());
            }
            self.watch();
            self.settle();
            nap(NAPS[0]);
        }
    }

    /// Looks for processes that have ended, not more often than [`WATCH`].
    fn watch(&self) {
        // Another thread looks.
        let Ok(mut looked) = self.looked.try_lock() else { return };
        if looked.elapsed() < WATCH {
            return;
        }
        *looked = Instant::now();
        drop(looked);
        let ended = self.watches.look(self.peers.iter().map(|remote| remote.heard.load(Relaxed)));
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

    /// Whether something may wait to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.has_pending.load(Relaxed)
    }

    /// Waits: only looks for a time, offers its processor for a time, and naps then.
    fn wait_looking(&self, ticket: Ticket, until: Option<Instant>, patience: Patience) {
        let Patience { looks, offers, part, least } = patience;
        if self.is_due(ticket) {
            return;
        }
        let start = Instant::now();
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
                // To ask for the time takes as long as to look.
                waited if waited < looks => {
                    let is_due = |_| {
                        std::hint::spin_loop();
                        self.is_due(ticket)
                    };
                    if (0..LOOKS).any(is_due) {
                        return;
                    }
                }
                waited if waited < looks + offers => std::thread::yield_now(),
                waited => {
                    // A loss that it finds makes the ticket old.
                    self.watch();
                    self.settle();
                    // A long message goes on only while both sides look.
                    let (part, least) = match self.has_pending() || self.is_receiving.load(Relaxed) {
                        true => (part.max(GOING_ON), NAPS[0]),
                        false => (part, least),
                    };
                    let length = (waited / part).clamp(least, NAPS[1]);
                    let length = rest.map_or(length, |rest| rest.min(length));
                    match self.near.get() {
                        None => nap(length),
                        // A frame from this host ends it, and so does a wake.
                        Some(near) if length < BESIDE_NAP => {
                            exactly(|| near.transport.doze(ticket, Some(now + length)));
                        }
                        Some(near) => near.transport.doze(ticket, Some(now + length)),
                    }
                }
            }
        }
    }

    /// Whether there is something to do for a thread with this ticket.
    fn is_due(&self, ticket: Ticket) -> bool {
        let is_due = match self.near.get() {
            None => self.ticket() != ticket,
            Some(near) => near.transport.is_due(ticket),
        };
        if is_due {
            return true;
        }
        // One frame is enough to end a wait; `progress` takes the others.
        let most = if self.has_pending() { self.most_ready() } else { 1 };
        let found = self.try_receiver().is_some_and(|mut receiver| self.fill(&mut receiver, most));
        if self.has_pending() {
            self.settle();
        }
        found || self.ticket() != ticket
    }
}

/// True if a peer is gone, and has not left in good order.
fn is_lost(remote: &Remote) -> bool {
    remote.gone.get().is_some_and(|loss| loss.how != How::Left)
}

/// Ends a process that has waited too long for the others' ends.
fn end_late(me: Peer) -> ! {
    end_with(&format!(
        "FLASH: rank {}: the other processes of the job have not ended within {} s\n",
        me.0,
        END.as_secs()
    ))
}

impl Transport for MpiTransport {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> usize {
        let near = self.near.get().map_or(0, |near| near.transport.peers());
        self.peers.len().max(near)
    }

    fn places(&self) -> usize {
        let near = self.near.get().map_or(0, |near| near.transport.places());
        self.peers.len().max(near)
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        match self.peers.get(peer.0 as usize) {
            Some(remote) => remote.info.get().cloned(),
            None => self.near(peer)?.info(peer),
        }
    }

    fn longest(&self, to: Peer) -> usize {
        match self.near(to) {
            Some(near) => near.longest(to),
            None => self.longest_message(),
        }
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        if let Some(near) = self.near(to) {
            return near.post_parts(to, parts);
        }
        let remote = self.remote(to)?;
        if let Some(loss) = remote.gone.get() {
            return Err(NetError::Lost(Box::new(loss.clone())));
        }
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let most = self.longest_message();
        if bytes > most {
            return Err(NetError::TooLong { to, bytes, most });
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
                // Ends a nap: a thread that looks lets the message go on.
                self.has_pending.store(true, Relaxed);
                self.wake();
            }
        }
        drop(outbox);
        sent.map_err(|why| self.lost_error(to, why))
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        let near = self.near.get();
        if let Some(near) = near.filter(|near| near.is_all) {
            return near.transport.progress(sink);
        }
        // Held for both.
        let Some(mut receiver) = self.try_receiver() else { return Progress::Busy };
        let of_near = near.map_or(Progress::Nothing, |near| near.transport.progress(sink));
        if !self.fill(&mut receiver, self.most_ready()) {
            return of_near;
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
        match self.near.get() {
            Some(near) => near.transport.ticket(),
            None => Ticket::of(self.wakes.load(Acquire)),
        }
    }

    fn wait(&self, ticket: Ticket, until: Option<Instant>) {
        if let Some(near) = self.near.get().filter(|near| near.is_all) {
            return near.transport.wait(ticket, until);
        }
        let looks = if self.spins.load(Relaxed) { AWAKE.looks } else { Duration::ZERO };
        self.wait_looking(ticket, until, Patience { looks, ..AWAKE });
    }

    fn doze(&self, ticket: Ticket, until: Option<Instant>) {
        let patience = match self.near.get() {
            Some(near) if near.is_all => return near.transport.doze(ticket, until),
            Some(_) => BESIDE,
            // A nap is slept to its end.
            None => Patience { least: NAPS[0], part: GOING_ON, ..BESIDE },
        };
        self.wait_looking(ticket, until, patience);
    }

    fn wake(&self) {
        match self.near.get() {
            Some(near) => near.transport.wake(),
            None => drop(self.wakes.fetch_add(1, Release)),
        }
    }

    fn lost(&self, peer: Peer) -> Option<Loss> {
        if let Some(near) = self.near(peer) {
            let loss = near.lost(peer)?;
            // MPI is not finalized with it. One that leaves says so in its last message.
            if loss.how != How::Left && self.remote(peer).is_ok_and(|remote| remote.gone.get().is_none()) {
                self.lose(peer, loss.how.clone());
            }
            return Some(loss);
        }
        let remote = self.peers.get(peer.0 as usize)?;
        if remote.gone.get().is_none() {
            self.watch();
        }
        let loss = remote.gone.get()?;
        if !remote.told.load(Acquire) {
            // What had come before is handed over first.
            let mut receiver = self.try_receiver()?;
            receiver.apart = true;
            self.fill(&mut receiver, self.most_ready());
            if receiver.ready.iter().any(|(from, _)| *from == peer) {
                return None;
            }
            remote.told.store(true, Release);
        }
        Some(loss.clone())
    }

    fn is_watched_by_frames(&self, peer: Peer) -> bool {
        peer != self.me
            && self.near(peer).is_none()
            && self.remote(peer).is_ok_and(|remote| {
                remote.info.get().is_none_or(|info| info.host.is_empty() || info.host != self.own.host)
            })
    }

    fn end(&self, peer: Peer, limit: Duration) -> bool {
        if peer == self.me {
            return false;
        }
        let near = self.near(peer).map(|near| near.end(peer, limit));
        if self.remote(peer).is_err() {
            return near.unwrap_or(false);
        }
        // Whatever becomes of it: MPI is not finalized with it any more.
        self.lose(peer, How::Unreachable("its process was ended, as it gave no sign of life".to_owned()));
        near.unwrap_or_else(|| self.watches.end(peer, limit).unwrap_or(false))
    }

    fn ping(&self, to: Peer) -> Result<(), NetError> {
        match self.near(to) {
            Some(near) => near.ping(to),
            None => self.send_sign(to, PING),
        }
    }

    fn heard(&self, from: Peer) -> u64 {
        if let Some(near) = self.near(from) {
            return near.heard(from);
        }
        self.peers.get(from.0 as usize).map_or(0, |remote| remote.heard.load(Relaxed))
    }

    fn heap(&self) -> Option<&SharedHeap> {
        self.near.get()?.transport.heap()
    }

    fn memory(&self, of: Peer) -> Option<SharedMemory> {
        self.near(of)?.memory(of)
    }
}

impl std::fmt::Debug for MpiTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MpiTransport({} of {}, {:?})", self.me, self.peers.len(), self.mpi)
    }
}
