//! Execution: units are what is to run, states are one run of each, processing units run them. How they do is
//! in `os_threads.rs`, `coroutines.rs` and `devices.rs`.

use crate::Error;
use crate::error::panic_text;
use crate::slot::LocalSlot;
use crate::tasks::WeakTask;
use crate::topology::Resource;
use flash_core::{Pipeline, RuntimeObj};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Function = dyn Fn(&[LocalSlot]) -> Result<(), Error> + Send + Sync;
type Kernel = dyn Fn(&RuntimeObj, &[LocalSlot]) -> Result<Pipeline<'static>, Error> + Send + Sync;

/// A function as what it does to slots, in one form per kind of manager. Stateless.
#[derive(Clone)]
pub struct ExecutionUnit {
    name: Arc<str>,
    function: Option<Arc<Function>>,
    kernel: Option<Arc<Kernel>>,
}

impl ExecutionUnit {
    /// A unit without a form so far.
    pub fn new(name: impl Into<Arc<str>>) -> ExecutionUnit {
        ExecutionUnit { name: name.into(), function: None, kernel: None }
    }

    /// Its form for processors. It may leave the processor to others, see [`suspend`].
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
    /// The task that it is of.
    task: Option<WeakTask>,
}

impl ExecutionState {
    /// Of a function.
    pub(crate) fn of_function(unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        match unit.function {
            Some(_) => Ok(ExecutionState { unit: unit.clone(), slots: slots.to_vec(), task: None }),
            None => Err(no_form(unit, "functions, see `ExecutionUnit::function`")),
        }
    }

    pub(crate) fn of_kernel(unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        match unit.kernel {
            Some(_) => Ok(ExecutionState { unit: unit.clone(), slots: slots.to_vec(), task: None }),
            None => Err(no_form(unit, "kernels, see `ExecutionUnit::kernel`")),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.unit.name.clone()
    }

    /// What it runs is a task.
    pub(crate) fn of_task(self, task: WeakTask) -> ExecutionState {
        ExecutionState { task: Some(task), ..self }
    }

    pub(crate) fn task(&self) -> Option<WeakTask> {
        self.task.clone()
    }

    /// The pipeline of its kernels.
    pub(crate) fn pipeline(&self, runtime: &RuntimeObj) -> Result<Pipeline<'static>, Error> {
        let kernel = self.unit.kernel.as_ref().ok_or_else(|| no_form(&self.unit, "kernels"))?;
        kernel(runtime, &self.slots)
    }

    /// Runs its function, and drops what it had.
    pub(crate) fn call(self) -> Result<(), Error> {
        let name = self.name();
        let call = move || {
            let function = self.unit.function.as_ref().ok_or_else(|| no_form(&self.unit, "a function"))?;
            function(&self.slots)
        };
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            Err(Error::Panicked { what: format!("the execution unit `{name}`"), text: panic_text(&*panic) })
        })
    }
}

fn no_form(unit: &ExecutionUnit, form: &str) -> Error {
    let why = format!("this manager runs {form}; the unit has no such form");
    Error::refused(format!("executing `{}`", unit.name), why)
}

/// What runs states on one resource. Dropping it waits for what it runs, and not for what is suspended.
pub struct ProcessingUnit(Box<dyn Processor>);

/// How a compute manager runs states.
pub trait Processor: Send {
    /// Starts it, behind those that were started before.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(&self, state: ExecutionState) -> Result<Box<dyn Running>, Error>;
}

/// Where an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It runs, or its turn will come.
    Running,
    /// It has called [`suspend`], and goes on when it is resumed.
    Suspended,
    /// It has ended, and is of no further use.
    Finished,
}

/// An execution that was started. Dropped in its middle, it is released: a suspended one unwinds, one that
/// runs ends, or unwinds when it suspends.
pub trait Running: Send {
    /// Where it is.
    fn status(&mut self) -> Status;
    /// Waits until it does not run, and says where it is then.
    fn settle(&mut self) -> Status;
    /// Lets it go on. Called while it is suspended.
    ///
    /// # Errors
    /// If it cannot go on from here.
    fn resume(&mut self) -> Result<(), Error>;
    /// How it ended. Called once, when it has.
    ///
    /// # Errors
    /// The function's or the kernel's.
    fn outcome(&mut self) -> Result<(), Error>;
}

impl ProcessingUnit {
    /// The unit of a compute manager.
    pub fn new(processor: impl Processor + 'static) -> ProcessingUnit {
        ProcessingUnit(Box::new(processor))
    }

    /// Starts an execution. One of [`coroutines`](crate::coroutines) runs at once, on the calling thread,
    /// until it is suspended or finished; others run beside it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, state: ExecutionState) -> Result<Execution, Error> {
        let name = state.name();
        self.0.start(state).map(|running| Execution { name, running })
    }
}

/// An execution: running, suspended, or finished. It is tied to its processing unit.
#[must_use = "it is waited for, or its error is lost"]
pub struct Execution {
    name: Arc<str>,
    running: Box<dyn Running>,
}

impl Execution {
    /// Where it is. Does not wait.
    pub fn status(&mut self) -> Status {
        self.running.status()
    }

    /// True when it is finished. Does not wait.
    pub fn is_finished(&mut self) -> bool {
        self.status() == Status::Finished
    }

    /// Waits until it is suspended or finished, and says which.
    pub fn settle(&mut self) -> Status {
        self.running.settle()
    }

    /// Lets a suspended one go on, on its processing unit: behind what that was given before, or at once, as
    /// [`ProcessingUnit::start`].
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not suspended; or on another thread than its own, if it is a coroutine.
    pub fn resume(&mut self) -> Result<(), Error> {
        match self.running.status() {
            Status::Suspended => self.running.resume(),
            found => {
                let found = if found == Status::Running { "running" } else { "finished" };
                let why = format!("expected it suspended, found it {found}");
                Err(Error::refused(format!("resuming `{}`", self.name), why))
            }
        }
    }

    /// Waits until it is finished.
    ///
    /// # Errors
    /// The function's or the kernel's; a panic is [`Error::Panicked`]. [`Error::Refused`] if it is suspended.
    pub fn wait(mut self) -> Result<(), Error> {
        match self.running.settle() {
            Status::Finished => self.running.outcome(),
            _ => {
                let why = "it is suspended, and nothing else resumes it: call `resume` before";
                Err(Error::refused(format!("waiting for `{}`", self.name), why))
            }
        }
    }
}

pub(crate) fn unknown(resource: &Resource, known: &[Resource]) -> Error {
    let known: Vec<String> = known.iter().map(Resource::to_string).collect();
    let why = format!("expected one of {}, found {resource}", known.join(", "));
    Error::refused("a processing unit", why)
}

/// How code that a processing unit runs leaves it.
pub(crate) trait Leave: Send + Sync {
    fn leave(&self) -> Result<(), Error>;
}

/// What runs on a thread: the innermost execution.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) run: Arc<dyn Leave>,
    pub(crate) task: Option<WeakTask>,
}

thread_local! {
    static INNERMOST: RefCell<Option<Frame>> = const { RefCell::new(None) };
}

/// Runs code of an execution on this thread.
pub(crate) fn within<R>(frame: Frame, code: impl FnOnce() -> R) -> R {
    struct Before(Option<Frame>);
    impl Drop for Before {
        fn drop(&mut self) {
            let before = self.0.take();
            // Fails where the thread is ending: then there is no other execution.
            let _ = INNERMOST.try_with(|innermost| drop(innermost.replace(before)));
        }
    }
    let _before = Before(INNERMOST.try_with(|innermost| innermost.replace(Some(frame))).unwrap_or_default());
    code()
}

/// The innermost execution of this thread.
pub(crate) fn innermost() -> Option<Frame> {
    INNERMOST.try_with(|innermost| innermost.borrow().clone()).unwrap_or_default()
}

/// Leaves the processing unit that runs the calling function to others, until the execution is resumed. Where
/// it is dropped instead, this does not return: the function is unwound.
///
/// # Errors
/// [`Error::Refused`] where no processing unit runs the calling code, and while a panic unwinds; in a
/// coroutine also inside a scope, a join or a task of `flash-tasks`, and in a kernel.
///
/// # Examples
/// ```
/// use flash_hicr::{ExecutionUnit, Status, coroutines, suspend, threads};
/// threads(1, |hicr| {
///     let twice = ExecutionUnit::new("twice").function(|slots| {
///         slots[0].write(0, &[1])?;
///         suspend()?;
///         slots[0].write(0, &[2])
///     });
///     let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 1)?;
///     // As threads of the system, and as coroutines.
///     for compute in [hicr.compute.clone(), coroutines(&hicr.topology)] {
///         let unit = compute.processing_unit(&compute.resources()?[0])?;
///         let mut execution = unit.start(compute.state(&twice, &[slot.clone()])?)?;
///         assert_eq!(execution.settle(), Status::Suspended);
///         assert_eq!(slot.values::<u8>(0, 1)?, [1]);
///         execution.resume()?;
///         execution.wait()?;
///         assert_eq!(slot.values::<u8>(0, 1)?, [2]);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), flash_hicr::Error>(())
/// ```
pub fn suspend() -> Result<(), Error> {
    match innermost() {
        Some(frame) => frame.run.leave(),
        None => Err(Error::refused(
            "suspending",
            "expected code that a processing unit runs, found a thread that runs none",
        )),
    }
}
