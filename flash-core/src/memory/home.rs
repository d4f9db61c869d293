//! Where an array is at hand: what a launch on that device then need not look up.
//!
//! An array's *home* is a device and one box of its elements that is current there. Who holds the array and
//! finds its home where it computes, and in the box all that it touches, needs neither the directory nor its
//! lock; if the box is current nowhere else, that holds for writing, too. Nothing of an array with a home is
//! poisoned.
//!
//! The home is said anew whenever the directory was changed, under its lock. While a launch holds the array
//! alone, nobody says it. A launch that shares the hold says that it [uses](Home::share) the home, and who
//! says another one, or takes the copy away, waits until nobody does.

use super::device::{DeviceMemory, LastUse};
use super::region::{Block, Grid};
use crate::abi::Buffer;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// The home of one array, if it has one.
#[derive(Default)]
pub(crate) struct Home {
    valid: AtomicBool,
    /// Launches that share the hold and use it.
    users: AtomicU32,
    /// Written by who has the directory's lock while it is not valid and has no users.
    entry: UnsafeCell<Option<AtHome>>,
}

// SAFETY: `entry` is written under the directory's lock when nobody reads it, see its field.
unsafe impl Sync for Home {}
// SAFETY: what it refers to lives for ever or is shared.
unsafe impl Send for Home {}

/// What is there.
#[derive(Clone, PartialEq)]
pub(crate) struct AtHome {
    pub memory: &'static DeviceMemory,
    pub buffer: Buffer,
    /// The element with which the buffer begins.
    pub first: u64,
    pub last_use: LastUse,
    /// The grid of the array's directory.
    pub grid: Grid,
    /// What is current.
    pub block: Block,
    /// It is current nowhere else.
    pub only: bool,
}

impl AtHome {
    /// True if a box is there, seen in a grid of a launch's own. `all`: that grid is all of the array.
    #[inline]
    pub fn has(&self, block: &Block, seen: &Grid, all: bool) -> bool {
        let complete = self.block == self.grid.block();
        complete || (all && self.grid == *seen && self.block.contains(block))
    }
}

impl Home {
    /// Says it. For who has the directory's lock.
    pub fn set(&self, home: Option<AtHome>) {
        // SAFETY: only who has the lock writes it.
        if unsafe { &*self.entry.get() } == &home {
            return;
        }
        self.leave();
        let valid = home.is_some();
        // SAFETY: it is not valid, and nobody uses it any more, see `share`.
        unsafe { *self.entry.get() = home };
        self.valid.store(valid, Release);
    }

    /// Nobody finds it any more, and who used it is done with it. For who has the directory's lock. Those it
    /// waits for are launches on their way, which want no lock before they end.
    pub fn leave(&self) {
        if !self.valid.load(Relaxed) {
            return;
        }
        // Either `share` sees this, or this sees the user.
        self.valid.store(false, SeqCst);
        let mut round = 0u32;
        while self.users.load(SeqCst) != 0 {
            round += 1;
            if round < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        // SAFETY: it is not valid and nobody uses it.
        unsafe { *self.entry.get() = None };
    }

    /// True if there is one.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.valid.load(Relaxed)
    }

    /// For the only holder, who gives the array back before the answer ends.
    #[inline]
    pub fn alone(&self) -> Option<&AtHome> {
        if !self.valid.load(Acquire) {
            return None;
        }
        // SAFETY: written by who has the directory's lock and holds the array; that is nobody now.
        unsafe { &*self.entry.get() }.as_ref()
    }

    /// For one of the holders. `Some`: it stays until [`end`](Self::end).
    #[inline]
    pub fn share(&self) -> Option<&AtHome> {
        self.users.fetch_add(1, SeqCst);
        if !self.valid.load(SeqCst) {
            self.end();
            return None;
        }
        // SAFETY: who writes it waits until there are no users, after it was made not valid.
        unsafe { &*self.entry.get() }.as_ref()
    }

    /// Ends what [`share`](Self::share) began.
    #[inline]
    pub fn end(&self) {
        self.users.fetch_sub(1, Release);
    }
}
