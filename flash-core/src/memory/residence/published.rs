//! A value that one says at a time, under a lock of its own, and that others look at without it.
//!
//! The models (`tests/loom`) include this file beside their own `sync`, so it names no others.

use super::sync::{AtomicU32, AtomicU64, Ordering::*, Place, barrier, fresh, spin};

/// The value, if there is one.
pub(crate) struct Published<T> {
    /// Its number, which no other value of any place has; 0: it is not valid.
    number: AtomicU64,
    /// Who looks at it.
    users: AtomicU32,
    /// Written by who has the lock, while it is not valid and nobody looks at it.
    value: Place<Option<Version<T>>>,
}

struct Version<T> {
    number: u64,
    value: T,
}

// SAFETY: `value` is written by one at a time, and not while somebody looks at it; what is looked at is shared,
// and what is written may be dropped elsewhere.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Default for Published<T> {
    fn default() -> Published<T> {
        Published { number: AtomicU64::new(0), users: AtomicU32::new(0), value: Place::new(None) }
    }
}

impl<T: PartialEq> Published<T> {
    /// Says it. For who has the lock. While somebody looks at another one, nothing is said: the next time then.
    pub fn set(&self, value: Option<T>) {
        let now = self.said();
        let mut number = now.map_or(0, |said| said.number);
        if now.map(|said| &said.value) != value.as_ref() {
            if now.is_some() {
                // Either who looks at it sees this, or this sees who looks at it.
                self.number.store(0, SeqCst);
                barrier();
                if self.users.load(SeqCst) != 0 {
                    return;
                }
            }
            number = if value.is_some() { fresh() } else { 0 };
            let said = value.map(|value| Version { number, value });
            // SAFETY: it is not valid, and nobody looks at it: not any more, or not since there is none.
            self.value.with_mut(|place| unsafe { *place = said });
        }
        self.number.store(number, Release);
    }

    /// Nobody finds it any more, and who looked at it is done with it. For who has the lock.
    pub fn leave(&self) {
        if self.said().is_none() {
            return;
        }
        // As above.
        self.number.store(0, SeqCst);
        barrier();
        let mut round = 0;
        while self.users.load(SeqCst) != 0 {
            round += 1;
            spin(round);
        }
        // SAFETY: it is not valid, and nobody looks at it.
        self.value.with_mut(|place| unsafe { *place = None });
    }

    /// What is there, valid or not. For who has the lock.
    fn said(&self) -> Option<&Version<T>> {
        // SAFETY: only who has the lock writes it.
        self.value.with(|now| unsafe { &*now }.as_ref())
    }

    /// True if there is one.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.number() != 0
    }

    /// Its number, which it has as long as it is said again and again; 0: there is none.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// For who keeps everybody from saying it until the answer ends.
    #[inline]
    pub fn alone(&self) -> Option<&T> {
        self.alone_if(|number| number != 0)
    }

    /// The same, if its number is as asked for: not 0.
    #[inline]
    pub fn alone_if(&self, fits: impl FnOnce(u64) -> bool) -> Option<&T> {
        if !fits(self.number.load(Acquire)) {
            return None;
        }
        // SAFETY: nobody writes it, by the caller's word.
        self.value.with(|value| unsafe { &*value }.as_ref()).map(|said| &said.value)
    }

    /// `Some`: it stays until [`end`](Self::end).
    #[inline]
    pub fn share(&self) -> Option<&T> {
        self.share_if(|number| number != 0)
    }

    /// The same, if its number is as asked for: not 0.
    #[inline]
    pub fn share_if(&self, fits: impl FnOnce(u64) -> bool) -> Option<&T> {
        self.users.fetch_add(1, SeqCst);
        barrier();
        if !fits(self.number.load(SeqCst)) {
            self.end();
            return None;
        }
        // SAFETY: who writes it waits until nobody looks at it, after it was made not valid.
        self.value.with(|value| unsafe { &*value }.as_ref()).map(|said| &said.value)
    }

    /// Ends what [`share`](Self::share) began.
    #[inline]
    pub fn end(&self) {
        self.users.fetch_sub(1, Release);
    }
}
