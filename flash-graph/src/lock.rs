//! A lock for a few instructions: taken by one atomic instruction, and released by a store.

use super::sync::{AtomicBool, Ordering, UnsafeCell, spin_loop, yield_now};

/// Polls of a thread that finds it taken, until it lets others run.
const POLLS: usize = 100;

pub(crate) struct Lock<T> {
    taken: AtomicBool,
    inside: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the inside, which goes from thread to thread.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: with it the inside goes to another thread.
unsafe impl<T: Send> Send for Lock<T> {}

/// Releases a lock, also when `body` panics.
struct Release<'a>(&'a AtomicBool);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Lock<T> {
    pub(crate) fn new(inside: T) -> Lock<T> {
        Lock { taken: AtomicBool::new(false), inside: UnsafeCell::new(inside) }
    }

    /// Calls `body` with what is inside, when no other thread is at it.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        if self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        self.inside(body)
    }

    /// As [`with`](Self::with), unless another thread is at it.
    #[inline]
    pub(crate) fn try_with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(self.inside(body))
    }

    #[inline]
    fn inside<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _release = Release(&self.taken);
        // SAFETY: this thread changed `taken` to true, and it stays so until `_release` is dropped, after
        // `body`: no other thread is here, and what earlier ones wrote is visible (Acquire and Release).
        self.inside.with_mut(|inside| body(unsafe { &mut *inside }))
    }

    #[cold]
    fn wait(&self) {
        let mut polls = 0;
        while self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            polls += 1;
            match polls % POLLS {
                0 => yield_now(),
                _ => spin_loop(),
            }
        }
    }
}
