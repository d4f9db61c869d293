//! A transport whose frames from the other peer are those of an input. When there are no more of them, the
//! peer is lost.

use crate::{ANSWERS, EARLIER, Frame, HEAD, LONG};
use flash_net::{
    How, Loss, NetError, Peer, PeerInfo, Progress, SharedHeap, SharedMemory, SharedTransport, Ticket,
    Transport, local,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the other peer does.
#[derive(Default)]
pub struct Script {
    frames: VecDeque<Frame>,
    /// Of the request that was sent last, and of the one before.
    numbers: [[u8; 4]; 2],
    is_over: bool,
}

/// One of two peers.
pub struct Scripted {
    /// The other one is on another machine.
    is_apart: bool,
    own: SharedTransport,
    other: SharedTransport,
    script: Arc<Mutex<Script>>,
    heard: AtomicU64,
}

/// What the other peer does, locked.
pub fn lock(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    /// Begins again, with these frames.
    pub fn begin(&mut self, frames: Vec<Frame>) {
        *self = Script { frames: frames.into(), ..Script::default() };
    }

    /// Frames that it has not sent.
    pub fn left(&self) -> usize {
        self.frames.len()
    }
}

impl Scripted {
    /// Peer `me` of two, and what the other one does. They share memory, or, if it `is_apart`, send frames
    /// of any length.
    pub fn new(me: Peer, is_apart: bool) -> (Scripted, Arc<Mutex<Script>>) {
        let [first, second] = local(2).expect("a world").try_into().expect("of two peers");
        let (own, other) = if me == Peer(0) { (first, second) } else { (second, first) };
        let script = Arc::new(Mutex::new(Script::default()));
        (Scripted { is_apart, own, other, script: script.clone(), heard: AtomicU64::new(0) }, script)
    }

    /// A frame as it comes. A long body lies where the other peer's memory begins.
    pub fn made(&self, frame: Frame, [last, before]: [[u8; 4]; 2]) -> Vec<u8> {
        let Frame { how, mut bytes } = frame;
        if how & ANSWERS != 0
            && let Some(place) = bytes.first_chunk_mut()
        {
            *place = if how & EARLIER != 0 { before } else { last };
        }
        if how & LONG != 0 && bytes.len() >= HEAD {
            let body = bytes.split_off(HEAD);
            let memory = self.own.memory(self.other.me()).expect("it is shared");
            let at = memory.pointer(0, body.len() as u64).expect("inputs are short");
            // SAFETY: a range of the arena, in which no block was allocated; this thread writes it, between
            // two frames.
            unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), at, body.len()) };
            bytes[5] = 1;
            bytes.extend_from_slice([0, body.len() as u64].map(u64::to_le_bytes).as_flattened());
        }
        bytes
    }
}

impl Transport for Scripted {
    fn me(&self) -> Peer {
        self.own.me()
    }

    fn peers(&self) -> usize {
        2
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        self.own.info(peer)
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        if to.0 as usize >= self.peers() {
            return Err(NetError::NoPeer { found: to, peers: self.peers() });
        }
        let head: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).take(HEAD).collect();
        // A message that has no answer has no number.
        if let Some(number) = head.first_chunk().filter(|number| **number != [0xff; 4]) {
            let numbers = &mut lock(&self.script).numbers;
            *numbers = [*number, numbers[0]];
        }
        Ok(())
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        let mut script = lock(&self.script);
        let Some(frame) = script.frames.pop_front() else {
            script.is_over = true;
            return Progress::Nothing;
        };
        let frame = self.made(frame, script.numbers);
        drop(script);
        sink(self.other.me(), &frame);
        Progress::Some
    }

    fn ticket(&self) -> Ticket {
        Ticket::of(0)
    }

    fn wait(&self, _: Ticket, _: Option<Instant>) {
        std::thread::yield_now();
    }

    fn wake(&self) {}

    fn lost(&self, peer: Peer) -> Option<Loss> {
        let is_it = peer == self.other.me() && lock(&self.script).is_over;
        is_it.then(|| Loss::new(peer, None, How::Left, None))
    }

    fn ping(&self, _: Peer) -> Result<(), NetError> {
        Ok(())
    }

    fn heard(&self, _: Peer) -> u64 {
        self.heard.fetch_add(1, Relaxed)
    }

    fn longest(&self, to: Peer) -> usize {
        if self.is_apart { 1 << 30 } else { self.own.longest(to) }
    }

    fn heap(&self) -> Option<&SharedHeap> {
        self.own.heap().filter(|_| !self.is_apart)
    }

    fn memory(&self, of: Peer) -> Option<SharedMemory> {
        self.own.memory(of).filter(|_| !self.is_apart)
    }
}
