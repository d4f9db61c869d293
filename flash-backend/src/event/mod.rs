//! Completion events of backends written in Rust, and those that the host signals.

mod sync;
mod user;

use crate::failure::Failure;
use flash_types::abi;
use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
pub(crate) use user::UserEvent;

/// Completion of work on a device. It fires once, after the work is done and visible.
pub trait Completion: Any + Send + Sync {
    /// True once it has fired.
    fn ready(&self) -> bool;
    /// Waits until it has fired; the error of the work, if it failed. May be called again, with the same
    /// answer.
    fn wait(&self) -> Result<(), Failure>;
    /// Calls `callback` exactly once after it has fired, on any thread, at once if it already has.
    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>);
    /// True if queues of the device can wait for it, where it has such queues: if
    /// [`Device::run_after`](crate::Device::run_after) takes it.
    fn in_queue(&self) -> bool {
        true
    }
    /// Start and end on the device in nanoseconds.
    fn times(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Completion of work on a device. Work that ends together may have one event: a clone is the same event, and
/// allocates nothing.
#[derive(Clone)]
pub struct Event(Arc<Kind>);

/// The target of an event pointer of a Rust backend.
pub(crate) enum Kind {
    Device(Box<dyn Completion>),
    User(UserEvent),
}

impl Event {
    /// An event of the device's work.
    pub fn new(completion: impl Completion) -> Event {
        Event(Arc::new(Kind::Device(Box::new(completion))))
    }

    /// An event that the host signals.
    pub(crate) fn of_host() -> Event {
        Event(Arc::new(Kind::User(UserEvent::default())))
    }

    /// The completion, if it is of this type: of this backend's own.
    pub fn completion<C: Completion>(&self) -> Option<&C> {
        (self.0.completion() as &dyn Any).downcast_ref()
    }

    /// True if both are the same.
    pub fn is(&self, other: &Event) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Converts it to a pointer for the host.
    pub(crate) fn into_raw(self) -> *mut abi::Event {
        Arc::into_raw(self.0).cast_mut().cast()
    }

    /// Converts it back.
    ///
    /// # Safety
    /// `raw` is the result of [`into_raw`](Self::into_raw), and was not converted back before.
    pub(crate) unsafe fn from_raw(raw: *mut abi::Event) -> Event {
        // SAFETY: the caller vouches.
        Event(unsafe { Arc::from_raw(raw.cast_const().cast()) })
    }
}

impl Deref for Event {
    type Target = dyn Completion;

    fn deref(&self) -> &Self::Target {
        self.0.completion()
    }
}

impl Kind {
    pub fn completion(&self) -> &dyn Completion {
        match self {
            Kind::Device(completion) => &**completion,
            Kind::User(event) => event,
        }
    }
}

impl Completion for UserEvent {
    fn in_queue(&self) -> bool {
        false
    }

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
