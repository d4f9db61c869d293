//! The outcome of a pipeline: shared by the pipeline, which sets it, and its handle, whose threads wait for
//! it.
//!
//! The first outcome stays: a pipeline whose time is up has one before it has stopped. The models include
//! this file beside their own `sync`.

use super::sync::{Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// An outcome to come.
pub(crate) struct Outcome<T> {
    state: Mutex<State<T>>,
    there: Condvar,
}

struct State<T> {
    outcome: Option<T>,
    /// Wakes the task that polled last: a future is awaited in one place.
    waker: Option<Waker>,
    /// Counts how often the waiting threads were told to look at something else.
    nudges: u32,
    /// Number of threads that sleep until the condition variable is signalled, which is a call of the system.
    sleeping: u32,
}

impl<T: Clone> Outcome<T> {
    pub fn new() -> Outcome<T> {
        let state = State { outcome: None, waker: None, nudges: 0, sleeping: 0 };
        Outcome { state: Mutex::new(state), there: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets it, and wakes all waiting threads. False: there was one, which stays.
    pub fn set(&self, outcome: T) -> bool {
        self.set_before(outcome, || ())
    }

    /// Sets it, does `then`, and wakes all waiting threads. Waking may run anything, so `then` comes before.
    /// False: there was one, which stays.
    pub fn set_before(&self, outcome: T, then: impl FnOnce()) -> bool {
        let mut state = self.lock();
        let first = state.outcome.is_none();
        state.outcome.get_or_insert(outcome);
        let (waker, sleeping) = (state.waker.take(), state.sleeping > 0);
        drop(state);
        then();
        if sleeping {
            self.there.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        first
    }

    /// The outcome, if there is one.
    pub fn get(&self) -> Option<T> {
        self.lock().outcome.clone()
    }

    /// As [`get`](Self::get), or none if another thread has the lock.
    pub fn get_now(&self) -> Option<T> {
        self.state.try_lock().ok()?.outcome.clone()
    }

    /// The counter to take before a look at what [`nudge`](Self::nudge) tells of.
    pub fn nudges(&self) -> u32 {
        self.lock().nudges
    }

    /// Wakes the waiting threads though there is no outcome.
    pub fn nudge(&self) {
        let mut state = self.lock();
        state.nudges = state.nudges.wrapping_add(1);
        let sleeping = state.sleeping > 0;
        drop(state);
        if sleeping {
            self.there.notify_all();
        }
    }

    /// Waits for it. `None` if there was a nudge since `seen` was taken.
    pub fn wait_unless_nudged(&self, seen: u32) -> Option<T> {
        let mut state = self.lock();
        while state.outcome.is_none() && state.nudges == seen {
            state.sleeping += 1;
            state = self.there.wait(state).unwrap_or_else(|e| e.into_inner());
            state.sleeping -= 1;
        }
        state.outcome.clone()
    }

    /// Returns it if it is there. Otherwise the task is woken when it is.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        let before = match &mut state.waker {
            Some(waker) if waker.will_wake(context.waker()) => None,
            waker => waker.replace(context.waker().clone()),
        };
        drop(state);
        // Dropping a waker may run anything.
        drop(before);
        Poll::Pending
    }

    /// Waits for it until `deadline`.
    pub fn wait_until(&self, deadline: std::time::Instant) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return Some(outcome.clone());
            }
            let left = deadline.checked_duration_since(std::time::Instant::now())?;
            state.sleeping += 1;
            state = self.there.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
            state.sleeping -= 1;
        }
    }
}
