//! The fast path of holders of memories that are not counted among the active runs
//! (`runtime/distributed/room.rs`): launches on the inline path, and those that are about to take their
//! memories. A run can close this path for a while.
//!
//! Each thread has a flag of its own, so that no thread writes to a line that others need. A run that closes
//! the path announces it first, and then waits until it has seen all flags down. A thread that enters the
//! path raises its flag first, and then checks for an announcement. One of the two sees the other, as between
//! the word of a memory and its waiters ([`state`](super::state)). A thread that sleeps until it may take a
//! memory has its flag down, since it may wait for the run that closes the path. The memories that it holds
//! meanwhile count as used, and a run that lacks just their room gets an error.

use super::state::{heavy, light};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Odd: it is up. Counts its changes. On a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Flag(AtomicU32);

/// The flags of all threads that ever raised theirs.
static FLAGS: Mutex<Vec<Arc<Flag>>> = Mutex::new(Vec::new());

/// Number of runs that keep the path closed.
static WANTED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static FLAG: Arc<Flag> = {
        let flag = Arc::<Flag>::default();
        let mut flags = FLAGS.lock().unwrap_or_else(|e| e.into_inner());
        // Flags of ended threads have no other owner.
        flags.retain(|other| Arc::strong_count(other) > 1);
        flags.push(flag.clone());
        flag
    };
}

impl Flag {
    /// Raises or lowers it. Only its own thread may call this.
    #[inline]
    fn turn(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Release);
    }

    fn is_up(&self) -> bool {
        !self.0.load(Acquire).is_multiple_of(2)
    }
}

fn flags() -> Vec<Arc<Flag>> {
    FLAGS.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

/// This thread holds memories, or is about to, until this is dropped.
pub(crate) struct FastPathGuard(());

impl FastPathGuard {
    #[inline]
    pub fn begin() -> FastPathGuard {
        // A thread that is about to end has no flag: no run waits for it, and at worst one fails that could
        // have waited.
        let _ = FLAG.try_with(|flag| flag.turn());
        light();
        FastPathGuard(())
    }

    /// False: the path is closed.
    #[inline]
    pub fn may_stay(&self) -> bool {
        WANTED.load(Relaxed) == 0
    }
}

impl Drop for FastPathGuard {
    #[inline]
    fn drop(&mut self) {
        let _ = FLAG.try_with(|flag| flag.turn());
    }
}

/// Runs something that may take long, with the flag down: a run that closes the path does not wait for it.
pub(super) fn asleep<R>(body: impl FnOnce() -> R) -> R {
    let was_up = FLAG.try_with(|flag| flag.is_up()).unwrap_or(false);
    if was_up {
        drop(FastPathGuard(()));
    }
    let outcome = body();
    if was_up {
        std::mem::forget(FastPathGuard::begin());
    }
    outcome
}

/// Keeps the path closed until this is dropped.
pub(crate) struct FastPathFence {
    /// The state of all flags when they were down.
    seen: Vec<(Arc<Flag>, u32)>,
}

impl FastPathFence {
    pub fn begin() -> FastPathFence {
        WANTED.fetch_add(1, SeqCst);
        heavy();
        FastPathFence { seen: Vec::new() }
    }

    /// Waits until it has seen every flag down. The caller must not be on the path.
    pub fn settle(&mut self) {
        let down = |flag: Arc<Flag>| loop {
            let seen = flag.0.load(Acquire);
            if seen.is_multiple_of(2) {
                return (flag, seen);
            }
            std::thread::sleep(Duration::from_micros(20));
        };
        self.seen = flags().into_iter().map(down).collect();
    }

    /// True if no flag was raised since then.
    pub fn was_undisturbed(&self) -> bool {
        heavy();
        let now = flags();
        now.len() == self.seen.len()
            && now
                .iter()
                .zip(&self.seen)
                .all(|(flag, (before, seen))| Arc::ptr_eq(flag, before) && flag.0.load(Acquire) == *seen)
    }
}

impl Drop for FastPathFence {
    fn drop(&mut self) {
        WANTED.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn nobody_stays_uncounted_while_somebody_wants_quiet() {
        crate::memory::state::agree();
        let (inside, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let rounds = if cfg!(miri) { 10 } else { 2_000 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        let uncounted = FastPathGuard::begin();
                        if uncounted.may_stay() {
                            inside.fetch_add(1, Relaxed);
                            inside.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
            for _ in 0..rounds {
                let mut quiet = FastPathFence::begin();
                quiet.settle();
                assert!((0..20).all(|_| inside.load(Relaxed) == 0));
            }
            over.store(true, Relaxed);
        });
        let mut quiet = FastPathFence::begin();
        quiet.settle();
        let uncounted = FastPathGuard::begin();
        assert!(!quiet.was_undisturbed() && !uncounted.may_stay());
        asleep(|| quiet.settle());
        drop(uncounted);
        assert!(!quiet.was_undisturbed(), "it was up, though it is not any more");
        drop(quiet);
        assert!(FastPathGuard::begin().may_stay());
    }
}
