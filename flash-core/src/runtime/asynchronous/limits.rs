//! Limits: the time that a submission may take, the number of pipelines in flight, and whether one is to
//! stop.

use super::outcome::Outcome;
use super::timer::Alarm;
use crate::error::{Error, LaunchError};
use flash_backend::fork;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// The outcome of a pipeline, for its handle and for whatever waits, and whether the pipeline is to stop.
pub(in crate::runtime) type SharedOutcome = Arc<StoppableOutcome>;

/// See [`SharedOutcome`].
pub(in crate::runtime) struct StoppableOutcome {
    outcome: Outcome<Result<(), Error>>,
    /// Why it is to stop.
    reason: OnceLock<Error>,
    /// Not 0: it is to stop.
    stop: AtomicU32,
    /// The same of submissions with a limit of time.
    limited: Mutex<Vec<Arc<AtomicU32>>>,
}

/// Where a launch looks whether it is to stop: a number that is not 0 then.
pub(in crate::runtime) type StopFlag<'a> = Option<&'a AtomicU32>;

impl StoppableOutcome {
    pub fn new() -> SharedOutcome {
        let (reason, stop, limited) = (OnceLock::new(), AtomicU32::new(0), Mutex::default());
        Arc::new(StoppableOutcome { outcome: Outcome::new(), reason, stop, limited })
    }

    /// Asks the pipeline to stop. The first reason stays.
    pub fn stop(&self, reason: Error) {
        let _ = self.reason.set(reason);
        self.stop.store(1, Relaxed);
        self.limited().iter().for_each(|flag| flag.store(1, Relaxed));
    }

    /// The flag of its launches.
    #[inline]
    pub fn flag(&self) -> StopFlag<'_> {
        Some(&self.stop)
    }

    fn limited(&self) -> MutexGuard<'_, Vec<Arc<AtomicU32>>> {
        self.limited.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets another flag, too, when it is to stop: until [`forget`](Self::forget).
    fn also(&self, flag: &Arc<AtomicU32>) {
        let mut limited = self.limited();
        limited.push(flag.clone());
        if self.stopped().is_some() {
            flag.store(1, Relaxed);
        }
    }

    fn forget(&self, flag: &Arc<AtomicU32>) {
        self.limited().retain(|other| !Arc::ptr_eq(other, flag));
    }

    /// Why it is to stop, if it is.
    #[inline]
    pub fn stopped(&self) -> Option<&Error> {
        self.reason.get()
    }
}

/// True if a watched pipeline is to stop.
#[inline]
pub(in crate::runtime) fn is_stopped(watch: Option<&SharedOutcome>) -> bool {
    watch.is_some_and(|watch| watch.stopped().is_some())
}

impl Deref for StoppableOutcome {
    type Target = Outcome<Result<(), Error>>;

    fn deref(&self) -> &Self::Target {
        &self.outcome
    }
}

/// Runs a submission, or a part of one, that began at `start` and may take `limit`. If it takes longer it is
/// asked to stop and has failed, whatever its outcome, and the handle, if there is one, reports that at once.
/// A part whose turn comes too late is not run.
#[cold]
pub(crate) fn timed(
    limit: Duration,
    start: Instant,
    watch: Option<&SharedOutcome>,
    blame: impl FnOnce(Error) -> LaunchError,
    submit: impl FnOnce(StopFlag<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    // The timer is another thread.
    fork::check()?;
    let late = |taken| Err(Error::Timeout { limit, taken: Some(taken) });
    let before = start.elapsed();
    if !before.is_zero() && before >= limit {
        return late(before);
    }
    let stop = Arc::new(AtomicU32::new(0));
    let alarm = start.checked_add(limit).map(|deadline| {
        let (stop, watch) = (stop.clone(), watch.cloned());
        let error = watch.is_some().then(|| blame(Error::Timeout { limit, taken: None }));
        Alarm::at(deadline, move || {
            stop.store(1, Relaxed);
            if let Some((watch, error)) = watch.zip(error) {
                watch.set(Err(Error::Launch(Arc::new(error))));
            }
        })
    });
    watch.inspect(|watch| watch.also(&stop));
    let outcome = submit(Some(&stop));
    watch.inspect(|watch| watch.forget(&stop));
    // The alarm is cancelled before the clock is read: if it has fired, the clock shows it, too.
    drop(alarm);
    let taken = start.elapsed();
    match outcome {
        outcome if taken < limit => outcome,
        Err(error) if is_stopped(watch) || !matches!(error, Error::Cancelled) => Err(error),
        _ => late(taken),
    }
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
            fork::before_sleep();
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
