//! Functions of the host as nodes of a pipeline.
//!
//! Such a node is a submission of a kernel without implementations, with its function in the place of the
//! failsafe: the rest of the runtime knows no other kind of node.

use crate::error::Error;
use crate::kernel::ArgumentWriter;
use crate::runtime::api::Pipeline;
use crate::runtime::dynamic::{IntoArgument, Value};
use crate::runtime::failsafe::Failsafe;
use crate::runtime::failsafe::HostArgs;
use crate::runtime::plan::Plan;
use crate::runtime::state::Runtime;
use crate::runtime::submissions::SubmissionList;
use flash_types::descriptor::{Access, ArgumentDescriptor, Attributes, KernelDescriptor, View};
use std::marker::PhantomData;

/// The arguments of a host function in a pipeline, read or written: memories, ranges of them, slices and
/// numbers. The function asks for them by position.
///
/// # Examples
/// ```
/// use flash_core::FlashMemory;
/// use flash_core::runtime::HostTask;
/// let (from, to) = (FlashMemory::from([1u32, 2, 3]), FlashMemory::<u32>::zeroed(3));
/// let task = HostTask::new("copy").read(&from).write(&to);
/// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
/// rt.pipeline()
///     .host(task, |io| {
///         let (from, to) = io.read_write::<u32, u32>(0, 1)?;
///         to.copy_from_slice(from);
///         Ok(())
///     })
///     .exec()?;
/// # Ok::<(), flash_core::Error>(())
/// ```
#[must_use = "a host task runs as a node of a pipeline: pass it to `Pipeline::host`"]
pub struct HostTask<'a> {
    descriptor: KernelDescriptor,
    values: Vec<Value<'a>>,
    /// Its function may block.
    blocking: bool,
    /// The first argument that cannot be what it is declared as.
    error: Option<Error>,
}

impl<'a> HostTask<'a> {
    /// A task with this name, which errors mention.
    pub fn new(name: impl Into<String>) -> HostTask<'a> {
        let descriptor = KernelDescriptor {
            name: name.into(),
            dimensions: vec!["call".into()],
            arguments: Vec::new(),
            attributes: Attributes::default(),
        };
        HostTask { descriptor, values: Vec::new(), blocking: false, error: None }
    }

    fn argument(mut self, argument: impl IntoArgument<'a>, access: Access) -> HostTask<'a> {
        let argument = argument.into_argument();
        let name = format!("#{}", self.values.len());
        let view = match &argument.value {
            Value::Scalar(_) => View::Scalar,
            Value::Array { .. } => View::Whole,
        };
        let writable = matches!(&argument.value, Value::Array { writable: true, .. });
        if access != Access::Read && !writable && self.error.is_none() {
            self.error = Some(Error::Argument {
                kernel: self.descriptor.name.clone(),
                argument: name.clone(),
                text: "a host task can write memories, ranges of them and exclusive slices: declare it with \
                       `read`, or pass one of those"
                    .into(),
            });
        }
        self.descriptor.arguments.push(ArgumentDescriptor {
            name,
            view,
            access,
            element: argument.element,
            row: false,
            along: Vec::new(),
            stages: None,
            tile: Vec::new(),
            rows: None,
            structure: false,
            reduce: None,
        });
        self.values.push(argument.value);
        self
    }

    /// The next argument is only read: a memory, a range of one, a slice, or a number.
    pub fn read(self, argument: impl IntoArgument<'a>) -> HostTask<'a> {
        self.argument(argument, Access::Read)
    }

    /// The next argument is read and written.
    pub fn read_write(self, argument: impl IntoArgument<'a>) -> HostTask<'a> {
        self.argument(argument, Access::ReadWrite)
    }

    /// The next argument is written, every element of it, and its old contents are not used.
    pub fn write(self, argument: impl IntoArgument<'a>) -> HostTask<'a> {
        self.argument(argument, Access::Write)
    }

    /// Its function may block: read files, sleep, wait for another thread. `exec_async` then runs its
    /// pipeline on an extra thread. There are at most 8 of these (`FLASH_BLOCKING_THREADS`), started when
    /// needed and ended when idle. A function that only computes, or that completes [later](HostArgs::later),
    /// runs on one of the worker threads and must not block: kernels and other pipelines need them.
    pub fn blocking(mut self) -> HostTask<'a> {
        self.blocking = true;
        self
    }

    /// Records it as the next submission.
    pub(in crate::runtime) fn record(self, body: Failsafe, list: &mut SubmissionList, runtime: &Runtime) {
        list.begin_own(Plan::of_host_task(self.descriptor));
        list.blocks |= self.blocking;
        let mut to = list.write();
        for value in self.values {
            match value {
                Value::Scalar(bytes) => to.scalar_bytes(&bytes),
                Value::Array { mut array, .. } => to.array(&mut array),
            }
        }
        to.done();
        list.extra().failsafe = Some(body);
        if let Some(error) = self.error {
            list.error.get_or_insert(error);
        }
        list.finish([1usize], runtime);
    }
}

impl<'a> Pipeline<'a> {
    /// Adds a function of the host. It runs when the submissions before it that it depends on have finished,
    /// on the thread of `exec` or, for `exec_async`, on a worker thread or the thread that waits for it. What
    /// depends on it comes after it. Kernels do not go on meanwhile, and the functions of one pipeline run
    /// one after another. A function that may block must say so: [`HostTask::blocking`]. Its error, or panic,
    /// is the submission's. It may finish later: [`HostArgs::later`].
    ///
    /// Inside, the arguments are reached through [`HostArgs`] only: launches and guards give
    /// [`Error::Nested`], since one that needs the pipeline's own memories would wait for ever.
    pub fn host<'b>(
        mut self,
        task: HostTask<'b>,
        body: impl Fn(&mut HostArgs<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Pipeline<'b>
    where
        'a: 'b,
    {
        self.buffer.record_with(|list, runtime| task.record(Box::new(body), list, runtime));
        Pipeline { buffer: self.buffer, borrow: PhantomData }
    }
}
