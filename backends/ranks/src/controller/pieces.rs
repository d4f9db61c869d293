//! Copies to and from buffers of agents that share no memory with the controller: boxes in frames. A box of
//! up to [`PIECE`] bytes is one request, which is not waited for; of more, two pieces are on their way.

use super::calls::{Destination, Number};
use super::{Asked, Controller, DeviceOf};
use crate::wire::{self, PIECE, Request, Shape};
use flash_backend::Failure;
use flash_backend::abi::CopyBox;
use flash_backend::host_memory::copy_addresses;
use flash_backend::offload::staging::{close, pieces};
use flash_net::Peer;
use std::borrow::Cow;
use std::collections::VecDeque;

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
}

impl Drop for InFlight {
    fn drop(&mut self) {
        while !self.numbers.is_empty() {
            let _ = self.end_first();
        }
    }
}

/// Begins to copy a box, up to the buffer or down from it. All but its last piece is copied on return.
/// `None`: the box is empty.
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
) -> Result<Option<Asked>, Failure> {
    let mut flights = InFlight { controller, agent: remote.agent, numbers: VecDeque::new() };
    for piece in pieces(shape, PIECE) {
        if flights.numbers.len() == IN_FLIGHT {
            flights.end_first()?;
        }
        // SAFETY: the caller vouches; what was begun is waited for, here or as `flights` is dropped, or is
        // the result.
        flights.numbers.push_back(unsafe { begin_piece(controller, is_up, host, remote, &piece)? });
    }
    let last = flights.numbers.pop_back();
    while !flights.numbers.is_empty() {
        flights.end_first()?;
    }
    let of = DeviceOf { peer: remote.agent, number: remote.device };
    Ok(last.map(|number| Asked::waited(controller, of, number)))
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
    let [bytes, rows, planes] = piece.extent;
    let (gapless, stride) = (close(piece.extent), piece.source_stride);
    let all = (bytes * rows * planes) as usize;
    let is_gapless = (rows == 1 || stride[0] == gapless[0]) && (planes == 1 || stride[1] == gapless[1]);
    if is_gapless {
        let first = host.wrapping_add(piece.source_offset) as usize;
        // SAFETY: the caller vouches; all bytes of the box are these.
        return Cow::Borrowed(unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(first), all)
        });
    }
    let mut gathered = vec![0; all];
    let to = gathered.as_mut_ptr().expose_provenance() as u64;
    let shape = CopyBox { destination_offset: 0, destination_stride: gapless, ..*piece };
    // SAFETY: the caller vouches for the box; there is room for it.
    unsafe { copy_addresses(host, to, &shape) };
    Cow::Owned(gathered)
}
