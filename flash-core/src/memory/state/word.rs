//! Who holds a memory: one word.
//!
//! | bits | meaning | set by | cleared by |
//! |---|---|---|---|
//! | 0..16 | read guards alive | `guard_read` | `release_guard_read` |
//! | 16..32 | launches that read it | `launch_read` | `release_read` |
//! | 32 | a write guard is alive | `guard_write` | `release_guard_write` |
//! | 33 | a launch writes it | `launch_write` | `release_write` |
//! | 34 | noted: look into the directory; something is poisoned, not current on the host, or copied to a device | `note`, `release_write`, `release_guard_write` | `release_write`, `release_guard_write` |
//!
//! A launch that meets a guard fails at once; a guard or launch that meets a launch waits. Launches
//! take their memories in the order of their addresses and hold them until they are done; a holder
//! of memories waits for launches only, never for guards, so there is no circle to wait in.
//!
//! Acquire on taking and Release on giving back order the contents. While bit 32 or 33 is set nobody
//! else changes the word: the others look and wait, or fail. So an exclusive holder gives it back with
//! a plain store.
//!
//! Bit 34 is set by whoever holds the word, and cleared by an exclusive holder. One who takes it later as
//! a writer sees it, because it takes after the setter has given back. One who shares the hold with the
//! setter may miss it, and that is right: what the setter adds takes nothing away from it.
//!
//! Waiters spin, then park in a table of condition variables. A waiter holds the lock of its slot,
//! counts itself in `parked`, looks at the word once more, and waits; who gives back writes the word,
//! looks at `parked`, and takes the lock before it wakes. Either the waiter sees the new word or the
//! giver sees the waiter, provided that on both sides the write comes before the look. That order
//! costs a fence on each side; `fences` moves the cost to the waiter, which is about to sleep anyway.

use super::Error;
use super::fences::{heavy, light};
use super::sync::{AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering::*, spin, with_slot};

const GUARD: u64 = 1;
const GUARDS: u64 = 0xffff;
const READER: u64 = 1 << 16;
const READERS: u64 = 0xffff << 16;
const GUARD_WRITES: u64 = 1 << 32;
const WRITER: u64 = 1 << 33;
const NOTED: u64 = 1 << 34;

/// Where waiters park, together with those of other memories.
pub(super) struct Slot {
    pub lock: Mutex<()>,
    pub wake: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn wait(&self, guard: MutexGuard<'_, ()>) {
        drop(self.wake.wait(guard).unwrap_or_else(|e| e.into_inner()));
    }

    fn wake_all(&self) {
        drop(self.lock());
        self.wake.notify_all();
    }
}

/// The word, and how many are parked.
pub(crate) struct State {
    word: AtomicU64,
    parked: AtomicU32,
}

impl State {
    pub fn new() -> State {
        State { word: AtomicU64::new(0), parked: AtomicU32::new(0) }
    }

    /// Takes it: fails if a bit of `refused` is set, waits while one of `awaited` is; then adds `add`.
    /// True if it is noted.
    #[inline]
    fn take(&self, refused: u64, awaited: u64, add: u64) -> Result<bool, Error> {
        // Mostly nobody has it.
        match self.word.compare_exchange(0, add, Acquire, Relaxed) {
            Ok(_) => Ok(false),
            Err(old) => self.take_from(old, refused, awaited, add),
        }
    }

    #[inline(never)]
    fn take_from(&self, mut old: u64, refused: u64, awaited: u64, add: u64) -> Result<bool, Error> {
        loop {
            if old & (refused | awaited) != 0 || full(old) {
                old = self.take_slow(refused, awaited)?;
            }
            match self.word.compare_exchange_weak(old, old + add, Acquire, Relaxed) {
                Ok(before) => return Ok(before & NOTED != 0),
                Err(now) => old = now,
            }
        }
    }

    #[cold]
    fn take_slow(&self, refused: u64, awaited: u64) -> Result<u64, Error> {
        let mut round = 0;
        loop {
            let old = self.word.load(Relaxed);
            if old & refused != 0 {
                return Err(Error::Borrowed);
            }
            if old & awaited == 0 && !full(old) {
                return Ok(old);
            }
            round += 1;
            if !spin(round) {
                self.park(refused, awaited);
            }
        }
    }

    fn park(&self, refused: u64, awaited: u64) {
        with_slot(std::ptr::from_ref(self) as usize, |slot: &Slot| {
            let guard = slot.lock();
            self.parked.fetch_add(1, Relaxed);
            heavy();
            let now = self.word.load(Relaxed);
            if now & refused == 0 && (now & awaited != 0 || full(now)) {
                slot.wait(guard);
            }
            self.parked.fetch_sub(1, Relaxed);
        });
    }

    /// Wakes who waits, after the word was given back.
    #[inline]
    fn given(&self) {
        light();
        if self.parked.load(Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        with_slot(std::ptr::from_ref(self) as usize, Slot::wake_all);
    }

    /// A launch will read. True if it is noted.
    #[inline]
    pub fn launch_read(&self) -> Result<bool, Error> {
        self.take(GUARD_WRITES, WRITER, READER)
    }

    /// A launch will write. True if it is noted.
    #[inline]
    pub fn launch_write(&self) -> Result<bool, Error> {
        self.take(GUARD_WRITES | GUARDS, WRITER | READERS, WRITER)
    }

    /// As [`launch_write`](Self::launch_write) if nobody holds it, without waiting; `None` if somebody does.
    pub fn try_launch_write(&self) -> Option<bool> {
        let old = self.word.load(Relaxed);
        if old & !NOTED != 0 {
            return None;
        }
        self.word.compare_exchange(old, old | WRITER, Acquire, Relaxed).ok().map(|before| before & NOTED != 0)
    }

    /// True if there is something to look up. The caller holds it.
    pub fn is_noted(&self) -> bool {
        self.word.load(Relaxed) & NOTED != 0
    }

    /// There is something to look up from now on. The caller holds it.
    pub fn note(&self) {
        self.word.fetch_or(NOTED, Relaxed);
    }

    /// The launch has read.
    #[inline]
    pub fn release_read(&self) {
        self.word.fetch_sub(READER, Release);
        self.given();
    }

    /// The launch has written; there is something to look up, or not.
    #[inline]
    pub fn release_write(&self, noted: bool) {
        self.word.store(if noted { NOTED } else { 0 }, Release);
        self.given();
    }

    /// The host will read. True if it is noted.
    pub fn guard_read(&self) -> Result<bool, Error> {
        self.take(GUARD_WRITES, WRITER, GUARD)
    }

    /// The host will write. True if it is noted.
    pub fn guard_write(&self) -> Result<bool, Error> {
        self.take(GUARD_WRITES | GUARDS, WRITER | READERS, GUARD_WRITES)
    }

    /// The host has read.
    pub fn release_guard_read(&self) {
        self.word.fetch_sub(GUARD, Release);
        self.given();
    }

    /// The host has written; there is something to look up, or not. Nobody waits for that: guards are not
    /// waited for.
    pub fn release_guard_write(&self, noted: bool) {
        self.word.store(if noted { NOTED } else { 0 }, Release);
    }
}

/// No more readers fit: wait for some to go.
#[inline]
fn full(word: u64) -> bool {
    word & GUARDS == GUARDS || word & READERS == READERS
}
