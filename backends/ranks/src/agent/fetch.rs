//! Copies from buffers of other agents to buffers of this one, without the controller: it asks this agent for
//! the whole box, and this agent asks the other one for its pieces, of which [`IN_FLIGHT`] are on their way.
//!
//! The other agent trusts no more than it does a controller: it looks buffers up and checks boxes, and gives
//! its bytes to no process but those of its world.
//!
//! *Invariant.* A copy answers the controller once: when its last piece is in the buffer, when one fails, or
//! when it is cancelled, because the other agent has gone. Nothing is written to the buffer after that: the
//! device's worker puts pieces into it, and sends a cancelled copy's answer after the last of them. While the
//! worker has nothing to do no cancellation is under way, and the agent's thread may put a piece there.
//!
//! No thread waits for pieces, and the agent's thread does not wait for room: two agents may copy from each
//! other.

use super::device::LocalDevice;
use super::{Agent, CONTROLLER, Exchange, lock};
use crate::wire::{self, Answer, Kind, PIECE, Request, Shape, bad, failed};
use flash_backend::abi::CopyBox;
use flash_backend::offload::staging::{close, pieces};
use flash_backend::{Code, Failure};
use flash_net::{NetError, Peer, Transport};
use std::borrow::Cow;
use std::collections::HashMap;

/// Pieces that are asked for before the first has come.
const IN_FLIGHT: usize = 2;

/// The buffer that a copy reads.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub peer: Peer,
    /// The other agent's numbers.
    pub device: u32,
    pub buffer: u64,
}

/// The copies of an agent that are not over.
#[derive(Default)]
pub(super) struct Fetches {
    /// By the numbers of the controller's requests.
    copies: HashMap<u32, Fetch>,
    /// Pieces that were asked for, by the numbers of this agent's requests.
    asked: HashMap<u32, Piece>,
    next: u32,
}

impl Fetches {
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }
}

struct Fetch {
    device: &'static LocalDevice,
    buffer: u64,
    source: Source,
    left: Box<dyn Iterator<Item = CopyBox> + Send>,
    /// Pieces that were asked for and are not in the buffer.
    pending: usize,
}

struct Piece {
    /// The copy that it is a part of.
    of: u32,
    from: Peer,
    /// From the bytes that come to the buffer.
    shape: Shape,
}

impl Agent {
    /// Copies a box to a buffer of a device, and answers when it is there.
    ///
    /// # Errors
    /// A box that does not lie in the buffer, or has rows over each other.
    pub(super) fn fetch(
        &'static self,
        number: u32,
        device: &'static LocalDevice,
        buffer: u64,
        source: Source,
        shape: Shape,
    ) -> Result<(), Failure> {
        shape.bytes(0)?;
        device.held(buffer)?.check(&shape.bytes(1)?)?;
        if source.peer == CONTROLLER {
            return Err(bad("a copy from an agent, found the controller".into()));
        }
        let mut left = pieces(&shape.to_box(), PIECE);
        if source.peer == self.transport.me() {
            let other = self.device(source.device)?;
            if std::ptr::eq(other, device) && source.buffer == buffer {
                return Err(bad(format!("a copy from buffer {buffer} to itself by way of an agent")));
            }
            let copy = move |piece: CopyBox| {
                let (get, put) = through(&piece);
                let get = other.get(source.buffer, get)?;
                // This is what the device does.
                device.put(buffer, put, get.run()?, true)?.map_or(Ok(()), |copy| copy.run())
            };
            self.later(device, move || self.answer_outcome(number, left.try_for_each(copy)));
            return Ok(());
        }
        let fetch = Fetch { device, buffer, source, left: Box::new(left), pending: 0 };
        lock(&self.fetches).copies.insert(number, fetch);
        let ask = move || (0..IN_FLIGHT).for_each(|_| self.ask_for_piece(number));
        // After what the device was given before.
        match device.is_idle() {
            true => ask(),
            false => self.later(device, ask),
        }
        Ok(())
    }

    /// Asks for the next piece of a copy, or answers when all have come.
    fn ask_for_piece(&'static self, number: u32) {
        let mut fetches = lock(&self.fetches);
        let Some(fetch) = fetches.copies.get_mut(&number) else { return };
        let Some(piece) = fetch.left.next() else {
            if fetch.pending == 0 {
                fetches.copies.remove(&number);
                drop(fetches);
                self.answer_outcome(number, Ok(()));
            }
            return;
        };
        fetch.pending += 1;
        let (device, source) = (fetch.device, fetch.source);
        let (get, put) = through(&piece);
        let own = fetches.next;
        // The last one is of requests without an answer.
        fetches.next = (own + 1) % u32::MAX;
        fetches.asked.insert(own, Piece { of: number, from: source.peer, shape: put });
        drop(fetches);
        let request = Request::Get { device: source.device, buffer: source.buffer, shape: get };
        let piece = Exchange { peer: source.peer, number: own };
        let check = move |sent: Result<(), NetError>| {
            if let Err(error) = sent {
                // This process may know before the controller does. It will try again, from elsewhere.
                let text = format!("a copy from another agent: {}", failed(&error));
                self.give_up(number, Failure::new(Code::Other, text));
            }
        };
        match self.try_send(piece, Kind::Request, &request) {
            Err(NetError::Full { .. }) => {
                self.later(device, move || check(self.send(piece, Kind::Request, &request)));
            }
            sent => check(sent),
        }
    }

    /// An answer of another agent: a piece, which is put into the buffer. One that nothing
    /// waits for is dropped.
    pub(super) fn piece_came(
        &'static self,
        Exchange { peer, number }: Exchange,
        body: Result<Cow<'_, [u8]>, Failure>,
    ) {
        let mut fetches = lock(&self.fetches);
        let is_it = fetches.asked.get(&number).is_some_and(|piece| piece.from == peer);
        let Some(Piece { of, shape, .. }) = is_it.then(|| fetches.asked.remove(&number)).flatten() else {
            return;
        };
        let Some(fetch) = fetches.copies.get(&of) else { return };
        let (device, buffer) = (fetch.device, fetch.buffer);
        // Asked under the lock: the copy is there, so if its device has nothing to do none is giving it up.
        let is_idle = device.is_idle();
        drop(fetches);
        let put = body.and_then(|body| match wire::decode(&body)? {
            (Answer::Bytes, bytes) => device.put(buffer, shape, bytes, is_idle),
            (Answer::Failed { code, text }, _) => Err(Failure::new(Code::of(code), text)),
            (other, _) => Err(bad(format!("expected a piece of a buffer, found {other:?}"))),
        });
        match put {
            Ok(None) => self.piece_is_there(of, Ok(())),
            Ok(Some(copy)) => self.later(device, move || {
                if lock(&self.fetches).copies.contains_key(&of) {
                    self.piece_is_there(of, copy.run());
                }
            }),
            Err(failure) => self.later(device, move || self.give_up(of, failure)),
        }
    }

    fn piece_is_there(&'static self, of: u32, put: Result<(), Failure>) {
        match put {
            Ok(()) => {
                if let Some(fetch) = lock(&self.fetches).copies.get_mut(&of) {
                    fetch.pending -= 1;
                }
                self.ask_for_piece(of);
            }
            Err(failure) => self.give_up(of, failure),
        }
    }

    /// Ends a copy whose source has gone, if there is one of this number.
    pub(super) fn cancel_fetch(&'static self, number: u32) {
        let device = lock(&self.fetches).copies.get(&number).map(|fetch| fetch.device);
        let Some(device) = device else { return };
        let failure = Failure::new(Code::DeviceLost, "the agent that this is copied from is gone");
        self.later(device, move || self.give_up(number, failure));
    }

    fn give_up(&self, number: u32, failure: Failure) {
        let mut fetches = lock(&self.fetches);
        let ended = fetches.copies.remove(&number);
        fetches.asked.retain(|_, piece| piece.of != number);
        drop(fetches);
        if ended.is_some() {
            self.answer_failure(Exchange::controller(number), &failure);
        }
    }
}

/// The two copies of a piece: out of the source to bytes without gaps, and from there to the destination.
fn through(piece: &CopyBox) -> (Shape, Shape) {
    let gapless = close(piece.extent);
    let get = CopyBox { destination_offset: 0, destination_stride: gapless, ..*piece };
    let put = CopyBox { source_offset: 0, source_stride: gapless, ..*piece };
    (Shape::of(&get), Shape::of(&put))
}
