//! Tasks that are futures: they are `Send`, so any worker goes on with them.

use crate::error::TaskError;
use crate::jobs::{Job, JobHeader, Root, SHARED, inject};
use crate::thread::{Context, Own, lock, new_root};
use crate::trace;
use crate::wait::Waiter;
use async_task::{Builder, Runnable};
use flash_trace::is_on;
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

/// A future that workers run, made by [`spawn_async`]. If it is dropped, the future goes on; its result and
/// errors are lost then.
#[must_use = "without it, the result and the errors of the future are lost"]
pub struct AsyncTask<T> {
    outcome: Arc<Outcome<T>>,
    root: Root,
}

struct Outcome<T>(Mutex<State<T>>);

enum State<T> {
    Runs { waker: Option<Waker>, waiter: *const Waiter },
    Done(Result<T, TaskError>),
    Taken,
}

// SAFETY: the waiter waits until it is signalled, which any thread may do.
unsafe impl<T: Send> Send for State<T> {}

/// Lets the workers run a future. It may wait for anything that wakes it.
///
/// # Examples
/// ```
/// let double = flash_tasks::spawn_async(async { 21 * 2 });
/// let next = flash_tasks::spawn_async(async { double.await.map(|value| value + 1) });
/// assert_eq!(next.wait()??, 43);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
pub fn spawn_async<F>(future: F) -> AsyncTask<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let root = new_root();
    let outcome = Arc::new(Outcome(Mutex::new(State::Runs { waker: None, waiter: std::ptr::null() })));
    let whole = run::<F>(future, outcome.clone());
    let about = About { root, name: std::any::type_name::<F>() };
    let (runnable, task) = Builder::new().metadata(about).spawn(|_| whole, schedule);
    task.detach();
    Own::here();
    runnable.schedule();
    AsyncTask { outcome, root }
}

/// Runs the future to its end, and stores what becomes of it.
async fn run<F: Future>(future: F, outcome: Arc<Outcome<F::Output>>) {
    let mut future = Box::pin(future);
    let result = std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(TaskError::panicked(std::any::type_name::<F>(), payload))),
        }
    })
    .await;
    // Its destructors have run when others learn of its end.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    let before = std::mem::replace(&mut *lock(&outcome.0), State::Done(result));
    if let State::Runs { waker, waiter } = before {
        if !waiter.is_null() {
            // SAFETY: `wait` stored it, and waits for this.
            unsafe { Waiter::signal(waiter) };
        }
        waker.into_iter().for_each(Waker::wake);
    }
}

/// What is known of a future besides it.
struct About {
    root: Root,
    name: &'static str,
}

/// A turn of a future, queued.
#[repr(C)]
struct Turn {
    job: JobHeader,
    runnable: Runnable<About>,
}

fn schedule(runnable: Runnable<About>) {
    let root = runnable.metadata().root;
    let turn = Box::leak(Box::new(Turn { job: JobHeader { run: run_turn, root }, runnable }));
    let job = Job(NonNull::from(turn).cast());
    let _ = is_on().then(|| trace::ready("wake", job));
    inject(job, &SHARED);
}

/// # Safety
/// As for [`JobHeader::run`].
unsafe fn run_turn(job: NonNull<JobHeader>, own: &'static Own) {
    // SAFETY: `schedule` leaked the box, and its one entry has come here.
    let turn = unsafe { Box::from_raw(job.cast::<Turn>().as_ptr()) };
    own.context.set(Context { root: turn.job.root, ..Context::NONE });
    let _span = is_on().then(|| trace::task(Job(job), turn.runnable.metadata().name, None));
    // `run` catches what the future does. What is left is code of wakers.
    let _ = catch_unwind(AssertUnwindSafe(|| turn.runnable.run()));
}

impl<T> AsyncTask<T> {
    /// True if it has ended.
    pub fn is_done(&self) -> bool {
        matches!(&*lock(&self.outcome.0), State::Done(_))
    }

    /// Waits for its end. A task that waits is suspended; a thread outside of tasks runs the future itself
    /// if no worker does.
    ///
    /// # Errors
    /// The future panicked.
    pub fn wait(self) -> Result<T, TaskError> {
        let own = Own::here();
        let before = own.begins_as(self.root);
        let waiter = Waiter::new(own);
        let waits = match &mut *lock(&self.outcome.0) {
            State::Runs { waiter: slot, .. } => {
                *slot = &waiter;
                true
            }
            State::Done(_) | State::Taken => false,
        };
        if waits {
            waiter.wait(own);
        }
        own.ends(before);
        match self.outcome.take() {
            State::Done(result) => result,
            State::Runs { .. } | State::Taken => unreachable!("a future that was waited for has a result"),
        }
    }
}

impl<T> Outcome<T> {
    fn take(&self) -> State<T> {
        std::mem::replace(&mut *lock(&self.0), State::Taken)
    }
}

impl<T> Future for AsyncTask<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// If it has returned its result already.
    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.outcome.0);
        match &mut *state {
            State::Runs { waker, .. } => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Done(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Done(result) => Poll::Ready(result),
                State::Runs { .. } | State::Taken => unreachable!("it was looked at under the same lock"),
            },
            State::Taken => panic!("a task's result was asked for again"),
        }
    }
}

/// Waits for a future here. In a task, the task is suspended until the future wakes it: other tasks run
/// meanwhile.
///
/// # Examples
/// ```
/// let answer = flash_tasks::spawn_async(async { 42 });
/// assert_eq!(flash_tasks::block_on(answer)?, 42);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future.into_future());
    let call = Arc::new(Call(Mutex::new(Called { called: false, waiter: std::ptr::null() })));
    let waker = Waker::from(call.clone());
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        let own = Own::here();
        let waiter = Waiter::new(own);
        {
            let mut state = lock(&call.0);
            if std::mem::take(&mut state.called) {
                continue;
            }
            state.waiter = &waiter;
        }
        waiter.wait(own);
        lock(&call.0).called = false;
    }
}

/// Wakes what waits in `block_on`.
struct Call(Mutex<Called>);

struct Called {
    called: bool,
    /// Null unless it waits.
    waiter: *const Waiter,
}

// SAFETY: the waiter waits until it is signalled, which any thread may do.
unsafe impl Send for Called {}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        let mut state = lock(&self.0);
        state.called = true;
        let waiter = std::mem::replace(&mut state.waiter, std::ptr::null());
        drop(state);
        if !waiter.is_null() {
            // SAFETY: it waits for this, and was taken out, so that no other signals it.
            unsafe { Waiter::signal(waiter) };
        }
    }
}
