//! Threads on a fast path of a launch, and the fence that keeps them off it.
//!
//! A launch on the inline or the resident path holds memories without being counted among the active runs
//! (`runtime/distributed/room.rs`). It holds a [`FastPathGuard`] instead: each thread raises a flag of its
//! own, so that launches of different threads write to different cache lines. A run that needs all memories
//! of a device, and finds others in use, takes a [`FastPathFence`]: from then on no launch stays on a fast
//! path, and the fence waits until every flag was down once.
//!
//! *Invariant.* After [`settle`](FastPathFence::settle), and until the fence is dropped, no launch is on a
//! fast path. A thread raises its flag and then looks for fences; a fence announces itself and then looks at
//! the flags. Between the two steps stands a pair of fences ([`light`], [`heavy`]), so one of the two sees
//! the other. The same pair stands between lowering a flag and looking for fences, so a fence that finds a
//! flag up is told when it goes down.
//!
//! A thread that sleeps until it may take a memory lowers its flag meanwhile ([`asleep`]), since it may wait
//! for the holder of a fence. What it holds counts as used: a run that lacks just that gets an error.

use super::state::{heavy, light};
use flash_backend::fork;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Odd: it is up. Counts how often it went up and down. A line to itself.
#[repr(align(128))]
#[derive(Default)]
struct Flag(AtomicU32);

/// The flags of all threads that ever raised theirs.
static FLAGS: Mutex<Vec<Arc<Flag>>> = Mutex::new(Vec::new());

/// The number of fences.
static FENCES: AtomicU32 = AtomicU32::new(0);

/// Taken to tell fences that a flag went down, and to look at flags before sleeping.
static LOWERED: Mutex<()> = Mutex::new(());
static TOLD: Condvar = Condvar::new();

thread_local! {
    static FLAG: Arc<Flag> = {
        let flag = Arc::<Flag>::default();
        let mut flags = FLAGS.lock().unwrap_or_else(|e| e.into_inner());
        // Flags of threads that have ended.
        flags.retain(|other| Arc::strong_count(other) > 1);
        flags.push(flag.clone());
        flag
    };
}

impl Flag {
    /// Up, or down again. For its own thread.
    #[inline]
    fn turn(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Release);
    }

    fn is_up(&self) -> bool {
        !self.0.load(Acquire).is_multiple_of(2)
    }
}

/// In a child of `fork` there is a fence for ever: devices, which the fast paths are for, are the parent's.
pub(super) fn watch_forks() {
    fork::hold(&FLAGS);
    fork::on_fork(|| {
        FENCES.fetch_add(1, SeqCst);
    });
}

/// A flag went down while there are fences.
#[cold]
fn tell_fences() {
    if fork::is_child() {
        // No thread waits in a fence.
        return;
    }
    drop(lowered());
    TOLD.notify_all();
}

fn lowered() -> MutexGuard<'static, ()> {
    LOWERED.lock().unwrap_or_else(|e| e.into_inner())
}

fn flags() -> Vec<Arc<Flag>> {
    FLAGS.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

/// This thread holds memories, or is about to, until this is dropped.
pub(crate) struct FastPathGuard(());

impl FastPathGuard {
    #[inline]
    pub fn begin() -> FastPathGuard {
        // A thread that is about to end has no flag, and no fence waits for it: at worst a run fails that
        // could wait.
        let _ = FLAG.try_with(|flag| {
            debug_assert!(!flag.is_up(), "a thread is on one fast path at a time");
            flag.turn();
        });
        light();
        FastPathGuard(())
    }

    /// False: there is a fence.
    #[inline]
    pub fn may_stay(&self) -> bool {
        FENCES.load(Relaxed) == 0
    }
}

impl Drop for FastPathGuard {
    #[inline]
    fn drop(&mut self) {
        let _ = FLAG.try_with(|flag| flag.turn());
        light();
        if FENCES.load(Relaxed) != 0 {
            tell_fences();
        }
    }
}

/// Does something that may take long, with this thread's flag down.
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

/// Keeps all launches off the fast paths until it is dropped.
pub(crate) struct FastPathFence {
    /// All flags, each with its value when it was down.
    seen: Vec<(Arc<Flag>, u32)>,
}

impl FastPathFence {
    pub fn begin() -> FastPathFence {
        FENCES.fetch_add(1, SeqCst);
        heavy();
        FastPathFence { seen: Vec::new() }
    }

    /// Waits until it has seen every flag down. Not for a thread whose own flag is up.
    pub fn settle(&mut self) {
        let down = |flag: Arc<Flag>| {
            let mut told = lowered();
            loop {
                let seen = flag.0.load(Acquire);
                if seen.is_multiple_of(2) {
                    return (flag, seen);
                }
                fork::before_sleep();
                // The thread that lowers it sees the fence, and tells under the lock.
                told = TOLD.wait(told).unwrap_or_else(|e| e.into_inner());
            }
        };
        self.seen = flags().into_iter().map(down).collect();
    }

    /// True if no flag was up since then.
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
        FENCES.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn no_launch_stays_on_a_fast_path_while_there_is_a_fence() {
        crate::memory::state::agree();
        let (inside, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let rounds = if cfg!(miri) { 10 } else { 2_000 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        let guard = FastPathGuard::begin();
                        if guard.may_stay() {
                            inside.fetch_add(1, Relaxed);
                            inside.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
            for _ in 0..rounds {
                let mut fence = FastPathFence::begin();
                fence.settle();
                assert!((0..20).all(|_| inside.load(Relaxed) == 0));
            }
            over.store(true, Relaxed);
        });
        let mut fence = FastPathFence::begin();
        fence.settle();
        let guard = FastPathGuard::begin();
        assert!(!fence.was_undisturbed() && !guard.may_stay());
        asleep(|| fence.settle());
        drop(guard);
        assert!(!fence.was_undisturbed(), "it was up, though it is not any more");
        drop(fence);
        assert!(FastPathGuard::begin().may_stay());
    }
}
