//! Completion events of backends written in Rust, and those that the host signals.

mod sync;
mod user;

use super::Failure;
pub(super) use user::UserEvent;

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

impl Completion for UserEvent {
    fn ready(&self) -> bool {
        self.ready()
    }

    fn wait(&self) -> Result<(), Failure> {
        self.wait()
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        self.on_ready(callback);
    }
}
