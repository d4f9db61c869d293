//! What a program does with events, and how it cancels a pipeline.

use super::handle::Handle;
use super::pending::{Pending, PlaceInOrder};
use crate::error::Error;
use crate::memory::order::ORDER;
use crate::nested::in_kernel;
use crate::runtime::api::Pipeline;
use crate::runtime::event::Event;
use flash_backend::fork;

impl Event {
    /// Waits until it is over. The end of a pipeline that has not begun is reached by running it here.
    ///
    /// # Errors
    /// [`Error::Abandoned`] if it never happens; [`Error::Nested`] inside a kernel or host task, which must
    /// not wait; [`Error::Forked`] in a child of `fork`.
    pub fn wait(&self) -> Result<(), Error> {
        if !self.is_over() {
            if in_kernel() {
                return Err(Error::Nested);
            }
            fork::check()?;
            let turn = PlaceInOrder(ORDER.line_up(&[], [self.ticket()]));
            Pending::wait_for_turn(&turn)?;
        }
        if self.is_abandoned() { Err(Error::Abandoned) } else { Ok(()) }
    }
}

impl Handle {
    /// The end of the pipeline: when it has given its memories back, or will never run.
    pub fn event(&self) -> Event {
        Event::of(self.pending().ticket())
    }

    /// Asks the pipeline to stop. What has not begun is not run: a pipeline whose turn has not come ends when
    /// it comes. A launch on the CPU stops at its next chunk of work items, and so does one on another device
    /// that can be stopped. [`wait`](Handle::wait) then returns [`Error::Cancelled`] within
    /// [`Error::Launch`], and what the rest of the pipeline should have written is poisoned. A pipeline that
    /// is complete, or ends before it sees this, ends as ever.
    ///
    /// # Examples
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::{Error, FlashMemory, runtime::{Event, HostTask}};
    /// let (event, signal) = Event::new();
    /// let handle = rt.pipeline().host(HostTask::new("never"), |_| Ok(())).after(&event).exec_async();
    /// handle.cancel();
    /// signal.send();
    /// assert!(matches!(handle.wait().unwrap_err().cause(), Error::Cancelled));
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn cancel(&self) {
        self.pending().outcome().stop(Error::Cancelled);
    }
}

impl Pipeline<'_> {
    /// Lets it begin when an event is over, and not before. It may be called several times: it begins after
    /// all of them. Its place among the pipelines that touch the same memories is that of its `exec` or
    /// `exec_async`, as ever: what comes later and needs these memories waits for the event, too. An `exec`
    /// waits for it.
    ///
    /// # Errors
    /// From `exec`, or out of the handle: [`Error::Abandoned`] within [`Error::Launch`] if the event never
    /// happens. Then nothing of the pipeline runs, and what it should have written is poisoned.
    ///
    /// # Examples
    /// Two pipelines without a memory in common, one after the other:
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// let first = rt.pipeline().exec_async();
    /// let second = rt.pipeline().after(&first.event()).exec_async();
    /// second.wait()?;
    /// assert!(first.try_wait().is_some());
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn after(mut self, event: &Event) -> Self {
        self.buffer.record_with(|list, _| list.add_after(event.clone()));
        self
    }
}
