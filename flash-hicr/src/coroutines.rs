//! Functions as coroutines: many executions on one thread, which leaves them and goes on with them without
//! the system.
//!
//! A processing unit is the thread that asked for it. Stacks are those of tasks
//! ([`flash_tasks::coroutine`]), and kept for reuse.
//!
//! *Invariant.* A suspended coroutine is in the list of its thread ([`Here`]), and never anywhere else: what
//! its stack holds need not be `Send`. A handle has its number, and another thread that drops the handle
//! leaves the number for the thread to find.

use crate::Error;
use crate::managers::ComputeManager;
use crate::slot::LocalSlot;
use crate::topology::{Resource, TopologyManager, resources};
use crate::units::{
    ExecutionState, ExecutionUnit, Frame, Leave, ProcessingUnit, Processor, Running, Status, unknown, within,
};
use flash_tasks::coroutine::{self, Coroutine, Step};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Thread, current};

/// A compute manager whose execution states are coroutines. It has the processors of a topology manager.
///
/// A processing unit of it is the thread that calls [`processing_unit`](ComputeManager::processing_unit),
/// wherever that runs: to keep it to the resource is the business of what made the thread, such as another
/// compute manager. `start` and `resume` run the function on this thread until it suspends or ends, and are
/// refused on others.
pub fn coroutines(topology: &Arc<dyn TopologyManager>) -> Arc<dyn ComputeManager> {
    Arc::new(Coroutines(topology.clone()))
}

struct Coroutines(Arc<dyn TopologyManager>);

impl ComputeManager for Coroutines {
    fn resources(&self) -> Result<Vec<Resource>, Error> {
        Ok(resources(&self.0.topology()?))
    }

    fn processing_unit(&self, resource: &Resource) -> Result<ProcessingUnit, Error> {
        let known = self.resources()?;
        match known.contains(resource) {
            true => Ok(ProcessingUnit::new(CoroutineUnit(current()))),
            false => Err(unknown(resource, &known)),
        }
    }

    fn state(&self, unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        ExecutionState::of_function(unit, slots)
    }

    fn runs_beside_the_caller(&self) -> bool {
        false
    }
}

/// What a thread has suspended.
#[derive(Default)]
struct Here {
    next: Cell<u64>,
    suspended: RefCell<HashMap<u64, Coroutine>>,
    released: Arc<Mutex<Vec<u64>>>,
}

thread_local! {
    static HERE: Here = Here::default();
}

impl Here {
    /// Ends what other threads have released.
    fn end_released(&self) {
        let released = std::mem::take(&mut *lock(&self.released));
        for number in released {
            // Borrowed no more when it unwinds.
            let coroutine = self.suspended.borrow_mut().remove(&number);
            drop(coroutine);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct CoroutineUnit(Thread);

impl Processor for CoroutineUnit {
    fn start(&self, state: ExecutionState) -> Result<Box<dyn Running>, Error> {
        let name = state.name();
        let doing = || format!("starting `{name}`");
        on_own_thread(&self.0, doing)?;
        let (number, released) = HERE.with(|here| {
            here.end_released();
            here.next.set(here.next.get() + 1);
            (here.next.get(), here.released.clone())
        });
        let progress = Mutex::new(Progress { status: Status::Running, outcome: None });
        let run = Arc::new(Run { name: name.clone(), progress });
        let frame = Frame { run: run.clone(), task: state.task() };
        let ending = run.clone();
        let made = Coroutine::new(move || ending.ends(state.call()));
        let made = made.map_err(|why| Error::refused(doing(), why.to_string()))?;
        let handle = CoroutineRun { run, frame, number, thread: self.0.clone(), released };
        handle.step(made);
        Ok(Box::new(handle))
    }
}

fn on_own_thread(own: &Thread, doing: impl FnOnce() -> String) -> Result<(), Error> {
    let found = current();
    if found.id() == own.id() {
        return Ok(());
    }
    let name = |thread: &Thread| match thread.name() {
        Some(name) => format!("`{name}`"),
        None => format!("{:?}", thread.id()),
    };
    let why = format!(
        "expected the thread {} of its processing unit, which a coroutine is tied to, found {}",
        name(own),
        name(&found)
    );
    Err(Error::refused(doing(), why))
}

/// One execution.
struct Run {
    name: Arc<str>,
    progress: Mutex<Progress>,
}

struct Progress {
    status: Status,
    outcome: Option<Result<(), Error>>,
}

impl Run {
    fn ends(&self, outcome: Result<(), Error>) {
        let mut progress = lock(&self.progress);
        // It was left, and did not go on.
        let released = progress.status == Status::Suspended;
        progress.status = Status::Finished;
        progress.outcome = Some(match released {
            true => {
                Err(Error::refused(format!("executing `{}`", self.name), "it was released while suspended"))
            }
            false => outcome,
        });
    }
}

impl Leave for Run {
    fn leave(&self) -> Result<(), Error> {
        coroutine::suspend()
            .map_err(|why| Error::refused(format!("suspending `{}`", self.name), why.to_string()))
    }
}

/// The handle of an execution.
struct CoroutineRun {
    run: Arc<Run>,
    frame: Frame,
    number: u64,
    thread: Thread,
    released: Arc<Mutex<Vec<u64>>>,
}

impl CoroutineRun {
    /// Runs it until it suspends or ends. On its thread.
    fn step(&self, mut coroutine: Coroutine) {
        if within(self.frame.clone(), || coroutine.resume()) == Step::Suspended {
            lock(&self.run.progress).status = Status::Suspended;
            HERE.with(|here| here.suspended.borrow_mut().insert(self.number, coroutine));
        }
    }
}

impl Running for CoroutineRun {
    fn status(&mut self) -> Status {
        lock(&self.run.progress).status
    }

    fn settle(&mut self) -> Status {
        // It runs only while `start` or `resume` does.
        self.status()
    }

    fn resume(&mut self) -> Result<(), Error> {
        let doing = || format!("resuming `{}`", self.run.name);
        on_own_thread(&self.thread, doing)?;
        let coroutine = HERE.with(|here| {
            here.end_released();
            here.suspended.borrow_mut().remove(&self.number)
        });
        let coroutine = coroutine.ok_or_else(|| Error::refused(doing(), "it is not suspended here"))?;
        lock(&self.run.progress).status = Status::Running;
        self.step(coroutine);
        Ok(())
    }

    fn outcome(&mut self) -> Result<(), Error> {
        lock(&self.run.progress).outcome.take().unwrap_or(Ok(()))
    }
}

impl Drop for CoroutineRun {
    fn drop(&mut self) {
        if self.status() != Status::Suspended {
            return;
        }
        if current().id() != self.thread.id() {
            return lock(&self.released).push(self.number);
        }
        // Fails where the thread is ending: then that ends the coroutine. Borrowed no more when it unwinds.
        let found = HERE.try_with(|here| here.suspended.borrow_mut().remove(&self.number));
        drop(found);
    }
}
