//! The turn: one launch at a time has the team.

use std::fmt;

use super::sync::{AtomicBool, Ordering, UnsafeCell};

/// The state that the launches of a team pass from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Tickets given out so far, the same on every slot between launches.
    pub(crate) base: u64,
    /// The number of the last letter.
    pub(crate) letter: u64,
    /// Nanoseconds that parked workers would have saved since the last wake.
    pub(crate) debt: u64,
}

/// The ledger and the flag that guards it, on one line: they travel together
/// when host threads alternate.
#[repr(align(128))]
pub(crate) struct Turn {
    busy: AtomicBool,
    ledger: UnsafeCell<Ledger>,
}

// SAFETY: the ledger is reached only through `MyTurn`, of which there is one at a time.
unsafe impl Sync for Turn {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for Turn {}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { busy: AtomicBool::new(false), ledger: UnsafeCell::new(Ledger::default()) }
    }

    /// From now on no launch has the team: in a child of `fork`, which has none of its threads.
    pub(crate) fn close(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    /// True while a launch has the team.
    pub(crate) fn is_taken(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Never waits: a nested launch would wait for the one it is part of.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<MyTurn<'_>> {
        // The load first, so that nested launches of a running kernel share the
        // line instead of fighting for it. Acquire pairs with the Release of
        // the last turn's drop: its ledger, and all that its launch did.
        if self.busy.load(Ordering::Relaxed) || self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(MyTurn(self))
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

/// The turn. Dropping it passes it on.
pub(crate) struct MyTurn<'a>(&'a Turn);

impl MyTurn<'_> {
    #[inline]
    pub(crate) fn ledger<R>(&mut self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.0.ledger.with_mut(|ledger| {
            // SAFETY: there is one `MyTurn`, and `&mut self` borrows it.
            f(unsafe { &mut *ledger })
        })
    }
}

impl Drop for MyTurn<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}
