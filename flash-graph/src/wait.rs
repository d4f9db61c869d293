//! Threads that wait for something of a graph: they run its nodes meanwhile, sleep when there is nothing to
//! run, and see when it is stuck or late.

use crate::error::GraphError;
use crate::lane::lock;
use crate::schedule::{Core, Entry, PAUSES};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often a sleeping thread looks whether the graph is stuck.
const TICK: Duration = Duration::from_millis(100);
/// Ticks without anything that runs, after which a graph is stuck.
const STUCK_AFTER: u32 = 5;

impl Core {
    /// Runs the graph until `ready` returns something, which it is asked between activations and when a
    /// thread is notified; the argument says that the thread is about to sleep. The graph may fail meanwhile:
    /// `ready` looks for that.
    #[inline]
    pub(crate) fn help<R>(self: &Arc<Core>, mut ready: impl FnMut(bool) -> Option<R>) -> R {
        if let Some(result) = ready(false) {
            return result;
        }
        let result = self.help_until(ready);
        // What this thread would have taken next is another's now.
        if self.ready() > 0 && !self.signal.seen().is_looked_after() {
            self.call(false);
        }
        result
    }

    fn help_until<R>(self: &Arc<Core>, mut ready: impl FnMut(bool) -> Option<R>) -> R {
        let (mut turns, mut still) = (0u32, 0);
        loop {
            while let Some(activation) = self.pop() {
                self.run(activation);
                if let Some(result) = ready(false) {
                    return result;
                }
                (turns, still) = (turns.wrapping_add(1), 0);
                if turns.is_multiple_of(64) {
                    self.check_deadline();
                }
            }
            let changed = self.changes.load(Ordering::Acquire);
            if let Some(result) = ready(false) {
                return result;
            }
            if self.signal.seen().is_attended() && self.spin(changed) {
                continue;
            }
            self.signal.sleep();
            let seen = *lock(&self.wakes);
            let result = ready(true);
            if result.is_none() && self.ready() == 0 {
                still = if self.doze(seen) { 0 } else { still + 1 };
            }
            self.signal.awake();
            if let Some(result) = result {
                return result;
            }
            self.check_deadline();
            still = if self.is_still() { still } else { 0 };
            if still >= STUCK_AFTER {
                self.fail(self.stuck());
            }
        }
    }

    /// Sleeps for a tick, or until a wake after `seen`. True if there was one.
    fn doze(&self, seen: u32) -> bool {
        let (guard, end) = (lock(&self.wakes), self.tick());
        let asleep = self.woken.wait_timeout_while(guard, end, |wakes| *wakes == seen);
        !asleep.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits a moment for what another thread is about to do. False if nothing came.
    fn spin(&self, changed: u32) -> bool {
        for _ in 0..64 {
            if self.ready() > 0 || self.changes.load(Ordering::Relaxed) != changed {
                return true;
            }
            (0..PAUSES / 16).for_each(|_| std::hint::spin_loop());
        }
        false
    }

    fn tick(&self) -> Duration {
        self.deadline.map_or(TICK, |(deadline, _)| {
            deadline.saturating_duration_since(Instant::now()).clamp(Duration::from_micros(100), TICK)
        })
    }

    pub(crate) fn check_deadline(self: &Arc<Core>) {
        if let Some((deadline, limit)) = self.deadline
            && !self.has_failed()
            && Instant::now() >= deadline
        {
            self.fail(GraphError::TimeLimit(limit));
        }
    }

    /// True if no thread is in a node or will be, as far as the graph itself goes.
    pub(crate) fn is_quiet(&self) -> bool {
        self.nodes.iter().all(|node| {
            let state = node.word.state();
            state.active == node.parked.load(Ordering::Acquire) && state.outstanding == 0
        })
    }

    /// True if it cannot go on by itself, and nothing outside is expected: all inputs are closed, or a
    /// thread waits to push; and no result waits to be taken.
    fn is_still(&self) -> bool {
        let expects_nothing =
            self.inputs.load(Ordering::Acquire) == 0 || self.pushing.load(Ordering::Acquire) > 0;
        let exits = self.nodes.iter().filter(|node| node.is_exit);
        let full = |node: &Entry| node.cell.inboxes().iter().any(|inbox| inbox.len > 0 && inbox.room == 0);
        expects_nothing
            && !self.is_done()
            && !self.has_failed()
            && self.ready() == 0
            && self.is_quiet()
            && !exits.into_iter().any(full)
    }

    fn stuck(&self) -> GraphError {
        let waits = self.nodes.iter().filter_map(|node| {
            let wait = node.cell.waits(self)?;
            Some(format!("`{}` {wait}", node.name))
        });
        let mut waits: Vec<String> = waits.collect();
        if waits.is_empty() {
            waits.push("no node is ready, and none waits".into());
        }
        GraphError::Stuck { waits }
    }
}
