//! The handle that `exec_async` returns.

use super::pending::Pending;
use crate::error::Error;
use crate::nested::in_kernel;
use flash_backend::fork;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A pipeline in flight. It can be waited for, polled, or awaited: it is a [`Future`] that needs no
/// particular executor. Dropping it neither cancels the pipeline nor leaks anything. An error is then visible
/// only in the poison of the memories.
///
/// When it is complete, so are the handles of all pipelines that it came after, and none of these has its
/// memories any more.
///
/// # Examples
/// ```
/// let rt = flash_core::get_runtime("ABACUS");
/// # let Ok(rt) = rt else { return Ok(()) };
/// let handle = rt.pipeline().exec_async();
/// if handle.try_wait().is_none() {
///     // still on its way: something else can be done
/// }
/// handle.wait()?;
/// # Ok::<(), flash_core::Error>(())
/// ```
#[must_use = "the error of an asynchronous pipeline comes out of its handle"]
pub struct Handle {
    outcome: Arc<Pending>,
}

impl Handle {
    pub(super) fn new(outcome: Arc<Pending>) -> Handle {
        Handle { outcome }
    }

    pub(super) fn pending(&self) -> &Pending {
        &self.outcome
    }

    /// In a child of `fork`: the outcome, or the error that it does not come here.
    fn in_child(&self) -> Option<Result<(), Error>> {
        fork::check().err().map(|error| self.outcome.get_now().unwrap_or(Err(error.into())))
    }

    /// Waits until all of it has finished, or its time is up. This thread runs it if it has not begun, and
    /// before it what it comes after.
    ///
    /// # Errors
    /// As [`Pipeline::exec`](crate::Pipeline::exec) returns them; [`Error::Timeout`] within
    /// [`Error::Launch`] if a [`Timeout`](crate::descriptor::Timeout) has passed; [`Error::Nested`] inside
    /// a kernel or host task, which must not wait; [`Error::Forked`] in a child of `fork`, if it was not
    /// complete before.
    pub fn wait(&self) -> Result<(), Error> {
        if let Some(outcome) = self.in_child() {
            return outcome;
        }
        match self.outcome.get() {
            Some(outcome) => outcome,
            None if in_kernel() => Err(Error::Nested),
            None => self.outcome.wait(),
        }
    }

    /// The outcome, if it has finished, as [`wait`](Self::wait) returns it.
    pub fn try_wait(&self) -> Option<Result<(), Error>> {
        self.in_child().or_else(|| self.outcome.get())
    }

    /// Waits at most this long, and runs nothing; `None` if it has not finished by then.
    pub fn wait_timeout(&self, limit: Duration) -> Option<Result<(), Error>> {
        if let Some(outcome) = self.in_child() {
            return Some(outcome);
        }
        if in_kernel() {
            return Some(self.outcome.get().unwrap_or(Err(Error::Nested)));
        }
        match Instant::now().checked_add(limit) {
            Some(deadline) => self.outcome.wait_until(deadline),
            None => Some(self.wait()),
        }
    }
}

impl Future for Handle {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.in_child() {
            Some(outcome) => Poll::Ready(outcome),
            None => self.outcome.poll(context),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.try_wait()).finish()
    }
}
