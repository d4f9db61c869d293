//! The API of a host program: runtimes, submissions, pipelines. Nothing below knows of it.

use super::buffer::Pooled;
use super::context::Context;
use super::dynamic::Kernel;
use super::failsafe::HostArgs;
use super::options::Options;
use super::preload::{self, Definitions};
use super::state::Runtime;
use super::submission::Submission;
use crate::devices::{DeviceHandle, agent};
use crate::error::Error;
use crate::kernel::closure::{self, ClosureArguments, ForEach};
use crate::memory::IntoShape;
use flash_backend::fork::Section;
use flash_types::descriptor::{Attributes, IntoOptions, MemoryBudget};
use flash_types::index::IntoDims;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A runtime: some devices, and what is prepared for them. Cheap to clone, shared between threads.
#[derive(Clone)]
pub struct RuntimeObj {
    pub(super) inner: Arc<Runtime>,
}

/// The runtime of a key in the default [`Context`]: a group (`ALL_ACCEL`, or `ALL`: the best of everything;
/// `ALL_CPU`), a backend (`NVIDIA_GPU`), a device (`NVIDIA_GPU:1`), or a list with commas (`NVIDIA_GPU:0,1`).
///
/// # Errors
/// [`Error::Key`] lists the available keys and, for each plugin found but not usable, the reason.
///
/// # Examples
/// ```
/// let error = flash_core::get_runtime("ABACUS").unwrap_err();
/// assert!(error.to_string().contains("there is no backend `ABACUS`"));
/// ```
pub fn get_runtime(key: &str) -> Result<RuntimeObj, Error> {
    Context::default().runtime(key)
}

impl Context {
    /// The runtime of a key in this context, see [`get_runtime`](crate::get_runtime).
    ///
    /// # Errors
    /// [`Error::Key`] lists the available keys and, for each plugin found but not usable, the reason.
    /// [`Error::Forked`] in a child of `fork`, if its parent looked for devices or made plans at that moment.
    pub fn runtime(&self, key: &str) -> Result<RuntimeObj, Error> {
        agent::serve_if_one(self.registry());
        let _section = Section::enter()?;
        crate::memory::state::agree();
        let devices = self.registry().resolve(key)?;
        preload::early(self.registry(), &devices);
        let plans = self.plans().of(&devices, &Attributes::default());
        let runtime = Runtime::new(self.clone(), key.to_owned(), devices, Options::default(), None, plans);
        Ok(RuntimeObj { inner: Arc::new(runtime) })
    }
}

impl RuntimeObj {
    /// Calls a closure for the elements of some arrays, `shape` of them (the product of its extents), on all
    /// processors of the runtime, and returns when all calls have returned. A loop over elements in one line:
    /// for the price of a definition, and without one.
    ///
    /// `arrays` is an array or a tuple of arrays, each with what the closure does with it: it reads
    /// [`r`](crate::FlashMemory::r) ones, reads and writes [`rw`](crate::FlashMemory::rw) ones, and sets all
    /// of [`w`](crate::FlashMemory::w) ones. Their elements are taken one after the other, whatever their
    /// shapes.
    ///
    /// # Errors
    /// [`Error::NoImplementation`] if no device of the runtime is a processor of this program: closures have
    /// no text for devices. Otherwise those of a launch.
    ///
    /// # Examples
    /// ```no_run
    /// # use flash_core::{FlashMemory, get_runtime};
    /// let rt = get_runtime("ALL_CPU")?;
    /// let (x, y) = (FlashMemory::from(vec![1.0_f32; 1000]), FlashMemory::<f32>::zeroed(1000));
    /// let a = 2.0;
    /// rt.for_each([1000], (x.r(), y.rw()), |(x, y)| *y += a * x)?;
    /// assert_eq!(y.get(7)?, 2.0);
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn for_each<L, F>(&self, shape: impl IntoShape, arrays: L, closure: F) -> Result<(), Error>
    where
        L: ClosureArguments,
        F: for<'k> Fn(L::Elements<'k>) + Sync,
    {
        let items = shape.into_shape().iter().try_fold(1_u64, |all, &extent| all.checked_mul(extent));
        let items =
            items.ok_or_else(|| Error::Shape("more elements than 2^64: use smaller extents".into()))?;
        let words = closure::words::<L, F>(&closure);
        self.submit(ForEach::of(&words, arrays)).exec([items])
    }

    /// The key that it was made of.
    pub fn key(&self) -> &str {
        &self.inner.key
    }

    /// Its devices, the best first.
    pub fn devices(&self) -> &[&'static DeviceHandle] {
        &self.inner.devices
    }

    /// The same runtime with options for everything that is submitted to the result: attributes, `&Profile`,
    /// [`devices_where`](super::devices_where), tuples of these. A wrong option is reported by the first
    /// launch.
    #[must_use]
    pub fn options(&self, options: impl IntoOptions<Options>) -> RuntimeObj {
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
        // The devices are the result of the predicates, which need not be asked again.
        all.predicates.clear();
        // Only what is given here: another budget may have been given since those of `self`.
        if let (Some(MemoryBudget(bytes)), None) = (budget, &error) {
            devices.iter().filter_map(|device| device.memory()).for_each(|memory| memory.set_budget(bytes));
        }
        let plans = match self.inner.plans.is_of(&devices, &all.attributes) {
            true => self.inner.plans.clone(),
            false => self.inner.context.plans().of(&devices, &all.attributes),
        };
        let (context, key) = (self.inner.context.clone(), self.inner.key.clone());
        RuntimeObj { inner: Arc::new(Runtime::new(context, key, devices, all, error, plans)) }
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
    /// [`Error::NoKernel`] lists the available names.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        Kernel::find(self.inner.context.registry(), name, self.inner.options.attributes.get().copied())
    }

    /// Prepares kernels now instead of at their first submissions: `preload::<Saxpy<f32>>()`, or several as
    /// `preload::<(Saxpy<f32>, Dot<f32>)>()`. It compiles and loads; FPGAs take seconds for that. Programs
    /// that need no compiler, because they are binaries or were kept by an earlier process, are loaded anyway
    /// from [`get_runtime`] on, beside the program.
    ///
    /// # Errors
    /// As the first launch would give.
    pub fn preload<D: Definitions>(&self) -> Result<(), Error> {
        D::prepare(&self.inner)
    }
}

impl fmt::Debug for RuntimeObj {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuntimeObj({}: {:?})", self.inner.key, self.inner.devices)
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
    pub(super) buffer: Pooled,
    pub(super) borrow: PhantomData<&'a mut ()>,
}

// SAFETY: the pipeline's pointers are to memories, which are Send + Sync, to slices of Send + Sync elements
// borrowed for 'a, and into its own arenas, which do not change while it is shared. Two threads that execute
// it at once are kept apart by the memories' states and, for slices, by a lock.
unsafe impl Send for Pipeline<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pipeline<'_> {}

impl<'a> SubmitObj<'a> {
    /// Options of this submission; a trait of the definition (`sort_by`, `group_by`) is replaced.
    pub fn options(mut self, options: impl IntoOptions<Options>) -> SubmitObj<'a> {
        options.add_to(&mut self.pipeline.buffer.list().extra().options);
        self
    }

    /// Shapes of the array arguments, in order, as slices of extents, axis 0 fastest; an empty one is no
    /// shape. A group has one for each of its arguments.
    pub fn sizes<S: IntoShape>(mut self, shapes: impl IntoIterator<Item = S>) -> SubmitObj<'a> {
        self.pipeline.buffer.list().extra().sizes =
            Some(shapes.into_iter().map(IntoShape::into_shape).collect());
        self
    }

    /// Sets the function for a kernel without an implementation on any device: it runs on this thread, in the
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

    /// By reference: a copy would use wide loads of what was just stored in pieces, and wait for the stores.
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
