//! Arrays whose element type is a value: for programs that learn it when they run, such as those in C.
//!
//! An [`AnyType`] stands for one set of name, size, alignment and layout in the whole process, so that two
//! are compared by one address. An [`AnyMemory`] is a handle as [`FlashMemory`](super::FlashMemory) is; its
//! guards own it, and give bytes.

use super::guard::ByteGuard;
use super::{ArrayInner, inner};
use crate::error::Error;
use flash_types::descriptor::ElementType;
use smallvec::SmallVec;
use std::alloc::Layout;
use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// An element type that is a value.
#[derive(Clone, Copy)]
pub struct AnyType(&'static ElementType);

/// A page: no plain type needs more.
const MAX_ALIGN: usize = 4096;

impl AnyType {
    /// The type of this description. Each is kept as long as the process.
    ///
    /// # Errors
    /// [`Error::Shape`] if no type has that size and alignment: the size is at least 1 and a multiple of the
    /// alignment, which is a power of two of at most 4096.
    ///
    /// # Examples
    /// ```
    /// use flash_core::{descriptor::ElementType, memory::AnyType};
    /// let float = AnyType::new(&ElementType::of::<f32>())?;
    /// assert!(float == AnyType::new(&ElementType::of::<f32>())?);
    /// let error = AnyType::new(&ElementType { align: 3, ..ElementType::of::<f32>() }).unwrap_err();
    /// assert!(error.to_string().contains("aligned to 3"));
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn new(element: &ElementType) -> Result<AnyType, Error> {
        let ElementType { name, size, align, .. } = element;
        if *size == 0 || !align.is_power_of_two() || *align > MAX_ALIGN || size % align != 0 {
            return Err(Error::Shape(format!(
                "element type `{name}`: expected at least 1 byte, and a size that is a multiple of an alignment of 1, 2, 4, .. or {MAX_ALIGN}, found {size} bytes aligned to {align}"
            )));
        }
        static KNOWN: Mutex<Option<HashSet<&'static ElementType>>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if let Some(found) = known.get(element) {
            return Ok(AnyType(found));
        }
        let kept: &'static ElementType = Box::leak(Box::new(element.clone()));
        known.insert(kept);
        Ok(AnyType(kept))
    }

    /// True if they are the same type, as [`ElementType::agrees`] says.
    #[inline]
    pub fn agrees(self, other: AnyType) -> bool {
        std::ptr::eq(self.0, other.0) || self.0.agrees(other.0)
    }
}

impl Deref for AnyType {
    type Target = ElementType;

    #[inline]
    fn deref(&self) -> &ElementType {
        self.0
    }
}

impl PartialEq for AnyType {
    fn eq(&self, other: &AnyType) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for AnyType {}

impl fmt::Debug for AnyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyType({})", self.0)
    }
}

/// An array whose element type is a value: an owning handle, always initialised, with a shape.
///
/// # Examples
/// ```
/// use flash_core::{descriptor::ElementType, memory::{AnyMemory, AnyType}};
/// let float = AnyType::new(&ElementType::of::<f32>())?;
/// let memory = AnyMemory::copied(float, &[2], &[0, 0, 128, 63, 0, 0, 0, 64])?;
/// memory.write()?[..4].fill(0);
/// assert_eq!(memory.read(0..2)?[..], [0, 0, 0, 0, 0, 0, 0, 64]);
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyMemory {
    header: Arc<ArrayInner>,
    element: AnyType,
}

impl AnyMemory {
    /// An array of zeros; the shape has axis 0 fastest.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is larger than any memory can be, [`Error::OutOfMemory`] if the system has not
    /// as much.
    pub fn zeroed(element: AnyType, shape: &[u64]) -> Result<AnyMemory, Error> {
        let len = shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b)).and_then(|n| usize::try_from(n).ok());
        let layout = len.and_then(|len| element.size.checked_mul(len)).and_then(|bytes| {
            Layout::from_size_align(bytes, element.align).ok().and_then(inner::aligned_to_devices)
        });
        let (Some(len), Some(layout)) = (len, layout) else {
            return Err(Error::Shape(format!(
                "an array of shape {shape:?} with elements of {} bytes is larger than memory can be: use smaller extents",
                element.size
            )));
        };
        // One of one axis has no shape, as other memories.
        let shape = if shape.len() > 1 { SmallVec::from_slice(shape) } else { SmallVec::new() };
        Ok(AnyMemory { header: ArrayInner::zeroed(len, element.size, layout, shape)?, element })
    }

    /// An array of these bytes.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed); [`Error::Shape`] if there are not as many bytes as the elements have.
    pub fn copied(element: AnyType, shape: &[u64], bytes: &[u8]) -> Result<AnyMemory, Error> {
        let memory = AnyMemory::zeroed(element, shape)?;
        let expected = memory.len() * element.size;
        if bytes.len() != expected {
            return Err(Error::Shape(format!(
                "expected {expected} bytes for an array of shape {shape:?} of `{}`, found {}",
                element.name,
                bytes.len()
            )));
        }
        if expected > 0 {
            memory.write()?.copy_from_slice(bytes);
        }
        Ok(memory)
    }

    /// Type of one element.
    #[inline]
    pub fn element(&self) -> AnyType {
        self.element
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.header.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Extent per axis, axis 0 fastest. Empty if it has one axis.
    pub fn shape(&self) -> &[u64] {
        self.header.shape()
    }

    /// Reads a range of elements, as bytes.
    ///
    /// # Errors
    /// As [`FlashMemory::read_range`](super::FlashMemory::read_range).
    #[track_caller]
    pub fn read(&self, range: Range<usize>) -> Result<AnyReadGuard, Error> {
        self.check(&range)?;
        AnyReadGuard::new(self, range.start as u64..range.end as u64)
    }

    /// Reads and writes all of it, as bytes. Heals a poisoned array.
    ///
    /// # Errors
    /// As [`FlashMemory::write`](super::FlashMemory::write).
    #[track_caller]
    pub fn write(&self) -> Result<AnyWriteGuard, Error> {
        AnyWriteGuard::new(self)
    }

    /// Whether a range lies in it.
    pub(crate) fn check(&self, range: &Range<usize>) -> Result<(), Error> {
        match range.start <= range.end && range.end <= self.len() {
            true => Ok(()),
            false => Err(Error::Range { start: range.start, end: range.end, len: self.len() }),
        }
    }

    #[inline]
    pub(crate) fn header(&self) -> &Arc<ArrayInner> {
        &self.header
    }
}

impl fmt::Debug for AnyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyMemory({} of {})", self.len(), self.element.name)
    }
}

/// Shared access of the host to bytes of an [`AnyMemory`], as [`ReadGuard`](super::ReadGuard). It owns a
/// handle.
#[must_use]
pub struct AnyReadGuard {
    // Dropped before the memory.
    guard: ByteGuard<'static>,
    _memory: AnyMemory,
}

/// Exclusive access of the host to the bytes of an [`AnyMemory`], as [`WriteGuard`](super::WriteGuard). It
/// owns a handle.
#[must_use]
pub struct AnyWriteGuard {
    // Dropped before the memory.
    guard: ByteGuard<'static>,
    _memory: AnyMemory,
}

impl AnyMemory {
    /// The array for a guard that is kept beside a handle.
    ///
    /// # Safety
    /// It is not used when no handle is left.
    unsafe fn array(&self) -> &'static ArrayInner {
        // SAFETY: the array lives as long as one of its handles, and does not move.
        unsafe { &*Arc::as_ptr(&self.header) }
    }
}

impl AnyReadGuard {
    #[track_caller]
    fn new(memory: &AnyMemory, range: Range<u64>) -> Result<AnyReadGuard, Error> {
        // SAFETY: the guard is dropped before the handle beside it.
        let array = unsafe { memory.array() };
        Ok(AnyReadGuard { guard: ByteGuard::of_range(array, range, false)?, _memory: memory.clone() })
    }
}

impl AnyWriteGuard {
    #[track_caller]
    fn new(memory: &AnyMemory) -> Result<AnyWriteGuard, Error> {
        // SAFETY: the guard is dropped before the handle beside it.
        let array = unsafe { memory.array() };
        let range = 0..memory.len() as u64;
        Ok(AnyWriteGuard { guard: ByteGuard::of_range(array, range, true)?, _memory: memory.clone() })
    }
}

impl Deref for AnyReadGuard {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.guard.bytes()
    }
}

impl Deref for AnyWriteGuard {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.guard.bytes()
    }
}

impl DerefMut for AnyWriteGuard {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.guard.bytes_mut().expect("a guard that writes")
    }
}
