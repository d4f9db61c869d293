//! A long message that waits for its receiver.
//!
//! A thread that sends and then receives at once runs the kernel best itself: workers that were told of it
//! would have to be woken, and would take it from where its data is. So a child rank whose messages were
//! received right after they were sent, some in a row, does not start the next one. The receive runs it.
//!
//! At most one message of the process waits in this way, and for nothing but its receive: every other call
//! that sends, receives, probes or touches a buffer [begins](begin_waiting) it first. So nothing of C2MPI
//! sees a difference, but that a thread which now computes for a while does so alone, once: a message that
//! was not received at once ends the row.

use flash_core::{Error, Handle, Pipeline};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A message that may wait.
pub(crate) struct Deferred(Mutex<State>);

enum State {
    Waits(Box<Pipeline<'static>>),
    /// Another call has begun it.
    Runs(Handle),
    Over,
}

/// The message that was deferred last.
static LAST: Mutex<Option<Arc<Deferred>>> = Mutex::new(None);
/// True if there is one.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Begins the message that waits, if one does.
#[inline]
pub(crate) fn begin_waiting() {
    if IS_ANY.load(Relaxed) {
        begin_last();
    }
}

#[cold]
fn begin_last() {
    let last = {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        IS_ANY.store(false, Relaxed);
        last.take()
    };
    if let Some(last) = last {
        last.begin();
    }
}

impl Deferred {
    /// A message that waits from now on, and none before it.
    pub fn new(pipeline: Pipeline<'static>) -> Arc<Deferred> {
        begin_waiting();
        let deferred = Arc::new(Deferred(Mutex::new(State::Waits(Box::new(pipeline)))));
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        IS_ANY.store(true, Relaxed);
        let before = last.replace(deferred.clone());
        drop(last);
        // That of another thread, since the first line.
        if let Some(before) = before {
            before.begin();
        }
        deferred
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, State::Over) {
            State::Waits(pipeline) => State::Runs(pipeline.exec_async()),
            other => other,
        };
    }

    /// Runs it, or waits for its end, for the receive. Its outcome, and whether it has waited until now.
    pub fn receive(&self) -> (Result<(), Error>, bool) {
        let state = std::mem::replace(&mut *self.lock(), State::Over);
        match state {
            State::Waits(pipeline) => (pipeline.exec(), true),
            State::Runs(handle) => (handle.wait(), false),
            State::Over => (Ok(()), false),
        }
    }

    /// True if receiving it waits for nothing.
    pub fn is_finished(&self) -> bool {
        match &*self.lock() {
            State::Waits(_) => false,
            State::Runs(handle) => handle.try_wait().is_some(),
            State::Over => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_core::get_runtime;
    use flash_core::runtime::HostTask;
    use std::sync::atomic::AtomicU32;

    /// A pipeline that counts its runs.
    fn counting(runs: &Arc<AtomicU32>) -> Pipeline<'static> {
        let runs = runs.clone();
        let rt = get_runtime("ALL_CPU").expect("the CPU is there");
        rt.pipeline().host(HostTask::new("counts"), move |_| {
            runs.fetch_add(1, Relaxed);
            Ok(())
        })
    }

    /// One test, as there is one message that waits in a process.
    #[test]
    fn a_message_runs_once_where_it_is_received_or_when_another_call_begins_it() {
        let runs: [Arc<AtomicU32>; 4] = Default::default();
        let ran = |which: usize| runs[which].load(Relaxed);

        let received = Deferred::new(counting(&runs[0]));
        assert!(!received.is_finished() && ran(0) == 0);
        let (outcome, has_waited) = received.receive();
        assert!(outcome.is_ok() && has_waited && received.is_finished() && ran(0) == 1);
        begin_waiting();
        assert!(matches!(received.receive(), (Ok(()), false)));
        assert_eq!(ran(0), 1);

        // Another message begins it, and this one is begun by a call.
        let before = Deferred::new(counting(&runs[1]));
        let after = Deferred::new(counting(&runs[2]));
        let (outcome, has_waited) = before.receive();
        assert!(outcome.is_ok() && !has_waited && ran(1) == 1 && ran(2) == 0);
        begin_waiting();
        while !after.is_finished() {
            std::thread::yield_now();
        }
        assert!(matches!(after.receive(), (Ok(()), false)));
        assert_eq!(ran(2), 1);

        // A message runs that nothing receives.
        drop(Deferred::new(counting(&runs[3])));
        begin_waiting();
        while ran(3) == 0 {
            std::thread::yield_now();
        }
    }
}
