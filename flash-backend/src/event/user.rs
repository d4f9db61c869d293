//! An event that the host signals. The models include this file beside their own `sync`, so it imports locks
//! and condition variables from there.

use super::Failure;
use super::sync::{Condvar, Mutex, MutexGuard};

/// An event that the host signals.
#[derive(Default)]
pub(crate) struct UserEvent {
    state: Mutex<UserState>,
    fired: Condvar,
}

#[derive(Default)]
struct UserState {
    outcome: Option<Result<(), Failure>>,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl UserEvent {
    fn lock(&self) -> MutexGuard<'_, UserState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Fires it; false if it had fired.
    pub fn signal(&self, outcome: Result<(), Failure>) -> bool {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return false;
        }
        state.outcome = Some(outcome);
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.fired.notify_all();
        callbacks.into_iter().for_each(|callback| callback());
        true
    }

    /// True once it has fired.
    pub fn ready(&self) -> bool {
        self.lock().outcome.is_some()
    }

    /// Waits until it has fired; returns the outcome.
    pub fn wait(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self.fired.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Calls `callback` exactly once after it has fired, at once if it already has.
    pub fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        let mut state = self.lock();
        if state.outcome.is_none() {
            state.callbacks.push(callback);
            return;
        }
        drop(state);
        callback();
    }
}
