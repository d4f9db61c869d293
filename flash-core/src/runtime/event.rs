//! Events: what pipelines wait for, beside the memories that they share with others.
//!
//! An event is an entry in the [order](crate::memory::order): a pipeline in flight, or an entry without
//! memories that leaves when the program signals it. So a pipeline that comes after an event is one that
//! comes after an entry. No thread waits for it, and a thread that waits for the pipeline runs what the event
//! stands for, if that has not begun.

use crate::memory::order::{ORDER, Ticket};
use crate::memory::watch_forks;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// A point in time to come, after which pipelines may run: the end of a pipeline in flight
/// ([`Handle::event`](super::Handle::event)), or whatever a program signals ([`Event::new`]). See
/// [`Pipeline::after`](super::Pipeline::after).
///
/// An event says that something is over, not how it ended: that is said by the handle, and by the poison of
/// memories.
///
/// # Examples
/// ```
/// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
/// use flash_core::{FlashMemory, runtime::{Event, HostTask}};
/// let (event, signal) = Event::new();
/// let answer = FlashMemory::<u32>::zeroed(1);
/// let task = HostTask::new("answer").write(answer.clone());
/// let set = |io: &mut flash_core::runtime::HostArgs<'_>| Ok(io.write::<u32>(0)?.fill(42));
/// let handle = rt.pipeline().host(task, set).after(&event).exec_async();
/// assert!(handle.try_wait().is_none());            // the event has not happened
/// signal.send();
/// handle.wait()?;
/// assert!(event.is_over() && handle.event().is_over());
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    ticket: Ticket,
    /// Of an event that a program signals: true if it never will.
    abandoned: Option<Arc<AtomicBool>>,
}

/// Signals an [`Event`]. Dropped without a signal, it abandons the event: what comes after it fails with
/// [`Error::Abandoned`](crate::Error::Abandoned), and nothing waits for ever.
#[must_use = "a signal that is dropped abandons its event: call `send` when it may happen"]
pub struct Signal {
    ticket: Ticket,
    abandoned: Arc<AtomicBool>,
    sent: bool,
}

impl Event {
    /// An event, and what signals it.
    #[allow(clippy::new_ret_no_self)] // one is nothing without the other
    pub fn new() -> (Event, Signal) {
        watch_forks();
        let ticket = ORDER.line_up(&[], []);
        let abandoned = Arc::new(AtomicBool::new(false));
        let signal = Signal { ticket, abandoned: abandoned.clone(), sent: false };
        (Event { ticket, abandoned: Some(abandoned) }, signal)
    }

    /// The end of a pipeline in the order.
    pub(in crate::runtime) fn of(ticket: Ticket) -> Event {
        Event { ticket, abandoned: None }
    }

    /// True if it has happened, or never will.
    pub fn is_over(&self) -> bool {
        !ORDER.has(self.ticket)
    }

    pub(in crate::runtime) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// True if it never happens.
    pub(in crate::runtime) fn is_abandoned(&self) -> bool {
        self.abandoned.as_ref().is_some_and(|abandoned| abandoned.load(Acquire))
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("is_over", &self.is_over()).finish()
    }
}

impl Signal {
    /// Signals the event.
    pub fn send(mut self) {
        self.sent = true;
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.abandoned.store(!self.sent, Release);
        ORDER.leave(self.ticket);
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}
