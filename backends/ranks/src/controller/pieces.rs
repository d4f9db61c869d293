//! Copies to and from buffers of agents that share no memory with the controller: boxes in frames. A box of
//! up to [`PIECE`] bytes is one request; of more, two pieces are on their way.

use super::calls::{Destination, Number};
use super::{Asked, Controller, DeviceOf};
use crate::wire::{self, PIECE, Request, Shape};
use flash_backend::abi::CopyBox;
use flash_backend::host_memory::copy_addresses;
use flash_backend::offload::staging::{close, pieces};
use flash_backend::{Completion, Event, Failure};
use flash_net::Peer;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces that are on their way at once.
const IN_FLIGHT: usize = 2;

/// A buffer of an agent's device.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub agent: Peer,
    pub device: u32,
    pub buffer: u64,
}

/// Requests that are waited for before what they copy goes.
struct InFlight {
    controller: &'static Controller,
    agent: Peer,
    numbers: VecDeque<Number>,
}

impl InFlight {
    /// Waits for the first one.
    fn end_first(&mut self) -> Result<(), Failure> {
        let Some(number) = self.numbers.pop_front() else { return Ok(()) };
        self.controller.wait_for(self.agent, number, std::ptr::null()).map(drop)
    }

    /// Waits for all.
    fn end_all(&mut self) {
        while !self.numbers.is_empty() {
            let _ = self.end_first();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Begins to copy a box, up to the buffer or down from it.
///
/// # Safety
/// The box lies in the host's memory, where it counts from the address `host`, and nothing else touches it
/// until it is copied.
pub(super) unsafe fn begin(
    controller: &'static Controller,
    is_up: bool,
    host: u64,
    remote: Remote,
    shape: &CopyBox,
) -> Result<Event, Failure> {
    if shape.extent.into_iter().fold(1, u64::saturating_mul) <= PIECE {
        // SAFETY: the caller vouches.
        let number = unsafe { begin_piece(controller, is_up, host, remote, shape)? };
        let of = DeviceOf { peer: remote.agent, number: remote.device };
        return Ok(Event::new(Asked::waited(controller, of, number)));
    }
    let flights = InFlight { controller, agent: remote.agent, numbers: VecDeque::new() };
    let left = Box::new(pieces(shape, PIECE));
    let mut copy = Copying { flights, is_up, host, remote, left, outcome: None };
    copy.go_on(false);
    Ok(Event::new(Pieces(Arc::new(Mutex::new(copy)))))
}

/// A copy of several pieces.
///
/// *Invariant.* With an outcome it has none in flight: the host's memory is touched no more.
struct Copying {
    flights: InFlight,
    is_up: bool,
    host: u64,
    remote: Remote,
    /// What was not asked for.
    left: Box<dyn Iterator<Item = CopyBox> + Send>,
    outcome: Option<Result<(), Failure>>,
}

impl Copying {
    /// Begins the next pieces as others end, which it waits for if it `waits`. `None`: it is not over.
    fn go_on(&mut self, waits: bool) -> Option<&Result<(), Failure>> {
        while self.outcome.is_none() {
            let Copying { flights, is_up, host, remote, left, .. } = self;
            let has_room = flights.numbers.len() < IN_FLIGHT;
            let next = if has_room { left.next() } else { None };
            let outcome = match next {
                // SAFETY: the caller of `begin` vouches for all pieces until this is over.
                Some(piece) => unsafe { begin_piece(flights.controller, *is_up, *host, *remote, &piece) }
                    .map(|number| flights.numbers.push_back(number)),
                None => match flights.numbers.front() {
                    None => {
                        self.outcome = Some(Ok(()));
                        break;
                    }
                    Some(first) if !waits && !flights.controller.calls.is_answered(*first) => return None,
                    Some(_) => flights.end_first(),
                },
            };
            if let Err(failure) = outcome {
                flights.end_all();
                self.outcome = Some(Err(failure));
            }
        }
        self.outcome.as_ref()
    }
}

/// The completion of a copy of several pieces. Threads that wait for it, or ask whether it is over, ask for
/// the next ones.
struct Pieces(Arc<Mutex<Copying>>);

impl Pieces {
    fn wait_for(copy: &Mutex<Copying>) -> Result<(), Failure> {
        let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
        copy.go_on(true).cloned().unwrap_or(Ok(()))
    }
}

impl Completion for Pieces {
    fn in_queue(&self) -> bool {
        // Some were not asked for.
        false
    }

    fn ready(&self) -> bool {
        // Another thread is at it.
        let Ok(mut copy) = self.0.try_lock() else { return false };
        // The answer may be among those that no thread has taken.
        copy.go_on(false).is_some() || copy.flights.controller.take() && copy.go_on(false).is_some()
    }

    fn wait(&self) -> Result<(), Failure> {
        Pieces::wait_for(&self.0)
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        let (copy, mut lock) = (self.0.clone(), self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if lock.go_on(false).is_some() {
            drop(lock);
            return callback();
        }
        lock.flights.controller.copier.run(Box::new(move || {
            let _ = Pieces::wait_for(&copy);
            callback();
        }));
    }
}

/// # Safety
/// As [`begin`], of a box of at most [`PIECE`] bytes.
unsafe fn begin_piece(
    controller: &'static Controller,
    is_up: bool,
    host: u64,
    Remote { agent, device, buffer }: Remote,
    piece: &CopyBox,
) -> Result<Number, Failure> {
    let gapless = close(piece.extent);
    if is_up {
        // SAFETY: the caller vouches.
        let bytes = unsafe { bytes_of(host, piece) };
        let shape = Shape::of(&CopyBox { source_offset: 0, source_stride: gapless, ..*piece });
        let request =
            wire::encode(&Request::Put { device, buffer, shape }).map_err(|why| wire::failed(&why))?;
        return controller.begin_with(agent, &request, &bytes, None);
    }
    let shape = Shape::of(&CopyBox { destination_offset: 0, destination_stride: gapless, ..*piece });
    let bytes = shape.bytes(1)?.end as usize;
    let into = CopyBox { source_offset: 0, source_stride: gapless, ..*piece };
    // SAFETY: the caller vouches.
    let destination = unsafe { Destination::new(host, into, bytes) };
    let request = wire::encode(&Request::Get { device, buffer, shape }).map_err(|why| wire::failed(&why))?;
    controller.begin_with(agent, &request, &[], Some(destination))
}

/// The bytes of a box of the host's memory, one after the other.
///
/// # Safety
/// The box lies in memory from this address on, which is not written while the result is used.
unsafe fn bytes_of<'a>(host: u64, piece: &CopyBox) -> Cow<'a, [u8]> {
    let all = piece.extent.into_iter().product::<u64>() as usize;
    if Shape::of(piece).is_gapless(0) {
        let first = host.wrapping_add(piece.source_offset) as usize;
        // SAFETY: the caller vouches; all bytes of the box are these.
        return Cow::Borrowed(unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(first), all)
        });
    }
    let mut gathered = vec![0; all];
    let to = gathered.as_mut_ptr().expose_provenance() as u64;
    let shape = CopyBox { destination_offset: 0, destination_stride: close(piece.extent), ..*piece };
    // SAFETY: the caller vouches for the box; there is room for it.
    unsafe { copy_addresses(host, to, &shape) };
    Cow::Owned(gathered)
}
