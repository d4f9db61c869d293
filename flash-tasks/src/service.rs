//! Services: functions that workers call again and again, between tasks.
//!
//! A thread of its own sleeps until one is due, and queues it before all tasks. It is there while services
//! are.
//!
//! *Invariant.* A service is queued at most once, and its entry keeps it alive. `queued` is set by what
//! queues it, and taken back when the call has ended.

use crate::error::TaskError;
use crate::jobs::{Job, JobHeader, URGENT, inject};
use crate::locks::Mutex;
use crate::thread::{Context, Own, lock, new_root};
use crate::trace;
use flash_trace::is_on;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The shortest time between two calls of a service.
const SHORTEST: Duration = Duration::from_micros(50);

/// A function that workers call again and again, until this is dropped.
#[must_use = "the service ends when this is dropped"]
pub struct Service(Arc<Inner>);

#[repr(C)]
struct Inner {
    job: JobHeader,
    queued: AtomicBool,
    interval: Duration,
    name: &'static str,
    call: Mutex<Call>,
}

/// `None` once the service has ended.
struct Call(Option<Box<dyn FnMut() + Send>>, Result<(), TaskError>);

/// Calls `f` on a worker about every `interval`, at least 50 us, before other tasks: for what has to be
/// looked at from time to time while tasks run, such as messages. It is called later while each worker is in
/// a task that does not wait, and never twice at once. It ends when what is returned is dropped.
///
/// In a child of `fork` there are no workers, and it is not called.
///
/// # Examples
/// ```
/// use flash_tasks::{scope, service, until};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use std::task::Poll;
/// use std::time::Duration;
/// let calls = Arc::new(AtomicU32::new(0));
/// let counts = calls.clone();
/// let service = service(Duration::from_micros(100), move || drop(counts.fetch_add(1, Relaxed)));
/// scope(|s| {
///     let enough = || if calls.load(Relaxed) < 3 { Poll::Pending } else { Poll::Ready(()) };
///     drop(s.spawn(move || until(enough)));
/// })?;
/// service.end()?;
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
pub fn service<F: FnMut() + Send + 'static>(interval: Duration, f: F) -> Service {
    let inner = Arc::new(Inner {
        job: JobHeader { run, root: new_root() },
        queued: AtomicBool::new(false),
        interval: interval.max(SHORTEST),
        name: std::any::type_name::<F>(),
        call: Mutex::new(Call(Some(Box::new(f)), Ok(()))),
    });
    Clock::adds(inner.clone());
    Service(inner)
}

impl Service {
    /// Ends it, once a call that runs has ended. Not to be used in the service itself, which would wait for
    /// its own end.
    ///
    /// # Errors
    /// The function panicked. It was not called again.
    pub fn end(self) -> Result<(), TaskError> {
        self.finish()
    }

    fn finish(&self) -> Result<(), TaskError> {
        let mut call = self.0.call.lock();
        let function = call.0.take();
        let result = std::mem::replace(&mut call.1, Ok(()));
        drop(call);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(function)));
        result
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An error that nothing asks for has been printed as a panic.
        let _ = self.finish();
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("name", &self.0.name).field("interval", &self.0.interval).finish()
    }
}

/// The entry of a service has come to its turn.
///
/// # Safety
/// As for [`JobHeader::run`]; the entry is a reference of the service's.
unsafe fn run(job: NonNull<JobHeader>, own: &'static Own) {
    // SAFETY: `Clock::run` made the pointer of an `Arc`, for this call.
    let service = unsafe { Arc::from_raw(job.cast::<Inner>().as_ptr().cast_const()) };
    own.context.set(Context { root: service.job.root, ..Context::NONE });
    let _span = is_on().then(|| trace::task(Job(job), service.name, None));
    let mut call = service.call.lock();
    if let Some(f) = &mut call.0
        && let Err(payload) = catch_unwind(AssertUnwindSafe(f))
    {
        call.1 = Err(TaskError::panicked(service.name, payload));
        let function = call.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(function)));
    }
    drop(call);
    service.queued.store(false, Ordering::Release);
}

/// The thread that queues services when they are due.
struct Clock {
    /// With the time when each is due.
    services: Vec<(Instant, Arc<Inner>)>,
    /// The thread is there.
    runs: bool,
}

static CLOCK: std::sync::Mutex<Clock> = std::sync::Mutex::new(Clock { services: Vec::new(), runs: false });
static CHANGED: Condvar = Condvar::new();

impl Clock {
    fn adds(service: Arc<Inner>) {
        // The source of the workers is registered with the first use of tasks.
        Own::here();
        let mut clock = lock(&CLOCK);
        clock.services.push((Instant::now() + service.interval, service));
        CHANGED.notify_one();
        if !clock.runs && !flash_core::fork::is_child() {
            let thread = thread::Builder::new().name("flash-services".into()).spawn(Clock::run);
            let thread = thread.unwrap_or_else(|error| panic!("there is no thread for services: {error}"));
            clock.runs = true;
            drop(thread);
        }
    }

    fn run() {
        let mut clock = lock(&CLOCK);
        loop {
            // What has ended, or is called just now, is looked at again at its next time.
            clock.services.retain(|(_, service)| Arc::strong_count(service) > 1);
            let Some(next) = clock.services.iter().map(|service| service.0).min() else {
                clock.runs = false;
                return;
            };
            let left = next.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                clock = CHANGED.wait_timeout(clock, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            for (due, service) in clock.services.iter_mut().filter(|(due, _)| *due <= next) {
                *due = Instant::now() + service.interval;
                if !service.queued.swap(true, Ordering::Acquire) {
                    let entry = Arc::into_raw(service.clone()).cast_mut().cast::<JobHeader>();
                    inject(NonNull::new(entry).map(Job).expect("an `Arc` has an address"), &URGENT);
                }
            }
        }
    }
}
