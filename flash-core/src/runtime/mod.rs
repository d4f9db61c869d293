//! Runtimes, submissions and pipelines.
//!
//! A submission goes down in three steps. *Prepare* (`plan.rs`, `plans.rs`): once per definition, element types,
//! devices and the options that matter to it, strings are compared, an implementation is chosen and made ready. *Write* (`submissions.rs`):
//! arguments and dimensions become plain slots; order, bounds and overlaps are proved. *Run*
//! (`launch.rs`): the memories are held, every submission goes through the backend's vtable, the
//! memories are given back.

mod arena;
mod asynchronous;
mod buffer;
mod check;
mod choose;
mod context;
mod distributed;
mod dynamic;
mod facts;
mod failsafe;
mod launch;
mod launch_cache;
mod options;
pub(crate) mod partition;
mod plan;
mod plans;
mod preload;
mod profile;
mod proof;
mod rate;
mod reduce;
mod reorder;
#[cfg(feature = "recordings")]
mod replay;
mod resident;
mod submissions;
#[cfg(test)]
mod tests;
#[cfg(feature = "recordings")]
mod to_recording;
mod user_code;
mod widen;

pub use asynchronous::{Handle, HostTask};
pub use context::Context;
pub(crate) use distributed::Lanes;
pub use dynamic::{ByName, IntoArgument, Kernel, KernelArguments, Scalar};
pub use failsafe::{HostArgs, Later};
pub(crate) use options::Options;
pub use options::{DevicesWhere, IntoOptions, devices_where};
pub use preload::Definitions;
pub use profile::{LaunchProfile, Profile};
#[cfg(feature = "recordings")]
pub use replay::{Replayed, Steps};
pub(crate) use submissions::{SubmissionList, Writer};

use crate::backend::registry::Registry;
use crate::backend::{Class, DeviceHandle};
use crate::descriptor::{InFlight, MemoryBudget, Priority, Timeout};
use crate::error::Error;
use crate::index::IntoDims;
use crate::kernel::KernelDefinition;
use crate::memory::{GRANULE, IntoShape};
use buffer::Pooled;
use plans::Plans;
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A runtime: some devices, and what is prepared for them. Cheap to clone, shared between threads.
#[derive(Clone)]
pub struct RuntimeObj {
    inner: Arc<Runtime>,
}

/// What the clones of a runtime share.
pub(crate) struct Runtime {
    context: Context,
    key: String,
    devices: Vec<&'static DeviceHandle>,
    options: Options,
    /// The first error in the options, reported by every launch.
    error: Option<Error>,
    /// Those of its devices and options, shared with other runtimes that have the same.
    plans: Arc<Plans>,
    /// The options have some that backends want to see.
    attributes_for_backends: bool,
    check_writes: bool,
    /// Bytes that the host fetches at least of memories that its launches have moved.
    granule: u32,
    /// It has several devices, or one with a memory of its own: pipelines go the distributed path.
    spreads: bool,
    /// Its only device uses the host's memory and goes on without the host: it is given the next launch while it
    /// runs one.
    runs_ahead: bool,
    /// Some device may have to load an image before it runs a kernel.
    has_images: bool,
    /// Some device keeps something of the host's memory in which it works.
    keeps_host: bool,
    /// How long each submission may take.
    timeout: Option<Duration>,
    /// How many asynchronous pipelines may be on their way.
    gauge: Option<Arc<asynchronous::InFlightLimit>>,
    /// Of its pipelines' tasks, in the lanes of devices.
    priority: i32,
}

/// The runtime of a key in the default [`Context`]: a group (`ALL_ACCEL`, or `ALL`: the best of everything; `ALL_CPU`), a backend
/// (`NVIDIA_GPU`), a device (`NVIDIA_GPU:1`), or a list with commas (`NVIDIA_GPU:0,1`).
///
/// # Errors
/// [`Error::Key`] lists the keys there are and, for each plugin found but not usable, why.
///
/// # Examples
/// ```
/// let error = flash_core::get_runtime("ABACUS").unwrap_err();
/// assert!(error.to_string().contains("there is no backend `ABACUS`"));
/// ```
pub fn get_runtime(key: &str) -> Result<RuntimeObj, Error> {
    Context::default().runtime(key)
}

impl RuntimeObj {
    fn new(
        context: Context,
        key: String,
        devices: Vec<&'static DeviceHandle>,
        options: Options,
        error: Option<Error>,
        plans: Arc<Plans>,
    ) -> RuntimeObj {
        let check_writes = context.settings().flag("check_writes");
        let granule = context.settings().number("host_granule").map_or(GRANULE, |bytes| bytes as u32);
        let attributes_for_backends = options.attributes.for_backends().next().is_some();
        let spreads = devices.len() != 1 || !devices[0].info().host_memory;
        let runs_ahead = !spreads && devices[0].target != "cpu";
        let has_images = devices.iter().any(|device| device.info().class == Class::Fpga);
        let keeps_host = devices.iter().any(|device| device.api.forget_host.is_some());
        let timeout = options.attributes.get::<Timeout>().map(|timeout| timeout.0);
        let (gauge, error) = match options.attributes.get::<InFlight>() {
            Some(InFlight(0)) => (None, error.or_else(|| Some(nothing_in_flight()))),
            Some(InFlight(limit)) => (Some(asynchronous::InFlightLimit::new(*limit)), error),
            None => (None, error),
        };
        let priority = options.attributes.get::<Priority>().map_or(0, |priority| priority.0);
        let inner = Runtime {
            context,
            key,
            devices,
            options,
            error,
            plans,
            attributes_for_backends,
            check_writes,
            granule,
            timeout,
            gauge,
            priority,
            spreads,
            runs_ahead,
            has_images,
            keeps_host,
        };
        RuntimeObj { inner: Arc::new(inner) }
    }

    /// The key that it was made of.
    pub fn key(&self) -> &str {
        &self.inner.key
    }

    /// Its devices, the best first.
    pub fn devices(&self) -> &[&'static DeviceHandle] {
        &self.inner.devices
    }

    /// The same runtime with options for everything that is submitted to the result: attributes,
    /// `&Profile`, [`devices_where`], tuples of these. An option that makes no sense is reported by the first
    /// launch.
    #[must_use]
    pub fn options(&self, options: impl IntoOptions) -> RuntimeObj {
        let mut new = Options::default();
        options.add_to(&mut new);
        let budget = new.attributes.get::<MemoryBudget>().copied();
        let mut all = self.inner.options.clone();
        all.attributes.merge(&new.attributes);
        all.profile = new.profile.or(all.profile);
        all.predicates = new.predicates;
        let (mut devices, mut error) = (self.inner.devices.clone(), self.inner.error.clone());
        match all.select(self.inner.context.registry(), &self.inner.devices) {
            Ok(selected) => devices = selected,
            Err(e) => error = error.or(Some(e)),
        }
        // The devices are what they leave: nobody needs to ask once more.
        all.predicates.clear();
        // Only what is given here: another budget may have been given since those of `self`.
        if let (Some(MemoryBudget(bytes)), None) = (budget, &error) {
            devices.iter().filter_map(|device| device.memory()).for_each(|memory| memory.set_budget(bytes));
        }
        let plans = match self.inner.plans.is_of(&devices, &all.attributes) {
            true => self.inner.plans.clone(),
            false => self.inner.context.plans().of(&devices, &all.attributes),
        };
        RuntimeObj::new(self.inner.context.clone(), self.inner.key.clone(), devices, all, error, plans)
    }

    /// Submits a kernel: a definition with its arguments, or a [`Kernel`] by name with its.
    #[inline(always)] // so that the arguments never go through memory
    pub fn submit<'a>(&self, mut submission: impl Submission<'a>) -> SubmitObj<'a> {
        let submitted = self.pipeline().add(&mut submission);
        submission.recorded();
        submitted
    }

    /// An empty pipeline.
    #[inline]
    pub fn pipeline<'a>(&self) -> Pipeline<'a> {
        Pipeline { buffer: Pooled::take(&self.inner), borrow: PhantomData }
    }

    /// A kernel by name, for programs that do not have its type.
    ///
    /// # Errors
    /// [`Error::NoKernel`] lists the names there are.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        Kernel::find(self.inner.context.registry(), name, self.inner.options.attributes.get().copied())
    }

    /// Prepares kernels now instead of at their first submissions: `preload::<Saxpy<f32>>()`, or several as
    /// `preload::<(Saxpy<f32>, Dot<f32>)>()`. It compiles and loads; FPGAs take seconds for that. Programs that need
    /// no compiler, because they are binaries or were kept by an earlier process, are loaded anyway from
    /// [`get_runtime`] on, beside the program.
    ///
    /// # Errors
    /// As the first launch would give.
    pub fn preload<D: Definitions>(&self) -> Result<(), Error> {
        D::prepare(&self.inner)
    }
}

impl Runtime {
    /// Some device has a memory of its own.
    pub(super) fn has_device_memory(&self) -> bool {
        self.devices.iter().any(|device| !device.info().host_memory)
    }
}

fn nothing_in_flight() -> Error {
    Error::Option {
        option: "InFlight".into(),
        text: "expected at least 1 pipeline on its way, found 0: `exec_async` would wait for ever".into(),
    }
}

/// The devices of `among` that a key names.
fn select(
    registry: &Registry,
    among: &[&'static DeviceHandle],
    key: &str,
) -> Result<Vec<&'static DeviceHandle>, Error> {
    let named = registry.resolve(key)?;
    let selected: Vec<_> = named.into_iter().filter(|d| among.iter().any(|a| a.id() == d.id())).collect();
    if selected.is_empty() {
        let ids: Vec<&str> = among.iter().map(|d| d.id()).collect();
        return Err(Error::Option {
            option: "Devices".into(),
            text: format!("expected devices of this runtime ({}), found `{key}`", ids.join(", ")),
        });
    }
    Ok(selected)
}

impl fmt::Debug for RuntimeObj {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuntimeObj({}: {:?})", self.inner.key, self.inner.devices)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<D: crate::kernel::KernelDefinition> Sealed for D {}
    impl Sealed for super::ByName<'_> {}
}

/// What `submit` takes.
pub trait Submission<'a>: sealed::Sealed {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime);
    /// It is recorded: what is left of it goes.
    #[doc(hidden)]
    fn recorded(self);
}

impl<'a, D: KernelDefinition + 'a> Submission<'a> for D {
    #[inline(always)]
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime) {
        if !list.resume(TypeId::of::<D::Static>()) {
            list.begin(runtime.plan_of::<D>());
        }
        let mut to = crate::kernel::ArgumentWriter { writer: list.write() };
        self.pack(&mut to);
        to.writer.done();
    }

    #[inline(always)]
    fn recorded(self) {
        // `pack` took what it owned: that needs not be looked at once more.
        std::mem::forget(self);
    }
}

/// One submission, not yet given its dimensions.
#[must_use = "a submission runs nothing until `exec`, or `defer` and then `exec`"]
pub struct SubmitObj<'a> {
    pipeline: Pipeline<'a>,
}

/// Submissions that run in order as far as they depend on each other. Built in loops, kept, run again.
///
/// Runs nothing until [`exec`](Pipeline::exec).
#[must_use = "a deferred chain that is never executed runs nothing: call `exec`"]
pub struct Pipeline<'a> {
    buffer: Pooled,
    borrow: PhantomData<&'a mut ()>,
}

// SAFETY: the pipeline's pointers are to memories, which are Send + Sync, to slices of Send + Sync
// elements borrowed for 'a, and into its own arenas, which nobody changes while it is shared. Two
// threads that execute it at once are kept apart by the memories' states and, for slices, by a lock.
unsafe impl Send for Pipeline<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pipeline<'_> {}

impl<'a> SubmitObj<'a> {
    /// Options of this submission; a trait of the definition (`sort_by`, `group_by`) is replaced.
    pub fn options(mut self, options: impl IntoOptions) -> SubmitObj<'a> {
        options.add_to(&mut self.pipeline.buffer.list().extra().options);
        self
    }

    /// Shapes of the array arguments, in order, as slices of extents, axis 0 fastest; an empty one
    /// says nothing.
    pub fn sizes<S: IntoShape>(mut self, shapes: impl IntoIterator<Item = S>) -> SubmitObj<'a> {
        self.pipeline.buffer.list().extra().sizes =
            Some(shapes.into_iter().map(IntoShape::into_shape).collect());
        self
    }

    /// What to do where nothing implements the kernel on any device: runs on this thread, in the
    /// submission's place.
    pub fn failsafe(
        mut self,
        body: impl Fn(&mut HostArgs<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> SubmitObj<'a> {
        self.pipeline.buffer.list().extra().failsafe = Some(Box::new(body));
        self
    }

    /// Runs it, and everything before it in its chain: returns after all work items have finished.
    ///
    /// # Errors
    /// Wrong dimensions or arguments, before anything runs; else the first failure.
    #[inline(always)]
    pub fn exec(self, dims: impl IntoDims) -> Result<(), Error> {
        self.pipeline.buffer.finish_and_exec(dims)
    }

    /// Puts it into a pipeline, to run when that is executed.
    #[inline]
    pub fn defer(mut self, dims: impl IntoDims) -> Pipeline<'a> {
        self.pipeline.buffer.finish(dims);
        self.pipeline
    }
}

impl SubmitObj<'static> {
    /// As [`Pipeline::exec_async`], of it and everything before it in its chain.
    pub fn exec_async(self, dims: impl IntoDims) -> Handle {
        self.defer(dims).exec_async()
    }
}

impl<'a> Pipeline<'a> {
    /// Adds a submission.
    #[inline(always)]
    pub fn submit<'b>(self, mut submission: impl Submission<'b>) -> SubmitObj<'b>
    where
        'a: 'b,
    {
        let submitted = self.add(&mut submission);
        submission.recorded();
        submitted
    }

    /// By reference: a copy would read with wide loads what was just stored in pieces, and wait for it.
    #[inline(always)]
    fn add<'b>(mut self, submission: &mut impl Submission<'b>) -> SubmitObj<'b>
    where
        'a: 'b,
    {
        self.buffer.record(submission);
        SubmitObj { pipeline: Pipeline { buffer: self.buffer, borrow: PhantomData } }
    }

    /// Number of submissions.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs it; returns after all work items of all submissions have finished. It may be run again,
    /// from any thread.
    ///
    /// # Errors
    /// Wrong dimensions or arguments of any submission, before anything runs; else the first failure
    /// in order, the others attached. What a failed submission should have written is poisoned.
    #[inline]
    pub fn exec(&self) -> Result<(), Error> {
        self.buffer.exec()
    }
}

impl Pipeline<'static> {
    /// Enters it into the order and returns: it runs when what it depends on has finished, on a thread of
    /// the library. A launch or guard that comes later, of any thread, comes after it on memories that it
    /// touches. All arguments are owned: clones of memories, ranges that are
    /// [owned](crate::FlashMemory::into_range), numbers.
    ///
    /// It waits at the limit of [`InFlight`], for launches of other threads that just now write one of its
    /// memories, and when 16,383 pipelines are on their way to read or to write one memory.
    ///
    /// # Errors
    /// All come out of the handle: those of [`exec`](Self::exec); [`Error::Borrowed`] at once, if a guard
    /// that conflicts is alive now.
    ///
    /// # Examples
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::{FlashMemory, runtime::HostTask};
    /// let squares = FlashMemory::<u64>::zeroed(100);
    /// let task = HostTask::new("squares").write(squares.clone());
    /// let handle = rt.pipeline().host(task, |io| {
    ///     io.write::<u64>(0)?.iter_mut().zip(0..).for_each(|(s, i)| *s = i * i);
    ///     Ok(())
    /// });
    /// let handle = handle.exec_async();
    /// assert_eq!(squares.get(9)?, 81);                 // a guard comes after it
    /// handle.wait()?;
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    ///
    /// What is borrowed does not go along:
    /// ```compile_fail,E0597
    /// use flash_core::runtime::HostTask;
    /// let rt = flash_core::get_runtime("ALL_CPU").unwrap();
    /// let mut a = [0u64; 4];
    /// let task = HostTask::new("fill").write(&mut a[..]);
    /// rt.pipeline().host(task, |io| Ok(io.write::<u64>(0)?.fill(1))).exec_async().wait().unwrap();
    /// ```
    pub fn exec_async(self) -> Handle {
        asynchronous::exec_async(self)
    }
}
