//! Tasks: executions with states that are told to callbacks, and tasks that they come after. Workers run them
//! (`workers.rs`).
//!
//! *Invariant.* `pending` is the number of unfinished tasks that a task waits for, and one more until it is
//! added, or while it looks for what to wait for. What brings it to 0 makes the task ready. No lock is held
//! while a callback or a scheduler is called, or the lock of another task is taken.

use crate::Error;
use crate::slot::LocalSlot;
use crate::units::{ExecutionUnit, innermost, suspend};
use crate::workers::Room;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// It is not added yet, or comes after tasks that are not finished.
    Waiting,
    /// It may run, for the first time or again.
    Ready,
    /// A worker runs it.
    Executing,
    /// It has left its worker to others.
    Suspended,
    /// It has ended, well or not.
    Finished,
}

/// An execution of a unit that a worker carries out once, after other tasks. A clone is the same task.
///
/// Where a task fails, those after it do not run: they fail, too, with its name.
///
/// # Examples
/// ```
/// use flash_hicr::{Crew, ExecutionUnit, Queue, Task, Workers, coroutines, threads};
/// use std::sync::{Arc, Mutex};
/// threads(1, |hicr| {
///     let order = Arc::new(Mutex::new(String::new()));
///     let [a, b] = ["a", "b"].map(|name| {
///         let order = order.clone();
///         Task::new(ExecutionUnit::new(name).function(move |_| {
///             order.lock().unwrap().push_str(name);
///             Ok(())
///         }), &[])
///     });
///     b.after(&[&a])?;
///     let crew = Crew::of(&hicr.compute, &coroutines(&hicr.topology))?;
///     let workers = Workers::start(&crew, Queue::oldest_first())?;
///     workers.add(&b)?;
///     workers.add(&a)?;
///     workers.wait()?;
///     assert_eq!(*order.lock().unwrap(), "ab");
///     Ok(())
/// })?;
/// # Ok::<(), flash_hicr::Error>(())
/// ```
#[derive(Clone)]
pub struct Task(pub(crate) Arc<Inner>);

pub(crate) type WeakTask = Weak<Inner>;

type Callback = dyn Fn(&Task, TaskState) + Send + Sync;

pub(crate) struct Inner {
    pub(crate) unit: ExecutionUnit,
    pub(crate) slots: Vec<LocalSlot>,
    progress: Mutex<Progress>,
}

struct Progress {
    state: TaskState,
    pending: usize,
    /// Where it was added.
    room: Option<Weak<Room>>,
    /// The worker that it is tied to, once it has begun.
    worker: Option<usize>,
    /// It was resumed by hand before it was suspended.
    resumed: bool,
    /// It is in [`wait_for`], and goes on when `pending` is 0.
    awaits: bool,
    /// A task that it waited for failed.
    failed_before: Option<Failure>,
    error: Option<Arc<Error>>,
    /// Those that wait for it.
    successors: Vec<Task>,
    callbacks: Vec<Arc<Callback>>,
}

#[derive(Clone)]
struct Failure {
    name: String,
    why: Arc<Error>,
}

impl From<Failure> for Error {
    fn from(Failure { name, why }: Failure) -> Error {
        Error::Task { name, why }
    }
}

impl Progress {
    /// True if it is in [`wait_for`], and what it waited for has finished.
    fn is_to_go_on(&self) -> bool {
        self.awaits && self.pending == 0
    }
}

impl Task {
    /// A task that carries out the unit with these slots.
    pub fn new(unit: ExecutionUnit, slots: &[LocalSlot]) -> Task {
        Task(Arc::new(Inner {
            unit,
            slots: slots.to_vec(),
            progress: Mutex::new(Progress {
                state: TaskState::Waiting,
                pending: 1,
                room: None,
                worker: None,
                resumed: false,
                awaits: false,
                failed_before: None,
                error: None,
                successors: Vec::new(),
                callbacks: Vec::new(),
            }),
        }))
    }

    /// The task that runs the calling code.
    pub fn current() -> Option<Task> {
        innermost()?.task?.upgrade().map(Task)
    }

    /// The unit's name.
    pub fn name(&self) -> &str {
        self.0.unit.name()
    }

    /// Where it is.
    pub fn state(&self) -> TaskState {
        self.lock().state
    }

    /// The worker that has begun it. It goes on there.
    pub fn worker(&self) -> Option<usize> {
        self.lock().worker
    }

    /// Why it failed.
    pub fn error(&self) -> Option<Arc<Error>> {
        self.lock().error.clone()
    }

    /// Calls a function whenever the state of the task changes, on the thread where it does. Not to wait in:
    /// the thread may be a worker's.
    pub fn on_change(&self, callback: impl Fn(&Task, TaskState) + Send + Sync + 'static) {
        self.lock().callbacks.push(Arc::new(callback));
    }

    /// Lets it run only when these have finished. They may be added later than this one. Tasks that come
    /// after each other in a circle never run, and [`Workers::wait`](crate::Workers::wait) is an error then.
    ///
    /// # Errors
    /// [`Error::Refused`] if it has been added, or one of them is this task.
    pub fn after(&self, others: &[&Task]) -> Result<(), Error> {
        let refuse =
            |why: &str| Err(Error::refused(format!("letting `{}` run after others", self.name()), why));
        if others.iter().any(|other| Arc::ptr_eq(&self.0, &other.0)) {
            return refuse("expected others, found the task itself");
        }
        if self.lock().room.is_some() {
            return refuse("expected it not yet added: say what comes before, then add it");
        }
        others.iter().for_each(|other| self.waits_for(other));
        Ok(())
    }

    /// Lets a task go on that was suspended by [`suspend`](crate::suspend()). One that still runs is not
    /// suspended the next time: so what it waits for may come before it waits, and a task looks again after
    /// it was suspended.
    ///
    /// # Errors
    /// [`Error::Refused`] if it has not begun, or is finished.
    pub fn resume(&self) -> Result<(), Error> {
        let found = {
            let mut progress = self.lock();
            match (progress.state, progress.worker) {
                (TaskState::Finished, _) => "finished",
                (_, None) => "not begun",
                (TaskState::Suspended, Some(worker)) if !progress.awaits => {
                    progress.state = TaskState::Ready;
                    drop(progress);
                    self.goes_on(worker);
                    return Ok(());
                }
                _ => {
                    progress.resumed = true;
                    return Ok(());
                }
            }
        };
        let why = format!("expected it executing or suspended, found it {found}");
        Err(Error::refused(format!("resuming task `{}`", self.name()), why))
    }

    /// True if it still waits for others.
    fn is_to_wait(&self) -> bool {
        let mut progress = self.lock();
        progress.awaits = progress.pending > 0;
        progress.awaits
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> Option<Arc<Room>> {
        self.lock().room.as_ref()?.upgrade()
    }

    fn tell(&self, state: TaskState) {
        let callbacks = {
            let progress = self.lock();
            if progress.callbacks.is_empty() {
                return;
            }
            progress.callbacks.clone()
        };
        callbacks.iter().for_each(|callback| callback(self, state));
    }

    /// Counts a task that is not finished, which will take that back. `pending` is above 0.
    fn waits_for(&self, other: &Task) {
        self.lock().pending += 1;
        let failed = {
            let mut progress = other.lock();
            if progress.state != TaskState::Finished {
                progress.successors.push(self.clone());
                return;
            }
            progress.error.as_ref().map(|why| other.failure(why))
        };
        let mut progress = self.lock();
        progress.pending -= 1;
        if failed.is_some() {
            progress.failed_before = failed;
        }
    }

    /// That it failed, for those that come after it.
    fn failure(&self, why: &Arc<Error>) -> Failure {
        Failure { name: self.name().to_owned(), why: why.clone() }
    }

    /// It belongs to this room from now on.
    ///
    /// # Errors
    /// If it was added before.
    pub(crate) fn enters(&self, room: &Arc<Room>) -> Result<(), Error> {
        let mut progress = self.lock();
        if progress.room.is_some() {
            let why = "it was added before: a task runs once";
            return Err(Error::refused(format!("adding task `{}`", self.name()), why));
        }
        progress.room = Some(Arc::downgrade(room));
        Ok(())
    }

    /// Why it does not begin, if a task that it comes after failed.
    pub(crate) fn fails(&self) -> Option<Arc<Error>> {
        let mut progress = self.lock();
        match progress.worker {
            None => progress.failed_before.take().map(|failure| Arc::new(failure.into())),
            // `wait_for` tells it.
            Some(_) => None,
        }
    }

    /// Takes one from `pending`; true if nothing is left.
    pub(crate) fn waits_less(&self) -> bool {
        let mut progress = self.lock();
        progress.pending -= 1;
        progress.pending == 0
    }

    /// Nothing is left that it waits for: lets it begin or go on.
    pub(crate) fn is_free(&self, room: &Room) {
        let worker = {
            let mut progress = self.lock();
            match progress.worker {
                None => {}
                Some(_) if progress.state == TaskState::Suspended && progress.is_to_go_on() => {}
                // It still runs, and sees it when it is left; or it has seen it already.
                Some(_) => return,
            }
            progress.state = TaskState::Ready;
            progress.worker
        };
        match worker {
            Some(worker) => self.goes_on(worker),
            None => {
                self.tell(TaskState::Ready);
                room.push(self.clone());
            }
        }
    }

    /// It is ready again.
    fn goes_on(&self, worker: usize) {
        self.tell(TaskState::Ready);
        if let Some(room) = self.room() {
            room.send(worker, self.clone());
        }
    }

    /// A worker takes it.
    ///
    /// # Errors
    /// If it may not run there now: the state that it is in.
    pub(crate) fn begins(&self, worker: usize) -> Result<(), TaskState> {
        {
            let mut progress = self.lock();
            let is_its = progress.worker.is_none_or(|own| own == worker);
            if progress.state != TaskState::Ready || !is_its {
                return Err(progress.state);
            }
            progress.state = TaskState::Executing;
            progress.worker = Some(worker);
        }
        self.tell(TaskState::Executing);
        Ok(())
    }

    /// Its worker has come back from it in its middle. True if it may go on at once.
    pub(crate) fn left(&self) -> bool {
        let state = {
            let mut progress = self.lock();
            let is_ready = if progress.awaits { progress.is_to_go_on() } else { take(&mut progress.resumed) };
            progress.state = if is_ready { TaskState::Ready } else { TaskState::Suspended };
            progress.state
        };
        self.tell(state);
        state == TaskState::Ready
    }

    /// It has ended: so have those after it, if it failed; else what waits for nothing else is ready.
    pub(crate) fn finish(&self, error: Option<Arc<Error>>, room: &Room) {
        // Not by recursion: chains are long.
        let mut ended = vec![(self.clone(), error)];
        while let Some((task, error)) = ended.pop() {
            let successors = {
                let mut progress = task.lock();
                progress.state = TaskState::Finished;
                progress.error.clone_from(&error);
                take(&mut progress.successors)
            };
            task.tell(TaskState::Finished);
            let failure = error.as_ref().map(|why| task.failure(why));
            for next in successors {
                if failure.is_some() {
                    next.lock().failed_before.clone_from(&failure);
                }
                if !next.waits_less() {
                    continue;
                }
                let Some(of) = next.room() else { continue };
                of.waits(-1);
                match next.fails() {
                    Some(why) if std::ptr::eq(&*of, room) => ended.push((next, Some(why))),
                    Some(why) => next.finish(Some(why), &of),
                    None => next.is_free(&of),
                }
            }
            let failed = failure.map(Error::from);
            room.one_finished(failed);
        }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Task(`{}`, {:?})", self.name(), self.state())
    }
}

/// Adds a task to the workers that run the calling one.
///
/// # Errors
/// Outside of a task; and those of [`Workers::add`](crate::Workers::add).
pub fn add(task: &Task) -> Result<(), Error> {
    let room = Task::current().and_then(|current| current.room());
    let outside =
        || Error::refused(format!("adding task `{}`", task.name()), "no task runs the calling code");
    Room::add(&room.ok_or_else(outside)?, task)
}

/// Suspends the calling task until these have finished.
///
/// # Errors
/// Outside of a task; [`Error::Task`] if one of them failed; and those of [`suspend`](crate::suspend()).
pub fn wait_for(tasks: &[&Task]) -> Result<(), Error> {
    let here = Task::current().and_then(|task| Some((task.room()?, task)));
    let Some((room, current)) = here else {
        return Err(Error::refused("waiting for tasks", "no task runs the calling code"));
    };
    if tasks.iter().any(|task| Arc::ptr_eq(&task.0, &current.0)) {
        let what = format!("waiting for task `{}`", current.name());
        return Err(Error::refused(what, "it is the calling task itself"));
    }
    current.lock().pending += 1;
    tasks.iter().for_each(|task| current.waits_for(task));
    if !current.waits_less() {
        room.waits(1);
        while current.is_to_wait() {
            suspend().inspect_err(|_| current.lock().awaits = false)?;
        }
    }
    let failed = current.lock().failed_before.take();
    failed.map_or(Ok(()), |failure| Err(failure.into()))
}
