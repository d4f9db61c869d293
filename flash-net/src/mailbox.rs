//! A mailbox: frames of one sender for one receiver, in order, in a ring of lines.
//!
//! A line is a cache line: a word that says what it holds, and seven words of bytes. A frame starts a line
//! and takes as many as it needs. The word of its first line is
//!
//! | bits | what |
//! |---|---|
//! | 16.. | the lap: how often the sender has gone around the ring, counted from 1 |
//! | 13..16 | the kind |
//! | ..13 | bytes |
//!
//! and is written last. The words of its other lines are 0. So the receiver looks at one cache line to see
//! whether a frame has come, and a short frame is in that line: one line goes from core to core, with the
//! frame in it. What was left by the lap before never looks like a frame of this lap.
//!
//! The sender keeps the number of lines it has written, the receiver that of lines it has read; each is in
//! private memory. The latter is also written to the mailbox, where the sender looks when the ring seems
//! full. A sender that finds it full says so there, and the receiver rings its bell when there is room again.
//!
//! **The other side is not trusted.** All words are atomics and are read once: any value at any time is a
//! frame of a valid length, no frame, or an error. Bytes are copied out before they are handed over.

use super::sync::{AtomicU64, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// The longest frame: a header of 32 bytes and a body of 4 KiB.
pub const MAX_FRAME: usize = 4096 + 32;

/// Words of a line.
pub(crate) const LINE: usize = 8;
/// Bytes of a frame in a line.
const ROOM: usize = (LINE - 1) * 8;
const KIND_SHIFT: u32 = 13;
const LAP_SHIFT: u32 = 16;

const _: () = assert!(MAX_FRAME < 1 << KIND_SHIFT);

/// What the longest frame is copied to.
pub(crate) type Buffer = [[u8; 8]; MAX_FRAME.div_ceil(8)];

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes for the user of the transport.
    Data,
    /// Asks for a sign of life.
    Ping,
    /// The sign of life.
    Pong,
}

/// The memory of a mailbox.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    lines: &'a [AtomicU64],
    /// Lines that the receiver has read.
    read: &'a AtomicU64,
    /// 1 if the sender has found it full, and shall hear when that changes.
    wanted: &'a AtomicU64,
}

impl<'a> Ring<'a> {
    /// A mailbox in zeroed memory, or one in use. The number of lines is a power of two.
    pub(crate) fn new(lines: &'a [AtomicU64], read: &'a AtomicU64, wanted: &'a AtomicU64) -> Ring<'a> {
        debug_assert!(lines.len().is_multiple_of(LINE) && (lines.len() / LINE).is_power_of_two());
        Ring { lines, read, wanted }
    }

    fn size(self) -> u64 {
        (self.lines.len() / LINE) as u64
    }

    fn line(self, at: u64) -> &'a [AtomicU64] {
        let start = (at & (self.size() - 1)) as usize * LINE;
        &self.lines[start..start + LINE]
    }

    /// The lap in which line `at` is written, from 1.
    fn lap(self, at: u64) -> u64 {
        (at >> self.size().trailing_zeros()) + 1
    }

    /// The frame that starts at line `at`, if it has come: its kind and bytes. Else the word that a correct
    /// sender does not write.
    pub(crate) fn look(self, at: u64) -> Result<Option<(Kind, usize)>, u64> {
        let word = self.line(at)[0].load(Acquire);
        let (lap, found) = (self.lap(at), word >> LAP_SHIFT);
        if found != lap {
            let is_old = word == 0 || (found == lap - 1 && found > 0);
            return if is_old { Ok(None) } else { Err(word) };
        }
        let length = (word & ((1 << KIND_SHIFT) - 1)) as usize;
        match (word >> KIND_SHIFT) & 7 {
            0 if length <= MAX_FRAME => Ok(Some((Kind::Data, length))),
            1 if length == 0 => Ok(Some((Kind::Ping, 0))),
            2 if length == 0 => Ok(Some((Kind::Pong, 0))),
            _ => Err(word),
        }
    }

    /// Copies the frame of line `at`, which [`Ring::look`] has found, to the start of `to`, in whole words.
    pub(crate) fn copy(self, at: u64, length: usize, to: &mut Buffer) {
        let (lines, rest) = to[..length.div_ceil(8)].as_chunks_mut::<{ LINE - 1 }>();
        let copy = |line: &[AtomicU64], to: &mut [[u8; 8]]| {
            for (word, bytes) in line[1..].iter().zip(to) {
                *bytes = word.load(Relaxed).to_ne_bytes();
            }
        };
        for (at, to) in (at..).zip(lines.iter_mut()) {
            copy(self.line(at), to);
        }
        copy(self.line(at + lines.len() as u64), rest);
    }

    /// Lets the sender use the lines before `at` again. Says whether it waits for that.
    #[must_use]
    pub(crate) fn release(self, at: u64) -> bool {
        self.read.store(at, Release);
        // Either this sees that the sender waits, or the sender sees the new position.
        fence(SeqCst);
        if self.wanted.load(Relaxed) == 0 {
            return false;
        }
        self.wanted.store(0, Relaxed);
        true
    }
}

/// Lines of a frame of `length` bytes.
pub(crate) fn lines_of(length: usize) -> u64 {
    length.div_ceil(ROOM).max(1) as u64
}

/// Why a frame was not written.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    Full,
    /// The receiver says that it has read this many lines, which it cannot have.
    Corrupt(u64),
}

/// The sender's side.
#[derive(Default)]
pub(crate) struct Sender {
    written: u64,
    /// What the receiver had read when the sender looked last.
    read: u64,
}

impl Sender {
    /// Writes a frame of these parts, at most [`MAX_FRAME`] bytes together.
    pub(crate) fn post(&mut self, ring: Ring<'_>, kind: Kind, parts: &[&[u8]]) -> Result<(), Refusal> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        debug_assert!(length <= MAX_FRAME);
        let lines = lines_of(length);
        if !self.has_room(ring, lines) {
            self.look(ring)?;
            if !self.has_room(ring, lines) {
                ring.wanted.store(1, Relaxed);
                // As in `release`.
                fence(SeqCst);
                self.look(ring)?;
                if !self.has_room(ring, lines) {
                    return Err(Refusal::Full);
                }
            }
        }
        let mut parts = Parts { parts, of_first: 0 };
        for i in 0..lines {
            let line = ring.line(self.written + i);
            match parts.line() {
                Some(bytes) => store(line, bytes),
                None => {
                    let mut bytes = [0; ROOM];
                    let filled = parts.fill(&mut bytes);
                    store(line, &bytes[..filled]);
                }
            }
            if i > 0 {
                line[0].store(0, Relaxed);
            }
        }
        let kind = u64::from(kind as u8) << KIND_SHIFT;
        let word = ring.lap(self.written) << LAP_SHIFT | kind | length as u64;
        // Released: a receiver that sees the word sees the bytes.
        ring.line(self.written)[0].store(word, Release);
        self.written += lines;
        Ok(())
    }

    fn has_room(&self, ring: Ring<'_>, lines: u64) -> bool {
        self.written + lines - self.read <= ring.size()
    }

    fn look(&mut self, ring: Ring<'_>) -> Result<(), Refusal> {
        let read = ring.read.load(Acquire);
        if read < self.read || read > self.written {
            return Err(Refusal::Corrupt(read));
        }
        self.read = read;
        Ok(())
    }
}

/// Writes the bytes of a line, in whole words.
fn store(line: &[AtomicU64], bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks();
    for (to, word) in line[1..].iter().zip(words) {
        to.store(u64::from_ne_bytes(*word), Relaxed);
    }
    if !rest.is_empty() {
        // Not by way of memory: a load of 8 bytes that were just written as fewer takes longer.
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        line[1 + words.len()].store(word.to_le(), Relaxed);
    }
}

/// The bytes of several slices, one after the other.
struct Parts<'a> {
    parts: &'a [&'a [u8]],
    /// Bytes of the first part that were taken.
    of_first: usize,
}

impl<'a> Parts<'a> {
    /// The bytes of the next line, if they are of one part.
    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = &self.parts.first()?[self.of_first..];
        if rest.len() >= ROOM {
            self.of_first += ROOM;
            return Some(&rest[..ROOM]);
        }
        // The last part needs no mark: nothing comes after it.
        (self.parts.len() == 1).then_some(rest)
    }

    /// Moves as many bytes as there are and fit; says how many.
    fn fill(&mut self, to: &mut [u8; ROOM]) -> usize {
        let mut filled = 0;
        while let Some(part) = self.parts.first() {
            let rest = &part[self.of_first..];
            let taken = rest.len().min(to.len() - filled);
            to[filled..filled + taken].copy_from_slice(&rest[..taken]);
            filled += taken;
            if taken < rest.len() {
                self.of_first += taken;
                break;
            }
            (self.parts, self.of_first) = (&self.parts[1..], 0);
        }
        filled
    }
}
