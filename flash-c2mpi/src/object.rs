//! Compute objects: the arguments of a kernel as a list that is built and read.
//!
//! Arguments are in the order of the kernel's definition: scalars, and arrays. An array is *external*, the
//! program's own, which is copied when the object is sent and received; *unified*, the program's by
//! `MPIX_Alloc_mem`, which is not copied; *internal*, a buffer of the framework, which stays where the
//! devices have it; or *owned*, of an object that was received empty. An argument that names an array that an
//! earlier one names is the same array.
//!
//! The list is locked while it is sent, received or changed: a second use at the same time is an error, or
//! waits for none.

use crate::deferred::begin_waiting;
use crate::error::{Code, Error, Result};
use crate::frame;
use crate::unified::{self, Unified};
use flash_core::index::Dim;
use flash_core::memory::{AnyMemory, AnyType};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// Extents, axis 0 first, which is the fastest.
pub type Shape = SmallVec<[u64; 3]>;

/// A compute object.
#[derive(Debug, Default)]
pub struct ComputeObj {
    contents: RwLock<Contents>,
}

/// What it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// Another number for each list of types, shapes and places.
    pub layout: u64,
    pub items: SmallVec<[Item; 8]>,
    pub arrays: SmallVec<[Array; 4]>,
    /// Per kernel of a pipeline, its dimensions. An absent or empty entry: they follow from the arrays.
    pub dimensions: Vec<Vec<Dim>>,
}

/// One argument.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Scalar(AnyType, SmallVec<[u8; 16]>),
    /// An array by its number.
    Array(usize),
}

/// An array.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub element: AnyType,
    pub shape: Shape,
    pub place: Place,
}

/// Where an array is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// The program's, at this address.
    External(usize),
    /// The program's, in a memory, or a range of one.
    Unified(AnyMemory, Option<Range<usize>>),
    /// A buffer, by its number, and the child rank that it is of, 0: of none.
    Internal { memory: AnyMemory, child: i32 },
    /// The object's own.
    Owned(AnyMemory),
}

/// An argument, for what reads an object.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Where it is.
    pub kind: ArgumentKind,
    /// Its type, or that of its elements.
    pub element: AnyType,
    /// Extents of an array; none of a scalar.
    pub shape: Vec<u64>,
    /// Where an array's elements are; NULL: a scalar, or an internal buffer.
    pub data: *mut u8,
    /// The bytes of a scalar.
    pub scalar: Vec<u8>,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A scalar, in the object.
    Scalar = 1,
    /// The program's, copied when it is sent and received.
    External = 2,
    /// The program's by `MPIX_Alloc_mem`.
    Unified = 3,
    /// A buffer of the framework.
    Internal = 4,
    /// The object's own.
    Owned = 5,
}

fn next_layout() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cold]
fn busy() -> Error {
    let text =
        "expected a compute object that no other call uses, found one in use: give each thread its own";
    Error::new(Code::Busy, text)
}

impl ComputeObj {
    /// An empty one.
    pub fn new() -> ComputeObj {
        ComputeObj::default()
    }

    pub(crate) fn of(contents: Contents) -> ComputeObj {
        ComputeObj { contents: RwLock::new(contents) }
    }

    pub(crate) fn read(&self) -> Result<RwLockReadGuard<'_, Contents>> {
        match self.contents.try_read() {
            Ok(contents) => Ok(contents),
            Err(TryLockError::Poisoned(left)) => Ok(left.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy()),
        }
    }

    pub(crate) fn write(&self) -> Result<RwLockWriteGuard<'_, Contents>> {
        match self.contents.try_write() {
            Ok(contents) => Ok(contents),
            Err(TryLockError::Poisoned(left)) => Ok(left.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy()),
        }
    }

    /// Changes the list.
    fn change(&self, change: impl FnOnce(&mut Contents) -> Result<()>) -> Result<()> {
        let mut contents = self.write()?;
        change(&mut contents)?;
        contents.layout = next_layout();
        Ok(())
    }

    /// The number of arguments.
    ///
    /// # Errors
    /// [`Code::Busy`].
    pub fn len(&self) -> Result<usize> {
        Ok(self.read()?.items.len())
    }

    /// True if it has no arguments.
    ///
    /// # Errors
    /// [`Code::Busy`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Removes all arguments and dimensions.
    ///
    /// # Errors
    /// [`Code::Busy`].
    pub fn reset(&self) -> Result<()> {
        self.change(|contents| {
            *contents = Contents::default();
            Ok(())
        })
    }

    /// Adds a scalar by its bytes, which a struct has, too.
    ///
    /// # Errors
    /// [`Code::Type`] if they are not as many as the type has; [`Code::Busy`].
    pub fn add_scalar(&self, element: AnyType, bytes: &[u8]) -> Result<()> {
        check_bytes(element, bytes)?;
        self.change(|contents| {
            contents.items.push(Item::Scalar(element, SmallVec::from_slice(bytes)));
            Ok(())
        })
    }

    /// Gives a scalar another value, at no cost for the sends that follow.
    ///
    /// # Errors
    /// [`Code::Argument`] if there is no scalar at the position; [`Code::Type`]; [`Code::Busy`].
    pub fn set_scalar(&self, position: usize, bytes: &[u8]) -> Result<()> {
        let mut contents = self.write()?;
        match contents.items.get_mut(position) {
            Some(Item::Scalar(element, old)) => {
                check_bytes(*element, bytes)?;
                old.copy_from_slice(bytes);
                Ok(())
            }
            other => {
                let found = if other.is_some() { "an array" } else { "nothing" };
                let text = format!("argument {position}: expected a scalar, found {found}");
                Err(Error::new(Code::Argument, text))
            }
        }
    }

    /// That there is a scalar of a type at a position.
    pub(crate) fn check_scalar(&self, position: usize, element: AnyType) -> Result<()> {
        match self.read()?.items.get(position) {
            Some(Item::Scalar(own, _)) if own.agrees(element) => Ok(()),
            other => {
                let found = match other {
                    Some(Item::Scalar(own, _)) => format!("one of `{}`", own.name),
                    Some(Item::Array(_)) => "an array".to_owned(),
                    None => "nothing".to_owned(),
                };
                let text = format!(
                    "argument {position}: expected a scalar of `{}`, as was sent, found {found}",
                    element.name
                );
                Err(Error::new(Code::Type, text))
            }
        }
    }

    /// Adds an array of the program's: an external one, or, if it lies in what `MPIX_Alloc_mem` gave, a
    /// unified one.
    ///
    /// # Errors
    /// [`Code::Argument`] for NULL or an odd address; [`Code::Count`] for more elements than memory can have,
    /// or than a unified memory has; [`Code::Type`] for a part of a unified memory of another type;
    /// [`Code::Busy`].
    ///
    /// # Safety
    /// There are that many elements at the address, as long as the object has them. What is sent may be
    /// written until it is received.
    pub unsafe fn add_array(&self, element: AnyType, shape: &[u64], data: *mut u8) -> Result<()> {
        let len = count(element, shape)?;
        if data.is_null() || !data.addr().is_multiple_of(element.align) {
            let text = format!(
                "argument {}: expected the address of {len} elements of `{}`, found {data:p}",
                self.len()?,
                element.name
            );
            return Err(Error::new(Code::Argument, text));
        }
        self.change(|contents| {
            let place = match unified::find(data, element, shape)? {
                Some(Unified { memory, range }) => Place::Unified(memory, range),
                None => Place::External(data.expose_provenance()),
            };
            contents.push(Array { element, shape: Shape::from_slice(shape), place });
            Ok(())
        })
    }

    pub(crate) fn add_buffer(&self, memory: AnyMemory, child: i32) -> Result<()> {
        self.change(|contents| {
            let shape = match memory.shape() {
                [] => Shape::from_slice(&[memory.len() as u64]),
                shape => Shape::from_slice(shape),
            };
            let element = memory.element();
            contents.push(Array { element, shape, place: Place::Internal { memory, child } });
            Ok(())
        })
    }

    /// Sets the dimensions of a kernel of the pipeline; 0 is the first, and only one of most child ranks.
    /// Without them each dimension is as long as the arrays that it indexes.
    ///
    /// # Errors
    /// [`Code::Argument`] for a kernel or ranges that none has; [`Code::Busy`].
    pub fn set_dimensions(&self, kernel: usize, ranges: &[Range<u64>]) -> Result<()> {
        const MOST: usize = 256;
        if kernel >= MOST || ranges.iter().any(|range| range.start > range.end) {
            let text =
                format!("expected ranges of a kernel below {MOST}, found {ranges:?} of kernel {kernel}");
            return Err(Error::new(Code::Argument, text));
        }
        self.change(|contents| {
            if contents.dimensions.len() <= kernel {
                contents.dimensions.resize(kernel + 1, Vec::new());
            }
            let dimension = |range: &Range<u64>| match range.start {
                0 => Dim::Count(range.end),
                start => Dim::Range { start, step: 1, count: range.end - start },
            };
            contents.dimensions[kernel] = ranges.iter().map(dimension).collect();
            Ok(())
        })
    }

    /// Its frame, by which another process receives it.
    pub(crate) fn frame(&self) -> Result<Vec<u8>> {
        let contents = self.read()?;
        begin_waiting();
        let arrays = contents.arrays.iter().map(|array| (array, true));
        frame::write(true, &contents.items, arrays, |number, to| {
            let array = &contents.arrays[number];
            let (memory, range) = match &array.place {
                Place::External(address) => {
                    let from: *const u8 = std::ptr::with_exposed_provenance(*address);
                    // SAFETY: the caller of `add_array` vouches for that many bytes.
                    to.extend_from_slice(unsafe { std::slice::from_raw_parts(from, array.bytes()) });
                    return Ok(());
                }
                Place::Unified(memory, Some(range)) => (memory, range.clone()),
                Place::Unified(memory, None) | Place::Internal { memory, .. } | Place::Owned(memory) => {
                    (memory, 0..memory.len())
                }
            };
            to.extend_from_slice(&memory.read(range)?);
            Ok(())
        })
    }

    /// An argument. What devices have of an array comes to the host first.
    ///
    /// # Errors
    /// [`Code::Argument`] if there is none; [`Code::Busy`]; what a device says.
    pub fn argument(&self, position: usize) -> Result<Argument> {
        begin_waiting();
        let contents = self.read()?;
        match contents.items.get(position) {
            Some(Item::Scalar(element, bytes)) => Ok(Argument {
                kind: ArgumentKind::Scalar,
                element: *element,
                shape: Vec::new(),
                data: std::ptr::null_mut(),
                scalar: bytes.to_vec(),
            }),
            Some(Item::Array(array)) => {
                let array = &contents.arrays[*array];
                let (kind, data) = match &array.place {
                    Place::External(address) => {
                        (ArgumentKind::External, std::ptr::with_exposed_provenance_mut(*address))
                    }
                    Place::Unified(memory, range) => {
                        drop(memory.read(0..memory.len())?);
                        let first = range.as_ref().map_or(0, |range| range.start);
                        (ArgumentKind::Unified, memory.address().wrapping_add(first * array.element.size))
                    }
                    Place::Internal { .. } => (ArgumentKind::Internal, std::ptr::null_mut()),
                    Place::Owned(memory) => {
                        drop(memory.read(0..memory.len())?);
                        (ArgumentKind::Owned, memory.address())
                    }
                };
                let shape = array.shape.to_vec();
                Ok(Argument { kind, element: array.element, shape, data, scalar: Vec::new() })
            }
            None => {
                let text = format!(
                    "expected the position of one of {} arguments, found {position}",
                    contents.items.len()
                );
                Err(Error::new(Code::Argument, text))
            }
        }
    }
}

fn check_bytes(element: AnyType, bytes: &[u8]) -> Result<()> {
    if bytes.len() == element.size {
        return Ok(());
    }
    let text = format!("expected the {} bytes of a `{}`, found {}", element.size, element.name, bytes.len());
    Err(Error::new(Code::Type, text))
}

/// The number of elements of a shape, if memory can have them.
pub(crate) fn count(element: AnyType, shape: &[u64]) -> Result<usize> {
    let product = shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b));
    let len = product.and_then(|len| usize::try_from(len).ok());
    let fits = |len: &usize| len.checked_mul(element.size).is_some_and(|bytes| bytes <= isize::MAX as usize);
    len.filter(fits).filter(|_| !shape.is_empty()).ok_or_else(|| {
        let text = format!("expected a shape that memory can have, found {shape:?} of `{}`", element.name);
        Error::new(Code::Count, text)
    })
}

impl Contents {
    /// Adds an argument: an array that is there already is the same.
    fn push(&mut self, array: Array) {
        let same = |known: &Array| {
            known.element == array.element
                && known.shape == array.shape
                && match (&known.place, &array.place) {
                    (Place::External(a), Place::External(b)) => a == b,
                    (Place::Unified(a, of), Place::Unified(b, other)) => {
                        a.address() == b.address() && of == other
                    }
                    (Place::Internal { memory: a, .. }, Place::Internal { memory: b, .. }) => {
                        a.address() == b.address()
                    }
                    _ => false,
                }
        };
        let at = self.arrays.iter().position(same).unwrap_or_else(|| {
            self.arrays.push(array.clone());
            self.arrays.len() - 1
        });
        self.items.push(Item::Array(at));
    }

    /// An object of these; for what is made here and not by a program.
    pub fn new(
        items: SmallVec<[Item; 8]>,
        arrays: SmallVec<[Array; 4]>,
        dimensions: Vec<Vec<Dim>>,
    ) -> Contents {
        Contents { layout: next_layout(), items, arrays, dimensions }
    }
}

impl Array {
    /// Number of elements, which was checked when it was added.
    pub fn len(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.element.size
    }
}
