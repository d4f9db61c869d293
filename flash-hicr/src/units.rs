//! Execution: units are what is to run, states are one run of each, processing units run them.

use crate::Error;
use crate::error::panic_text;
use crate::managers::ComputeManager;
use crate::slot::LocalSlot;
use crate::topology::{Resource, TopologyManager, resources};
use flash_core::{Pipeline, RuntimeObj};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

type Function = dyn Fn(&[LocalSlot]) -> Result<(), Error> + Send + Sync;
type Kernel = dyn Fn(&RuntimeObj, &[LocalSlot]) -> Result<Pipeline<'static>, Error> + Send + Sync;

/// A function as what it does to slots, in one form per kind of manager. Stateless.
#[derive(Clone)]
pub struct ExecutionUnit {
    name: String,
    function: Option<Arc<Function>>,
    kernel: Option<Arc<Kernel>>,
}

impl ExecutionUnit {
    /// A unit without a form so far.
    pub fn new(name: impl Into<String>) -> ExecutionUnit {
        ExecutionUnit { name: name.into(), function: None, kernel: None }
    }

    /// Its form for processors.
    pub fn function(
        mut self,
        function: impl Fn(&[LocalSlot]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> ExecutionUnit {
        self.function = Some(Arc::new(function));
        self
    }

    /// Its form for devices: the pipeline of kernels that does it, on the memories of the slots
    /// ([`memory_of`](crate::memory_of)).
    pub fn kernel(
        mut self,
        kernel: impl Fn(&RuntimeObj, &[LocalSlot]) -> Result<Pipeline<'static>, Error> + Send + Sync + 'static,
    ) -> ExecutionUnit {
        self.kernel = Some(Arc::new(kernel));
        self
    }

    /// What it is called in errors.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One execution of a unit. It is used up when it is started: there is no second run.
pub struct ExecutionState {
    unit: ExecutionUnit,
    slots: Vec<LocalSlot>,
}

impl ExecutionState {
    pub(crate) fn of_kernel(unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        match unit.kernel {
            Some(_) => Ok(ExecutionState { unit: unit.clone(), slots: slots.to_vec() }),
            None => Err(no_form(unit, "kernels, see `ExecutionUnit::kernel`")),
        }
    }

    /// The pipeline of its kernels.
    pub(crate) fn pipeline(&self, runtime: &RuntimeObj) -> Result<Pipeline<'static>, Error> {
        let kernel = self.unit.kernel.as_ref().ok_or_else(|| no_form(&self.unit, "kernels"))?;
        kernel(runtime, &self.slots)
    }

    /// Runs its function.
    fn call(&self) -> Result<(), Error> {
        let function = self.unit.function.as_ref().ok_or_else(|| no_form(&self.unit, "a function"))?;
        catch_unwind(AssertUnwindSafe(|| function(&self.slots))).unwrap_or_else(|panic| {
            let what = format!("the execution unit `{}`", self.unit.name);
            Err(Error::Panicked { what, text: panic_text(&*panic) })
        })
    }
}

fn no_form(unit: &ExecutionUnit, form: &str) -> Error {
    let why = format!("this manager runs {form}; the unit has no such form");
    Error::refused(format!("executing `{}`", unit.name), why)
}

/// What runs states on one resource. Dropping it waits for what it runs.
pub struct ProcessingUnit(Box<dyn Processor>);

/// How a compute manager runs states.
pub trait Processor: Send {
    /// Starts it, behind those that were started before.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(&self, state: ExecutionState) -> Result<Box<dyn Running>, Error>;
}

/// An execution that was started.
pub trait Running: Send {
    /// How it ended, if it has.
    fn ended(&mut self) -> Option<Result<(), Error>>;
    /// Waits for its end.
    ///
    /// # Errors
    /// The function's or the kernel's.
    fn wait(self: Box<Self>) -> Result<(), Error>;
}

impl ProcessingUnit {
    /// The unit of a compute manager.
    pub fn new(processor: impl Processor + 'static) -> ProcessingUnit {
        ProcessingUnit(Box::new(processor))
    }

    /// Starts an execution, and goes on.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, state: ExecutionState) -> Result<Execution, Error> {
        self.0.start(state).map(|running| Execution { running, ended: None })
    }
}

/// An execution: running, or finished.
#[must_use = "it is waited for, or its error is lost"]
pub struct Execution {
    running: Box<dyn Running>,
    ended: Option<Result<(), Error>>,
}

impl Execution {
    /// True when it is finished. Does not wait.
    pub fn is_finished(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.running.ended();
        }
        self.ended.is_some()
    }

    /// Waits until it is finished.
    ///
    /// # Errors
    /// The function's or the kernel's; a panic is [`Error::Panicked`].
    pub fn wait(self) -> Result<(), Error> {
        match self.ended {
            Some(ended) => ended,
            None => self.running.wait(),
        }
    }
}

/// Functions on threads, each kept to a processor.
pub(crate) struct ThreadCompute(pub(crate) Arc<dyn TopologyManager>);

impl ComputeManager for ThreadCompute {
    fn resources(&self) -> Result<Vec<Resource>, Error> {
        Ok(resources(&self.0.topology()?))
    }

    fn processing_unit(&self, resource: &Resource) -> Result<ProcessingUnit, Error> {
        let known = self.resources()?;
        let &Resource::Cpu(cpu) = resource else { return Err(unknown(resource, &known)) };
        if !known.contains(resource) {
            return Err(unknown(resource, &known));
        }
        let (states, inbox) = channel::<(ExecutionState, Arc<End>)>();
        let thread = std::thread::Builder::new().name(format!("hicr-cpu-{cpu}")).spawn(move || {
            // It was allowed a moment ago; where it is not any more, the system chooses.
            let _ = flash_net::keep_to(&[cpu as usize]);
            for (state, end) in inbox {
                end.set(state.call());
            }
        });
        let thread =
            thread.map_err(|why| Error::refused(format!("a thread for {resource}"), why.to_string()))?;
        Ok(ProcessingUnit::new(ThreadUnit { states: Some(states), thread: Some(thread) }))
    }

    fn state(&self, unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        match unit.function {
            Some(_) => Ok(ExecutionState { unit: unit.clone(), slots: slots.to_vec() }),
            None => Err(no_form(unit, "functions, see `ExecutionUnit::function`")),
        }
    }
}

pub(crate) fn unknown(resource: &Resource, known: &[Resource]) -> Error {
    let known: Vec<String> = known.iter().map(Resource::to_string).collect();
    let why = format!("expected one of {}, found {resource}", known.join(", "));
    Error::refused("a processing unit", why)
}

struct ThreadUnit {
    states: Option<Sender<(ExecutionState, Arc<End>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Processor for ThreadUnit {
    fn start(&self, state: ExecutionState) -> Result<Box<dyn Running>, Error> {
        let end = Arc::new(End::default());
        let sent = self.states.as_ref().map(|states| states.send((state, end.clone())));
        match sent {
            Some(Ok(())) => Ok(Box::new(end)),
            _ => Err(Error::refused("starting an execution", "its thread has ended")),
        }
    }
}

impl Drop for ThreadUnit {
    fn drop(&mut self) {
        drop(self.states.take());
        // Functions' panics are caught: the thread has none.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// How an execution ended.
#[derive(Default)]
struct End {
    outcome: Mutex<Option<Result<(), Error>>>,
    is_set: Condvar,
}

impl End {
    fn set(&self, outcome: Result<(), Error>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.is_set.notify_all();
    }
}

impl Running for Arc<End> {
    fn ended(&mut self) -> Option<Result<(), Error>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn wait(self: Box<Self>) -> Result<(), Error> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match outcome.take() {
                Some(ended) => return ended,
                None => outcome = self.is_set.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
