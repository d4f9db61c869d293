//! Functions on threads of the system: one thread for each execution that has begun, all kept to the
//! processor of their unit, which runs one of them at a time.
//!
//! *Invariant.* A unit is `busy` from when a thread is chosen until this thread has left the unit: its
//! function is suspended or has ended. Locks are taken in this order: `Unit::shared`, then `Run::progress`.

use crate::Error;
use crate::managers::ComputeManager;
use crate::slot::LocalSlot;
use crate::topology::{Resource, TopologyManager, resources};
use crate::units::{
    ExecutionState, ExecutionUnit, Frame, Leave, ProcessingUnit, Processor, Running, Status, unknown, within,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads without a function that a unit keeps.
const IDLE: usize = 16;

pub(crate) struct ThreadCompute(pub(crate) Arc<dyn TopologyManager>);

impl ComputeManager for ThreadCompute {
    fn resources(&self) -> Result<Vec<Resource>, Error> {
        Ok(resources(&self.0.topology()?))
    }

    fn processing_unit(&self, resource: &Resource) -> Result<ProcessingUnit, Error> {
        let known = self.resources()?;
        match resource {
            &Resource::Cpu(cpu) if known.contains(resource) => {
                let (shared, idle, rests) = (Mutex::default(), Condvar::new(), Condvar::new());
                Ok(ProcessingUnit::new(ThreadUnit(Arc::new(Unit { cpu, shared, idle, rests }))))
            }
            _ => Err(unknown(resource, &known)),
        }
    }

    fn state(&self, unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        ExecutionState::of_function(unit, slots)
    }
}

struct Unit {
    cpu: u32,
    shared: Mutex<Shared>,
    /// For threads without a function.
    idle: Condvar,
    /// For what waits until nothing runs.
    rests: Condvar,
}

#[derive(Default)]
struct Shared {
    queue: VecDeque<Next>,
    busy: bool,
    /// For one of the threads without a function.
    handed: Option<(ExecutionState, Arc<Run>)>,
    /// Threads without a function, and without a call to one.
    idle: usize,
    /// The processing unit was dropped.
    closed: bool,
}

enum Next {
    Begins(ExecutionState, Arc<Run>),
    GoesOn(Arc<Run>),
}

/// One execution.
struct Run {
    name: Arc<str>,
    unit: Arc<Unit>,
    progress: Mutex<Progress>,
    /// For its thread while it is suspended, and for what waits for it.
    changed: Condvar,
}

struct Progress {
    status: Status,
    /// It has the unit.
    goes: bool,
    /// Its handle was dropped.
    is_released: bool,
    outcome: Option<Result<(), Error>>,
}

/// What an execution that was released unwinds with.
struct Released;

thread_local! {
    /// The unit that this thread is one of.
    static UNIT: Cell<*const Unit> = const { Cell::new(ptr::null()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

impl Unit {
    /// The unit has been left.
    fn is_left(self: &Arc<Self>, shared: &mut Shared) {
        shared.busy = false;
        self.choose(shared);
    }

    /// Gives the unit to the next one, if nothing has it.
    fn choose(self: &Arc<Self>, shared: &mut Shared) {
        while !shared.busy {
            match shared.queue.pop_front() {
                None => return self.rests.notify_all(),
                Some(Next::GoesOn(run)) => {
                    shared.busy = true;
                    lock(&run.progress).goes = true;
                    run.changed.notify_all();
                }
                Some(Next::Begins(state, run)) if shared.idle > 0 => {
                    shared.busy = true;
                    shared.idle -= 1;
                    shared.handed = Some((state, run));
                    self.idle.notify_one();
                }
                Some(Next::Begins(state, run)) => {
                    shared.busy = true;
                    let (unit, begun) = (self.clone(), run.clone());
                    let thread = std::thread::Builder::new().name(format!("hicr-cpu-{}", self.cpu));
                    if let Err(why) = thread.spawn(move || unit.run(state, begun)) {
                        shared.busy = false;
                        let what = format!("a thread for `{}` on cpu {}", run.name, self.cpu);
                        run.ends(Err(Error::refused(what, why.to_string())));
                    }
                }
            }
        }
    }

    /// What a thread does: this function, and then others.
    fn run(self: Arc<Self>, mut state: ExecutionState, mut run: Arc<Run>) {
        UNIT.set(&*self);
        // It was allowed a moment ago; where it is not any more, the system chooses.
        let _ = flash_net::keep_to(&[self.cpu as usize]);
        loop {
            let frame = Frame { run: run.clone(), task: state.task() };
            let outcome = within(frame, || state.call());
            let mut shared = lock(&self.shared);
            run.ends(outcome);
            drop(run);
            let stays = shared.idle < IDLE && !shared.closed;
            shared.idle += usize::from(stays);
            self.is_left(&mut shared);
            if !stays {
                return;
            }
            (state, run) = loop {
                match shared.handed.take() {
                    Some(handed) => break handed,
                    None if shared.closed => return,
                    None => shared = wait(&self.idle, shared),
                }
            };
        }
    }
}

impl Run {
    fn ends(&self, outcome: Result<(), Error>) {
        let mut progress = lock(&self.progress);
        progress.status = Status::Finished;
        progress.outcome = Some(outcome);
        self.changed.notify_all();
    }

    fn goes_on(self: &Arc<Self>, shared: &mut Shared) {
        shared.queue.push_back(Next::GoesOn(self.clone()));
        self.unit.choose(shared);
    }
}

impl Leave for Run {
    fn leave(&self) -> Result<(), Error> {
        if std::thread::panicking() {
            return Err(Error::refused(format!("suspending `{}`", self.name), "a panic unwinds"));
        }
        let mut shared = lock(&self.unit.shared);
        let mut progress = lock(&self.progress);
        if !progress.is_released {
            progress.status = Status::Suspended;
            progress.goes = false;
            self.changed.notify_all();
            drop(progress);
            self.unit.is_left(&mut shared);
            drop(shared);
            progress = lock(&self.progress);
            while !progress.goes {
                progress = wait(&self.changed, progress);
            }
        }
        match progress.is_released {
            true => {
                drop(progress);
                resume_unwind(Box::new(Released))
            }
            false => Ok(()),
        }
    }
}

struct ThreadUnit(Arc<Unit>);

impl Processor for ThreadUnit {
    fn start(&self, state: ExecutionState) -> Result<Box<dyn Running>, Error> {
        let progress = Progress { status: Status::Running, goes: true, is_released: false, outcome: None };
        let run = Arc::new(Run {
            name: state.name(),
            unit: self.0.clone(),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        });
        let mut shared = lock(&self.0.shared);
        shared.queue.push_back(Next::Begins(state, run.clone()));
        self.0.choose(&mut shared);
        Ok(Box::new(ThreadRun(run)))
    }
}

impl Drop for ThreadUnit {
    fn drop(&mut self) {
        let mut shared = lock(&self.0.shared);
        // What runs on the unit itself does not wait for its own end.
        let is_own = ptr::eq(UNIT.try_with(Cell::get).unwrap_or(ptr::null()), &*self.0);
        while !is_own && (shared.busy || !shared.queue.is_empty()) {
            shared = wait(&self.0.rests, shared);
        }
        shared.closed = true;
        self.0.idle.notify_all();
    }
}

/// The handle of an execution.
struct ThreadRun(Arc<Run>);

impl Running for ThreadRun {
    fn status(&mut self) -> Status {
        lock(&self.0.progress).status
    }

    fn settle(&mut self) -> Status {
        let mut progress = lock(&self.0.progress);
        while progress.status == Status::Running {
            progress = wait(&self.0.changed, progress);
        }
        progress.status
    }

    fn resume(&mut self) -> Result<(), Error> {
        let mut shared = lock(&self.0.unit.shared);
        lock(&self.0.progress).status = Status::Running;
        self.0.goes_on(&mut shared);
        Ok(())
    }

    fn outcome(&mut self) -> Result<(), Error> {
        lock(&self.0.progress).outcome.take().unwrap_or(Ok(()))
    }
}

impl Drop for ThreadRun {
    fn drop(&mut self) {
        let mut shared = lock(&self.0.unit.shared);
        let mut progress = lock(&self.0.progress);
        progress.is_released = true;
        if progress.status == Status::Suspended {
            progress.status = Status::Running;
            drop(progress);
            // Its thread unwinds.
            self.0.goes_on(&mut shared);
        }
    }
}
