//! Memory shared between the host program and its launches.
//!
//! A [`FlashMemory`] is a handle: cloned, passed by reference, ordered by the runtime. The host reaches its
//! contents through guards only.
//!
//! One word per array counts the guards and launches that use it (`state`). Its `directory` says where its
//! elements are current, if not just on the host, and `residence` is the short form of that for one device.
//! `order` is the queue of uses that have to wait, or that want only a part of the array. `coherence` moves
//! elements between the memories of `device`. `block` places an array on the host, on pages that agents have,
//! too, if there are any (`shared_pages`); how much memory of the host arrays take is limited by
//! `host_budget`.

mod any;
pub(crate) mod block;
pub(crate) mod coherence;
pub(crate) mod device;
pub(crate) mod directory;
pub(crate) mod fast_path;
mod guard;
mod host_budget;
pub(crate) mod incoming;
mod inner;
pub(crate) mod order;
pub(crate) mod own_guards;
pub(crate) mod region;
mod reserved;
pub(crate) mod residence;
pub(crate) mod routes;
mod row_offsets;
mod shared_pages;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod transfer;
mod view;

pub use any::{AnyMemory, AnyReadGuard, AnyType, AnyWriteGuard};
pub(crate) use guard::PATIENCE;
#[cfg(feature = "recordings")]
pub(crate) use guard::{ByteGuard, contents};
pub use guard::{ReadGuard, WriteGuard};
pub use host_budget::{host_budget, set_host_budget};
pub(crate) use inner::{ArrayInner, GRANULE};
pub use row_offsets::RowOffsets;
pub use transfer::{Moved, Transfers};
pub use view::MemoryView;
pub(crate) use view::{ArrayLayout, ViewOwner, ViewShape, box_of};

use crate::error::Error;
use flash_backend::fork;
use flash_types::descriptor::Element;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::{Arc, Once};

/// Called before the first launch: a child of `fork` is marked from then on ([`fork`]), has the locks that it
/// may need, and is kept off the fast paths of devices.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        order::watch_forks();
        fast_path::watch_forks();
        fork::watch();
    });
}

/// An array that launches read and write: an owning handle, always initialised, with a shape.
///
/// Large arrays that are made here ([`zeroed`](Self::zeroed), collected, copied) begin at multiples of 64
/// bytes, if the size of their elements divides 16, and each at another offset in its page. If two arrays
/// begin at the same offset, some CPUs hold up loads of one for recent stores to the other. A vector that is
/// taken stays where it is.
///
/// # Examples
/// ```
/// use flash_core::FlashMemory;
/// let a = FlashMemory::from(vec![1.0f32, 2.0, 3.0]);
/// let b = a.clone();                                   // the same memory
/// a.write()?[1] = 5.0;
/// assert_eq!(*b.read()?, [1.0, 5.0, 3.0]);
/// let grid = FlashMemory::<f64>::zeroed([4, 3]);       // axis 0 is fastest
/// assert_eq!((grid.len(), grid.shape()), (12, &[4, 3][..]));
/// # Ok::<(), flash_core::Error>(())
/// ```
pub struct FlashMemory<T> {
    header: Arc<ArrayInner>,
    element: PhantomData<T>,
}

/// The shape of an array: a length, or an extent per axis, axis 0 fastest.
pub trait IntoShape {
    /// Extent per axis.
    fn into_shape(self) -> SmallVec<[u64; 4]>;
}

macro_rules! shapes {
    ($($t:ty)*) => {$(
        impl IntoShape for $t {
            fn into_shape(self) -> SmallVec<[u64; 4]> {
                smallvec::smallvec![self as u64]
            }
        }
        impl<const N: usize> IntoShape for [$t; N] {
            fn into_shape(self) -> SmallVec<[u64; 4]> {
                self.iter().map(|&n| n as u64).collect()
            }
        }
        impl IntoShape for &[$t] {
            fn into_shape(self) -> SmallVec<[u64; 4]> {
                self.iter().map(|&n| n as u64).collect()
            }
        }
    )*};
}
shapes! { usize u32 u64 }

impl IntoShape for i32 {
    /// For literals; a negative length is taken as no elements.
    fn into_shape(self) -> SmallVec<[u64; 4]> {
        smallvec::smallvec![self.max(0) as u64]
    }
}

impl<const N: usize> IntoShape for [i32; N] {
    fn into_shape(self) -> SmallVec<[u64; 4]> {
        self.iter().map(|&n| n.max(0) as u64).collect()
    }
}

// Bounds of the functions and not of the impl: a type that is no element gets a message that says what to do.
impl<T> FlashMemory<T> {
    /// An array of zeros.
    ///
    /// One of at least 4 MiB takes only address space at first. It takes memory of the host when the host
    /// first writes it, or fetches what a device wrote; if there is too little then, the guard or launch
    /// fails.
    ///
    /// # Panics
    /// Where [`try_zeroed`](Self::try_zeroed) gives an error.
    pub fn zeroed(shape: impl IntoShape) -> FlashMemory<T>
    where
        T: Element,
    {
        FlashMemory::try_zeroed(shape).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An array of zeros, as [`zeroed`](Self::zeroed).
    ///
    /// # Errors
    /// [`Error::Shape`] if it is larger than any memory can be, [`Error::OutOfMemory`] if the system has not
    /// as much.
    ///
    /// # Examples
    /// ```
    /// use flash_core::{Error, FlashMemory};
    /// let error = FlashMemory::<u8>::try_zeroed(1u64 << 62).unwrap_err();
    /// assert!(matches!(error, Error::OutOfMemory { wanted, .. } if wanted == 1 << 62));
    /// ```
    pub fn try_zeroed(shape: impl IntoShape) -> Result<FlashMemory<T>, Error>
    where
        T: Element,
    {
        let shape = shape.into_shape();
        let len = shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b)).and_then(|n| usize::try_from(n).ok());
        let Some((len, layout)) = len.and_then(|len| Some((len, inner::aligned::<T>(len)?))) else {
            return Err(Error::Shape(format!(
                "an array of shape {shape:?} with elements of {} bytes is larger than memory can be: use smaller extents",
                size_of::<T>()
            )));
        };
        let shape = if shape.len() > 1 { shape } else { SmallVec::new() };
        Ok(FlashMemory {
            header: ArrayInner::zeroed(len, size_of::<T>(), layout, shape)?,
            element: PhantomData,
        })
    }
}

impl<T: Element> FlashMemory<T> {
    /// The same memory with a shape, axis 0 fastest.
    ///
    /// # Errors
    /// [`Error::Shape`] if the product of the extents is not the length, or other handles are alive:
    /// the shape is the memory's, not the handle's. [`Error::Poisoned`] if a launch that should have
    /// written it failed. What devices have of it comes to the host first.
    pub fn with_shape(self, shape: impl IntoShape) -> Result<FlashMemory<T>, Error> {
        let shape = shape.into_shape();
        let product = shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b));
        let len = self.len();
        if product != Some(len as u64) {
            return Err(Error::Shape(format!(
                "a shape of {shape:?} has {} elements, the memory has {len}: pass extents whose product is {len}",
                product.map_or("more than 2^64".to_owned(), |p| p.to_string()),
            )));
        }
        // The directory knows the old shape, so it must end first.
        self.header.come_home()?;
        match ArrayInner::with_shape(self.header, shape) {
            Ok(header) => Ok(FlashMemory { header, element: PhantomData }),
            Err(_) => Err(Error::Shape(
                "the memory has other handles or is in a pipeline: give it its shape before it is cloned"
                    .into(),
            )),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.header.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if this is the only handle to the memory, and no pipeline owns another: nothing else can change
    /// it as long as this handle is not cloned or lent.
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.header) == 1
    }

    /// Extent per axis, axis 0 fastest. Empty if no shape was given.
    pub fn shape(&self) -> &[u64] {
        self.header.shape()
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// [`Error::Borrowed`] if a write guard is alive, [`Error::Poisoned`] if the launch that should
    /// have written it failed, [`Error::Nested`] inside a kernel. Waits for launches that write it.
    ///
    /// A thread that holds a guard waits for no pipeline that waits for guards: it gets
    /// [`Error::Borrowed`], but for what its guards read already.
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_, T>, Error> {
        ReadGuard::new(&self.header, 0..self.len())
    }

    /// Reads a range of elements. Of pipelines started by
    /// [`exec_async`](crate::runtime::Pipeline::exec_async), it waits only for those that write some of the
    /// range. While it is alive, launches that write some of the range wait, or are refused.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::Range`] if the range leaves the array.
    #[track_caller]
    pub fn read_range(&self, range: impl RangeBounds<usize>) -> Result<ReadGuard<'_, T>, Error> {
        let range = self.resolve(range)?;
        ReadGuard::new(&self.header, range)
    }

    /// Reads one element: for launches and guards it counts as a launch that reads, so that they wait for it,
    /// and it waits for them. For a write guard of another thread it waits up to a second.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub fn get(&self, i: usize) -> Result<T, Error> {
        let range = self.resolve(i..i.saturating_add(1))?;
        guard::element(&self.header, range.start as u64)
    }

    /// A copy of all of it. Waits as [`get`](Self::get) does.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        guard::contents(&self.header)
    }

    /// All of it as a vector. It is not copied if the memory was made of a vector, and this is its only
    /// handle.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Examples
    /// ```
    /// use flash_core::FlashMemory;
    /// let values = vec![1.0f32; 1000];
    /// let address = values.as_ptr();
    /// let values = FlashMemory::from(values).into_vec()?;
    /// assert_eq!(values.as_ptr(), address);
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn into_vec(self) -> Result<Vec<T>, Error> {
        if !self.is_unique() || !self.header.is_of_vec::<T>() {
            return self.to_vec();
        }
        self.header.come_home()?;
        match Arc::try_unwrap(self.header) {
            Ok(inner) => Ok(inner.into_vec()),
            // The runtime looks at it just now.
            Err(header) => guard::contents(&header),
        }
    }

    /// Sets all elements, on the host. What devices have of them is not fetched. Heals a poisoned array.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<(), Error> {
        WriteGuard::overwriting(&self.header).map(|mut guard| guard.fill(value))
    }

    /// Reads and writes all of it. Heals a poisoned array.
    ///
    /// # Errors
    /// [`Error::Borrowed`] if any guard is alive, [`Error::Nested`] inside a kernel. Waits for
    /// launches that use it, as [`read`](Self::read) does.
    #[track_caller]
    pub fn write(&self) -> Result<WriteGuard<'_, T>, Error> {
        WriteGuard::new(&self.header)
    }

    fn resolve(&self, range: impl RangeBounds<usize>) -> Result<Range<usize>, Error> {
        resolve(range, self.len())
    }

    #[inline]
    pub(crate) fn header(&self) -> &ArrayInner {
        &self.header
    }

    pub(crate) fn into_header(self) -> Arc<ArrayInner> {
        self.header
    }
}

/// A range of `len` things.
///
/// # Errors
/// [`Error::Range`] if it is none of them.
fn resolve(range: impl RangeBounds<usize>, len: usize) -> Result<Range<usize>, Error> {
    let start = match range.start_bound() {
        Bound::Included(&s) => s,
        Bound::Excluded(&s) => s.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&e) => e.saturating_add(1),
        Bound::Excluded(&e) => e,
        Bound::Unbounded => len,
    };
    if start > end || end > len {
        return Err(Error::Range { start, end, len });
    }
    Ok(start..end)
}

impl<T> Clone for FlashMemory<T> {
    /// Another handle to the same memory.
    fn clone(&self) -> Self {
        FlashMemory { header: self.header.clone(), element: PhantomData }
    }
}

impl<T: Element> From<Vec<T>> for FlashMemory<T> {
    /// Takes the vector without copying.
    fn from(vec: Vec<T>) -> Self {
        FlashMemory { header: ArrayInner::of_vec(vec, 0), element: PhantomData }
    }
}

impl<T: Element, const N: usize> From<[T; N]> for FlashMemory<T> {
    fn from(array: [T; N]) -> Self {
        Vec::from(array).into()
    }
}

impl<T: Element> From<&[T]> for FlashMemory<T> {
    /// Copies the slice.
    fn from(slice: &[T]) -> Self {
        if let Some(header) = ArrayInner::on_shared_pages::<T>(slice.len()) {
            // SAFETY: room for as many elements, of which nothing else knows.
            unsafe { header.data().cast::<T>().copy_from_nonoverlapping(slice.as_ptr(), slice.len()) };
            return FlashMemory { header, element: PhantomData };
        }
        let (mut vec, in_front) = block::vec(slice.len());
        vec.extend_from_slice(slice);
        FlashMemory { header: ArrayInner::of_vec(vec, in_front), element: PhantomData }
    }
}

impl<T: Element> FromIterator<T> for FlashMemory<T> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut iter = iter.into_iter();
        let least = iter.size_hint().0;
        if let Some(header) = ArrayInner::on_shared_pages::<T>(least) {
            // SAFETY: as many elements, which are zeros, and of which nothing else knows.
            let all = unsafe { std::slice::from_raw_parts_mut(header.data().cast::<T>(), least) };
            let filled = all.iter_mut().zip(iter.by_ref()).fold(0, |filled, (to, value)| {
                *to = value;
                filled + 1
            });
            let next = if filled == least { iter.next() } else { None };
            if filled == least && next.is_none() {
                return FlashMemory { header, element: PhantomData };
            }
            // It was wrong about its length, or did not know it.
            let (mut vec, in_front) = block::vec(filled);
            vec.extend_from_slice(&all[..filled]);
            vec.extend(next.into_iter().chain(iter));
            return FlashMemory { header: ArrayInner::of_vec(vec, in_front), element: PhantomData };
        }
        let (mut vec, in_front) = block::vec(least);
        vec.extend(iter);
        FlashMemory { header: ArrayInner::of_vec(vec, in_front), element: PhantomData }
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for FlashMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match guard::contents::<T>(&self.header) {
            Ok(data) => f.debug_tuple("FlashMemory").field(&data).finish(),
            Err(error) => write!(f, "FlashMemory({error})"),
        }
    }
}
