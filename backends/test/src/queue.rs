//! A queue of a device: commands run one after another, in the order in which they came, on the queue's
//! thread.
//!
//! A command that its caller waits for at once runs on the caller if the queue is empty. `turn` is held while
//! a command runs, so there is never more than one at a time.
//!
//! Of a device that makes no progress by itself, commands are *left* until a thread of the host drives them:
//! one that waits for a command, or asks whether it is over, runs what was left up to that one. A callback
//! has no such thread: the queue's drives them then.

use crate::settings::Commands;
use flash_backend::Code;
use flash_backend::offload::Worker;
use flash_backend::{Completion, Event, Failure, caught};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// One queue. It lives for ever, as its device does.
pub(crate) struct Queue {
    worker: Arc<Worker>,
    shared: Arc<Shared>,
    /// The commands that are left, of a device that makes no progress by itself.
    left: Option<Arc<Left>>,
}

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Default)]
struct Left {
    jobs: Mutex<VecDeque<Job>>,
    /// One thread drives at a time: commands have an order.
    drives: Mutex<()>,
}

impl Left {
    /// Runs what was left until `done` says so, or nothing is.
    fn drive(&self, done: impl Fn() -> bool) {
        let _turn = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        while !done() {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(job) = job else { return };
            job();
        }
    }
}

#[derive(Default)]
struct Shared {
    /// Commands that were given to the thread and have not ended.
    pending: AtomicUsize,
    turn: Mutex<Clock>,
}

/// The time until which a slow device is busy.
#[derive(Default)]
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    /// Returns when a command that was due at `start` and takes this time has ended.
    ///
    /// A sleep ends late. The next command counts from when this one should have ended, so that many short
    /// commands take no longer than they are said to.
    fn pass(&mut self, start: Instant, time: Duration) {
        let end = self.0.map_or(start, |busy| busy.max(start)) + time;
        self.0 = Some(end);
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }
}

impl Queue {
    /// A queue whose thread has this name.
    pub fn new(name: &'static str, commands: Commands) -> Queue {
        let left = (commands == Commands::Waiter).then(Arc::default);
        Queue { worker: Arc::new(Worker::new(name)), shared: Arc::default(), left }
    }

    /// Runs a command in the call, if nothing is in the queue. `None`: there is a command in it, and this one
    /// was not run.
    #[inline]
    pub fn run_now(
        &self,
        time: Duration,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Option<Result<(), Failure>> {
        if self.shared.pending.load(SeqCst) > 0 {
            return None;
        }
        let due = if time.is_zero() { None } else { Some(Instant::now()) };
        Some(self.shared.run(due, time, work))
    }

    /// Puts a command at the end.
    pub fn push(&self, time: Duration, work: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Event {
        let (command, shared) = (Arc::new(Command::default()), self.shared.clone());
        let (fires, due) = (command.clone(), Instant::now());
        shared.pending.fetch_add(1, SeqCst);
        let job = Box::new(move || {
            let start = now();
            let outcome = caught(|| shared.run(Some(due), time, work));
            let panicked = |panic| {
                let text = format!("a command of a test device panicked: {panic}");
                Err(Failure::new(Code::Panic, text))
            };
            shared.pending.fetch_sub(1, SeqCst);
            fires.fire(outcome.unwrap_or_else(panicked).map(|()| (start, now())));
        });
        match &self.left {
            None => self.worker.run(job),
            Some(left) => left.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job),
        }
        let driven = self.left.clone().map(|left| (left, self.worker.clone()));
        Event::new(Pending { command, driven })
    }
}

/// Start and end on the device, in nanoseconds; or why the command failed.
type Outcome = Result<(u64, u64), Failure>;

impl Shared {
    /// `due`: when the command came, if it takes time.
    #[inline]
    fn run(
        &self,
        due: Option<Instant>,
        time: Duration,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut clock = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        work()?;
        if let Some(due) = due.filter(|_| !time.is_zero()) {
            clock.pass(due, time);
        }
        Ok(())
    }
}

/// Nanoseconds since the first call.
fn now() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A command in a queue.
#[derive(Default)]
struct Command {
    state: Mutex<State>,
    fired: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl Command {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.lock().outcome.is_some()
    }

    fn fire(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.fired.notify_all();
        callbacks.into_iter().for_each(|callback| callback());
    }
}

/// The event of a command.
struct Pending {
    command: Arc<Command>,
    /// What was left before it, and the thread that drives it for callbacks.
    driven: Option<(Arc<Left>, Arc<Worker>)>,
}

impl Completion for Pending {
    fn ready(&self) -> bool {
        if let Some((left, _)) = &self.driven {
            left.drive(|| self.command.is_over());
        }
        self.command.is_over()
    }

    fn wait(&self) -> Result<(), Failure> {
        if let Some((left, _)) = &self.driven {
            left.drive(|| self.command.is_over());
        }
        let mut state = self.command.lock();
        loop {
            match &state.outcome {
                Some(outcome) => return outcome.clone().map(drop),
                None => state = self.command.fired.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        let mut state = self.command.lock();
        if state.outcome.is_some() {
            drop(state);
            return callback();
        }
        state.callbacks.push(callback);
        drop(state);
        if let Some((left, worker)) = &self.driven {
            let (left, command) = (left.clone(), self.command.clone());
            worker.run(Box::new(move || left.drive(|| command.is_over())));
        }
    }

    fn times(&self) -> Option<(u64, u64)> {
        self.command.lock().outcome.clone()?.ok()
    }
}
