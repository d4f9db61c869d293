//! Errors: what was expected, what was found, where, and what to do.
//!
//! [`Error`] is the one error type of the library. Programs match on its variants and read the structs in
//! them by methods: the fields of these are for this crate alone. A text says what was expected, what was
//! found, and what to do next; tests compare the texts.
//!
//! A submission that failed is an [`Error::Launch`] with kernel, device and position; later ones that
//! failed, too, are in [`LaunchError::others`]. [`Error::cause`] looks through it. A [`Failure`] of a
//! backend becomes an [`Error::Backend`] with its code and text.

#[cfg(feature = "recordings")]
use crate::recording::error::RecordingError;
use flash_backend::Failure;
use flash_backend::fork::Forked;
use flash_types::Code;
use flash_types::index::IndexError;
use std::fmt;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An error of the library. Cheap to clone.
///
/// Variants may be added, and fields to those that have named ones. What a program can act on is matched:
/// [`cause`](Error::cause) looks through [`Error::Launch`] at what failed in a submission.
///
/// # Examples
/// ```
/// use flash_core::{Code, Error};
/// fn advice(error: &Error) -> &'static str {
///     match error.cause() {
///         Error::Timeout { .. } => "allow more time",
///         Error::Borrowed { .. } => "drop the guard",
///         Error::Backend { code: Code::DeviceLost, .. } => "take another device",
///         Error::Backend { code: Code::OutOfMemory, .. } | Error::DeviceMemory(_) => "cut the launch",
///         _ => "report it",
///     }
/// }
/// let memory = flash_core::FlashMemory::from([1, 2]);
/// let _guard = memory.read().unwrap();
/// assert_eq!(advice(&memory.write().unwrap_err()), "drop the guard");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A guard that conflicts is alive.
    #[error("{}", borrowed(*.guard, *.waited))]
    #[non_exhaustive]
    Borrowed {
        /// Where it was made, if it was still alive when this was asked.
        guard: Option<&'static Location<'static>>,
        /// How long it was waited for: not at all by guards, and by threads that hold guards.
        waited: Option<Duration>,
    },
    /// The launch that should have written it failed.
    #[error(
        "the memory is poisoned: the launch that should have written it failed; run a launch that writes all of it, or take `write()`"
    )]
    Poisoned,
    /// A kernel or host task that launches, takes a guard, or waits for a handle.
    #[error(
        "a kernel or host task cannot launch, take guards or wait for handles: do it in the host program, before or after the launch"
    )]
    Nested,
    /// A shape that does not fit.
    #[error("{0}")]
    Shape(String),
    /// A range that leaves the array.
    #[error("the range {start}..{end} does not lie in an array of {len} elements")]
    #[non_exhaustive]
    Range {
        /// Its start.
        start: usize,
        /// Its end.
        end: usize,
        /// Elements of the array.
        len: usize,
    },
    /// A runtime key without a backend or device.
    #[error("{0}")]
    Key(Box<KeyError>),
    /// A [`Context`](crate::Context) cannot have this setting.
    #[error("setting `{setting}`: {text}")]
    #[non_exhaustive]
    Setting {
        /// Name of the setting.
        setting: String,
        /// Expected, found, what to do.
        text: String,
    },
    /// Dimensions or traits that describe no index space.
    #[error("kernel `{kernel}`: {text}")]
    #[non_exhaustive]
    Index {
        /// The kernel.
        kernel: String,
        /// With the dimensions' names.
        text: String,
        /// The error by dimension numbers.
        #[source]
        source: IndexError,
    },
    /// An argument that does not fit the launch.
    #[error("kernel `{kernel}`, argument `{argument}`: {text}")]
    #[non_exhaustive]
    Argument {
        /// The kernel.
        kernel: String,
        /// The argument.
        argument: String,
        /// Expected, found, what to do.
        text: String,
    },
    /// Arrays whose contents do not describe what is made of them, such as a sparse matrix.
    #[error("`{what}`, argument `{argument}`: {text}")]
    #[non_exhaustive]
    Contents {
        /// The type that was to be made.
        what: String,
        /// The argument.
        argument: String,
        /// Where, what was expected, what was found, what to do.
        text: String,
    },
    /// Nothing implements the kernel on the selected devices.
    #[error("{0}")]
    NoImplementation(Box<NoImplementation>),
    /// An unknown kernel name.
    #[error("there is no kernel `{name}`; available kernels: {}", known.join(", "))]
    #[non_exhaustive]
    NoKernel {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// The program, or a plugin, has two definitions or two implementations that cannot be told apart.
    #[error("kernel `{kernel}`: {text}")]
    #[non_exhaustive]
    Ambiguous {
        /// The kernel, with its arguments.
        kernel: String,
        /// Both, where they are, and what to do.
        text: String,
    },
    /// An option that is not valid here.
    #[error("option {option}: {text}")]
    #[non_exhaustive]
    Option {
        /// Its name.
        option: String,
        /// Expected, found, what to do.
        text: String,
    },
    /// A failure of a backend or device. Of a lost device the code is [`Code::DeviceLost`].
    #[error("{text} ({code})")]
    #[non_exhaustive]
    Backend {
        /// Its kind.
        code: Code,
        /// The backend's text.
        text: String,
    },
    /// The memory of a device is too small for what is needed at once.
    #[error("{0}")]
    DeviceMemory(Box<DeviceMemoryError>),
    /// The host has no memory for an array, or for a part of one that it is about to write.
    #[error(
        "the host has no memory for {wanted} bytes of an array; other arrays have {held} bytes of it: drop some, keep them on devices and set a host budget, or use smaller arrays"
    )]
    #[non_exhaustive]
    OutOfMemory {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes of the host's memory that arrays of at least 4 MiB had then.
        held: u64,
    },
    /// A submission was skipped because its input is poisoned.
    #[error("left out: argument `{argument}` is poisoned, the launch that should have written it failed")]
    #[non_exhaustive]
    Skipped {
        /// The argument.
        argument: String,
    },
    /// A library of kernels cannot be used.
    #[error("{}: {text}", path.display())]
    #[non_exhaustive]
    Library {
        /// The file.
        path: PathBuf,
        /// Expected, found, what to do.
        text: String,
    },
    /// A launch that cannot be cut as requested. None of it ran.
    #[error("kernel `{kernel}`, part_by: {source}")]
    #[non_exhaustive]
    Partition {
        /// The kernel.
        kernel: String,
        /// Why.
        source: Box<PartError>,
    },
    /// A submission took longer than its limit.
    #[error("{}", timeout_text(*limit, *taken))]
    #[non_exhaustive]
    Timeout {
        /// The limit of its `Timeout`.
        limit: Duration,
        /// The time until it had stopped; `None`: it has not stopped yet.
        taken: Option<Duration>,
    },
    /// The pipeline was [cancelled](crate::Handle::cancel) before the submission was done.
    #[error("cancelled: what it should have written is poisoned")]
    Cancelled,
    /// The pipeline comes after an event whose signal was dropped.
    #[error(
        "it comes after an event that never happens: its `Signal` was dropped without `send`; call `send`, or look why the thread that had it has ended"
    )]
    Abandoned,
    /// This process is a child of `fork`, and something is needed of its parent that it has not: a thread, a
    /// device, or a lock.
    #[error("{}", Forked)]
    Forked,
    /// A submission failed.
    #[error("{0}")]
    Launch(Arc<LaunchError>),
    #[cfg(feature = "recordings")]
    /// A recording that cannot be written, read or used.
    #[error("{0}")]
    Recording(Box<RecordingError>),
}

impl Error {
    /// What is wrong itself: of a submission that failed, why it failed; of another error, that error.
    pub fn cause(&self) -> &Error {
        match self {
            Error::Launch(launch) => launch.source.cause(),
            other => other,
        }
    }

    /// The kind of a backend's error, if the [cause](Self::cause) is one.
    pub fn code(&self) -> Option<Code> {
        match self.cause() {
            Error::Backend { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// An argument that does not fit a kernel, for functions that check what they are given before they make
    /// a definition's value. `text` says what was expected, what was found and what to do.
    pub fn argument(
        kernel: impl Into<String>,
        argument: impl Into<String>,
        text: impl Into<String>,
    ) -> Error {
        Error::Argument { kernel: kernel.into(), argument: argument.into(), text: text.into() }
    }

    /// Arrays of which a type cannot be made, for functions that check their contents. `text` says where,
    /// what was expected, what was found and what to do.
    pub fn contents(what: impl Into<String>, argument: impl Into<String>, text: impl Into<String>) -> Error {
        Error::Contents { what: what.into(), argument: argument.into(), text: text.into() }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Backend { code: failure.code, text: failure.text }
    }
}

impl From<Forked> for Error {
    fn from(_: Forked) -> Error {
        Error::Forked
    }
}

#[cfg(feature = "recordings")]
impl From<RecordingError> for Error {
    fn from(error: RecordingError) -> Error {
        Error::Recording(Box::new(error))
    }
}

/// The reason why a launch cannot be cut. Its text names argument, boxes and subspaces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PartError(pub(crate) PartProblem);

impl PartError {
    /// The argument, if it is because of one.
    pub fn argument(&self) -> Option<&str> {
        match &self.0 {
            PartProblem::Outside { argument, .. }
            | PartProblem::Overlap { argument, .. }
            | PartProblem::Axes { argument, .. }
            | PartProblem::NoMap { argument }
            | PartProblem::NotMapped { argument, .. }
            | PartProblem::Pointers { argument, .. } => Some(argument),
            PartProblem::Barrier { .. } | PartProblem::Panicked { .. } => None,
        }
    }
}

/// The kinds of [`PartError`]. Boxes are half-open ranges per axis of the array's shape, axis 0 first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartProblem {
    /// A dimension that was named cannot be cut.
    #[error(
        "dimension `{dimension}` cannot be cut: barriers depend on it, or a phase has not all of its values; name one that moves freely inside each phase, or none"
    )]
    Barrier {
        /// The dimension.
        dimension: String,
    },
    /// A map that leaves its array.
    #[error(
        "argument `{argument}`: for the subspace {subspace} the map gives the box {found:?}, which does not lie in the array of shape {shape:?}: let the map end there, or launch no more items"
    )]
    Outside {
        /// The argument.
        argument: String,
        /// The box.
        found: Vec<std::ops::Range<u64>>,
        /// The array's shape.
        shape: Vec<u64>,
        /// Where.
        subspace: String,
    },
    /// Two subspaces that would write the same elements.
    #[error(
        "argument `{argument}`, as {shape:?}: the subspaces {} and {} would write the boxes {:?} and {:?}, which overlap: cut along another dimension, or give a map with boxes that are apart",
        subspaces[0], subspaces[1], boxes[0], boxes[1]
    )]
    Overlap {
        /// The argument.
        argument: String,
        /// What each writes.
        boxes: [Vec<std::ops::Range<u64>>; 2],
        /// The array's shape, as three axes.
        shape: Vec<u64>,
        /// Where.
        subspaces: [String; 2],
    },
    /// A map of more axes than the array has.
    #[error(
        "argument `{argument}`: the map is of {axes} axes, the array has the shape {shape:?}: pass it in a shape of that many axes, as `memory.view([..])?`, or give its shape with `.sizes(..)`"
    )]
    Axes {
        /// The argument.
        argument: String,
        /// Axes of the map.
        axes: usize,
        /// The array's shape.
        shape: Vec<u64>,
    },
    /// A `Scatter` of a launch that is to be cut.
    #[error(
        "argument `{argument}` is a `Scatter`, which may be written anywhere: name it in part_by with boxes that are apart, use `Reduce`, or do not cut the launch"
    )]
    NoMap {
        /// The argument.
        argument: String,
    },
    /// A function that sets a box for what is not mapped.
    #[error("for the subspace {subspace} the map sets a box for `{argument}`: {why}")]
    NotMapped {
        /// The argument.
        argument: String,
        /// Where.
        subspace: String,
        /// What it is.
        why: String,
    },
    /// Row pointers that are none.
    #[error("argument `{argument}`: {text}")]
    Pointers {
        /// The argument.
        argument: String,
        /// Expected, found, what to do.
        text: String,
    },
    /// A map that panicked.
    #[error("the map `{map}` panicked for the subspace {subspace}: {text}")]
    Panicked {
        /// Its name.
        map: String,
        /// Where.
        subspace: String,
        /// The panic's message.
        text: String,
    },
}

fn borrowed(guard: Option<&'static Location<'static>>, waited: Option<Duration>) -> String {
    let at = guard.map_or("a guard that conflicts".to_owned(), |at| format!("the guard made at {at}"));
    match waited {
        Some(waited) => format!(
            "the memory is borrowed: {at} was still alive after {waited:?}; drop it sooner, or allow more time with `Patience`"
        ),
        None => format!(
            "the memory is borrowed: {at} is alive; drop it first (a thread that holds a guard does not wait for guards, nor for pipelines that do)"
        ),
    }
}

fn timeout_text(limit: Duration, taken: Option<Duration>) -> String {
    match taken {
        Some(taken) => format!(
            "it may take {limit:?} and took {taken:?}; it has stopped, and what it wrote is poisoned: allow more time with `Timeout`, or do less in one launch"
        ),
        None => format!(
            "it may take {limit:?} and has not stopped yet; its memories stay busy until it does, and what it writes is poisoned then: allow more time with `Timeout`, or do less in one launch"
        ),
    }
}

/// The memory of a device is too small for what is needed at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "device {device}: {wanted} bytes more are needed, its budget is {budget} bytes, and {held} of them are in use by launches that still go on: cut the launch into more parts, use smaller arrays, or raise the budget{}",
    device_says(reason)
)]
pub struct DeviceMemoryError {
    /// The device's id.
    pub(crate) device: String,
    /// Bytes of the buffer that did not fit.
    pub(crate) wanted: u64,
    /// Bytes that may be used on the device.
    pub(crate) budget: u64,
    /// Bytes in use that could not be freed.
    pub(crate) held: u64,
    /// What the device's backend said, where the device has less than its budget; else empty.
    pub(crate) reason: String,
}

fn device_says(reason: &str) -> String {
    match reason {
        "" => String::new(),
        reason => format!("; the device has less, and says: {reason}"),
    }
}

/// A submission that failed.
#[derive(Clone, Debug)]
pub struct LaunchError {
    /// The kernel.
    pub(crate) kernel: String,
    /// The device's id.
    pub(crate) device: String,
    /// Position in the pipeline, from 0.
    pub(crate) position: usize,
    /// Why.
    pub(crate) source: Error,
    /// Later submissions that failed, too, or were left out.
    pub(crate) others: Vec<LaunchError>,
}

/// A runtime key without a backend or device.
#[derive(Clone, Debug)]
pub struct KeyError {
    /// What was asked for.
    pub(crate) key: String,
    /// Why it is not to be had.
    pub(crate) text: String,
    /// Available keys.
    pub(crate) keys: Vec<String>,
    /// Plugins that were found and cannot be used, with the reason.
    pub(crate) unusable: Vec<String>,
}

/// Nothing implements a kernel on the selected devices.
#[derive(Clone, Debug)]
pub struct NoImplementation {
    /// The kernel.
    pub(crate) kernel: String,
    /// Dimensions and argument types.
    pub(crate) signature: String,
    /// Where was looked.
    pub(crate) devices: Vec<String>,
    /// What there is under this name, and why each is no candidate.
    pub(crate) found: Vec<String>,
}

impl DeviceMemoryError {
    /// The device's id.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Bytes of the buffer that did not fit.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Bytes that may be used on the device.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Bytes in use that could not be freed.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// What the device's backend said, where the device has less than its budget.
    pub fn reason(&self) -> Option<&str> {
        Some(&*self.reason).filter(|reason| !reason.is_empty())
    }
}

impl LaunchError {
    /// The kernel, or the name of the host task.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The device's id.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Position of the submission in its pipeline, from 0.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Why it failed.
    pub fn cause(&self) -> &Error {
        &self.source
    }

    /// Later submissions that failed, too, or were left out.
    pub fn others(&self) -> &[LaunchError] {
        &self.others
    }
}

impl KeyError {
    /// What was asked for.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The keys that would do.
    pub fn available(&self) -> &[String] {
        &self.keys
    }

    /// Plugins that were found and cannot be used, each with the reason.
    pub fn unusable(&self) -> &[String] {
        &self.unusable
    }
}

impl NoImplementation {
    /// The kernel.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Its dimensions and the types of its arguments.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// What has the kernel's name, on each device that was looked at, and why it is no candidate.
    pub fn rejected(&self) -> &[String] {
        &self.found
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel `{}` on {}, submission {}: {}",
            self.kernel, self.device, self.position, self.source
        )?;
        if !self.others.is_empty() {
            let (more, plural) = (self.others.len(), if self.others.len() == 1 { "" } else { "s" });
            write!(f, " (and {more} more submission{plural} failed or left out)")?;
        }
        Ok(())
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runtime key `{}`: {}; available keys: {}", self.key, self.text, self.keys.join(", "))?;
        for line in &self.unusable {
            write!(f, "\n  not usable: {line}")?;
        }
        f.write_str(
            "\n  backends are linked in or come as plugins in the folders of FLASH_BACKEND_PATH; `flash list` shows them, and why one cannot be used",
        )
    }
}

impl fmt::Display for NoImplementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nothing implements kernel `{}` {} on {}; ",
            self.kernel,
            self.signature,
            self.devices.join(", ")
        )?;
        if self.found.is_empty() {
            write!(
                f,
                "no implementation of that name is linked into the program or found in a plugin: register one with #[kernel], name the crate that has one with `use that_crate as _;` (what nothing names is not linked), or add its plugin to FLASH_BACKEND_PATH"
            )
        } else {
            write!(f, "of that name there are:")?;
            self.found.iter().try_for_each(|line| write!(f, "\n  {line}"))
        }
    }
}
