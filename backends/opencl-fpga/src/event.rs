//! Completion of commands.

use crate::counted::Counted;
use crate::failure::{Call, failed};
use flash_core::backend::{Completion, Failure};
use opencl3::command_queue::flush;
use opencl3::event::{CL_COMPLETE, Event};
use opencl3::types::{cl_event, cl_int};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The launches of a queue that runs in order, counted.
#[derive(Default)]
pub(crate) struct Turns {
    given: AtomicU64,
    over: Arc<AtomicU64>,
}

/// Which of them one is, nearly: two threads may come to the queue in another order.
pub(crate) struct Turn {
    number: u64,
    /// The last one known to have ended.
    over: Arc<AtomicU64>,
}

impl Turns {
    pub fn next(&self) -> Turn {
        Turn { number: 1 + self.given.fetch_add(1, Relaxed), over: self.over.clone() }
    }
}

/// Fires when the last command of a launch has, which is behind the others in an in-order queue.
pub(crate) struct Done {
    /// The launch's first command, for its start, if it is not the last one too.
    pub first: Option<Counted<Event>>,
    pub last: Counted<Event>,
    /// Of a launch.
    pub turn: Option<Turn>,
}

impl Done {
    /// How it ended: 0 or a negative code; positive while it has not.
    fn status(&self) -> cl_int {
        self.last.command_execution_status().map_or_else(|error| error.0, |status| status.0)
    }

    /// Who does not wait must send the commands off. A queue that cannot will say so to who waits.
    fn flush(&self) {
        if let Ok(queue) = self.last.command_queue() {
            let _ = flush(queue);
        }
    }
}

type Callback = Box<dyn FnOnce() + Send>;

extern "C" fn fired(_event: cl_event, _status: cl_int, context: *mut c_void) {
    // SAFETY: made by `on_ready`, and OpenCL calls back once.
    let callback = unsafe { Box::from_raw(context.cast::<Callback>()) };
    callback();
}

impl Completion for Done {
    fn ready(&self) -> bool {
        self.status() <= CL_COMPLETE || {
            self.flush();
            false
        }
    }

    fn wait(&self) -> Result<(), Failure> {
        // Of many launches on their way the last is waited for first; to ask whether the others have ended, too, is
        // quicker than to wait for them. Of one that has not, asking only keeps the driver from its work.
        let over = |turn: &Turn| turn.number <= turn.over.load(Relaxed);
        if self.turn.as_ref().is_some_and(over) && self.status() == CL_COMPLETE {
            return Ok(());
        }
        match self.last.wait() {
            Ok(()) => {
                if let Some(turn) = &self.turn {
                    turn.over.fetch_max(turn.number, Relaxed);
                }
                Ok(())
            }
            // The code of the wait only says that there is one.
            Err(error) => Err(match self.status() {
                code if code < 0 => failed("a command in the device's queue", code),
                _ => failed("clWaitForEvents", error.0),
            }),
        }
    }

    fn on_ready(&self, callback: Callback) {
        self.flush();
        let context = Box::into_raw(Box::new(callback));
        if self.last.set_callback(CL_COMPLETE, fired, context.cast()).is_err() {
            // Nobody will call: wait, and do it here.
            let _ = self.last.wait();
            // SAFETY: OpenCL has refused it, so it is still ours alone.
            unsafe { Box::from_raw(context)() };
        }
    }

    fn times(&self) -> Option<(u64, u64)> {
        let start = self.first.as_ref().unwrap_or(&self.last).profiling_command_start();
        start.ok().zip(self.last.profiling_command_end().ok())
    }
}

/// Waits for a command.
pub(crate) fn wait(event: Counted<Event>, call: &str) -> Result<(), Failure> {
    Done { first: None, last: event, turn: None }
        .wait()
        .map_err(|failure| Failure::new(failure.code, format!("{call}: {}", failure.text)))
}

/// Takes the event of a command that was enqueued.
pub(crate) fn enqueued(outcome: Result<cl_event, cl_int>, call: &str) -> Result<Counted<Event>, Failure> {
    outcome.call(call).map(|event| Counted::new(Event::new(event)))
}
