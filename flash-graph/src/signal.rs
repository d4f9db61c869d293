//! Which threads are at a graph, in one word, so that none is missing where there is work.
//!
//! A thread that publishes an activation puts it into the queue, and then changes the word
//! ([`news`](Signal::news)). A thread that is about to leave or to sleep says so in the word, and then looks
//! at the queue for the last time. All changes of one word are in one order: either the publisher sees that
//! the thread has gone, and calls another, or the thread sees the activation. No fence is needed.
//!
//! | part | what it counts |
//! |---|---|
//! | `LOOKING` | threads that look for work: one of them takes what comes next |
//! | `ATTENDING` | workers that are here |
//! | `SLEEPING` | threads that wait for something of the graph, and sleep |
//! | `SENT` | a worker was called, and has not come |
//! | `ROUSED` | a sleeping thread was woken because of an activation, and has not come |
//! | `NEWS` | changes, modulo 2^16 |

use super::sync::{AtomicU64, Ordering};

const LOOKING: u64 = 1;
const ATTENDING: u64 = 1 << 14;
const SLEEPING: u64 = 1 << 28;
const SENT: u64 = 1 << 42;
const ROUSED: u64 = 1 << 43;
const NEWS: u64 = 1 << 48;
const MASK: u64 = (1 << 14) - 1;

#[derive(Default)]
pub(crate) struct Signal(AtomicU64);

/// What a publisher sees.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u64);

/// Which thread a publisher is to call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    /// None: there is one.
    None,
    /// One that sleeps.
    Sleeper,
    /// A worker.
    Worker,
}

impl Seen {
    /// True if a thread looks for work.
    #[inline]
    pub(crate) fn is_looked_after(self) -> bool {
        self.0 & MASK > 0
    }

    #[inline]
    pub(crate) fn sleeps(self) -> bool {
        (self.0 / SLEEPING) & MASK > 0
    }

    pub(crate) fn is_attended(self) -> bool {
        (self.0 / ATTENDING) & MASK > 0
    }
}

impl Signal {
    /// Something has been published, or has changed.
    #[inline]
    pub(crate) fn news(&self) -> Seen {
        Seen(self.0.fetch_add(NEWS, Ordering::AcqRel))
    }

    /// What the word says just now.
    #[inline]
    pub(crate) fn seen(&self) -> Seen {
        Seen(self.0.load(Ordering::Acquire))
    }

    /// The thread that a publisher calls when it has seen that nothing looks for work. At most one thread of
    /// either kind is on its way.
    pub(crate) fn call(&self, most_workers: usize) -> Call {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (mark, call) = if Seen(word).is_looked_after() {
                return Call::None;
            } else if Seen(word).sleeps() && word & ROUSED == 0 {
                (ROUSED, Call::Sleeper)
            } else if word & SENT == 0 && (word / ATTENDING) & MASK < most_workers as u64 {
                (SENT, Call::Worker)
            } else {
                return Call::None;
            };
            match self.0.compare_exchange_weak(word, word | mark, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return call,
                Err(found) => word = found,
            }
        }
    }

    /// A worker that was called is here. It looks at the queue next.
    pub(crate) fn arrive(&self) {
        self.0.fetch_add(ATTENDING, Ordering::AcqRel);
        self.0.fetch_and(!SENT, Ordering::AcqRel);
    }

    /// A worker leaves. It looks at the queue for the last time after this, and calls if there is something.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(ATTENDING, Ordering::AcqRel);
    }

    /// A thread begins to look for work.
    pub(crate) fn look(&self) {
        self.0.fetch_add(LOOKING, Ordering::AcqRel);
    }

    /// It no longer does, and looks at the queue for the last time after this, as a publisher may have relied
    /// on it.
    pub(crate) fn look_away(&self) {
        self.0.fetch_sub(LOOKING, Ordering::AcqRel);
    }

    /// A thread is about to sleep. It looks at everything that it waits for after this.
    pub(crate) fn sleep(&self) {
        self.0.fetch_add(SLEEPING, Ordering::AcqRel);
    }

    /// It is awake. It looks at the queue next.
    pub(crate) fn awake(&self) {
        self.0.fetch_sub(SLEEPING, Ordering::AcqRel);
        self.0.fetch_and(!ROUSED, Ordering::AcqRel);
    }
}
