//! A value that one says at a time, under a lock of its own, and that others look at without it.
//!
//! The models (`tests/loom`) include this file beside their own `sync`, so it names no others.

use super::sync::{AtomicBool, AtomicU32, Ordering::*, Place, barrier, spin};

/// The value, if there is one.
pub(crate) struct Published<T> {
    valid: AtomicBool,
    /// Who looks at it.
    users: AtomicU32,
    /// Written by who has the lock, while it is not valid and nobody looks at it.
    value: Place<Option<T>>,
}

// SAFETY: `value` is written by one at a time, and not while somebody looks at it; what is looked at is shared,
// and what is written may be dropped elsewhere.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Default for Published<T> {
    fn default() -> Published<T> {
        Published { valid: AtomicBool::new(false), users: AtomicU32::new(0), value: Place::new(None) }
    }
}

impl<T: PartialEq> Published<T> {
    /// Says it. For who has the lock. While somebody looks at another one, nothing is said: the next time then.
    pub fn set(&self, value: Option<T>) {
        let valid = value.is_some();
        // SAFETY: only who has the lock writes it.
        let now = self.value.with(|now| unsafe { &*now });
        if now != &value {
            if now.is_some() {
                // Either who looks at it sees this, or this sees who looks at it.
                self.valid.store(false, SeqCst);
                barrier();
                if self.users.load(SeqCst) != 0 {
                    return;
                }
            }
            // SAFETY: it is not valid, and nobody looks at it: not any more, or not since there is none.
            self.value.with_mut(|place| unsafe { *place = value });
        }
        self.valid.store(valid, Release);
    }

    /// Nobody finds it any more, and who looked at it is done with it. For who has the lock.
    pub fn leave(&self) {
        // SAFETY: only who has the lock writes it.
        if self.value.with(|now| unsafe { &*now }.is_none()) {
            return;
        }
        // As above.
        self.valid.store(false, SeqCst);
        barrier();
        let mut round = 0;
        while self.users.load(SeqCst) != 0 {
            round += 1;
            spin(round);
        }
        // SAFETY: it is not valid, and nobody looks at it.
        self.value.with_mut(|place| unsafe { *place = None });
    }

    /// True if there is one.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.valid.load(Relaxed)
    }

    /// For who keeps everybody from saying it until the answer ends.
    #[inline]
    pub fn alone(&self) -> Option<&T> {
        if !self.valid.load(Acquire) {
            return None;
        }
        // SAFETY: nobody writes it, by the caller's word.
        self.value.with(|value| unsafe { &*value }.as_ref())
    }

    /// `Some`: it stays until [`end`](Self::end).
    #[inline]
    pub fn share(&self) -> Option<&T> {
        self.users.fetch_add(1, SeqCst);
        barrier();
        if !self.valid.load(SeqCst) {
            self.end();
            return None;
        }
        // SAFETY: who writes it waits until nobody looks at it, after it was made not valid.
        self.value.with(|value| unsafe { &*value }.as_ref())
    }

    /// Ends what [`share`](Self::share) began.
    #[inline]
    pub fn end(&self) {
        self.users.fetch_sub(1, Release);
    }
}
