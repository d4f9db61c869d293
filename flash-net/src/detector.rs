//! Noticing peers that are there but do nothing: stopped, or stuck.
//!
//! A peer that was not heard for a quarter of a second is asked for a sign of life, which its next call of
//! `progress` gives. One that was not heard for the limit is lost. Time counts while this process looks: one
//! that was itself stopped, or did not look for frames for a while, blames no other for it.
//!
//! A peer that computes for long and looks for no frames meanwhile gives no sign of life either. Where peers
//! may do that, processes that are stopped are all that can be told ([`Detector::of_stopped`]).

use crate::error::{How, Loss, NetError};
use crate::heap::SharedHeap;
use crate::memory::SharedMemory;
use crate::process;
use crate::transport::{Peer, PeerInfo, Progress, Transport};
use crate::waiters::Ticket;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Silence after which a peer is asked for a sign of life, if the limit is not shorter than 4 times this.
const SILENCE: Duration = Duration::from_millis(250);

/// A transport that also loses peers which are silent for too long.
///
/// It asks only while a thread of this process takes frames or waits, so a process that needs nothing of its
/// peers does not keep them awake. A peer needs no detector to be watched; calling [`Transport::progress`] is
/// enough.
///
/// Frames of a peer that was silent for too long are dropped from then on, should it go on later.
pub struct Detector<T> {
    transport: T,
    limit: Duration,
    /// Silence before a question, and between two.
    interval: Duration,
    signs: Signs,
    /// Per place of the world.
    lost: Vec<OnceLock<Loss>>,
    /// When to look again, in milliseconds of a clock that is read fast.
    next: AtomicU64,
    books: Mutex<Books>,
}

/// What shows that a peer lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signs {
    /// Its frames, for which it is asked.
    Frames,
    /// That its process, of this host, is not stopped.
    Process,
}

struct Books {
    /// When the clock below was set.
    looked: Instant,
    /// Time in which this process has looked for frames.
    clock: Duration,
    /// Per place of the world, from when its peer has joined.
    peers: Vec<Option<Heard>>,
}

/// What was heard of a peer.
#[derive(Clone, Copy)]
struct Heard {
    frames: u64,
    last: Option<Instant>,
    /// On the clock of the books.
    since: Duration,
    asked: Option<Duration>,
}

impl<T: Transport> Detector<T> {
    /// Watches all other peers, each from when it joins. `limit` is the longest silence.
    pub fn new(transport: T, limit: Duration) -> Detector<T> {
        Detector::by(Signs::Frames, transport, limit)
    }

    /// Watches peers of this host that may look for no frames for as long as they like: one whose process is
    /// stopped for longer than the limit is lost.
    pub fn of_stopped(transport: T, limit: Duration) -> Detector<T> {
        Detector::by(Signs::Process, transport, limit)
    }

    fn by(signs: Signs, transport: T, limit: Duration) -> Detector<T> {
        let places = transport.places();
        let books = Books { looked: Instant::now(), clock: Duration::ZERO, peers: vec![None; places] };
        Detector {
            limit,
            signs,
            interval: SILENCE.min(limit / 4),
            lost: (0..places).map(|_| OnceLock::new()).collect(),
            next: AtomicU64::new(if places > 1 { 0 } else { u64::MAX }),
            books: Mutex::new(books),
            transport,
        }
    }

    /// The transport below.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    fn silent(&self, peer: Peer) -> Option<&Loss> {
        self.lost.get(peer.0 as usize)?.get()
    }

    /// Asks those that are silent, and loses those that are so for too long. Frames that had come were taken
    /// just before.
    fn look(&self, now: Instant) {
        // Another thread looks.
        let Ok(mut books) = self.books.try_lock() else { return };
        let passed = now.saturating_duration_since(books.looked);
        self.next.store(process::coarse_time() + self.interval.as_millis() as u64 / 8, Relaxed);
        books.looked = now;
        books.clock += passed.min(self.interval);
        let clock = books.clock;
        let mut has_lost = false;
        let peers = (0..).map(Peer).zip(&mut books.peers).take(self.transport.peers());
        for (peer, heard) in peers.filter(|(peer, _)| *peer != self.transport.me()) {
            let Some(info) = self.transport.info(peer) else { continue };
            if self.silent(peer).is_some() || self.transport.lost(peer).is_some() {
                continue;
            }
            let frames = self.transport.heard(peer);
            let lives = match self.signs {
                Signs::Frames => heard.is_none_or(|heard| heard.frames != frames),
                Signs::Process => !process::is_stopped(info.pid),
            };
            if lives || heard.is_none() {
                let last = (frames > 0 || self.signs == Signs::Process).then_some(now);
                *heard = Some(Heard { frames, last, since: clock, asked: None });
            }
            let Some(heard) = heard else { continue };
            let silent = clock - heard.since;
            let was_asked = heard.asked.is_some() || self.signs == Signs::Process;
            if silent >= self.limit && was_asked {
                let loss = Loss::new(peer, Some(&info), How::Silent(self.limit), heard.last);
                has_lost |= self.lost[peer.0 as usize].set(loss).is_ok();
            } else if self.signs == Signs::Frames
                && clock - heard.asked.unwrap_or(heard.since) >= self.interval
            {
                // A full mailbox asks as well: a peer that lives makes room.
                let _ = self.transport.ping(peer);
                heard.asked = Some(clock);
            }
        }
        drop(books);
        if has_lost {
            self.transport.wake();
        }
    }

    fn check(&self, to: Peer) -> Result<(), NetError> {
        match self.silent(to) {
            Some(loss) => Err(NetError::Lost(Box::new(loss.clone()))),
            None => Ok(()),
        }
    }
}

impl<T: Transport> Detector<T> {
    /// The end of a wait, after which it looks again.
    fn until_next(&self, until: Option<Instant>) -> Option<Instant> {
        if self.lost.len() == 1 {
            return until;
        }
        let next = Instant::now() + self.interval / 4;
        Some(until.map_or(next, |until| until.min(next)))
    }
}

impl<T: Transport> Transport for Detector<T> {
    fn me(&self) -> Peer {
        self.transport.me()
    }

    fn peers(&self) -> usize {
        self.transport.peers()
    }

    fn places(&self) -> usize {
        self.transport.places()
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        self.transport.info(peer)
    }

    fn longest(&self, to: Peer) -> usize {
        self.transport.longest(to)
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        self.check(to)?;
        self.transport.post_parts(to, parts)
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        let progress = self.transport.progress(&mut |from, frame| {
            if self.silent(from).is_none() {
                sink(from, frame);
            }
        });
        if progress != Progress::Busy && process::coarse_time() >= self.next.load(Relaxed) {
            self.look(Instant::now());
        }
        progress
    }

    fn ticket(&self) -> Ticket {
        self.transport.ticket()
    }

    fn wait(&self, ticket: Ticket, until: Option<Instant>) {
        self.transport.wait(ticket, self.until_next(until));
    }

    fn doze(&self, ticket: Ticket, until: Option<Instant>) {
        self.transport.doze(ticket, self.until_next(until));
    }

    fn wake(&self) {
        self.transport.wake();
    }

    fn ring(&self, peer: Peer) -> Result<(), NetError> {
        self.transport.ring(peer)
    }

    fn lost(&self, peer: Peer) -> Option<Loss> {
        self.silent(peer).cloned().or_else(|| self.transport.lost(peer))
    }

    fn is_watched_by_frames(&self, peer: Peer) -> bool {
        self.transport.is_watched_by_frames(peer)
    }

    fn end(&self, peer: Peer, limit: Duration) -> bool {
        self.transport.end(peer, limit)
    }

    fn ping(&self, to: Peer) -> Result<(), NetError> {
        self.check(to)?;
        self.transport.ping(to)
    }

    fn heard(&self, from: Peer) -> u64 {
        self.transport.heard(from)
    }

    fn heap(&self) -> Option<&SharedHeap> {
        self.transport.heap()
    }

    fn memory(&self, of: Peer) -> Option<SharedMemory> {
        self.transport.memory(of)
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Detector<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Detector({:?}, {:?})", self.transport, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{SharedTransport, local};

    const MS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_millis(2000);

    struct Pair {
        me: Detector<SharedTransport>,
        other: SharedTransport,
        now: Instant,
    }

    impl Pair {
        fn new() -> Pair {
            let [me, other] = local(2).unwrap().try_into().unwrap();
            let me = Detector::new(me, LIMIT);
            Pair { now: Instant::now() + SILENCE, me, other }
        }

        /// Looks every 50 ms for this long; `answer` is called after each.
        fn pass(&mut self, time: Duration, mut answer: impl FnMut(&SharedTransport)) {
            for _ in 0..time.as_millis() / 50 {
                self.now += 50 * MS;
                self.me.transport.progress(&mut |_, _| {});
                self.me.look(self.now);
                answer(&self.other);
            }
        }
    }

    fn progress(other: &SharedTransport) {
        other.progress(&mut |_, _| {});
    }

    #[test]
    fn a_peer_that_takes_frames_is_never_lost() {
        let mut pair = Pair::new();
        pair.pass(10 * LIMIT, progress);
        assert!(pair.me.lost(Peer(1)).is_none());
        // It was asked each time that it was silent, not each time that this side looked.
        let asked = pair.me.heard(Peer(1));
        assert!((50..=80).contains(&asked), "{asked} answers in 20 s");
    }

    #[test]
    fn a_peer_that_takes_no_frames_is_lost_at_the_limit() {
        let mut pair = Pair::new();
        pair.pass(LIMIT - 100 * MS, |_| {});
        assert!(pair.me.lost(Peer(1)).is_none());
        let ticket = pair.me.ticket();
        pair.pass(200 * MS, |_| {});
        let loss = pair.me.lost(Peer(1)).expect("it is silent");
        assert_eq!(loss.how, How::Silent(LIMIT));
        assert!(
            loss.to_string().contains("is silent: no sign of life for 2s; it is stopped or hangs"),
            "{loss}"
        );
        // Those that wait are told.
        pair.me.wait(ticket, None);
        assert!(matches!(pair.me.post(Peer(1), b""), Err(NetError::Lost(_))));
    }

    #[test]
    fn a_lost_peer_stays_lost_and_its_late_frames_are_dropped() {
        let mut pair = Pair::new();
        pair.pass(2 * LIMIT, |_| {});
        pair.other.post(Peer(0), b"late").unwrap();
        let mut frames = 0;
        while pair.me.progress(&mut |_, _| frames += 1) == Progress::Some {}
        pair.pass(LIMIT, progress);
        assert_eq!(frames, 0);
        assert!(pair.me.lost(Peer(1)).is_some());
    }

    #[test]
    fn time_in_which_this_process_did_not_look_does_not_count() {
        let mut pair = Pair::new();
        pair.pass(LIMIT / 4, progress);
        for _ in 0..3 {
            pair.now += 100 * LIMIT;
            pair.pass(LIMIT / 4, progress);
        }
        assert!(pair.me.lost(Peer(1)).is_none());
    }

    #[test]
    fn a_frame_is_a_sign_of_life_and_saves_the_question() {
        let mut pair = Pair::new();
        pair.pass(2 * LIMIT, |other| other.post(Peer(0), b"work").unwrap());
        assert!(pair.me.lost(Peer(1)).is_none());
        let mut asked = pair.other.heard(Peer(0));
        progress(&pair.other);
        asked = pair.other.heard(Peer(0)) - asked;
        assert_eq!(asked, 0);
    }

    #[test]
    fn a_full_mailbox_hides_no_silence() {
        let mut pair = Pair::new();
        while pair.me.post(Peer(1), b"").is_ok() {}
        pair.pass(LIMIT + 100 * MS, |_| {});
        assert!(pair.me.lost(Peer(1)).is_some());
    }
}
