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
use super::sync::{AtomicU64, UnsafeCell};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// A moment, before which a waiting thread has looked at what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    wakes: u64,
    /// Rings of the bell: a peer that joins or leaves rings it.
    rings: u32,
}

impl Ticket {
    /// Of a transport that counts what ends its waits.
    pub fn of(count: u64) -> Ticket {
        Ticket { wakes: count, rings: 0 }
    }
}

/// Private memory of an endpoint, beside its [`Doorbell`].
pub(crate) struct Waiters<T> {
    wakes: AtomicU64,
    /// 1 while a thread takes frames, and 2 per thread that sleeps.
    turn: AtomicU64,
    /// Of the thread that takes frames.
    state: UnsafeCell<T>,
}

const TAKEN: u64 = 1;
const SLEEPER: u64 = 2;

// SAFETY: the state is used by the thread that has the turn, and by one after the other. `turn` is released
// by one and acquired by the next.
unsafe impl<T: Send> Sync for Waiters<T> {}

impl<T> Waiters<T> {
    pub(crate) fn new(state: T) -> Waiters<T> {
        Waiters { wakes: AtomicU64::new(0), turn: AtomicU64::new(0), state: UnsafeCell::new(state) }
    }

    pub(crate) fn ticket(&self, bell: Doorbell<'_>) -> Ticket {
        Ticket { wakes: self.wakes.load(Acquire), rings: bell.count.load(Acquire) }
    }

    pub(crate) fn wake(&self, bell: Doorbell<'_>) {
        self.wakes.fetch_add(1, Release);
        bell.ring();
    }

    /// Calls `take` with the state, unless another thread does so now. Then wakes those that slept meanwhile
    /// if there are `more` frames, also when `take` panics.
    pub(crate) fn turn<R>(
        &self,
        bell: Doorbell<'_>,
        more: impl Fn() -> bool,
        take: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        if self.turn.fetch_or(TAKEN, Acquire) & TAKEN != 0 {
            return None;
        }
        let _end = OnDrop(|| {
            // Acquired and released: what those that are asleep had seen is visible to `more`.
            if self.turn.fetch_sub(TAKEN, AcqRel) >= SLEEPER && more() {
                bell.wake();
            }
        });
        // SAFETY: this thread has set the bit, and clears it afterwards: no other thread is here.
        Some(self.state.with_mut(|state| take(unsafe { &mut *state })))
    }

    /// Whether there is something to do for a thread with this ticket: a wake, a ring, or frames that no
    /// other thread is taking.
    pub(crate) fn is_due(&self, bell: Doorbell<'_>, ticket: Ticket, frames: impl FnOnce() -> bool) -> bool {
        self.ticket(bell) != ticket || (self.turn.load(Relaxed) & TAKEN == 0 && frames())
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
        let is_taken = self.turn.fetch_add(SLEEPER, AcqRel) & TAKEN != 0;
        if self.ticket(bell) == ticket && (is_taken || !frames()) {
            bell.sleep(seen, at_most);
        }
        self.turn.fetch_sub(SLEEPER, Relaxed);
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
