//! Completion events of backends written in Rust, and those that the host signals.

use super::Failure;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Completion of work on a device. It fires once, after the work is done and visible.
pub trait Completion: Send + Sync {
    /// True once it has fired.
    fn ready(&self) -> bool;
    /// Waits until it has fired; the error of the work, if it failed.
    fn wait(&self) -> Result<(), Failure>;
    /// Calls `callback` exactly once after it has fired, on any thread, at once if it already has.
    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>);
    /// Start and end on the device in nanoseconds.
    fn times(&self) -> Option<(u64, u64)> {
        None
    }
}

/// What an event pointer of a Rust backend points to.
pub(super) enum EventBox {
    Device(Box<dyn Completion>),
    User(UserEvent),
}

impl EventBox {
    pub fn completion(&self) -> &dyn Completion {
        match self {
            EventBox::Device(completion) => &**completion,
            EventBox::User(event) => event,
        }
    }
}

/// An event that the host signals.
#[derive(Default)]
pub(super) struct UserEvent {
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
}

impl Completion for UserEvent {
    fn ready(&self) -> bool {
        self.lock().outcome.is_some()
    }

    fn wait(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self.fired.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        let mut state = self.lock();
        if state.outcome.is_none() {
            state.callbacks.push(callback);
            return;
        }
        drop(state);
        callback();
    }
}
