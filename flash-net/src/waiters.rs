//! The threads of one process that wait for frames and for each other.
//!
//! One thread at a time takes frames; the others sleep, also while frames come, and one of them takes over
//! when the first has left. What wakes them:
//!
//! - a sender, whose frame came while no thread took frames, or while one had looked already;
//! - the thread that took frames, when it leaves while some are still there;
//! - [`Waiters::wake`], by any thread of the process that has changed what another waits for. A thread takes
//!   a [`Ticket`] before it looks at what it waits for; a wake after that ends its wait at once.

use super::doorbell::Doorbell;
use super::sync::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// A moment, before which a waiting thread has looked at what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    wakes: u64,
    /// Rings of the bell: a peer that joins or leaves rings it.
    rings: u32,
}

/// Private memory of a process, beside its [`Doorbell`].
pub(crate) struct Waiters {
    wakes: AtomicU64,
    /// 1 while a thread takes frames.
    taken: AtomicU64,
}

impl Waiters {
    pub(crate) fn new() -> Waiters {
        Waiters { wakes: AtomicU64::new(0), taken: AtomicU64::new(0) }
    }

    pub(crate) fn ticket(&self, bell: Doorbell<'_>) -> Ticket {
        Ticket { wakes: self.wakes.load(Acquire), rings: bell.count.load(Acquire) }
    }

    pub(crate) fn wake(&self, bell: Doorbell<'_>) {
        self.wakes.fetch_add(1, Release);
        bell.ring();
    }

    /// The caller, which holds the lock of those that take frames, begins.
    pub(crate) fn begin(&self) {
        self.taken.store(1, Relaxed);
    }

    /// The caller has taken some, and is about to unlock. After that it calls [`Waiters::hand_over`].
    pub(crate) fn end(&self) {
        self.taken.store(0, Release);
    }

    /// Wakes those that slept while frames were taken, if there are `more`.
    pub(crate) fn hand_over(&self, bell: Doorbell<'_>, more: impl FnOnce() -> bool) {
        if bell.has_sleeper() && more() {
            bell.wake();
        }
    }

    /// Whether there is something to do for a thread with this ticket: a wake, a ring, or frames that no other thread
    /// is taking.
    pub(crate) fn is_due(&self, bell: Doorbell<'_>, ticket: Ticket, frames: impl FnOnce() -> bool) -> bool {
        self.ticket(bell) != ticket || (self.taken.load(Acquire) == 0 && frames())
    }

    /// Sleeps until something may be due. May return early.
    pub(crate) fn sleep(
        &self,
        bell: Doorbell<'_>,
        ticket: Ticket,
        at_most: Option<Duration>,
        frames: impl FnOnce() -> bool,
    ) {
        let seen = bell.announce();
        if !self.is_due(bell, ticket, frames) {
            bell.sleep(seen, at_most);
        }
    }
}
