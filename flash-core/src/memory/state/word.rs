//! The state word of a memory: its holders.
//!
//! | bits | meaning | set by | cleared by |
//! |---|---|---|---|
//! | 0..16 | read guards alive | `guard_read` | `release_guard_read` |
//! | 16..25 | launches that read it | `launch_read` | `release_read` |
//! | 25..32 | pipelines of the order that run | `begin` | `suspend`, `release_pending_read`, `release_pending_write` |
//! | 32 | a write guard is alive | `guard_write` | `release_guard_write` |
//! | 33 | a launch writes it, or an eviction | `launch_write`, `try_evict` | `release_write`, `end_evict` |
//! | 34 | *tracked*: the directory is needed (see below) | `track`, its clearers | an exclusive holder |
//! | 35 | guards of parts are alive (listed in `memory/order`) | `guard_part` | `release_guard_part` |
//! | 36..50 | pipelines of the order that will read it, or do | `pend_read` | `release_pending_read` |
//! | 50..64 | pipelines of the order that will write it, or do | `pend_write` | `release_pending_write` |
//!
//! A guard or launch that meets a launch waits. Launches take their memories in the order of their addresses
//! and hold them until they are done. A holder of memories waits for launches only, never for guards: a
//! launch that meets a guard releases what it has taken before it waits, and does so only if its thread holds
//! no guard (`memory/own_guards.rs`). So there is no circle of waits. The host's reading of a few elements in
//! one call (`get`) is counted as a launch that reads.
//!
//! Pipelines that are *pending* have a place in the order (`runtime/asynchronous`) and do not take the word a
//! second time when they run. While one is counted in bits 36..64, no launch that it conflicts with can take
//! the word, and the order keeps its pipelines apart. A launch that meets a pending one is refused
//! ([`Refused::Pending`]), releases what it has taken, and enters the order itself; so no memory is held
//! during a wait for a pending pipeline. To be counted waits for a launch that writes, but not for those that
//! read: a pipeline waits for them with `drained` before it writes. When it runs, it is counted in bits
//! 25..32, too. A pipeline may be counted beside a guard that conflicts, which is alive then and which no
//! other can join (but one of its own thread). It runs when these are released: the thread that releases a
//! guard and finds pipelines counted tells them (`memory/order/behind.rs`). Where only parts of a memory are
//! concerned, on either side, the order and the list decide (`memory/order/parts.rs`): a launch that finds
//! bit 35 is sent there, and so is a guard of a part that finds a pending writer.
//!
//! An eviction takes copies from devices, to make room there. It is possible only while no launch, and no
//! pipeline that runs, may use them. Guards that read and pipelines that have yet to begin stay counted
//! meanwhile, and may be released; all else waits, as for a launch that writes.
//!
//! Acquire on taking and Release on releasing order the contents. While a launch has bit 33 no other thread
//! changes the word: the others look and wait. So a launch that writes releases it with a plain store. (That
//! is why a pipeline waits for a launch that writes before it is counted: the store would undo the count. An
//! eviction may not be the only one that is counted, nor may a write guard, and they store nothing.)
//!
//! Bit 34, *tracked*, means that something is poisoned, not current on the host, or copied to a device. Any
//! holder may set it; only an exclusive holder clears it, in `release_write`, `release_pending_write`,
//! `release_guard_write` or `end_evict`. A later writer sees it, because it takes the word after the setter
//! has released it. A thread that shares the hold with the setter may miss it, and that is right: what the
//! setter adds takes nothing away from that thread.
//!
//! Waiters spin, then park in a table of condition variables. A waiter holds the lock of its slot, counts
//! itself in `parked`, looks at the word once more, and waits. A releasing thread writes the word, looks at
//! `parked`, and takes the lock before it wakes. Either the waiter sees the new word or the releasing thread
//! sees the waiter, provided that on both sides the write comes before the look. That order costs a fence on
//! each side; `fences` moves the cost to the waiter, which is about to sleep anyway.

use super::fences::{heavy, light};
use super::sync::{
    AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering::*, asleep, is_child, spin, with_slot,
};
use std::time::Instant;

const GUARD: u64 = 1;
const GUARDS: u64 = 0xffff;
const READER: u64 = 1 << 16;
const READERS: u64 = 0x1ff << 16;
const RUNNER: u64 = 1 << 25;
const RUNNERS: u64 = 0x7f << 25;
const GUARD_WRITES: u64 = 1 << 32;
const WRITER: u64 = 1 << 33;
const TRACKED: u64 = 1 << 34;
const PARTS: u64 = 1 << 35;
const PENDING_READ: u64 = 1 << 36;
const PENDING_READS: u64 = 0x3fff << 36;
const PENDING_WRITE: u64 = 1 << 50;
const PENDING_WRITES: u64 = 0x3fff << 50;

/// Why a launch cannot take a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A conflicting guard of the host is alive.
    Borrowed,
    /// A pipeline of the order is pending, or a guard of a part is alive: enter the order, which knows
    /// whether they conflict.
    Pending,
    /// It would have to sleep, in a child of `fork`, in which no other thread may be there to wake it.
    Forked,
}

/// A claim on a word.
#[derive(Clone, Copy)]
struct Claim {
    /// Fails with [`Refused::Borrowed`] if one of these bits is set.
    guards: u64,
    /// Else fails with [`Refused::Pending`] if one of these is.
    pending: u64,
    /// Else waits while one of these is.
    awaited: u64,
    /// Also waits while all of these are: the count is full.
    count: u64,
    add: u64,
}

impl Claim {
    const LAUNCH_READ: Claim =
        Claim { guards: GUARD_WRITES, pending: PENDING_WRITES, awaited: WRITER, count: READERS, add: READER };
    const LAUNCH_WRITE: Claim = Claim {
        guards: GUARD_WRITES | GUARDS,
        pending: PENDING_READS | PENDING_WRITES | PARTS,
        awaited: WRITER | READERS,
        count: WRITER,
        add: WRITER,
    };
    const PEND_READ: Claim =
        Claim { guards: GUARD_WRITES, pending: 0, awaited: WRITER, count: PENDING_READS, add: PENDING_READ };
    /// Guards that conflict are waited for later.
    const PEND_READ_BEHIND: Claim = Claim { guards: 0, ..Claim::PEND_READ };
    const PEND_WRITE: Claim = Claim {
        guards: GUARD_WRITES | GUARDS,
        pending: PARTS,
        awaited: WRITER,
        count: PENDING_WRITES,
        add: PENDING_WRITE,
    };
    /// Guards of parts do not conflict.
    const PEND_WRITE_BESIDE: Claim = Claim { pending: 0, ..Claim::PEND_WRITE };
    /// Guards that conflict are waited for later.
    const PEND_WRITE_BEHIND: Claim = Claim { guards: 0, ..Claim::PEND_WRITE_BESIDE };
    const GUARD_READ: Claim = Claim {
        guards: GUARD_WRITES,
        pending: 0,
        awaited: WRITER | PENDING_WRITES,
        count: GUARDS,
        add: GUARD,
    };
    /// Does not wait for pending pipelines.
    const GUARD_READ_NOW: Claim = Claim { pending: PENDING_WRITES, awaited: WRITER, ..Claim::GUARD_READ };
    const GUARD_PART: Claim =
        Claim { guards: GUARD_WRITES, pending: PENDING_WRITES, awaited: WRITER, count: PARTS, add: PARTS };
    const GUARD_WRITE: Claim = Claim {
        guards: GUARD_WRITES | GUARDS | PARTS,
        pending: 0,
        awaited: WRITER | READERS | PENDING_READS | PENDING_WRITES,
        count: GUARD_WRITES,
        add: GUARD_WRITES,
    };
    /// Does not wait for pending pipelines.
    const GUARD_WRITE_NOW: Claim =
        Claim { pending: PENDING_READS | PENDING_WRITES, awaited: WRITER | READERS, ..Claim::GUARD_WRITE };
    /// No claim at all: waits for guards that a launch that reads, or writes, conflicts with.
    const AFTER_WRITE_GUARD: Claim =
        Claim { guards: 0, pending: 0, awaited: GUARD_WRITES, count: GUARD_WRITES, add: 0 };
    const AFTER_GUARDS: Claim = Claim { awaited: GUARD_WRITES | GUARDS, ..Claim::AFTER_WRITE_GUARD };
    const BEGIN: Claim = Claim { guards: 0, pending: 0, awaited: WRITER, count: RUNNERS, add: RUNNER };
    /// No claim at all: waits until no launch reads.
    const DRAINED: Claim = Claim { guards: 0, pending: 0, awaited: READERS, count: READERS, add: 0 };

    /// Fails if a bit refuses the claim.
    fn refuses(&self, word: u64) -> Result<(), Refused> {
        if word & self.guards != 0 {
            return Err(Refused::Borrowed);
        }
        if word & self.pending != 0 {
            return Err(Refused::Pending);
        }
        Ok(())
    }

    /// True if no bit stands against it.
    #[inline]
    fn passes(&self, word: u64) -> bool {
        word & (self.guards | self.pending | self.awaited) == 0 && word & self.count != self.count
    }

    /// True if it must wait.
    fn waits(&self, word: u64) -> bool {
        word & (self.guards | self.pending) == 0 && !self.passes(word)
    }
}

/// The place where waiters park, together with those of other memories.
pub(super) struct Slot {
    pub lock: Mutex<()>,
    pub wake: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn wait(&self, guard: MutexGuard<'_, ()>, until: Option<Instant>) {
        match until {
            None => drop(self.wake.wait(guard).unwrap_or_else(|e| e.into_inner())),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                drop(self.wake.wait_timeout(guard, left).unwrap_or_else(|e| e.into_inner()));
            }
        }
    }

    fn wake_all(&self) {
        drop(self.lock());
        self.wake.notify_all();
    }
}

/// The word, and the number of parked waiters.
pub(crate) struct State {
    word: AtomicU64,
    parked: AtomicU32,
}

impl State {
    pub fn new() -> State {
        State { word: AtomicU64::new(0), parked: AtomicU32::new(0) }
    }

    /// Takes it, or says why not. True if it is tracked.
    #[inline]
    fn take(&self, claim: Claim) -> Result<bool, Refused> {
        self.take_likely(claim, 0)
    }

    /// For a word that is usually free and equal to `likely`.
    #[inline]
    fn take_likely(&self, claim: Claim, likely: u64) -> Result<bool, Refused> {
        match self.word.compare_exchange(likely, likely + claim.add, Acquire, Relaxed) {
            Ok(_) => Ok(likely & TRACKED != 0),
            Err(old) => self.take_from(old, claim).map(|before| before & TRACKED != 0),
        }
    }

    /// Takes it, having found `old`. Returns the word that was there before.
    #[inline(never)]
    fn take_from(&self, mut old: u64, claim: Claim) -> Result<u64, Refused> {
        loop {
            if !claim.passes(old) {
                old = self.take_slow(claim)?;
            }
            match self.word.compare_exchange_weak(old, old + claim.add, Acquire, Relaxed) {
                Ok(before) => return Ok(before),
                Err(now) => old = now,
            }
        }
    }

    #[cold]
    fn take_slow(&self, claim: Claim) -> Result<u64, Refused> {
        let mut round = 0;
        loop {
            let old = self.word.load(Relaxed);
            claim.refuses(old)?;
            if claim.passes(old) {
                return Ok(old);
            }
            round += 1;
            if !spin(round) {
                if is_child() {
                    return Err(Refused::Forked);
                }
                asleep(|| self.park(claim, None));
            }
        }
    }

    fn park(&self, claim: Claim, until: Option<Instant>) {
        with_slot(std::ptr::from_ref(self) as usize, |slot: &Slot| {
            let guard = slot.lock();
            self.parked.fetch_add(1, Relaxed);
            heavy();
            if claim.waits(self.word.load(Relaxed)) {
                slot.wait(guard, until);
            }
            self.parked.fetch_sub(1, Relaxed);
        });
    }

    /// Waits until no guard of all of it conflicts with a launch that reads, or writes. False: one still does
    /// at that time.
    pub fn after_guards(&self, written: bool, until: Instant) -> bool {
        let claim = if written { Claim::AFTER_GUARDS } else { Claim::AFTER_WRITE_GUARD };
        let mut round = 0;
        while !claim.passes(self.word.load(Relaxed)) {
            round += 1;
            if !spin(round) {
                if Instant::now() >= until {
                    return false;
                }
                asleep(|| self.park(claim, Some(until)));
            }
        }
        true
    }

    /// Wakes waiters, after the word was released.
    #[inline]
    fn given(&self) {
        light();
        if self.parked.load(Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // In a child of `fork` no thread is parked.
        if !is_child() {
            with_slot(std::ptr::from_ref(self) as usize, Slot::wake_all);
        }
    }

    /// A launch will read. True if it is tracked.
    #[inline]
    pub fn launch_read(&self) -> Result<bool, Refused> {
        self.take(Claim::LAUNCH_READ)
    }

    /// A launch will write. True if it is tracked.
    #[inline]
    pub fn launch_write(&self) -> Result<bool, Refused> {
        self.take(Claim::LAUNCH_WRITE)
    }

    /// A launch will read, or write, a memory that is likely to be tracked. True if it is.
    #[inline]
    pub fn launch_tracked(&self, written: bool) -> Result<bool, Refused> {
        self.take_likely(if written { Claim::LAUNCH_WRITE } else { Claim::LAUNCH_READ }, TRACKED)
    }

    /// Takes it for an eviction, without waiting. False: its copies may be in use.
    pub fn try_evict(&self) -> bool {
        // Tried again if the change was only in a count that does not matter here.
        let next =
            |old: u64| (old & (READERS | RUNNERS | GUARD_WRITES | WRITER) == 0).then_some(old | WRITER);
        self.word.fetch_update(Acquire, Relaxed, next).is_ok()
    }

    /// Takes it to give back the host's memory of it, without waiting. False if something may use it just
    /// now, a guard included.
    pub fn try_idle(&self) -> bool {
        let used = GUARDS | PARTS | READERS | RUNNERS | GUARD_WRITES | WRITER;
        let next = |old: u64| (old & used == 0).then_some(old | WRITER);
        self.word.fetch_update(Acquire, Relaxed, next).is_ok()
    }

    /// The copies are gone, or not; there is something to look up, or not.
    pub fn end_evict(&self, tracked: bool) {
        self.change(|old| (old & !(WRITER | TRACKED)) | if tracked { TRACKED } else { 0 });
    }

    /// Changes the word as a release.
    fn change(&self, next: impl Fn(u64) -> u64) {
        let _ = self.word.fetch_update(Release, Relaxed, |old| Some(next(old)));
        self.given();
    }

    /// True if it is tracked. The caller holds it.
    pub fn is_tracked(&self) -> bool {
        self.word.load(Relaxed) & TRACKED != 0
    }

    /// It is tracked from now on. The caller holds it.
    pub fn track(&self) {
        self.word.fetch_or(TRACKED, Relaxed);
    }

    /// The launch has read.
    #[inline]
    pub fn release_read(&self) {
        self.word.fetch_sub(READER, Release);
        self.given();
    }

    /// The launch has written; the memory is tracked from now on, or not.
    #[inline]
    pub fn release_write(&self, tracked: bool) {
        self.word.store(if tracked { TRACKED } else { 0 }, Release);
        self.given();
    }

    /// The guards that would refuse a pipeline that enters the order now, to write or only to read:
    /// [`Refused::Pending`] stands for guards of parts.
    pub fn look(&self, written: bool) -> Result<(), Refused> {
        let claim = if written { Claim::PEND_WRITE } else { Claim::PEND_READ };
        claim.refuses(self.word.load(Relaxed))
    }

    /// A pipeline that enters the order will read.
    pub fn pend_read(&self) -> Result<(), Refused> {
        self.take(Claim::PEND_READ).map(|_| ())
    }

    /// A pipeline that enters the order will write. [`Refused::Pending`]: guards of parts are alive.
    /// `beside`: they do not conflict.
    pub fn pend_write(&self, beside: bool) -> Result<(), Refused> {
        self.take(if beside { Claim::PEND_WRITE_BESIDE } else { Claim::PEND_WRITE }).map(|_| ())
    }

    /// The same as [`pend_read`](Self::pend_read) and [`pend_write`](Self::pend_write), but beside guards
    /// that conflict. True if there is one of all of it, which is waited for later.
    pub fn pend_behind(&self, written: bool) -> bool {
        let (claim, guards) = match written {
            true => (Claim::PEND_WRITE_BEHIND, GUARD_WRITES | GUARDS),
            false => (Claim::PEND_READ_BEHIND, GUARD_WRITES),
        };
        // The claim names no bit that refuses.
        self.take_from(self.word.load(Relaxed), claim).is_ok_and(|before| before & guards != 0)
    }

    /// A call of the host reads some of it that no pending pipeline writes, or will while a guard of the
    /// caller is alive; `None`: not possible now. True if it is tracked. Ends with
    /// [`release_read`](Self::release_read).
    pub fn read_beside(&self) -> Option<bool> {
        let claim = Claim { pending: 0, ..Claim::LAUNCH_READ };
        let next = |old: u64| claim.passes(old).then_some(old + claim.add);
        self.word.fetch_update(Acquire, Relaxed, next).ok().map(|before| before & TRACKED != 0)
    }

    /// True if no launch reads it, of a memory that a pending pipeline is counted in: then none will, but for
    /// calls of the host that read parts that the pipeline does not write.
    pub fn is_drained(&self) -> bool {
        self.word.load(Acquire) & READERS == 0
    }

    /// Waits until no launch reads it: called by a pending pipeline whose turn it is, before it writes.
    pub fn drained(&self) {
        // The claim names no bit that refuses; a pipeline does not become pending in a child of `fork`.
        while self.word.load(Acquire) & READERS != 0 && self.take_slow(Claim::DRAINED).is_ok() {}
    }

    /// A pending pipeline runs from now on: called when it is its turn, after all waiting.
    pub fn begin(&self) {
        // The claim names no bit that refuses.
        let _ = self.take(Claim::BEGIN);
    }

    /// The rest of a pipeline that has begun is run later: it is as before [`begin`](Self::begin), and has
    /// nothing in flight. Its copies on devices may be evicted until it begins again.
    pub fn suspend(&self) {
        self.word.fetch_sub(RUNNER, Release);
        self.given();
    }

    /// The pending pipeline has read.
    pub fn release_pending_read(&self) {
        self.word.fetch_sub(PENDING_READ + RUNNER, Release);
        self.given();
    }

    /// The pending pipeline has written; the memory is tracked from now on, or not, or as before.
    pub fn release_pending_write(&self, tracked: Option<bool>) {
        self.change(|old| {
            let left = old - (PENDING_WRITE + RUNNER);
            tracked.map_or(left, |tracked| if tracked { left | TRACKED } else { left & !TRACKED })
        });
    }

    /// A pipeline that was counted has not begun: the contents stay as they are.
    pub fn unpend(&self, written: bool) {
        self.word.fetch_sub(if written { PENDING_WRITE } else { PENDING_READ }, Release);
        self.given();
    }

    /// The host will read. True if it is tracked.
    pub fn guard_read(&self) -> Result<bool, Refused> {
        self.take(Claim::GUARD_READ)
    }

    /// The host will read, or write. [`Refused::Pending`]: pipelines that conflict are pending.
    pub fn guard_now(&self, written: bool) -> Result<bool, Refused> {
        self.take(if written { Claim::GUARD_WRITE_NOW } else { Claim::GUARD_READ_NOW })
    }

    /// The host will read, and does so already: the thread has a guard of all of it. True if it is tracked.
    pub fn guard_again(&self) -> bool {
        self.word.fetch_add(GUARD, Relaxed) & TRACKED != 0
    }

    /// The host will read a part; `others`: guards of parts are alive, otherwise none is. True if it is
    /// tracked. [`Refused::Pending`]: a pipeline that writes is pending. The caller has locked the list of
    /// parts.
    pub fn guard_part(&self, others: bool) -> Result<bool, Refused> {
        if !others {
            return self.take(Claim::GUARD_PART);
        }
        // As long as those are alive, no write guard is, and no launch writes.
        let old = self.word.load(Acquire);
        if old & PENDING_WRITES == 0 { Ok(old & TRACKED != 0) } else { Err(Refused::Pending) }
    }

    /// The host will read a part of what the thread's guards read already. True if it is tracked. The caller
    /// has locked the list of parts.
    pub fn guard_part_again(&self) -> bool {
        self.word.fetch_or(PARTS, Acquire) & TRACKED != 0
    }

    /// The host will read a part that no pending pipeline writes; `None`: not possible now. True if it is
    /// tracked. The caller has locked the list of parts.
    pub fn guard_part_beside(&self) -> Option<bool> {
        let next = |old: u64| (old & (GUARD_WRITES | WRITER) == 0).then_some(old | PARTS);
        self.word.fetch_update(Acquire, Relaxed, next).ok().map(|before| before & TRACKED != 0)
    }

    /// A guard of a part is released, and `last`: no other is alive. True if pipelines that write are
    /// counted, which may wait for that.
    pub fn release_guard_part(&self, last: bool) -> bool {
        let before = match last {
            true => self.word.fetch_and(!PARTS, AcqRel),
            false => self.word.fetch_or(0, AcqRel),
        };
        before & PENDING_WRITES != 0
    }

    /// The host will write. True if it is tracked.
    pub fn guard_write(&self) -> Result<bool, Refused> {
        self.take(Claim::GUARD_WRITE)
    }

    /// The host has read. True if pipelines that write are counted, which may wait for that.
    pub fn release_guard_read(&self) -> bool {
        let before = self.word.fetch_sub(GUARD, AcqRel);
        self.given();
        before & PENDING_WRITES != 0
    }

    /// The host has written; the memory is tracked from now on, or not. True if pipelines are counted, which
    /// may wait for that.
    pub fn release_guard_write(&self, tracked: bool) -> bool {
        let next = |old: u64| (old & !(GUARD_WRITES | TRACKED)) | if tracked { TRACKED } else { 0 };
        let before = self.word.fetch_update(AcqRel, Relaxed, |old| Some(next(old)));
        self.given();
        before.is_ok_and(|before| before & (PENDING_READS | PENDING_WRITES) != 0)
    }
}
