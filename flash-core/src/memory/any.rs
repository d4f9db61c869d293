//! Arrays whose element type is a value: for programs that learn it when they run, such as those in C.
//!
//! An [`AnyType`] stands for one set of name, size, alignment and layout in the whole process, so that two
//! are compared by one address. An [`AnyMemory`] is a handle as [`FlashMemory`](super::FlashMemory) is; its
//! guards own it, and give bytes.

use super::guard::ByteGuard;
use super::{ArrayInner, inner};
use crate::devices::DeviceHandle;
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
        let (len, layout) = extent(element, shape)?;
        Ok(AnyMemory { header: ArrayInner::zeroed(len, element.size, layout, kept(shape))?, element })
    }

    /// An array of zeros for a program that keeps its [`address`](Self::address): the host's memory of it
    /// stays as long as a handle does, whatever devices have of it.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub fn fixed(element: AnyType, shape: &[u64]) -> Result<AnyMemory, Error> {
        let (len, layout) = extent(element, shape)?;
        Ok(AnyMemory { header: ArrayInner::fixed(len, element.size, layout, kept(shape))?, element })
    }

    /// Where its first element is on the host. What is there is current while a guard is alive; a program
    /// that reads or writes there at other times answers for it.
    pub fn address(&self) -> *mut u8 {
        self.header.data()
    }

    /// True if a device works on the host's own memory of it, as devices of the CPU do, and those of agents
    /// on this host if the array was made when they were there: what one of the two has written, the other
    /// sees.
    #[inline]
    pub fn is_shared_with(&self, device: &'static DeviceHandle) -> bool {
        device.memory().is_none_or(|memory| self.header.twin() == Some(memory.place()))
    }

    /// Makes it an array of other elements, of as many bytes or fewer, which keeps these bytes and its
    /// address. What devices have of it comes to the host first.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has too few bytes, or other handles: it stays as it is. Otherwise as
    /// [`read`](Self::read).
    ///
    /// # Examples
    /// ```
    /// use flash_core::{descriptor::ElementType, memory::{AnyMemory, AnyType}};
    /// let byte = AnyType::new(&ElementType::of::<u8>())?;
    /// let float = AnyType::new(&ElementType::of::<f32>())?;
    /// let mut memory = AnyMemory::fixed(byte, &[64])?;
    /// let address = memory.address();
    /// memory.retype(float, &[4, 4])?;
    /// assert_eq!((memory.len(), memory.shape(), memory.address()), (16, &[4, 4][..], address));
    /// assert!(memory.retype(float, &[17]).unwrap_err().to_string().contains("64 bytes"));
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn retype(&mut self, element: AnyType, shape: &[u64]) -> Result<(), Error> {
        let (len, layout) = extent(element, shape)?;
        self.header.come_home()?;
        let empty = ArrayInner::zeroed(0, element.size, Layout::new::<()>(), SmallVec::new())?;
        let header = std::mem::replace(&mut self.header, empty);
        let (bytes, others) = (header.bytes(), Arc::strong_count(&header) > 1);
        match ArrayInner::retyped(header, len, element.size, kept(shape)) {
            Ok(header) => {
                (self.header, self.element) = (header, element);
                Ok(())
            }
            Err(header) => {
                self.header = header;
                let why = match others {
                    true => "it has other handles: give it its type before it is used".to_owned(),
                    false => format!("it has {bytes} bytes"),
                };
                Err(Error::Shape(format!(
                    "expected an array of {} bytes, for the shape {shape:?} of `{}`: {why}",
                    layout.size(),
                    element.name
                )))
            }
        }
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

/// Length and layout of an array.
fn extent(element: AnyType, shape: &[u64]) -> Result<(usize, Layout), Error> {
    let len = shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b)).and_then(|n| usize::try_from(n).ok());
    let layout = len.and_then(|len| element.size.checked_mul(len)).and_then(|bytes| {
        Layout::from_size_align(bytes, element.align).ok().and_then(inner::aligned_to_devices)
    });
    len.zip(layout).ok_or_else(|| {
        Error::Shape(format!(
            "an array of shape {shape:?} with elements of {} bytes is larger than memory can be: use smaller extents",
            element.size
        ))
    })
}

/// The shape that an array keeps: one of one axis has none, as other memories.
fn kept(shape: &[u64]) -> SmallVec<[u64; 4]> {
    if shape.len() > 1 { SmallVec::from_slice(shape) } else { SmallVec::new() }
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
