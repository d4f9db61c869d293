//! A kernel by name on one runtime, for programs that have its arguments as values, such as those in C.
//!
//! What a name costs is paid once: a bound kernel has the types of its arguments as addresses, and the plan
//! of each of its descriptors. A launch compares addresses, and no names.

use super::api::RuntimeObj;
use super::buffer::Pooled;
use super::dynamic::{Chosen, Given, Kernel};
use super::plan::Plan;
use super::state::Runtime;
use super::submission::{Submission, sealed};
use super::submissions::SubmissionList;
use crate::error::Error;
use crate::kernel::ArgumentWriter;
use crate::kernel::views::Array;
use crate::memory::{AnyMemory, AnyType};
use flash_types::descriptor::{KernelDescriptor, View};
use flash_types::index::IntoDims;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// An argument as a value.
#[derive(Clone, Debug)]
pub enum AnyArgument<'a> {
    /// A scalar: its type, and its bytes.
    Scalar(AnyType, &'a [u8]),
    /// All of a memory.
    Memory(&'a AnyMemory),
    /// A range of the elements of a memory, which has no shape.
    Range(&'a AnyMemory, Range<usize>),
}

/// A list of arguments. No other list is made of it for a launch.
///
/// # Safety
/// Each time it is asked it gives the same: length, types, sizes and memories.
pub unsafe trait AnyArguments {
    /// Their number.
    fn len(&self) -> usize;
    /// The argument at a position below [`len`](Self::len). `None`: what is there is none.
    fn at(&self, position: usize) -> Option<AnyArgument<'_>>;
    /// True if there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// SAFETY: a slice that nothing changes.
unsafe impl AnyArguments for [AnyArgument<'_>] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn at(&self, position: usize) -> Option<AnyArgument<'_>> {
        self.get(position).cloned()
    }
}

/// A kernel by name on one runtime.
///
/// # Examples
/// ```
/// use flash_core::{Error, RuntimeObj, descriptor::ElementType};
/// use flash_core::memory::{AnyMemory, AnyType};
/// use flash_core::runtime::AnyArgument;
/// # fn example(rt: &RuntimeObj) -> Result<(), Error> {
/// let saxpy = rt.bind("saxpy")?;
/// let float = AnyType::new(&ElementType::of::<f32>())?;
/// let (x, y) = (AnyMemory::zeroed(float, &[100])?, AnyMemory::zeroed(float, &[100])?);
/// let two = 2f32.to_ne_bytes();
/// let arguments = [AnyArgument::Scalar(float, &two), AnyArgument::Memory(&x), AnyArgument::Memory(&y)];
/// saxpy.launch(&arguments[..], [100])?;
/// # Ok(())
/// # }
/// ```
pub struct BoundKernel {
    runtime: RuntimeObj,
    kernel: Kernel,
    /// One per descriptor of the kernel.
    variants: Vec<Variant>,
    /// The variant that fitted last.
    last: AtomicUsize,
}

struct Variant {
    arguments: SmallVec<[Expected; 8]>,
    /// Its plan on the runtime, which lives as long as that; NULL: not made, or failed.
    plan: AtomicPtr<Plan>,
}

struct Expected {
    element: AnyType,
    scalar: bool,
}

/// A bound kernel with its arguments, which fit.
pub struct BoundArguments<'v, A: AnyArguments + ?Sized> {
    kernel: &'v BoundKernel,
    chosen: Chosen,
    arguments: &'v A,
}

/// The same for pipelines that outlive the arguments: it shares the memories.
pub struct SharedArguments<'v, A: AnyArguments + ?Sized>(BoundArguments<'v, A>);

impl RuntimeObj {
    /// A kernel by name on this runtime, for arguments that are values.
    ///
    /// # Errors
    /// [`Error::NoKernel`] lists the available names.
    pub fn bind(&self, name: &str) -> Result<BoundKernel, Error> {
        let kernel = self.kernel(name)?;
        let variants = kernel.descriptors().iter().map(Variant::new).collect::<Result<_, Error>>()?;
        Ok(BoundKernel { runtime: self.clone(), kernel, variants, last: AtomicUsize::new(0) })
    }
}

impl Variant {
    fn new(descriptor: &KernelDescriptor) -> Result<Variant, Error> {
        let expected = descriptor.arguments.iter().map(|argument| {
            Ok(Expected { element: AnyType::new(&argument.element)?, scalar: argument.view == View::Scalar })
        });
        Ok(Variant { arguments: expected.collect::<Result<_, Error>>()?, plan: AtomicPtr::new(null_mut()) })
    }

    #[inline(always)]
    fn fits(&self, arguments: &(impl AnyArguments + ?Sized)) -> bool {
        self.arguments.len() == arguments.len()
            && self.arguments.iter().enumerate().all(|(position, want)| match arguments.at(position) {
                Some(AnyArgument::Scalar(element, bytes)) => {
                    want.scalar && element.agrees(want.element) && bytes.len() == want.element.size
                }
                Some(AnyArgument::Memory(memory)) => !want.scalar && memory.element().agrees(want.element),
                Some(AnyArgument::Range(memory, range)) => {
                    !want.scalar && memory.element().agrees(want.element) && memory.check(&range).is_ok()
                }
                None => false,
            })
    }
}

impl AnyArgument<'_> {
    #[inline]
    fn element(&self) -> AnyType {
        match self {
            AnyArgument::Scalar(element, _) => *element,
            AnyArgument::Memory(memory) | AnyArgument::Range(memory, _) => memory.element(),
        }
    }

    #[inline]
    fn is_scalar(&self) -> bool {
        matches!(self, AnyArgument::Scalar(..))
    }
}

impl BoundKernel {
    /// The runtime that it was bound on.
    pub fn runtime(&self) -> &RuntimeObj {
        &self.runtime
    }

    /// Its descriptors, one per set of element types.
    pub fn descriptors(&self) -> &[KernelDescriptor] {
        self.kernel.descriptors()
    }

    /// Prepares it, and says whether a device of the runtime runs it, with some set of element types.
    ///
    /// # Errors
    /// [`Error::NoImplementation`] lists what there is and why it does not fit; what a device says.
    pub fn prepare(&self) -> Result<(), Error> {
        let mut first = None;
        for index in 0..self.variants.len() {
            match self.plan(&Chosen::Variant(index), &self.runtime.inner).target() {
                Ok(_) => return Ok(()),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// The kernel with its arguments, whose types choose the descriptor, as [`Kernel::args`] does.
    ///
    /// # Errors
    /// [`Error::Argument`] names the argument, what was expected and what was found; [`Error::Range`] for a
    /// range that leaves its memory.
    #[inline(always)]
    pub fn args<'v, A: AnyArguments + ?Sized>(
        &'v self,
        arguments: &'v A,
    ) -> Result<BoundArguments<'v, A>, Error> {
        let last = self.last.load(Ordering::Relaxed);
        let chosen = match self.variants.get(last).is_some_and(|variant| variant.fits(arguments)) {
            true => Chosen::Variant(last),
            false => self.choose(arguments)?,
        };
        Ok(BoundArguments { kernel: self, chosen, arguments })
    }

    /// Launches it with these arguments, and returns after all work items have finished: as `submit` and
    /// `exec` of [`args`](Self::args), and cheaper where the thread launches it again with the same memories.
    ///
    /// # Errors
    /// As those of [`args`](Self::args) and [`SubmitObj::exec`](super::SubmitObj::exec).
    #[inline(always)]
    pub fn launch<A: AnyArguments + ?Sized>(&self, arguments: &A, dims: impl IntoDims) -> Result<(), Error> {
        let mut buffer = Pooled::take(&self.runtime.inner);
        if !self.repeats(buffer.list(), arguments) {
            buffer.record(&mut self.args(arguments)?);
        }
        buffer.finish_and_exec(dims)
    }

    /// Whether the submission is the one that the thread recorded last, but for its scalars. Then its
    /// memories are those whose types were looked at.
    #[inline(always)]
    fn repeats<A: AnyArguments + ?Sized>(&self, list: &mut SubmissionList, arguments: &A) -> bool {
        let Some(variant) = self.variants.get(self.last.load(Ordering::Relaxed)) else { return false };
        // SAFETY: a plan of this runtime's table, which neither moves nor goes as long as the runtime.
        let Some(plan) = (unsafe { variant.plan.load(Ordering::Acquire).as_ref() }) else { return false };
        let expected = &variant.arguments[..];
        if plan.movement.is_some() || arguments.len() != expected.len() {
            return false;
        }
        list.repeat(plan, |position, recorded| match arguments.at(position) {
            Some(AnyArgument::Memory(memory)) => recorded.is(memory.header()),
            Some(AnyArgument::Scalar(element, bytes)) => {
                let want = &expected[position];
                let same = want.scalar && want.element == element && bytes.len() == element.size;
                if same {
                    // SAFETY: the plan is of this variant, whose argument is a scalar of that type.
                    unsafe {
                        match bytes.len() {
                            4 => recorded.set(&bytes[..4]),
                            8 => recorded.set(&bytes[..8]),
                            _ => recorded.set(bytes),
                        }
                    }
                }
                same
            }
            _ => false,
        })
    }

    #[cold]
    #[inline(never)]
    fn choose(&self, arguments: &(impl AnyArguments + ?Sized)) -> Result<Chosen, Error> {
        let none = |position: usize| {
            let text = "expected a number, a memory or a range of one, found nothing of that";
            Error::argument(self.kernel.name(), format!("number {position}"), text)
        };
        let all = (0..arguments.len()).map(|at| arguments.at(at).ok_or_else(|| none(at)));
        let all: Vec<AnyArgument<'_>> = all.collect::<Result<_, Error>>()?;
        for (position, argument) in all.iter().enumerate() {
            match argument {
                AnyArgument::Range(memory, range) => memory.check(range)?,
                AnyArgument::Scalar(element, bytes) if bytes.len() != element.size => {
                    let found = bytes.len();
                    let text = format!("expected the bytes of a scalar of type {}, found {found}", **element);
                    return Err(Error::argument(self.kernel.name(), format!("number {position}"), text));
                }
                _ => {}
            }
        }
        let types: Vec<AnyType> = all.iter().map(AnyArgument::element).collect();
        let given = all.iter().zip(&types);
        let given: Vec<Given<'_>> = given
            .map(|(argument, element)| Given { element, scalar: argument.is_scalar(), writable: true })
            .collect();
        let chosen = self.kernel.choose(&given)?;
        if let Chosen::Variant(index) = chosen {
            self.last.store(index, Ordering::Relaxed);
        }
        Ok(chosen)
    }

    /// The plan of a variant on a runtime, which lives as long as the runtime.
    #[inline(always)]
    fn plan<'r>(&self, chosen: &Chosen, runtime: &'r Runtime) -> &'r Plan {
        let index = match chosen {
            Chosen::Variant(index) if std::ptr::eq(runtime, Arc::as_ptr(&self.runtime.inner)) => *index,
            Chosen::Variant(index) => return runtime.plan_named(&self.descriptors()[*index]),
            Chosen::Widened(descriptor) => return runtime.plan_named(descriptor),
        };
        let known = &self.variants[index].plan;
        // SAFETY: a plan of this runtime's table, which neither moves nor goes as long as the runtime.
        if let Some(plan) = unsafe { known.load(Ordering::Acquire).as_ref() } {
            return plan;
        }
        let plan = runtime.plan_named(&self.descriptors()[index]);
        // One that failed may be made anew.
        if plan.target().is_ok() || plan.movement.is_some() {
            known.store(std::ptr::from_ref(plan).cast_mut(), Ordering::Release);
        }
        plan
    }
}

impl<'v, A: AnyArguments + ?Sized> BoundArguments<'v, A> {
    /// For a pipeline that outlives these arguments: it shares the memories.
    pub fn shared(self) -> SharedArguments<'v, A> {
        SharedArguments(self)
    }

    #[inline(always)]
    fn write(&self, list: &mut SubmissionList, runtime: &Runtime, share: bool) {
        let plan = self.kernel.plan(&self.chosen, runtime);
        list.begin(plan);
        let mut to = list.write();
        for position in 0..self.arguments.len() {
            // SAFETY: there were arguments of just these types when they were looked at, so there still are.
            match unsafe { self.arguments.at(position).unwrap_unchecked() } {
                // Almost all have one of these sizes, which are copied without a call.
                AnyArgument::Scalar(_, bytes) => match bytes.len() {
                    4 => to.scalar_bytes(&bytes[..4]),
                    8 => to.scalar_bytes(&bytes[..8]),
                    _ => to.scalar_bytes(bytes),
                },
                AnyArgument::Memory(memory) => array(&mut to, memory, None, share),
                AnyArgument::Range(memory, range) => array(&mut to, memory, Some(range), share),
            }
        }
        to.done();
        if plan.movement.is_some() {
            list.prove_again();
        }
    }
}

#[inline(always)]
fn array(to: &mut impl ArgumentWriter, memory: &AnyMemory, range: Option<Range<usize>>, share: bool) {
    let header = memory.header();
    let mut array = Array::of_header(header, range, memory.element().size);
    array.owner = share.then(|| header.clone());
    to.array(&mut array);
}

impl<A: AnyArguments + ?Sized> sealed::Sealed for BoundArguments<'_, A> {}
impl<A: AnyArguments + ?Sized> sealed::Sealed for SharedArguments<'_, A> {}

impl<'v, A: AnyArguments + ?Sized> Submission<'v> for BoundArguments<'v, A> {
    #[inline(always)]
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime) {
        self.write(list, runtime, false);
    }

    #[inline(always)]
    fn recorded(self) {}
}

impl<A: AnyArguments + ?Sized> Submission<'static> for SharedArguments<'_, A> {
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime) {
        self.0.write(list, runtime, true);
    }

    fn recorded(self) {}
}

impl fmt::Debug for BoundKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundKernel({} on {:?})", self.kernel.name(), self.runtime)
    }
}
