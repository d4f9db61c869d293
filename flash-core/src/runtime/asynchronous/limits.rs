//! Limits: the time that a submission may take, and the number of pipelines in flight.

use super::outcome::Outcome;
use super::timer::Alarm;
use crate::error::{Error, LaunchError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The outcome of a pipeline, for its handle and for whatever waits.
pub(in crate::runtime) type SharedOutcome = Arc<Outcome<Result<(), Error>>>;

/// Runs a submission, or a part of one, that began at `start` and may take `limit`. If it takes longer it has
/// failed, whatever its outcome, and the handle, if there is one, reports that at once. A part whose turn
/// comes too late is not run.
#[cold]
pub(crate) fn timed(
    limit: Duration,
    start: Instant,
    watch: Option<&SharedOutcome>,
    blame: impl FnOnce(Error) -> LaunchError,
    submit: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let late = |taken| Err(Error::Timeout { limit, taken: Some(taken) });
    let before = start.elapsed();
    if !before.is_zero() && before >= limit {
        return late(before);
    }
    let alarm = watch.zip(start.checked_add(limit)).map(|(watch, deadline)| {
        let (watch, error) = (watch.clone(), blame(Error::Timeout { limit, taken: None }));
        Alarm::at(deadline, move || {
            watch.set(Err(Error::Launch(Arc::new(error))));
        })
    });
    let outcome = submit();
    // The alarm is cancelled before the clock is read: if it has fired, the clock shows it, too.
    drop(alarm);
    let taken = start.elapsed();
    if taken < limit { outcome } else { outcome.and(late(taken)) }
}

/// The number of asynchronous pipelines of a runtime in flight.
pub(crate) struct InFlightLimit {
    limit: usize,
    count: Mutex<usize>,
    fewer: Condvar,
}

impl InFlightLimit {
    pub fn new(limit: usize) -> Arc<InFlightLimit> {
        Arc::new(InFlightLimit { limit, count: Mutex::new(0), fewer: Condvar::new() })
    }
}

/// One pipeline in flight; released when dropped.
pub(super) struct Permit(Arc<InFlightLimit>);

impl Permit {
    /// Waits while the limit is reached.
    pub fn take(gauge: &Arc<InFlightLimit>) -> Permit {
        let mut count = gauge.count.lock().unwrap_or_else(|e| e.into_inner());
        while *count >= gauge.limit {
            count = gauge.fewer.wait(count).unwrap_or_else(|e| e.into_inner());
        }
        *count += 1;
        Permit(gauge.clone())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(|e| e.into_inner()) -= 1;
        self.0.fewer.notify_one();
    }
}
