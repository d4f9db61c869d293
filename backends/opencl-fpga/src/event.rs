//! Events of commands: whether and how they ended.

use crate::counted::Counted;
use crate::failure::{Call, failed};
use flash_backend::{Completion, Failure};
use opencl3::command_queue::{enqueue_barrier_with_wait_list, flush};
use opencl3::event::{CL_COMPLETE, Event};
use opencl3::types::{cl_command_queue, cl_event, cl_int};
use std::ffi::c_void;
use std::sync::OnceLock;

/// Takes ownership of the event of an enqueued command.
pub(crate) fn enqueued(outcome: Result<cl_event, cl_int>, call: &str) -> Result<Counted<Event>, Failure> {
    outcome.call(call).map(|event| Counted::new(Event::new(event)))
}

type Callback = Box<dyn FnOnce() + Send>;

impl Counted<Event> {
    /// The outcome: 0 or a negative code; positive until it has ended.
    fn status(&self) -> cl_int {
        self.command_execution_status().map_or_else(|error| error.0, |status| status.0)
    }

    /// Whether it has ended. If not, the queue is flushed, since nothing waits for the command. An error of
    /// the flush is reported to the thread that waits.
    pub fn has_ended(&self) -> bool {
        self.status() <= CL_COMPLETE || {
            self.flush();
            false
        }
    }

    /// Sends its queue to the device.
    pub fn flush(&self) {
        if let Ok(queue) = self.command_queue() {
            let _ = flush(queue);
        }
    }

    /// Waits for it; `what` names the command in an error.
    pub fn wait_for(&self, what: impl FnOnce() -> String) -> Result<(), Failure> {
        // The code of the wait only says that the command failed.
        self.wait().map_err(|error| match self.status() {
            code if code < 0 => failed(&what(), code),
            _ => failed("clWaitForEvents", error.0),
        })
    }

    /// Calls back when it has ended.
    pub fn when_ended(&self, callback: Callback) {
        self.flush();
        let context = Box::into_raw(Box::new(callback));
        if self.set_callback(CL_COMPLETE, fired, context.cast()).is_err() {
            // OpenCL will not call back: wait and do it here.
            let _ = self.wait();
            // SAFETY: OpenCL has refused it, so it is not shared.
            unsafe { Box::from_raw(context)() };
        }
    }
}

/// Lets all that a queue gets from now on run after a command of another queue.
pub(crate) fn enqueue_barrier(queue: cl_command_queue, after: &Counted<Event>) -> Result<(), Failure> {
    let waits = [after.get()];
    // SAFETY: a live queue, and an event of the same context; the list is copied.
    let barrier = unsafe { enqueue_barrier_with_wait_list(queue, 1, waits.as_ptr()) };
    enqueued(barrier, "clEnqueueBarrierWithWaitList").map(drop)
}

extern "C" fn fired(_event: cl_event, _status: cl_int, context: *mut c_void) {
    // SAFETY: made by `when_ended`, and OpenCL calls back once.
    let callback = unsafe { Box::from_raw(context.cast::<Callback>()) };
    callback();
}

/// Fires when a command has ended, and all before it in a queue that runs in order.
pub(crate) struct Done {
    pub command: Counted<Event>,
    outcome: OnceLock<Result<(), Failure>>,
}

impl Done {
    pub fn new(command: Counted<Event>) -> Done {
        Done { command, outcome: OnceLock::new() }
    }
}

impl Completion for Done {
    fn ready(&self) -> bool {
        self.command.has_ended()
    }

    fn wait(&self) -> Result<(), Failure> {
        let wait = || self.command.wait_for(|| "a command in the device's queue".to_owned());
        self.outcome.get_or_init(wait).clone()
    }

    fn on_ready(&self, callback: Callback) {
        self.command.when_ended(callback);
    }
}
