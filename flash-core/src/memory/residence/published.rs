//! A published value: writers take turns under a lock, readers are lock-free.
//!
//! The models (`tests/loom`) include this file beside their own `sync`, so it names no other modules.

use super::sync::{AtomicU32, AtomicU64, Ordering::*, Place, barrier, fresh, spin};

/// The value, if there is one.
pub(crate) struct Published<T> {
    /// Its number, which no other value of any place has; 0: it is not valid.
    number: AtomicU64,
    /// Number of its users.
    users: AtomicU32,
    /// Written by the holder of the lock, while it is not valid and has no users.
    value: Place<Option<Version<T>>>,
}

struct Version<T> {
    number: u64,
    value: T,
}

// SAFETY: `value` is written by one thread at a time, and not while it has users; what users see is shared,
// and what is written may be dropped on another thread.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Default for Published<T> {
    fn default() -> Published<T> {
        Published { number: AtomicU64::new(0), users: AtomicU32::new(0), value: Place::new(None) }
    }
}

impl<T: PartialEq> Published<T> {
    /// Publishes a value. The caller has the lock. While the old one has users, none is published, until the
    /// next call.
    pub fn set(&self, value: Option<T>) {
        let now = self.said();
        let mut number = now.map_or(0, |said| said.number);
        if now.map(|said| &said.value) != value.as_ref() {
            if now.is_some() {
                // Either a new user sees this, or this sees the user.
                self.number.store(0, SeqCst);
                barrier();
                if self.users.load(SeqCst) != 0 {
                    return;
                }
            }
            number = if value.is_some() { fresh() } else { 0 };
            let said = value.map(|value| Version { number, value });
            // SAFETY: it is not valid, and has no users: no longer, or not since there is none.
            self.value.with_mut(|place| unsafe { *place = said });
        }
        self.number.store(number, Release);
    }

    /// Makes the value invalid, and returns when it has no users. The caller has the lock.
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
        // SAFETY: it is not valid, and has no users.
        self.value.with_mut(|place| unsafe { *place = None });
    }

    /// The value, valid or not. The caller has the lock.
    fn said(&self) -> Option<&Version<T>> {
        // SAFETY: only the holder of the lock writes it.
        self.value.with(|now| unsafe { &*now }.as_ref())
    }

    /// True if there is a valid one.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.number() != 0
    }

    /// Its number, which stays as long as the same value is published; 0: there is none.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// The value. The caller keeps all others from publishing until the reference ends.
    #[inline]
    pub fn alone(&self) -> Option<&T> {
        self.alone_if(|number| number != 0)
    }

    /// The same, if its number is the given one: not 0.
    #[inline]
    pub fn alone_if(&self, fits: impl FnOnce(u64) -> bool) -> Option<&T> {
        if !fits(self.number.load(Acquire)) {
            return None;
        }
        // SAFETY: it is not written, as the caller promises.
        self.value.with(|value| unsafe { &*value }.as_ref()).map(|said| &said.value)
    }

    /// `Some`: it stays until [`end`](Self::end).
    #[inline]
    pub fn share(&self) -> Option<&T> {
        self.share_if(|number| number != 0)
    }

    /// The same, if its number is the given one: not 0.
    #[inline]
    pub fn share_if(&self, fits: impl FnOnce(u64) -> bool) -> Option<&T> {
        self.users.fetch_add(1, SeqCst);
        barrier();
        if !fits(self.number.load(SeqCst)) {
            self.end();
            return None;
        }
        // SAFETY: a writer waits until it has no users, after it was made invalid.
        self.value.with(|value| unsafe { &*value }.as_ref()).map(|said| &said.value)
    }

    /// Ends what [`share`](Self::share) began.
    #[inline]
    pub fn end(&self) {
        self.users.fetch_sub(1, Release);
    }
}
