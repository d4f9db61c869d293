//! Workers: loops on processing units that carry out the next task of a scheduler, which is the program's.
//!
//! *Invariant.* All that threads agree on is behind one lock (`Gate`), under which a worker looks for the
//! last time before it sleeps: `epoch` counts what a scheduler was given. A task that has begun stays with
//! its worker, which alone has its execution. No lock is held while a scheduler, a task or a callback is
//! called.

use crate::Error;
use crate::error::panic_text;
use crate::managers::ComputeManager;
use crate::tasks::Task;
use crate::topology::Resource;
use crate::units::{Execution, ExecutionUnit, ProcessingUnit, Status};
use flash_trace::hooks::{Category, begin};
use std::collections::{HashMap, VecDeque};
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Which task is next: the program's own.
pub trait Scheduler: Send + Sync {
    /// A task may begin from now on: it was added, and all that it comes after has finished. Called by what
    /// added it, or by a worker.
    fn push(&self, task: Task);

    /// The next task for a worker, by its number: one that was pushed, once. `None`: the worker sleeps until
    /// another one is pushed, or [`Workers::wake`] is called. Tasks that go on after they were suspended do
    /// not come here, but return to their worker.
    fn pull(&self, worker: usize) -> Option<Task>;
}

/// A scheduler that the program keeps, too.
impl<S: Scheduler + ?Sized> Scheduler for Arc<S> {
    fn push(&self, task: Task) {
        (**self).push(task);
    }

    fn pull(&self, worker: usize) -> Option<Task> {
        (**self).pull(worker)
    }
}

/// A scheduler with one queue for all workers.
pub struct Queue {
    newest_first: bool,
    tasks: Mutex<VecDeque<Task>>,
}

impl Queue {
    /// Tasks in the order in which they became ready.
    pub fn oldest_first() -> Queue {
        Queue { newest_first: false, tasks: Mutex::default() }
    }

    /// The newest first: of tasks that make tasks, few are suspended at a time.
    pub fn newest_first() -> Queue {
        Queue { newest_first: true, tasks: Mutex::default() }
    }
}

impl Scheduler for Queue {
    fn push(&self, task: Task) {
        lock(&self.tasks).push_back(task);
    }

    fn pull(&self, _: usize) -> Option<Task> {
        let mut tasks = lock(&self.tasks);
        if self.newest_first { tasks.pop_back() } else { tasks.pop_front() }
    }
}

/// A worker's resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    /// Where its loop runs.
    pub on: Resource,
    /// Where its tasks run.
    pub tasks_on: Resource,
}

/// What workers are made of: a compute manager for their loops, and one for tasks, which may be the same.
#[derive(Clone)]
pub struct Crew {
    /// For the loops.
    pub loops: Arc<dyn ComputeManager>,
    /// For the tasks.
    pub tasks: Arc<dyn ComputeManager>,
    /// The workers, in the order of their numbers.
    pub workers: Vec<Worker>,
}

impl Crew {
    /// A worker for each resource of the managers: for the first of both, the second of both, and so on.
    ///
    /// # Errors
    /// The managers'.
    pub fn of(loops: &Arc<dyn ComputeManager>, tasks: &Arc<dyn ComputeManager>) -> Result<Crew, Error> {
        let both = loops.resources()?.into_iter().zip(tasks.resources()?);
        let workers = both.map(|(on, tasks_on)| Worker { on, tasks_on }).collect();
        Ok(Crew { loops: loops.clone(), tasks: tasks.clone(), workers })
    }
}

/// Where a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerState {
    /// It gets its processing units.
    Starting,
    /// It runs a task, or asks for one.
    Running,
    /// It sleeps, as there is no task for it.
    Waiting,
    /// It was suspended, and sleeps.
    Suspended,
    /// It has ended.
    Terminated,
}

/// Workers that run. Dropped, they end: each after what it runs just now. What is suspended is released, and
/// what has not begun does not.
pub struct Workers {
    room: Arc<Room>,
    loops: Vec<(ProcessingUnit, Execution)>,
}

/// What workers share.
pub(crate) struct Room {
    scheduler: Box<dyn Scheduler>,
    gate: Mutex<Gate>,
    /// For each worker that sleeps.
    bells: Vec<Condvar>,
    /// For what waits for tasks, or for states of workers.
    changed: Condvar,
}

struct Gate {
    workers: Vec<Seat>,
    /// How often the scheduler was given something.
    epoch: u64,
    /// Only workers below it begin tasks.
    limit: usize,
    ends: bool,
    /// Tasks that were added.
    unfinished: isize,
    /// Those of them that wait for others.
    waiting: isize,
    /// The first task that failed.
    failed: Option<Error>,
    /// Why no worker goes on.
    broken: Option<Error>,
}

struct Seat {
    state: WorkerState,
    is_suspended: bool,
    /// Its tasks that go on.
    mail: VecDeque<Task>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// Starts workers that carry out the tasks of a scheduler.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none, or the manager of the loops runs nothing beside its caller; those
    /// of the managers.
    pub fn start(crew: &Crew, scheduler: impl Scheduler + 'static) -> Result<Workers, Error> {
        let refuse = |why: &str| Err(Error::refused("starting workers", why));
        if crew.workers.is_empty() {
            return refuse("expected one at least, found none");
        }
        if !crew.loops.runs_beside_the_caller() {
            return refuse(
                "expected a manager for their loops that runs them beside the caller, found coroutines: take \
                 the group's compute manager",
            );
        }
        let seat = || Seat { state: WorkerState::Starting, is_suspended: false, mail: VecDeque::new() };
        let room = Arc::new(Room {
            scheduler: Box::new(scheduler),
            bells: crew.workers.iter().map(|_| Condvar::new()).collect(),
            changed: Condvar::new(),
            gate: Mutex::new(Gate {
                workers: crew.workers.iter().map(|_| seat()).collect(),
                epoch: 0,
                limit: crew.workers.len(),
                ends: false,
                unfinished: 0,
                waiting: 0,
                failed: None,
                broken: None,
            }),
        });
        let mut workers = Workers { room: room.clone(), loops: Vec::new() };
        for (number, worker) in crew.workers.iter().enumerate() {
            let (shared, tasks, tasks_on) = (room.clone(), crew.tasks.clone(), worker.tasks_on.clone());
            let body = ExecutionUnit::new(format!("worker {number}")).function(move |_| {
                shared.run(number, &tasks, &tasks_on);
                Ok(())
            });
            let unit = crew.loops.processing_unit(&worker.on)?;
            let execution = unit.start(crew.loops.state(&body, &[])?)?;
            workers.loops.push((unit, execution));
        }
        let mut gate = room.gate();
        while gate.workers.iter().any(|seat| seat.state == WorkerState::Starting) {
            gate = wait(&room.changed, gate);
        }
        match gate.broken.take() {
            Some(why) => Err(why),
            None => {
                drop(gate);
                Ok(workers)
            }
        }
    }

    /// Adds a task: it runs once all that it comes after has finished. From within a task:
    /// [`add`](crate::add).
    ///
    /// # Errors
    /// [`Error::Refused`] if it was added before, here or elsewhere.
    pub fn add(&self, task: &Task) -> Result<(), Error> {
        Room::add(&self.room, task)
    }

    /// Waits until all tasks have finished that were added, those that tasks add among them.
    ///
    /// # Errors
    /// That of the first task that failed, when all have finished. [`Error::Refused`] if all that are left
    /// wait for tasks that were not added, or for each other; or if no worker goes on, such as after a panic
    /// of the scheduler or a callback: each call says why.
    pub fn wait(&self) -> Result<(), Error> {
        let mut gate = self.room.gate();
        loop {
            if let Some(why) = &gate.broken {
                return Err(Error::refused("waiting for tasks", format!("no worker goes on: {why}")));
            }
            if gate.unfinished == 0 {
                return gate.failed.take().map_or(Ok(()), Err);
            }
            if gate.unfinished == gate.waiting {
                let why = format!(
                    "the {} that are left wait for tasks that were not added, or for each other: add what they come \
                     after",
                    gate.waiting
                );
                return Err(Error::refused("waiting for tasks", why));
            }
            gate = wait(&self.room.changed, gate);
        }
    }

    /// Workers that were started.
    pub fn count(&self) -> usize {
        self.room.bells.len()
    }

    /// Where a worker is.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn state(&self, worker: usize) -> WorkerState {
        self.room.gate().workers[worker].state
    }

    /// Lets a worker sleep from when it has come back from its task. Its suspended tasks go on when it does.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn suspend(&self, worker: usize) {
        self.room.gate().workers[worker].is_suspended = true;
        self.wake();
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn resume(&self, worker: usize) {
        self.room.gate().workers[worker].is_suspended = false;
        self.wake();
    }

    /// Only the first `workers` of them begin tasks, at least one; others end what they have begun. It may
    /// change at any time.
    pub fn set_limit(&self, workers: usize) {
        self.room.gate().limit = workers.max(1);
        self.wake();
    }

    /// Lets all workers that sleep ask the scheduler again.
    pub fn wake(&self) {
        let mut gate = self.room.gate();
        gate.epoch += 1;
        self.room.bells.iter().for_each(Condvar::notify_one);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.room.gate().ends = true;
        self.wake();
        for (_, execution) in self.loops.drain(..) {
            // Its loop has no error: what fails there is kept for `wait`.
            let _ = execution.wait();
        }
    }
}

fn wait<'a>(condvar: &Condvar, guard: MutexGuard<'a, Gate>) -> MutexGuard<'a, Gate> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// What a worker does next.
enum Turn {
    /// These tasks go on; then it asks the scheduler, if it may.
    Goes {
        mail: VecDeque<Task>,
        epoch: u64,
        begins: bool,
    },
    Ends,
}

impl Room {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        lock(&self.gate)
    }

    /// See [`Workers::add`].
    pub(crate) fn add(self: &Arc<Self>, task: &Task) -> Result<(), Error> {
        if self.gate().ends {
            return Err(Error::refused(format!("adding task `{}`", task.name()), "the workers have ended"));
        }
        task.enters(self)?;
        self.gate().unfinished += 1;
        if !task.waits_less() {
            self.waits(1);
            return Ok(());
        }
        match task.fails() {
            Some(why) => task.finish(Some(why), self),
            None => task.is_free(self),
        }
        Ok(())
    }

    /// Gives a task to the scheduler, and wakes a worker for it.
    pub(crate) fn push(&self, task: Task) {
        self.scheduler.push(task);
        let mut gate = self.gate();
        gate.epoch += 1;
        let limit = gate.limit;
        let mut seats = gate.workers.iter_mut().enumerate().take(limit);
        let waits = |seat: &Seat| seat.state == WorkerState::Waiting && !seat.is_suspended;
        if let Some((number, seat)) = seats.find(|(_, seat)| waits(seat)) {
            // The next task is for another one.
            seat.state = WorkerState::Running;
            self.bells[number].notify_one();
        }
    }

    /// Gives a task back to its worker.
    pub(crate) fn send(&self, worker: usize, task: Task) {
        self.gate().workers[worker].mail.push_back(task);
        self.bells[worker].notify_one();
    }

    /// This many more tasks wait for others.
    pub(crate) fn waits(&self, more: isize) {
        let mut gate = self.gate();
        gate.waiting += more;
        self.notice(&gate);
    }

    /// A task has finished.
    pub(crate) fn one_finished(&self, failed: Option<Error>) {
        let mut gate = self.gate();
        gate.unfinished -= 1;
        if gate.failed.is_none() {
            gate.failed = failed;
        }
        self.notice(&gate);
    }

    fn notice(&self, gate: &Gate) {
        if gate.unfinished == 0 || gate.unfinished == gate.waiting {
            self.changed.notify_all();
        }
    }

    /// No worker goes on.
    fn breaks(&self, why: Error) {
        let mut gate = self.gate();
        gate.ends = true;
        if gate.broken.is_none() {
            gate.broken = Some(why);
        }
        self.changed.notify_all();
        self.bells.iter().for_each(Condvar::notify_one);
    }

    fn sets(&self, worker: usize, state: WorkerState) {
        self.gate().workers[worker].state = state;
        self.changed.notify_all();
    }

    /// A worker, from its beginning to its end.
    fn run(&self, number: usize, compute: &Arc<dyn ComputeManager>, resource: &Resource) {
        match compute.processing_unit(resource) {
            Err(why) => self.breaks(why),
            Ok(unit) => {
                self.sets(number, WorkerState::Running);
                let mut own = Own { room: self, number, compute, unit, begun: HashMap::new() };
                let run = catch_unwind(AssertUnwindSafe(|| own.run()));
                let end = catch_unwind(AssertUnwindSafe(|| own.end()));
                for panic in [run, end].into_iter().filter_map(Result::err) {
                    let what = format!("the scheduler, or a callback of a task, on worker {number}");
                    self.breaks(Error::Panicked { what, text: panic_text(&*panic) });
                }
            }
        }
        self.sets(number, WorkerState::Terminated);
    }

    /// Waits until there may be something for a worker that has found nothing in this epoch.
    fn next_turn(&self, number: usize, seen: Option<u64>) -> Turn {
        let mut gate = self.gate();
        loop {
            if gate.ends {
                return Turn::Ends;
            }
            let (epoch, begins) = (gate.epoch, number < gate.limit);
            let seat = &mut gate.workers[number];
            let has_work = !seat.mail.is_empty() || (begins && seen != Some(epoch));
            let state = match (seat.is_suspended, has_work) {
                (true, _) => WorkerState::Suspended,
                (false, true) => WorkerState::Running,
                (false, false) => WorkerState::Waiting,
            };
            if seat.state != state {
                seat.state = state;
                self.changed.notify_all();
            }
            if state == WorkerState::Running {
                return Turn::Goes { mail: take(&mut seat.mail), epoch, begins };
            }
            gate = wait(&self.bells[number], gate);
        }
    }
}

/// What a worker has for itself.
struct Own<'a> {
    room: &'a Room,
    number: usize,
    compute: &'a Arc<dyn ComputeManager>,
    unit: ProcessingUnit,
    /// Its suspended tasks, by address.
    begun: HashMap<usize, (Task, Execution)>,
}

impl Own<'_> {
    fn run(&mut self) {
        let mut seen = None;
        while let Turn::Goes { mail, epoch, begins } = self.room.next_turn(self.number, seen) {
            mail.into_iter().for_each(|task| self.carry_out(task));
            if !begins {
                continue;
            }
            match self.room.scheduler.pull(self.number) {
                Some(task) => {
                    self.carry_out(task);
                    seen = None;
                }
                None => seen = Some(epoch),
            }
        }
    }

    /// Runs a task until it is suspended or has ended.
    fn carry_out(&mut self, task: Task) {
        if let Err(found) = task.begins(self.number) {
            let why = format!(
                "expected one that was pushed and not yet pulled, found `{}`, which is {found:?}",
                task.name()
            );
            return self
                .room
                .breaks(Error::refused(format!("pulling a task on worker {}", self.number), why));
        }
        let _span = begin(Category::Task, task.name(), [1, self.number as u64 + 1]);
        let key = Arc::as_ptr(&task.0).addr();
        let (mut execution, resumed) = match self.begun.remove(&key) {
            Some((_, mut execution)) => {
                let resumed = execution.resume();
                (execution, resumed)
            }
            None => match self.start(&task) {
                Ok(execution) => (execution, Ok(())),
                Err(why) => return task.finish(Some(Arc::new(why)), self.room),
            },
        };
        match resumed.map(|()| execution.settle()) {
            Ok(Status::Suspended) => {
                self.begun.insert(key, (task.clone(), execution));
                if task.left() {
                    self.room.send(self.number, task);
                }
            }
            Ok(_) => task.finish(execution.wait().err().map(Arc::new), self.room),
            Err(why) => task.finish(Some(Arc::new(why)), self.room),
        }
    }

    fn start(&self, task: &Task) -> Result<Execution, Error> {
        let state = self.compute.state(&task.0.unit, &task.0.slots)?;
        self.unit.start(state.of_task(Arc::downgrade(&task.0)))
    }

    /// Releases what is suspended.
    fn end(&mut self) {
        for (_, (task, execution)) in self.begun.drain() {
            drop(execution);
            let what = format!("executing task `{}`", task.name());
            let why = Error::refused(what, "its workers ended while it was suspended");
            task.finish(Some(Arc::new(why)), self.room);
        }
    }
}
