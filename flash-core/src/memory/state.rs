//! Who holds a memory: one word.
//!
//! | bits | meaning | set by | cleared by |
//! |---|---|---|---|
//! | 0..16 | read guards alive | `guard_read` | `release_guard_read` |
//! | 16..32 | launches that read it | `launch_read` | `release_read` |
//! | 32 | a write guard is alive | `guard_write` | `release_guard_write` |
//! | 33 | a launch writes it | `launch_write` | `release_write` |
//! | 34 | somebody is parked, waiting | the waiter | who releases |
//! | 35 | poisoned: the launch that should have written it failed | `release_write` | `release_write`, `guard_write` |
//!
//! A launch that meets a guard fails at once; a guard or launch that meets a launch waits. Launches
//! take their memories in the order of their addresses and hold them until they are done; a holder
//! of memories waits for launches only, never for guards, so there is no circle to wait in.
//!
//! Acquire on taking and Release on giving back order the contents. Waiters spin, then park in a
//! table of condition variables; a parked one has set its bit under the lock of its slot, and who
//! gives back takes that lock before it wakes, so no wake-up is lost.

use crate::error::Error;
use crate::memory::state::sync::{AtomicU64, Condvar, Mutex, Ordering::*, spin};

/// `std`, or `loom` in the models.
pub(crate) mod sync {
    pub use std::sync::atomic::{AtomicU64, Ordering};
    pub use std::sync::{Condvar, Mutex};

    /// Rounds of spinning before parking.
    pub fn spin(round: u32) -> bool {
        if round < 64 {
            std::hint::spin_loop();
        } else if round < 96 {
            std::thread::yield_now();
        } else {
            return false;
        }
        true
    }
}

const GUARD: u64 = 1;
const GUARDS: u64 = 0xffff;
const READER: u64 = 1 << 16;
const READERS: u64 = 0xffff << 16;
const GUARD_WRITES: u64 = 1 << 32;
const WRITER: u64 = 1 << 33;
const WAITERS: u64 = 1 << 34;
const POISONED: u64 = 1 << 35;

/// The word.
pub(crate) struct State(AtomicU64);

struct Slot {
    lock: Mutex<()>,
    wake: Condvar,
}

static PARKING: [Slot; 16] = [const { Slot { lock: Mutex::new(()), wake: Condvar::new() } }; 16];

impl State {
    pub const fn new() -> State {
        State(AtomicU64::new(0))
    }

    fn slot(&self) -> &'static Slot {
        &PARKING[(std::ptr::from_ref(self) as usize >> 6) % PARKING.len()]
    }

    /// Takes it: fails if a bit of `refused` is set, waits while one of `awaited` is; then adds `add`
    /// and clears `clear`. Returns the word before.
    #[inline]
    fn take(&self, refused: u64, awaited: u64, add: u64, clear: u64) -> Result<u64, Error> {
        let mut old = self.0.load(Relaxed);
        loop {
            if old & (refused | awaited) != 0 || old & GUARDS == GUARDS || old & READERS == READERS {
                old = self.take_slow(refused, awaited)?;
            }
            match self.0.compare_exchange_weak(old, (old + add) & !clear, Acquire, Relaxed) {
                Ok(before) => return Ok(before),
                Err(now) => old = now,
            }
        }
    }

    #[cold]
    fn take_slow(&self, refused: u64, awaited: u64) -> Result<u64, Error> {
        let mut round = 0;
        loop {
            let old = self.0.load(Relaxed);
            if old & refused != 0 {
                return Err(Error::Borrowed);
            }
            let full = old & GUARDS == GUARDS || old & READERS == READERS;
            if old & awaited == 0 && !full {
                return Ok(old);
            }
            round += 1;
            if !spin(round) {
                self.park(refused, awaited);
            }
        }
    }

    fn park(&self, refused: u64, awaited: u64) {
        let slot = self.slot();
        let guard = slot.lock.lock().unwrap_or_else(|e| e.into_inner());
        let old = self.0.fetch_or(WAITERS, Relaxed);
        if old & refused == 0 && old & awaited != 0 {
            drop(slot.wake.wait(guard).unwrap_or_else(|e| e.into_inner()));
        }
    }

    /// Gives back: subtracts `sub`, clears and sets bits, wakes who waits.
    #[inline]
    fn give(&self, sub: u64, clear: u64, set: u64) {
        let old = if clear | set == 0 {
            self.0.fetch_sub(sub, Release)
        } else {
            let mut old = self.0.load(Relaxed);
            loop {
                match self.0.compare_exchange_weak(old, (old - sub) & !clear | set, Release, Relaxed) {
                    Ok(old) => break old,
                    Err(now) => old = now,
                }
            }
        };
        if old & WAITERS != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let slot = self.slot();
        let _guard = slot.lock.lock().unwrap_or_else(|e| e.into_inner());
        self.0.fetch_and(!WAITERS, Relaxed);
        slot.wake.notify_all();
    }

    /// A launch will read. True if the contents are poisoned.
    #[inline]
    pub fn launch_read(&self) -> Result<bool, Error> {
        Ok(self.take(GUARD_WRITES, WRITER, READER, 0)? & POISONED != 0)
    }

    /// A launch will write. True if the contents are poisoned.
    #[inline]
    pub fn launch_write(&self) -> Result<bool, Error> {
        Ok(self.take(GUARD_WRITES | GUARDS, WRITER | READERS, WRITER, 0)? & POISONED != 0)
    }

    /// The launch has read.
    #[inline]
    pub fn release_read(&self) {
        self.give(READER, 0, 0);
    }

    /// The launch has written; `was` and `poisoned` are the poison before and after.
    #[inline]
    pub fn release_write(&self, was: bool, poisoned: bool) {
        match (was, poisoned) {
            (true, false) => self.give(WRITER, POISONED, 0),
            (false, true) => self.give(WRITER, 0, POISONED),
            _ => self.give(WRITER, 0, 0),
        }
    }

    /// The host will read.
    pub fn guard_read(&self) -> Result<(), Error> {
        if self.take(GUARD_WRITES, WRITER, GUARD, 0)? & POISONED != 0 {
            self.release_guard_read();
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// The host will write; heals.
    pub fn guard_write(&self) -> Result<(), Error> {
        self.take(GUARD_WRITES | GUARDS, WRITER | READERS, GUARD_WRITES, POISONED)?;
        Ok(())
    }

    /// The host has read.
    pub fn release_guard_read(&self) {
        self.give(GUARD, 0, 0);
    }

    /// The host has written.
    pub fn release_guard_write(&self) {
        self.give(GUARD_WRITES, 0, 0);
    }
}
