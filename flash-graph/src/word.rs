//! The state words: when a node runs, and when it, or the cycle that it is in, has ended.
//!
//! A node's [`Word`] counts the data in its inboxes (`pending`), the activations that are on their way to
//! run, parked, or running (`active`), and what it has begun and not yet emitted (`outstanding`: launches,
//! and results that wait for their order). A cycle's [`Count`] counts its data, those that run included.
//!
//! 1. The change of the word that counts an activation makes it (`add`). It ends when `settle` finds nothing
//!    left for it. So no datum is left lying. The word never counts more activations than the node has
//!    replicas.
//! 2. A datum is put into the inbox, then counted. One that was taken before it is counted makes `pending`
//!    negative for a moment; the end waits for that.
//! 3. What a node emits is counted before the datum that caused it is counted down. A cycle counts a datum
//!    before it is put into an inbox. So a count is 0 only if nothing can follow.
//! 4. Exactly one change makes a word both closed and empty. It returns [`After::Ends`], and the thread that
//!    made it sees to the end.

use super::sync::{AtomicU64, Ordering};

const ACTIVE: u32 = 32;
const ACTIVE_BITS: u64 = 12;
const OUTSTANDING: u32 = 44;
const OUTSTANDING_BITS: u64 = 18;
const CLOSED: u64 = 1 << 62;
const ENDED: u64 = 1 << 63;

/// The most activations of a node.
pub(crate) const MOST_REPLICAS: usize = (1 << ACTIVE_BITS) - 2;
/// The most that a node has begun and not emitted.
const MOST_OUTSTANDING: u32 = (1 << OUTSTANDING_BITS) - 1;

/// The state of a node, in one word.
#[derive(Default)]
pub(crate) struct Word(AtomicU64);

/// What a word holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) pending: i32,
    pub(crate) active: u32,
    pub(crate) outstanding: u32,
    closed: bool,
    ended: bool,
}

/// What follows a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum After {
    /// Nothing.
    Nothing,
    /// The activation goes on, or this many new ones are to be published.
    Activations(u32),
    /// The node has ended: the caller publishes the activation that finishes it, which is counted.
    Ends,
    /// The node had ended before.
    Ended,
}

impl State {
    fn of(bits: u64) -> State {
        State {
            pending: bits as u32 as i32,
            active: (bits >> ACTIVE) as u32 & ((1 << ACTIVE_BITS) - 1),
            outstanding: (bits >> OUTSTANDING) as u32 & ((1 << OUTSTANDING_BITS) - 1),
            closed: bits & CLOSED != 0,
            ended: bits & ENDED != 0,
        }
    }

    fn bits(self) -> u64 {
        u64::from(self.pending as u32)
            | u64::from(self.active) << ACTIVE
            | u64::from(self.outstanding) << OUTSTANDING
            | if self.closed { CLOSED } else { 0 }
            | if self.ended { ENDED } else { 0 }
    }

    /// If it is closed and empty, it ends: the activation that finishes it is counted.
    fn may_end(&mut self) -> After {
        if self.closed && !self.ended && self.pending == 0 && self.active == 0 && self.outstanding == 0 {
            (self.ended, self.active) = (true, 1);
            return After::Ends;
        }
        After::Nothing
    }
}

impl Word {
    /// What it holds just now.
    pub(crate) fn state(&self) -> State {
        State::of(self.0.load(Ordering::Acquire))
    }

    #[inline]
    fn change<R>(&self, change: impl Fn(&mut State) -> R) -> R {
        let mut bits = self.0.load(Ordering::Relaxed);
        loop {
            let mut state = State::of(bits);
            let result = change(&mut state);
            match self.0.compare_exchange_weak(bits, state.bits(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(found) => bits = found,
            }
        }
    }

    /// `count` data were put into an inbox.
    #[inline]
    pub(crate) fn add(&self, count: u32, replicas: u32) -> After {
        self.change(|state| {
            state.pending = state.pending.wrapping_add(count as i32);
            if state.ended {
                return After::Ended;
            }
            let more = (state.pending.max(0) as u32).min(replicas.saturating_sub(state.active));
            if more > 0 {
                state.active += more;
                return After::Activations(more);
            }
            state.may_end()
        })
    }

    /// `count` data were taken out of an inbox by an activation that goes on.
    #[inline]
    pub(crate) fn take(&self, count: u32) {
        self.change(|state| state.pending = state.pending.wrapping_sub(count as i32));
    }

    /// An activation has run, and `count` more data were taken and are done with.
    #[inline]
    pub(crate) fn settle(&self, count: u32) -> After {
        self.change(|state| {
            state.pending = state.pending.wrapping_sub(count as i32);
            if state.pending > 0 && !state.ended {
                return After::Activations(1);
            }
            state.active -= 1;
            state.may_end()
        })
    }

    /// An activation ends with the whole graph: it is not followed by another.
    pub(crate) fn abandon(&self) {
        self.change(|state| state.active -= 1);
    }

    /// An activation that runs will emit something after it has settled.
    pub(crate) fn begin(&self) {
        self.change(|state| {
            assert!(
                state.outstanding < MOST_OUTSTANDING,
                "a node has begun {MOST_OUTSTANDING} things that it emits later: expected fewer"
            );
            state.outstanding += 1;
        });
    }

    /// Something that was begun is emitted.
    pub(crate) fn emitted(&self) -> After {
        self.change(|state| {
            state.outstanding -= 1;
            state.may_end()
        })
    }

    /// Nothing is counted from outside any more.
    pub(crate) fn close(&self) -> After {
        self.change(|state| {
            state.closed = true;
            state.may_end()
        })
    }

    /// Counts the activation that finishes a node of a cycle, which has its own [`Count`].
    pub(crate) fn finish(&self) {
        self.change(|state| state.active += 1);
    }
}

/// The number of data in a cycle of nodes.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// `count` data are about to be put into an inbox. False if the cycle has ended.
    pub(crate) fn add(&self, count: u32) -> bool {
        let add = |bits| (bits != CLOSED).then_some(bits + u64::from(count));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add).is_ok()
    }

    /// `count` data are done with. True if nothing is left and nothing can come: the thread that is told
    /// finishes the cycle's next node, for which [`hold`](Self::hold) counts first.
    pub(crate) fn sub(&self, count: u32) -> bool {
        let before = self.0.fetch_sub(u64::from(count), Ordering::AcqRel);
        before == CLOSED + u64::from(count)
    }

    /// Nothing comes from outside any more. True as for `sub`.
    pub(crate) fn close(&self) -> bool {
        self.0.fetch_add(CLOSED, Ordering::AcqRel) == 0
    }

    /// Counts the activation that finishes a node, after `sub` or `close` returned true.
    pub(crate) fn hold(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
