//! The transport in memory that is shared: by the processes of a host, or by parts of one process.
//!
//! Locks: the sending side of each mailbox is under a lock of its own; the receiving side of all
//! of them under one, which the thread that takes frames holds. Positions that waiting threads look at are
//! atomics which that thread writes. Losses are written once.

use crate::doorbell::Doorbell;
use crate::error::{How, Loss, NetError};
use crate::heap::SharedHeap;
use crate::mailbox::{Buffer, Kind, MAX_FRAME, Refusal, Ring, Sender, lines_of};
use crate::memory::SharedMemory;
use crate::process;
use crate::transport::{Peer, PeerInfo, Progress, Transport};
use crate::waiters::{Ticket, Waiters};
use crate::watches::Watches;
use crate::world::{self, Entry, Member, Segment, State, World};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Frames of one peer that a call of `progress` hands over at most.
const FRAMES: usize = 32;
/// How long a thread looks for frames and keeps its processor, where another one may send one meanwhile: the
/// system may have put both processes on one.
const SPIN: Duration = Duration::from_micros(2);
/// How long it then goes on to look, and gives up the processor between two looks. A peer that sleeps takes
/// some 25 us to wake up on a virtual machine: two that slept earlier than that would wake each other for
/// ever.
const YIELD: Duration = Duration::from_micros(100);
/// Milliseconds between two looks at the processes of the others, at least.
const WATCH_EVERY: u64 = 5;
/// A thread that waits sleeps so long at most before it looks at them.
const SLEEP: Duration = Duration::from_millis(20);

/// Bytes of an arena in a world of one process: enough for tests of many peers to have addresses for.
const LOCAL_ARENA: u64 = if cfg!(miri) { 2 << 20 } else { 4 << 30 };

/// An endpoint: one peer of a world.
pub struct SharedTransport {
    segment: Arc<Segment>,
    me: Peer,
    /// One for each place.
    peers: Vec<Remote>,
    /// The peers that may join: these, and those from this number on.
    among: (Box<[Peer]>, u32),
    /// With what frames are copied to.
    waiters: Waiters<Box<Buffer>>,
    watches: Watches,
    /// When processes were looked at last, in milliseconds.
    watched: AtomicU64,
    /// Whether another processor than this one's only one may send: then a thread spins before it sleeps.
    spins: AtomicBool,
    heap: OnceLock<SharedHeap>,
}

/// What this endpoint knows of a peer.
#[derive(Default)]
struct Remote {
    sender: Mutex<Sender>,
    /// Lines of its mailbox that were read.
    read: AtomicU64,
    /// Frames that have come, signs of life included.
    heard: AtomicU64,
    info: OnceLock<PeerInfo>,
    /// It left or ended; its last frames may still be there.
    gone: OnceLock<Loss>,
    /// Whether `gone` is what users are told.
    told: AtomicBool,
}

impl SharedTransport {
    /// Joins a world as one of its peers, which must be free.
    ///
    /// # Errors
    /// If there is no such peer, another process has joined as it, or the system refuses the memory.
    pub fn join(world: &World, me: Peer) -> Result<SharedTransport, NetError> {
        SharedTransport::new(Arc::new(world.map()?), me, (Box::new([]), 0))
    }

    /// Joins a world in which only some of the peers will ever join, and those that are added later.
    ///
    /// # Errors
    /// As [`SharedTransport::join`].
    pub fn join_among(world: &World, me: Peer, some: &[Peer]) -> Result<SharedTransport, NetError> {
        let segment = Arc::new(world.map()?);
        let added = segment.peers();
        if let Some(found) = some.iter().copied().find(|peer| peer.0 as usize >= added) {
            return Err(NetError::NoPeer { found, peers: added });
        }
        SharedTransport::new(segment, me, (some.into(), added as u32))
    }

    fn new(segment: Arc<Segment>, me: Peer, among: (Box<[Peer]>, u32)) -> Result<SharedTransport, NetError> {
        let (peers, places) = (segment.peers(), segment.places());
        if me.0 as usize >= peers {
            return Err(NetError::NoPeer { found: me, peers });
        }
        let allowed = process::cpus();
        let spins = AtomicBool::new(allowed.len() > 1);
        if !segment.claim(me) {
            let why = format!("expected a free place, found that a process has joined as {me} before");
            return Err(NetError::World { what: "joining a world", why });
        }
        let pid = std::process::id();
        let entry = Entry { host: process::boot_id(), pid, started: process::started(pid), cpus: allowed };
        segment.write_entry(me, &entry)?;
        segment.set_state(me, State::Joined);
        let transport = SharedTransport {
            me,
            peers: (0..places).map(|_| Remote::default()).collect(),
            among,
            waiters: Waiters::new(Box::new([[0; 8]; _])),
            watches: Watches::new(places),
            watched: AtomicU64::new(0),
            spins,
            heap: OnceLock::new(),
            segment,
        };
        transport.wake_all();
        Ok(transport)
    }

    fn all(&self) -> impl Iterator<Item = (Peer, &Remote)> {
        let (some, added) = &self.among;
        let added = (*added..self.segment.peers() as u32).map(Peer);
        some.iter().copied().chain(added).map(|peer| (peer, &self.peers[peer.0 as usize]))
    }

    fn remote(&self, peer: Peer) -> Result<&Remote, NetError> {
        let peers = self.segment.peers();
        self.peers[..peers].get(peer.0 as usize).ok_or(NetError::NoPeer { found: peer, peers })
    }

    fn bell(&self) -> Doorbell<'_> {
        self.segment.bell(self.me)
    }

    fn inbox(&self, from: Peer) -> Ring<'_> {
        self.segment.ring(from, self.me)
    }

    /// Ends the waits of all processes, whose tickets are old now.
    fn wake_all(&self) {
        self.all().for_each(|(peer, _)| self.segment.bell(peer).ring_always());
    }

    fn send(&self, to: Peer, kind: Kind, parts: &[&[u8]]) -> Result<(), NetError> {
        let remote = self.remote(to)?;
        if let Some(loss) = remote.gone.get() {
            return Err(NetError::Lost(Box::new(loss.clone())));
        }
        let bytes = parts.iter().map(|part| part.len()).sum();
        if bytes > MAX_FRAME {
            return Err(NetError::TooLong { to, bytes, most: MAX_FRAME });
        }
        let mut sender = remote.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let posted = sender.post(self.segment.ring(self.me, to), kind, parts);
        drop(sender);
        match posted {
            Ok(()) => {
                self.segment.bell(to).ring();
                Ok(())
            }
            Err(Refusal::Full) => Err(NetError::Full { to, bytes }),
            Err(Refusal::Corrupt(read)) => {
                let found =
                    format!("it says that it has read {read} lines of its mailbox, which is not possible");
                Err(NetError::Lost(Box::new(self.lose(to, remote, How::Protocol(found)).clone())))
            }
        }
    }

    /// Whether a wait with this ticket ends at once.
    pub fn is_due(&self, ticket: Ticket) -> bool {
        self.waiters.is_due(self.bell(), ticket, || self.has_frames())
    }

    /// Says to the others that this process leaves, which gets and sends nothing more.
    pub fn leave(&self) {
        self.segment.set_state(self.me, State::Left);
        self.wake_all();
    }

    /// Notes that a peer is gone, if it is not noted.
    fn lose<'a>(&'a self, peer: Peer, remote: &'a Remote, how: How) -> &'a Loss {
        let loss = remote
            .gone
            .get_or_init(|| Loss::new(peer, remote.info.get(), how, self.watches.last_heard(peer)));
        self.wake();
        loss
    }

    /// Takes some frames of a peer, and says whether there were any.
    fn take(
        &self,
        from: Peer,
        remote: &Remote,
        buffer: &mut Buffer,
        sink: &mut dyn FnMut(Peer, &[u8]),
    ) -> bool {
        let ring = self.inbox(from);
        let start = remote.read.load(Relaxed);
        // Once for all frames, also when the sink panics: the line is the sender's, too.
        let mut reading = Reading { ring, at: start, remote, sender: self.segment.bell(from) };
        for _ in 0..FRAMES {
            let (kind, length) = match ring.look(reading.at) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(word) => {
                    if !self.is_distrusted(remote) {
                        let found = format!("its mailbox has the word {word:#018x} where a frame starts");
                        self.lose(from, remote, How::Protocol(found));
                    }
                    break;
                }
            };
            ring.copy(reading.at, length, buffer);
            reading.at += lines_of(length);
            remote.heard.store(remote.heard.load(Relaxed) + 1, Relaxed);
            match kind {
                Kind::Data => sink(from, &buffer.as_flattened()[..length]),
                // A full mailbox is a sign of life, too, and a lost peer needs none.
                Kind::Ping => drop(self.send(from, Kind::Pong, &[])),
                Kind::Pong => {}
            }
        }
        reading.at != start
    }

    fn is_distrusted(&self, remote: &Remote) -> bool {
        remote.gone.get().is_some_and(|loss| matches!(loss.how, How::Protocol(_)))
    }

    /// Whether frames are there that were not taken. What a peer wrote that is not trusted is none.
    fn has_frames(&self) -> bool {
        self.all().any(|(from, remote)| self.has_frames_of(from, remote))
    }

    fn has_frames_of(&self, from: Peer, remote: &Remote) -> bool {
        match self.inbox(from).look(remote.read.load(Relaxed)) {
            Ok(frame) => frame.is_some(),
            Err(_) => !self.is_distrusted(remote),
        }
    }

    /// Looks for peers that joined, left or ended; not more often than [`WATCH_EVERY`].
    fn watch(&self) {
        let now = process::coarse_time();
        let last = self.watched.load(Relaxed);
        if now < last + WATCH_EVERY || self.watched.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let mut lost: Vec<(Peer, How)> = Vec::new();
        for (peer, _) in self.all().filter(|(_, remote)| remote.gone.get().is_none()) {
            self.meet(peer);
            match self.segment.state(peer) {
                Ok(State::Left) => lost.push((peer, How::Left)),
                Ok(_) => {}
                Err(found) => lost.push((peer, How::Protocol(found))),
            }
        }
        let heard = self.peers.iter().map(|remote| remote.heard.load(Relaxed));
        let ended = self.watches.look(heard);
        lost.extend(ended.into_iter().map(|(peer, status)| (peer, How::Ended(status))));
        for (peer, how) in lost {
            self.lose(peer, &self.peers[peer.0 as usize], how);
        }
    }

    /// Reads what a peer has said of itself, once it has, and watches its process from then on.
    fn meet(&self, peer: Peer) -> Option<&PeerInfo> {
        let remote = self.peers.get(peer.0 as usize)?;
        if let Some(info) = remote.info.get() {
            return Some(info);
        }
        if !matches!(self.segment.state(peer), Ok(State::Joined | State::Left)) {
            return None;
        }
        let (entry, member) = match (self.segment.entry(peer), self.segment.assigned(peer)) {
            (Ok(entry), Ok(member)) => (entry, member),
            (Err(found), _) | (_, Err(found)) => {
                self.lose(peer, remote, How::Protocol(found));
                return None;
            }
        };
        let Entry { host, pid, started, cpus } = entry;
        let cpus = if member.cpus.is_empty() { cpus } else { member.cpus };
        if peer != self.me && self.meet(self.me).is_some_and(|me| me.cpus != cpus) {
            self.spins.store(true, Relaxed);
        }
        let mut gone = false;
        let info = remote.info.get_or_init(|| {
            gone = pid != std::process::id() && !self.watches.add(peer, pid, started);
            PeerInfo { host, pid, cpus, name: member.name }
        });
        // A peer that left said so before it ended.
        if gone && self.segment.state(peer) != Ok(State::Left) {
            self.lose(peer, remote, How::Ended(None));
        }
        Some(info)
    }
}

impl Transport for SharedTransport {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> usize {
        self.segment.peers()
    }

    fn places(&self) -> usize {
        self.peers.len()
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        self.meet(peer).cloned()
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        self.send(to, Kind::Data, parts)
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        // A look costs less than a turn, and a thread that spins looks most of the time.
        if !self.has_frames() {
            return Progress::Nothing;
        }
        let take = |buffer: &mut Box<Buffer>| {
            let mut some = false;
            for (from, remote) in self.all() {
                some |= self.take(from, remote, buffer, sink);
            }
            if some { Progress::Some } else { Progress::Nothing }
        };
        self.waiters.turn(self.bell(), || self.has_frames(), take).unwrap_or(Progress::Busy)
    }

    fn ticket(&self) -> Ticket {
        self.waiters.ticket(self.bell())
    }

    fn wait(&self, ticket: Ticket, until: Option<Instant>) {
        // Before the first look at the clock, which takes as long as an answer does.
        if self.is_due(ticket) {
            return;
        }
        let spins = self.spins.load(Relaxed);
        let spin_end = Instant::now() + if spins { SPIN } else { Duration::ZERO };
        let yield_end = spin_end + if spins { YIELD } else { Duration::ZERO };
        let looks = (64 / self.all().count()).max(1);
        loop {
            for _ in 0..looks {
                if self.is_due(ticket) {
                    return;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= yield_end {
                break;
            }
            if now >= spin_end {
                std::thread::yield_now();
            }
        }
        self.doze(ticket, until);
    }

    fn doze(&self, ticket: Ticket, until: Option<Instant>) {
        let mut now = Instant::now();
        while !self.is_due(ticket) && until.is_none_or(|until| now < until) {
            // A loss that it finds makes the ticket old.
            self.watch();
            let rest = until.map_or(SLEEP, |until| (until - now).min(SLEEP));
            self.waiters.sleep(self.bell(), ticket, Some(rest), || self.has_frames());
            now = Instant::now();
        }
    }

    fn wake(&self) {
        self.waiters.wake(self.bell());
    }

    fn ring(&self, peer: Peer) -> Result<(), NetError> {
        self.remote(peer)?;
        self.segment.bell(peer).ring_always();
        Ok(())
    }

    fn lost(&self, peer: Peer) -> Option<Loss> {
        let remote = self.peers.get(peer.0 as usize)?;
        if remote.gone.get().is_none() {
            self.watch();
        }
        let loss = remote.gone.get()?;
        if !remote.told.load(Acquire) {
            if self.has_frames_of(peer, remote) {
                return None;
            }
            remote.told.store(true, Release);
        }
        Some(loss.clone())
    }

    fn end(&self, peer: Peer, limit: Duration) -> bool {
        // Not before it is met: a process that has not joined uses nothing here.
        let is_gone = || self.peers.get(peer.0 as usize).is_some_and(|remote| remote.gone.get().is_some());
        self.watches.end(peer, limit).unwrap_or_else(is_gone)
    }

    fn ping(&self, to: Peer) -> Result<(), NetError> {
        self.send(to, Kind::Ping, &[])
    }

    fn heard(&self, from: Peer) -> u64 {
        self.peers.get(from.0 as usize).map_or(0, |remote| remote.heard.load(Relaxed))
    }

    fn heap(&self) -> Option<&SharedHeap> {
        Some(self.heap.get_or_init(|| SharedHeap::new(self.segment.arena(self.me))))
    }

    fn memory(&self, of: Peer) -> Option<SharedMemory> {
        ((of.0 as usize) < self.peers.len()).then(|| self.segment.arena(of))
    }
}

/// What was read of a mailbox.
struct Reading<'a> {
    ring: Ring<'a>,
    at: u64,
    remote: &'a Remote,
    /// Rung when the sender waits for room.
    sender: Doorbell<'a>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if self.at != self.remote.read.load(Relaxed) {
            self.remote.read.store(self.at, Relaxed);
            if self.ring.release(self.at) {
                self.sender.ring_always();
            }
        }
    }
}

impl Drop for SharedTransport {
    fn drop(&mut self) {
        self.leave();
    }
}

impl std::fmt::Debug for SharedTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedTransport({} of {})", self.me, self.peers())
    }
}

/// A world inside this process: one endpoint per peer, each for a thread or more. For tests, and for programs
/// whose parts talk as if they were processes.
///
/// # Errors
/// If the system refuses the memory, or there are no peers or more than [`MAX_PEERS`](crate::MAX_PEERS).
pub fn local(peers: usize) -> Result<Vec<SharedTransport>, NetError> {
    let members: Vec<Member> =
        (0..peers).map(|i| Member { name: format!("local {i}"), cpus: vec![] }).collect();
    local_members(&members)
}

/// As [`local`], of peers with names and processors. Their threads are not kept to these.
///
/// # Errors
/// As [`local`], or if a name is too long.
pub fn local_members(members: &[Member]) -> Result<Vec<SharedTransport>, NetError> {
    let segment = Arc::new(world::anonymous(members, LOCAL_ARENA)?);
    (0..)
        .map(Peer)
        .take(members.len())
        .map(|me| SharedTransport::new(Arc::clone(&segment), me, (Box::new([]), 0)))
        .collect()
}
