//! Runs a recording.

use super::api::{RuntimeObj, SubmitObj};
use super::dynamic::Kernel;
use super::dynamic::{Argument, ByName};
use super::movement::Movement;
use super::widen::Widening;
use crate::devices::registry::Registry;
use crate::error::Error;
use crate::kernel::Element;
use crate::kernel::views::Array;
use crate::memory::{ArrayInner, ArrayLayout, ViewShape, contents};
use crate::recording::{self, Recording, RecordingError};
use flash_types::descriptor::{ArgumentDescriptor, Attributes, ElementType, KernelDescriptor, View};
use flash_types::index::Dim;
use std::alloc::Layout;
use std::sync::Arc;

/// The memories of a recording, after a replay or in the middle of one.
pub struct Replayed {
    memories: Vec<Replica>,
}

/// A memory of a recording, made anew.
struct Replica {
    header: std::sync::Arc<ArrayInner>,
    element: ElementType,
}

/// A replay that is made submission by submission.
///
/// # Examples
/// Looks at what each submission wrote:
/// ```
/// # use flash_core::{Error, RuntimeObj, recording::Recording};
/// # fn example(rt: &RuntimeObj, recording: &Recording) -> Result<(), Error> {
/// let mut steps = rt.replay_steps(recording)?;
/// while let Some(submission) = steps.step()? {
///     for memory in recording.written_by(submission) {
///         println!("{submission}: {:?}", steps.memories().bytes(memory)?);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "it runs a submission each time `step` is called"]
pub struct Steps<'r> {
    runtime: RuntimeObj,
    recording: &'r Recording,
    kernels: Vec<KernelDescriptor>,
    memories: Replayed,
    next: usize,
}

impl RuntimeObj {
    /// Runs a recording on this runtime, with memories of its own. Its kernels are found by name. Recorded
    /// options that choose devices or implementations do not count, since this runtime chooses them. The
    /// option that numbers may widen ([`Searchable::Fuzzy`](crate::descriptor::Searchable)) counts.
    ///
    /// # Errors
    /// [`Error::Recording`] if it has no data, or does not satisfy [`check`](Recording::check);
    /// [`Error::NoKernel`], and [`Error::Argument`] for a kernel that takes other arguments here; otherwise
    /// as [`Pipeline::exec`](super::Pipeline::exec).
    ///
    /// # Examples
    /// ```
    /// # use flash_core::{Error, RuntimeObj, recording::Recording};
    /// # fn example(rt: &RuntimeObj) -> Result<(), Error> {
    /// let recording = Recording::load("pipeline.json")?;
    /// let positions: Vec<[f32; 3]> = rt.replay(&recording)?.read(2)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn replay(&self, recording: &Recording) -> Result<Replayed, Error> {
        let mut steps = self.replay_steps(recording)?;
        steps.run(0..recording.submissions.len())?;
        Ok(steps.memories)
    }

    /// Prepares to run a recording submission by submission.
    ///
    /// # Errors
    /// As [`replay`](Self::replay), except for those of its launches.
    pub fn replay_steps<'r>(&self, recording: &'r Recording) -> Result<Steps<'r>, Error> {
        recording.check()?;
        let memories = recording.memories.iter().enumerate();
        let memories = memories.map(|(i, memory)| Replica::new(i, memory)).collect::<Result<_, Error>>()?;
        let registry = self.inner.context.registry();
        let kernels = recording.kernels.iter().map(|recorded| registered(registry, recorded));
        let kernels = kernels.collect::<Result<_, Error>>()?;
        let memories = Replayed { memories };
        for submission in &recording.submissions {
            let Some(kernel) = recording.kernels.get(submission.kernel as usize) else { continue };
            for starts in kernel.arguments.iter().filter_map(|argument| argument.rows) {
                memories.are_offsets(submission.arguments.get(starts))?;
            }
        }
        Ok(Steps { runtime: self.clone(), recording, kernels, memories, next: 0 })
    }
}

/// The recorded descriptor, if a registered one has just these dimensions and arguments, or numbers that its
/// numbers may become. Then its sizes, views and access describe what the implementation does with them.
fn registered(registry: &Registry, recorded: &KernelDescriptor) -> Result<KernelDescriptor, Error> {
    if Movement::named(&recorded.name).is_some_and(|movement| movement.describes(recorded)) {
        return Ok(KernelDescriptor { attributes: Attributes::default(), ..recorded.clone() });
    }
    let kernel = Kernel::find(registry, &recorded.name, None)?;
    let fits = |d: &KernelDescriptor| d.dimensions == recorded.dimensions && widens(recorded, d);
    if kernel.descriptors().iter().any(fits) {
        let attributes = recorded.attributes.of_the_computation();
        return Ok(KernelDescriptor { attributes, ..recorded.clone() });
    }
    let there: Vec<String> = kernel.descriptors().iter().map(KernelDescriptor::signature).collect();
    Err(Error::Argument {
        kernel: recorded.name.clone(),
        argument: "all".into(),
        text: format!(
            "the recording has {} (dimensions {}), what is registered takes {}: names, sizes and alignments must be the same, too",
            recorded.signature(),
            recorded.dimensions.join(", "),
            there.join(" or ")
        ),
    })
}

/// True if the arguments are equal except for numbers that widen without loss. The search for an
/// implementation decides whether they may.
fn widens(recorded: &KernelDescriptor, registered: &KernelDescriptor) -> bool {
    let pairs = || recorded.arguments.iter().zip(&registered.arguments);
    Widening::between(recorded, registered).is_ok()
        && pairs().all(|(have, want)| {
            let same = have.element.agrees(&want.element);
            let widens = want.view == View::Scalar && have.element.name != want.element.name;
            (same || widens) && *have == ArgumentDescriptor { element: have.element.clone(), ..want.clone() }
        })
}

impl Replayed {
    /// An argument says where rows begin: its memory is checked, and stays as it is. Where it is none, the
    /// launch is refused.
    fn are_offsets(&self, argument: Option<&recording::Argument>) -> Result<(), Error> {
        let Some(recording::Argument::Memory(index)) = argument else { return Ok(()) };
        match self.memories.get(*index as usize) {
            Some(Replica { header, element }) if element.is::<u64>() && header.end_of_rows().is_none() => {
                header.check_offsets()
            }
            _ => Ok(()),
        }
    }
}

impl Replica {
    fn new(index: usize, memory: &recording::Memory) -> Result<Replica, Error> {
        let fail = |text: String| Error::from(RecordingError::new(format!("memory {index}"), text));
        let Some(data) = &memory.data else {
            return Err(fail(
                "its contents are not in the recording: record it with its data (`recording(Data::With)`)"
                    .into(),
            ));
        };
        let ElementType { size, align, .. } = memory.element;
        let layout = Layout::from_size_align(size, align).map_err(|e| fail(e.to_string()))?;
        let shape = memory.shape.iter().copied().collect();
        let header = ArrayInner::erased(data.len() / size, layout, shape)
            .map_err(|len| fail(format!("{len} elements are more than memory has bytes")))?;
        // SAFETY: the array was made just now, of at most as many bytes: `len` elements of `size`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), header.data(), header.len() * size) };
        Ok(Replica { header, element: memory.element.clone() })
    }

    fn array(&self, range: Option<std::ops::Range<usize>>) -> Array<'_> {
        Array::of_header(&self.header, range, self.element.size)
    }
}

impl Steps<'_> {
    /// Runs the next submission and gives its position, `None` after the last.
    ///
    /// # Errors
    /// As [`Pipeline::exec`](super::Pipeline::exec). The next call runs the submission after it.
    pub fn step(&mut self) -> Result<Option<usize>, Error> {
        let position = self.next;
        if position >= self.recording.submissions.len() {
            return Ok(None);
        }
        self.next += 1;
        self.run(position..position + 1).map_err(|error| match error {
            // It ran as a pipeline of its own.
            Error::Launch(launch) => {
                let mut launch = Arc::unwrap_or_clone(launch);
                launch.position = position;
                Error::Launch(Arc::new(launch))
            }
            other => other,
        })?;
        Ok(Some(position))
    }

    /// The memories as they are now.
    pub fn memories(&self) -> &Replayed {
        &self.memories
    }

    fn run(&mut self, positions: std::ops::Range<usize>) -> Result<(), Error> {
        let mut pipeline = self.runtime.pipeline();
        for submission in &self.recording.submissions[positions] {
            let descriptor = &self.kernels[submission.kernel as usize];
            let arguments = submission.arguments.iter().zip(&descriptor.arguments);
            let arguments =
                arguments.map(|(argument, spec)| self.memories.argument(argument, spec)).collect();
            let submitted = pipeline.submit(ByName::erased(descriptor.clone(), arguments));
            pipeline = with_options(submitted, submission).defer(&submission.dims[..] as &[Dim]);
        }
        pipeline.exec()
    }
}

fn with_options<'a>(submitted: SubmitObj<'a>, submission: &recording::Submission) -> SubmitObj<'a> {
    let options = submission.options.of_the_computation();
    let submitted = if options.is_empty() { submitted } else { submitted.options(options) };
    match submission.sizes.is_empty() {
        true => submitted,
        false => submitted.sizes(submission.sizes.iter().map(|shape| &shape[..])),
    }
}

impl Replayed {
    /// Number of memories.
    pub fn len(&self) -> usize {
        self.memories.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.memories.is_empty()
    }

    /// The contents of memory `memory`.
    ///
    /// # Errors
    /// [`Error::Range`] if there is no such memory; as [`FlashMemory::read`](crate::FlashMemory::read).
    pub fn bytes(&self, memory: usize) -> Result<Vec<u8>, Error> {
        let replica = self.replica(memory)?;
        contents(&replica.header)
    }

    /// The contents of memory `memory`, as elements of its type.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), and [`Error::Recording`] if its elements are of another type.
    pub fn read<T: Element>(&self, memory: usize) -> Result<Vec<T>, Error> {
        let replica = self.replica(memory)?;
        if !replica.element.is::<T>() {
            let text =
                format!("its elements are {}, asked for as {}", replica.element, ElementType::of::<T>());
            return Err(RecordingError::new(format!("memory {memory}"), text).into());
        }
        contents(&replica.header)
    }

    fn replica(&self, memory: usize) -> Result<&Replica, Error> {
        let len = self.memories.len();
        self.memories.get(memory).ok_or(Error::Range { start: memory, end: memory.saturating_add(1), len })
    }

    /// An argument of a submission that was checked.
    fn argument<'a>(&'a self, argument: &recording::Argument, spec: &ArgumentDescriptor) -> Argument<'a> {
        let element = &spec.element;
        let replica = |memory: u32| &self.memories[memory as usize];
        match argument {
            recording::Argument::Scalar(bytes) => Argument::of_bytes(element, bytes),
            &recording::Argument::Memory(memory) => Argument::of_array(element, replica(memory).array(None)),
            &recording::Argument::Part { memory, start, end } => {
                let range = start as usize..end as usize;
                Argument::of_array(element, replica(memory).array(Some(range)))
            }
            recording::Argument::Strided { memory, start, extents, strides } => {
                // It was checked.
                let span = ArrayLayout { extents, strides }.span().unwrap_or(0);
                let range = *start as usize..(start + span) as usize;
                let mut array = replica(*memory).array(Some(range));
                array.seen = ViewShape::of(extents, strides);
                Argument::of_array(element, array)
            }
        }
    }
}
