//! A block's shared memory, with the last threads that touched it. Threads that touch the same bytes, one of
//! them writing, must have a barrier between them. Here they run one after another, so that the result is
//! always right; on a device it is right only sometimes.

use super::Fault;

/// In the place of a thread's or a warp's number: several.
const MANY: u16 = u16::MAX;

pub(super) struct Shared {
    pub bytes: Vec<u8>,
    /// One entry for every four bytes.
    touched: Vec<Word>,
    /// Number of barriers, of all blocks that had this memory.
    barriers: u32,
}

#[derive(Clone, Copy, Default)]
struct Word {
    written: Touch,
    read: Touch,
}

/// Accesses since the last barrier: the threads, and which of the four bytes.
#[derive(Clone, Copy, Default)]
struct Touch {
    barriers: u32,
    meetings: u32,
    thread: u16,
    warp: u16,
    bytes: u8,
}

/// A thread, and the number of meetings of its warp.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub thread: u16,
    pub meetings: u32,
}

impl Shared {
    pub fn new(bytes: usize) -> Shared {
        Shared { bytes: vec![0; bytes], touched: vec![Word::default(); bytes.div_ceil(4)], barriers: 0 }
    }

    /// Hands it to another block.
    pub fn begin(&mut self) {
        self.bytes.fill(0xA5);
        self.pass_barrier();
    }

    /// Accesses before the barrier do not conflict with later ones.
    pub fn pass_barrier(&mut self) {
        self.barriers += 1;
    }

    /// A thread reads existing bytes.
    #[inline]
    pub fn read(&mut self, who: Who, at: usize, bytes: usize) -> Result<(), Fault> {
        let barriers = self.barriers;
        for (word, mask) in words(at, bytes) {
            let Word { written, read } = &mut self.touched[word];
            written.conflict(barriers, who, mask, at)?;
            read.add(barriers, who, mask);
        }
        Ok(())
    }

    /// A thread writes. A write of the same value does not conflict.
    #[inline]
    pub fn write(&mut self, who: Who, at: usize, new: &[u8]) -> Result<(), Fault> {
        let barriers = self.barriers;
        let there = &mut self.bytes[at..at + new.len()];
        if there == new {
            return Ok(());
        }
        there.copy_from_slice(new);
        for (word, mask) in words(at, new.len()) {
            let Word { written, read } = &mut self.touched[word];
            written.conflict(barriers, who, mask, at)?;
            read.conflict(barriers, who, mask, at)?;
            written.add(barriers, who, mask);
        }
        Ok(())
    }
}

/// The words that bytes lie in, and which bytes of each. Accesses are aligned: they lie in one word or fill
/// words.
fn words(at: usize, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    let mask = if bytes < 4 { ((1 << bytes) - 1) << (at % 4) } else { 15 };
    (at / 4..(at + bytes).div_ceil(4)).map(move |word| (word, mask))
}

impl Touch {
    /// A conflict, unless both threads are of one warp that has met in between.
    fn conflict(&self, barriers: u32, who: Who, mask: u8, at: usize) -> Result<(), Fault> {
        let apart = self.barriers != barriers || self.bytes & mask == 0;
        let in_order =
            self.warp == who.thread / 32 && (self.thread == who.thread || self.meetings != who.meetings);
        if apart || in_order { Ok(()) } else { Err(Fault::Race { at: at as u64, other: self.thread }) }
    }

    fn add(&mut self, barriers: u32, who: Who, mask: u8) {
        let warp = who.thread / 32;
        let Who { thread, meetings } = who;
        if self.barriers != barriers {
            *self = Touch { barriers, meetings, thread, warp, bytes: mask };
            return;
        }
        self.bytes |= mask;
        if self.warp != warp {
            (self.warp, self.thread) = (MANY, MANY);
        } else if self.meetings != meetings {
            (self.thread, self.meetings) = (thread, meetings);
        } else if self.thread != thread {
            self.thread = MANY;
        }
    }
}
