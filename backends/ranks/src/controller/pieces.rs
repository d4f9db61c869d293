//! Copies to and from buffers of agents that share no memory with the controller: boxes in frames, in pieces,
//! of which two are on their way.

use super::Controller;
use super::calls::{Number, Reply};
use crate::wire::{self, PIECE, Request, Shape, bad};
use flash_backend::abi::CopyBox;
use flash_backend::host_allocation::HostAllocation;
use flash_backend::offload::staging::{self, Stage};
use flash_backend::{Code, Failure};
use flash_net::Peer;
use std::alloc::Layout;
use std::sync::{Mutex, PoisonError};

/// A buffer of an agent's device.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub agent: Peer,
    pub device: u32,
    pub buffer: u64,
}

/// Bytes of a piece at least.
const LEAST: u64 = 4 << 10;

/// What the copies of one device go through, one after the other.
#[derive(Default)]
pub(super) struct Pieces(Mutex<Option<[Piece; 2]>>);

/// A piece, and the request that it is in.
struct Piece {
    controller: &'static Controller,
    /// For the holder of the lock.
    data: HostAllocation,
    /// How many there are: at most [`PIECE`], and as many as a copy has needed.
    bytes: u64,
    busy: Option<Busy>,
}

struct Busy {
    agent: Peer,
    number: Number,
    /// Bytes that the answer brings.
    brings: Option<usize>,
}

impl Pieces {
    /// Copies a box, up to the buffer or down from it; it is copied on return.
    ///
    /// # Safety
    /// The box lies in the host's memory, from `host` on, and nothing else touches it meanwhile.
    pub unsafe fn copy(
        &self,
        controller: &'static Controller,
        is_up: bool,
        host: *mut u8,
        remote: Remote,
        shape: &CopyBox,
    ) -> Result<(), Failure> {
        let mut lock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = shape.extent.into_iter().fold(1, u64::saturating_mul);
        let bytes = all.clamp(LEAST, PIECE).next_power_of_two();
        let pieces = match &mut *lock {
            Some(pieces) if pieces[0].bytes >= bytes => pieces,
            none => none.insert([Piece::new(controller, bytes)?, Piece::new(controller, bytes)?]),
        };
        let bytes = pieces[0].bytes;
        // SAFETY: the caller vouches for the box; the lock is held, and the pieces have that many bytes.
        let outcome = unsafe {
            match is_up {
                true => staging::up(pieces, bytes, host, shape, |piece, part| piece.put(remote, part)),
                false => staging::down(pieces, bytes, host, shape, |piece, part| piece.get(remote, part)),
            }
        };
        if outcome.is_err() {
            // None is in a request when the lock is released.
            pieces.iter_mut().for_each(|piece| drop(piece.settle()));
        }
        outcome
    }
}

impl Piece {
    fn new(controller: &'static Controller, bytes: u64) -> Result<Piece, Failure> {
        let layout = Layout::from_size_align(bytes as usize, 64).ok();
        let data = layout.and_then(HostAllocation::zeroed).ok_or_else(|| {
            Failure::new(Code::OutOfMemory, format!("{bytes} bytes for a copy to an agent were refused"))
        })?;
        Ok(Piece { controller, data, bytes, busy: None })
    }

    /// Bytes that it has.
    fn has(&self, bytes: u64) -> Result<usize, Failure> {
        match bytes <= self.bytes {
            true => Ok(bytes as usize),
            false => Err(bad(format!("expected at most {} bytes in a piece, found {bytes}", self.bytes))),
        }
    }

    fn put(&mut self, Remote { agent, device, buffer }: Remote, part: &CopyBox) -> Result<(), Failure> {
        let shape = Shape::of(part);
        let bytes = self.has(shape.bytes(0)?.end)?;
        let request =
            wire::encode(&Request::Put { device, buffer, shape }).map_err(|why| wire::failed(&why))?;
        // SAFETY: the piece has that many bytes, and staging writes no more to it until it has settled.
        let data = unsafe { std::slice::from_raw_parts(self.data.data(), bytes) };
        let number = self.controller.begin_with(agent, &request, data)?;
        self.busy = Some(Busy { agent, number, brings: None });
        Ok(())
    }

    fn get(&mut self, Remote { agent, device, buffer }: Remote, part: &CopyBox) -> Result<(), Failure> {
        let shape = Shape::of(part);
        let brings = Some(self.has(shape.bytes(1)?.end)?);
        let number = self.controller.begin(agent, &Request::Get { device, buffer, shape })?;
        self.busy = Some(Busy { agent, number, brings });
        Ok(())
    }
}

impl Stage for Piece {
    fn data(&self) -> *mut u8 {
        self.data.data()
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let Some(Busy { agent, number, brings }) = self.busy.take() else { return Ok(()) };
        self.controller.wait_until(agent, number, std::ptr::null(), None);
        match (self.controller.taken(number)?, brings) {
            (Reply::Done(..), None) => Ok(()),
            (Reply::Bytes(bytes), Some(expected)) if bytes.len() == expected => {
                // SAFETY: the piece has that many bytes, and staging reads it afterwards.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.data(), expected) };
                Ok(())
            }
            (Reply::Bytes(bytes), _) => Err(bad(format!("expected {brings:?} bytes, found {}", bytes.len()))),
            (other, _) => Err(bad(format!("expected the end of a copy, found {other:?}"))),
        }
    }
}
