//! Kernels by name, for programs that do not have their types.
//!
//! A [`Kernel`] is the descriptors that implementations of one name have, as the registry was when it was
//! found. [`Kernel::args`] compares the arguments with them. That stands for what the compiler checks of a
//! definition: number, element types, scalar or array, and that what is written may be written. From there
//! on a [`ByName`] is recorded and proved as every submission is. [`ByName::erased`] checks nothing: its
//! callers have a descriptor and arguments that fit.

use super::state::Runtime;
use super::submission::{Submission, sealed};
use super::submissions::SubmissionList;
use super::widen::Widening;
use crate::devices::registry::Registry;
use crate::error::Error;
use crate::kernel::views::{self, Array, Item, Read, ReadWrite, Scalar, Taken, Takes, Whole};
use crate::kernel::{ArgumentWriter, Element};
use crate::memory::{FlashMemory, MemoryView, RowOffsets};
use flash_types::descriptor::{Access, ArgumentDescriptor, ElementType, KernelDescriptor, Searchable, View};
use std::fmt;

/// A kernel by name: the descriptors that its implementations have, one per set of element types.
#[derive(Clone, Debug)]
pub struct Kernel {
    name: String,
    variants: Vec<KernelDescriptor>,
    /// How the runtime looks for implementations, if it has an option for it.
    searchable: Option<Searchable>,
}

/// A kernel by name with its arguments.
pub struct ByName<'a> {
    descriptor: KernelDescriptor,
    arguments: Vec<Argument<'a>>,
}

/// One argument of a kernel by name.
pub struct Argument<'a> {
    pub(super) element: ElementType,
    pub(super) value: Value<'a>,
}

pub(super) enum Value<'a> {
    Scalar(Vec<u8>),
    Array { array: Array<'a>, writable: bool },
}

/// The argument of `args`: a tuple of numbers, [`Scalar`]s, memories and slices.
pub trait KernelArguments<'a> {
    /// As a list.
    fn into_list(self) -> Vec<Argument<'a>>;
}

/// A number, [`Scalar`], memory or slice.
pub trait IntoArgument<'a> {
    /// Type erased.
    fn into_argument(self) -> Argument<'a>;
}

impl Kernel {
    pub(super) fn find(
        registry: &Registry,
        name: &str,
        searchable: Option<Searchable>,
    ) -> Result<Kernel, Error> {
        let mut variants: Vec<KernelDescriptor> = Vec::new();
        for found in registry.implementations_of(name) {
            // SAFETY: strings of implementations live for ever.
            let descriptor = unsafe { found.raw.descriptor.text() };
            if let Ok(descriptor) = KernelDescriptor::from_json(&descriptor)
                && !variants.iter().any(|variant| variant.agrees(&descriptor))
            {
                variants.push(descriptor);
            }
        }
        if variants.is_empty() {
            let mut known: Vec<String> = Vec::new();
            for kernel in registry.kernels().filter(|kernel| *kernel != name) {
                if !known.iter().any(|one| one == kernel) {
                    known.push(kernel.to_owned());
                }
            }
            return Err(Error::NoKernel { name: name.to_owned(), known });
        }
        Ok(Kernel { name: name.to_owned(), variants, searchable })
    }

    /// Its descriptors, one per set of element types.
    pub fn descriptors(&self) -> &[KernelDescriptor] {
        &self.variants
    }

    /// The kernel with its arguments, whose types choose the descriptor. Where the runtime or the definition
    /// says [`Searchable::Fuzzy`], numbers may be of narrower types than any descriptor has.
    ///
    /// # Errors
    /// [`Error::Argument`] with the types expected and found.
    pub fn args<'a>(&self, arguments: impl KernelArguments<'a>) -> Result<ByName<'a>, Error> {
        let arguments = arguments.into_list();
        let given: Vec<Given<'_>> = arguments.iter().map(Argument::given).collect();
        let descriptor = match self.choose(&given)? {
            Chosen::Variant(index) => self.variants[index].clone(),
            Chosen::Widened(descriptor) => *descriptor,
        };
        Ok(ByName { descriptor, arguments })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The descriptor that fits these arguments.
    ///
    /// # Errors
    /// As [`args`](Self::args).
    pub(super) fn choose(&self, given: &[Given<'_>]) -> Result<Chosen, Error> {
        if let Some(index) = self.variants.iter().position(|variant| fits(variant, given)) {
            return Ok(Chosen::Variant(index));
        }
        // The descriptor of a definition with just these numbers: its plan then finds the implementations
        // that fit.
        let as_given = |variant: &KernelDescriptor| {
            let mut descriptor = variant.clone();
            let numbers = descriptor.arguments.iter_mut().zip(given);
            numbers
                .filter(|(want, _)| want.view == View::Scalar)
                .for_each(|(want, have)| want.element = have.element.clone());
            let widening = Widening::between(&descriptor, variant).ok()?;
            fits(&descriptor, given).then_some((widening.rating(), descriptor))
        };
        let fuzzy = |variant: &&KernelDescriptor| {
            self.searchable.as_ref().or(variant.attributes.get()) == Some(&Searchable::Fuzzy)
        };
        let widened =
            self.variants.iter().filter(fuzzy).filter_map(as_given).max_by_key(|(rating, _)| *rating);
        match widened {
            Some((_, descriptor)) => Ok(Chosen::Widened(Box::new(descriptor))),
            None => Err(self.unfit(given)),
        }
    }

    /// Names the first argument that does not fit the descriptor that comes nearest.
    fn unfit(&self, given: &[Given<'_>]) -> Error {
        let expected: Vec<String> = self.variants.iter().map(KernelDescriptor::signature).collect();
        let found: Vec<String> = given.iter().map(ToString::to_string).collect();
        let all = format!("expected {}; found ({})", expected.join(" or "), found.join(", "));
        let of_as_many = self.variants.iter().filter(|variant| variant.arguments.len() == given.len());
        let first = |variant: &KernelDescriptor| {
            variant.arguments.iter().zip(given).position(|(want, have)| !have.fits(want))
        };
        // The one that most of them fit.
        let fitting = |variant: &KernelDescriptor| {
            variant.arguments.iter().zip(given).filter(|(want, have)| have.fits(want)).count()
        };
        let nearest = of_as_many.max_by_key(|variant| fitting(variant));
        let nearest = nearest.and_then(|variant| Some((first(variant)?, variant)));
        let (argument, text) = match nearest {
            Some((at, variant)) => {
                let want = &variant.arguments[at];
                let wanted = Given {
                    element: &want.element,
                    scalar: want.view == View::Scalar,
                    writable: want.access != Access::Read,
                };
                let text = match wanted.to_string() == given[at].to_string() {
                    true => format!("expected {}, found {}", want.element, given[at].element),
                    false => format!("expected {}, found {}", wanted.wanted(), given[at]),
                };
                (want.name.clone(), format!("{text}; of all arguments: {all}"))
            }
            None => {
                let mut counts: Vec<String> =
                    self.variants.iter().map(|variant| variant.arguments.len().to_string()).collect();
                counts.dedup();
                let text =
                    format!("expected {} arguments, found {}: {all}", counts.join(" or "), given.len());
                ("all".to_owned(), text)
            }
        };
        Error::Argument { kernel: self.name.clone(), argument, text }
    }
}

fn fits(descriptor: &KernelDescriptor, given: &[Given<'_>]) -> bool {
    descriptor.arguments.len() == given.len()
        && descriptor.arguments.iter().zip(given).all(|(want, have)| have.fits(want))
}

/// What is known of an argument when a descriptor is chosen.
pub(super) struct Given<'g> {
    pub element: &'g ElementType,
    pub scalar: bool,
    /// The array may be written.
    pub writable: bool,
}

/// The descriptor that fits.
pub(super) enum Chosen {
    /// One of the kernel's, by its index.
    Variant(usize),
    /// One of the kernel's with narrower numbers.
    Widened(Box<KernelDescriptor>),
}

impl Given<'_> {
    fn fits(&self, want: &ArgumentDescriptor) -> bool {
        want.element.agrees(self.element)
            && self.scalar == (want.view == View::Scalar)
            && (self.scalar || self.writable || want.access == Access::Read)
    }

    /// As what an argument has to be.
    fn wanted(&self) -> String {
        match self {
            Given { element, scalar: true, .. } => format!("a scalar {}", element.name),
            Given { element, .. } => format!("an array of {}", element.name),
        }
    }
}

impl fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given { scalar: true, .. } => {}
            Given { writable: true, .. } => f.write_str("array of ")?,
            Given { writable: false, .. } => f.write_str("read-only array of ")?,
        }
        f.write_str(&self.element.name)
    }
}

impl<'a> ByName<'a> {
    /// The kernel with arguments that are known to fit the descriptor, which an implementation has.
    pub(super) fn erased(descriptor: KernelDescriptor, arguments: Vec<Argument<'a>>) -> ByName<'a> {
        ByName { descriptor, arguments }
    }
}

impl<'a> Argument<'a> {
    fn given(&self) -> Given<'_> {
        let (scalar, writable) = match self.value {
            Value::Scalar(_) => (true, false),
            Value::Array { writable, .. } => (false, writable),
        };
        Given { element: &self.element, scalar, writable }
    }

    #[cfg(feature = "recordings")]
    /// The bytes of a scalar.
    pub(super) fn of_bytes(element: &ElementType, bytes: &[u8]) -> Argument<'a> {
        Argument { element: element.clone(), value: Value::Scalar(bytes.to_vec()) }
    }

    #[cfg(feature = "recordings")]
    /// A memory, or a range of it.
    pub(super) fn of_array(element: &ElementType, array: Array<'a>) -> Argument<'a> {
        Argument { element: element.clone(), value: Value::Array { array, writable: true } }
    }
}

impl sealed::Sealed for ByName<'_> {}

impl<'a> Submission<'a> for ByName<'a> {
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime) {
        let plan = runtime.plan_named(&self.descriptor);
        list.begin(plan);
        let mut to = list.write();
        for argument in &mut self.arguments {
            match &mut argument.value {
                Value::Scalar(bytes) => to.scalar_bytes(bytes),
                Value::Array { array, .. } => to.array(array),
            }
        }
        to.done();
        if plan.movement.is_some() {
            list.prove_again();
        }
    }

    fn recorded(self) {}
}

fn scalar<'a, T: Element>(value: T) -> Argument<'a> {
    Argument { element: ElementType::of::<T>(), value: Value::Scalar(bytemuck::bytes_of(&value).to_vec()) }
}

fn array<'a, T: Element>(array: Array<'a>, writable: bool) -> Argument<'a> {
    Argument { element: ElementType::of::<T>(), value: Value::Array { array, writable } }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl<'a> IntoArgument<'a> for $t {
            fn into_argument(self) -> Argument<'a> {
                scalar(self)
            }
        }
    )*};
}
numbers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 }

impl<'a, T: Element> IntoArgument<'a> for Scalar<T> {
    fn into_argument(self) -> Argument<'a> {
        scalar(self.0)
    }
}

impl<'a, T: Element> IntoArgument<'a> for &'a FlashMemory<T> {
    fn into_argument(self) -> Argument<'a> {
        array::<T>(erased::<Item<'a, ReadWrite<T>>, _>(self), true)
    }
}

impl<'a, T: Element> IntoArgument<'a> for FlashMemory<T> {
    fn into_argument(self) -> Argument<'a> {
        array::<T>(erased::<Item<'a, ReadWrite<T>>, _>(self), true)
    }
}

impl<'a, T: Element> IntoArgument<'a> for MemoryView<'a, T> {
    fn into_argument(self) -> Argument<'a> {
        array::<T>(erased::<Item<'a, ReadWrite<T>>, _>(self), true)
    }
}

impl<'a> IntoArgument<'a> for &'a RowOffsets {
    fn into_argument(self) -> Argument<'a> {
        array::<u64>(erased::<Whole<'a, Read<u64>>, _>(self), false)
    }
}

impl<'a, T: Element> IntoArgument<'a> for &'a mut [T] {
    fn into_argument(self) -> Argument<'a> {
        array::<T>(erased::<Item<'a, ReadWrite<T>>, _>(self), true)
    }
}

impl<'a, T: Element> IntoArgument<'a> for &'a [T] {
    fn into_argument(self) -> Argument<'a> {
        array::<T>(erased::<Item<'a, Read<T>>, _>(self), false)
    }
}

fn erased<'a, V: views::View<'a> + Takes<A, Taken, Taken>, A>(array: A) -> Array<'a> {
    V::take(array).array().take()
}

macro_rules! tuples {
    ($(($($t:ident $n:tt),*))*) => {$(
        impl<'a, $($t: IntoArgument<'a>),*> KernelArguments<'a> for ($($t,)*) {
            fn into_list(self) -> Vec<Argument<'a>> {
                vec![$(self.$n.into_argument()),*]
            }
        }
    )*};
}
tuples! {
    (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6) (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8) (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10) (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
}
