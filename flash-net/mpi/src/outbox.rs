//! What is sent to one peer: messages in flight, and how many more it may get.

use crate::functions::Request;
use crate::library::Mpi;
use std::collections::VecDeque;
use std::ffi::c_int;

/// Messages that a peer may have got and not said that it has taken.
pub(crate) const WINDOW: u64 = 256;
/// Bytes in flight after which a peer gets no further frame.
const MOST: usize = 64 << 20;

/// The sending side to one peer. Messages are complete in the order in which they were begun, as far as this
/// is concerned.
#[derive(Default)]
pub(crate) struct Outbox {
    in_flight: VecDeque<(Request, Vec<u8>)>,
    bytes: usize,
    /// Messages sent that need room there.
    sent: u64,
    /// How many of them the peer has taken.
    taken: u64,
    /// A frame was refused, and its sender may be waiting.
    pub is_full: bool,
    /// The last message was sent.
    is_closed: bool,
    /// A buffer for the next short message.
    spare: Vec<u8>,
}

impl Outbox {
    /// True if the peer may get this many messages more.
    pub fn has_room(&self, messages: u64) -> bool {
        self.sent - self.taken + messages <= WINDOW && self.bytes < MOST
    }

    /// The peer has taken some. False: more than it got.
    pub fn taken(&mut self, messages: u64) -> bool {
        let is_possible = messages <= self.sent - self.taken;
        if is_possible {
            self.taken += messages;
        }
        is_possible
    }

    /// Sends a message of these bytes. `needs_room`: the peer counts it.
    pub fn send(
        &mut self,
        mpi: &Mpi,
        to: u32,
        tag: c_int,
        bytes: impl Iterator<Item = u8>,
        needs_room: bool,
    ) -> Result<(), String> {
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.clear();
        buffer.extend(bytes);
        self.send_buffer(mpi, to, tag, buffer, needs_room)
    }

    /// An empty buffer, to be filled for [`Outbox::send_buffer`].
    pub fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.clear();
        buffer.reserve(bytes);
        buffer
    }

    /// Sends the last message. What others send later goes nowhere, as this process ends.
    pub fn close(&mut self, mpi: &Mpi, to: u32, tag: c_int, byte: u8) -> Result<(), String> {
        let sent = self.send(mpi, to, tag, std::iter::once(byte), false);
        self.is_closed = true;
        sent
    }

    /// Sends a message.
    pub fn send_buffer(
        &mut self,
        mpi: &Mpi,
        to: u32,
        tag: c_int,
        buffer: Vec<u8>,
        needs_room: bool,
    ) -> Result<(), String> {
        if self.is_closed {
            return Ok(());
        }
        // SAFETY: the buffer stays, unchanged, in `in_flight` until the request is complete; what is dropped
        // before leaks it.
        let mut request = unsafe { mpi.send(buffer.as_ptr(), buffer.len(), to, tag)? };
        self.sent += u64::from(needs_room);
        if self.in_flight.is_empty() && mpi.test(&mut request)? {
            self.keep(buffer);
            return Ok(());
        }
        self.bytes += buffer.len();
        self.in_flight.push_back((request, buffer));
        Ok(())
    }

    /// Forgets what is complete.
    pub fn settle(&mut self, mpi: &Mpi) -> Result<(), String> {
        while let Some((request, _)) = self.in_flight.front_mut() {
            if !mpi.test(request)? {
                break;
            }
            if let Some((_, buffer)) = self.in_flight.pop_front() {
                self.bytes -= buffer.len();
                self.keep(buffer);
            }
        }
        Ok(())
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        /// Larger ones go back to the system.
        const KEPT: usize = 2 << 20;
        if buffer.capacity() <= KEPT && buffer.capacity() > self.spare.capacity() {
            self.spare = buffer;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // The library may still read them.
        self.in_flight.drain(..).for_each(|(_, buffer)| std::mem::forget(buffer));
    }
}
