//! A view: some elements of a memory, or all of them, in a shape of their own, as an argument of a launch.
//!
//! A view is a range of the memory's elements and, if it was given one, a shape whose product is the range's
//! length. Both are proved when it is made, so that a launch takes them as they are. It borrows the memory,
//! or owns a handle, and copies nothing. What is rejected, and why, is in the README beside this file.

use super::{FlashMemory, IntoShape, resolve};
use crate::error::Error;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Range, RangeBounds};

/// A view of a [`FlashMemory`], as an argument: see [`FlashMemory::range`], [`view`](FlashMemory::view) and
/// [`rows`](FlashMemory::rows).
///
/// The launch touches these elements and no others of the memory, so launches and guards of its other
/// elements need not wait for it. A kernel sees an array that begins with the view's first element: indices,
/// strides and lengths are those of the view.
///
/// # Examples
/// ```
/// use flash_core::FlashMemory;
/// let grid = (0..12).collect::<FlashMemory<u32>>().with_shape([4, 3])?;
/// let below = grid.rows(1..)?;                    // rows 1 and 2: another offset, and a shape
/// assert_eq!((below.len(), below.shape()), (8, &[4, 2][..]));
/// let tall = below.view([2, 4])?;                 // the same elements in another shape
/// assert_eq!(tall.rows(3..)?.shape(), [2, 1]);
/// let error = grid.rows(2..5).unwrap_err();
/// assert!(error.to_string().contains("rows 2..5"));
/// # Ok::<(), flash_core::Error>(())
/// ```
pub struct MemoryView<'a, T> {
    memory: ViewOwner<'a, T>,
    range: Range<usize>,
    shape: ViewShape,
}

/// The memory of a view.
pub(crate) enum ViewOwner<'a, T> {
    /// Borrowed.
    Lent(&'a FlashMemory<T>),
    /// Owned, for what outlives the caller.
    Own(FlashMemory<T>),
}

/// The extents of a view, without an allocation. No axes: it has no shape. As most have none, extents are
/// written, and copied by [`set`](ViewShape::set), only with axes: every argument of every launch has one.
#[derive(Clone, Copy)]
pub(crate) struct ViewShape {
    axes: u32,
    /// The first `axes` are initialised.
    extents: [MaybeUninit<u64>; MAX_AXES],
}

/// Three dimensions of an index, and a row. What has more axes is seen by `sizes(..)`.
const MAX_AXES: usize = 4;

impl ViewShape {
    /// No shape of its own.
    pub const NONE: ViewShape = ViewShape { axes: 0, extents: [MaybeUninit::uninit(); MAX_AXES] };

    /// A shape of just `len` elements.
    fn new(shape: &[u64], len: usize) -> Result<ViewShape, Error> {
        if shape.is_empty() || shape.len() > MAX_AXES {
            return Err(Error::Shape(format!(
                "expected a view of 1 to {MAX_AXES} axes, found the shape {shape:?}: give a shape of more axes to the submission, with `.sizes(..)`"
            )));
        }
        let product = shape.iter().try_fold(1u64, |all, &extent| all.checked_mul(extent));
        if product != Some(len as u64) {
            return Err(Error::Shape(format!(
                "expected a shape of {len} elements, found {shape:?}, which has {}: pass extents whose product is {len}, or take fewer elements first (`.range(..)?.view(..)`, `.rows(..)`)",
                product.map_or("more than 2^64".to_owned(), |p| p.to_string()),
            )));
        }
        let mut own = ViewShape { axes: shape.len() as u32, ..ViewShape::NONE };
        for (to, &extent) in own.extents.iter_mut().zip(shape) {
            to.write(extent);
        }
        Ok(own)
    }

    /// Sets it to another.
    #[inline(always)]
    pub fn set(&mut self, other: &ViewShape) {
        match other.axes {
            0 => self.axes = 0,
            _ => *self = *other,
        }
    }

    /// True if there is no shape.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.axes == 0
    }

    /// Extent per axis, axis 0 fastest; empty without a shape.
    #[inline]
    pub fn extents(&self) -> &[u64] {
        let extents = &self.extents[..self.axes as usize];
        // SAFETY: the first `axes` are initialised; `MaybeUninit` has the layout of its content.
        unsafe { std::slice::from_raw_parts(extents.as_ptr().cast(), extents.len()) }
    }
}

impl PartialEq for ViewShape {
    // Almost all have no axes.
    #[inline(always)]
    fn eq(&self, other: &ViewShape) -> bool {
        self.axes == other.axes && (self.axes == 0 || self.extents() == other.extents())
    }
}

// Bounds of the functions and not of the impl: as for `FlashMemory`.
impl<T> FlashMemory<T> {
    /// A range of its elements, without a shape, as an argument.
    ///
    /// # Errors
    /// [`Error::Range`] if the range leaves the array.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<MemoryView<'_, T>, Error> {
        self.lend().range(range)
    }

    /// A range of its elements, as an argument that owns the handle: for `exec_async`.
    ///
    /// # Errors
    /// [`Error::Range`] if the range leaves the array.
    pub fn into_range(self, range: impl RangeBounds<usize>) -> Result<MemoryView<'static, T>, Error> {
        self.own().range(range)
    }

    /// All of its elements in a shape, axis 0 fastest, as an argument. The memory keeps the shape that it
    /// has.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shape does not have as many elements, or has more than four axes.
    ///
    /// # Examples
    /// ```
    /// use flash_core::FlashMemory;
    /// let memory = FlashMemory::<f32>::zeroed(12);
    /// assert_eq!(memory.view([4, 3])?.shape(), [4, 3]);
    /// assert!(memory.view([4, 4]).unwrap_err().to_string().contains("expected a shape of 12 elements"));
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn view(&self, shape: impl IntoShape) -> Result<MemoryView<'_, T>, Error> {
        self.lend().view(shape)
    }

    /// All of its elements in a shape, as an argument that owns the handle: for `exec_async`.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn into_view(self, shape: impl IntoShape) -> Result<MemoryView<'static, T>, Error> {
        self.own().view(shape)
    }

    /// A range of indices along the last axis of its shape, as an argument: rows of a matrix, planes of a
    /// cube. Of a memory without a shape: elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the range leaves the axis, or the memory has more than four axes.
    pub fn rows(&self, rows: impl RangeBounds<usize>) -> Result<MemoryView<'_, T>, Error> {
        let len = self.header.len();
        let shape = match self.header.shape() {
            [] => ViewShape::new(&[len as u64], len)?,
            shape => ViewShape::new(shape, len)?,
        };
        MemoryView { shape, ..self.lend() }.rows(rows)
    }

    fn lend(&self) -> MemoryView<'_, T> {
        MemoryView { range: 0..self.header.len(), memory: ViewOwner::Lent(self), shape: ViewShape::NONE }
    }

    fn own(self) -> MemoryView<'static, T> {
        MemoryView { range: 0..self.header.len(), memory: ViewOwner::Own(self), shape: ViewShape::NONE }
    }
}

impl<'a, T> MemoryView<'a, T> {
    /// Number of its elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Extent per axis, axis 0 fastest. Empty if no shape was given.
    pub fn shape(&self) -> &[u64] {
        self.shape.extents()
    }

    /// A range of its elements, counted from its first, without a shape.
    ///
    /// # Errors
    /// [`Error::Range`] if the range leaves the view.
    pub fn range(self, range: impl RangeBounds<usize>) -> Result<MemoryView<'a, T>, Error> {
        let range = resolve(range, self.len())?;
        let range = self.range.start + range.start..self.range.start + range.end;
        Ok(MemoryView { range, shape: ViewShape::NONE, ..self })
    }

    /// The same elements in another shape, axis 0 fastest.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shape does not have as many elements, or has more than four axes.
    pub fn view(self, shape: impl IntoShape) -> Result<MemoryView<'a, T>, Error> {
        let shape = ViewShape::new(&shape.into_shape(), self.len())?;
        Ok(MemoryView { shape, ..self })
    }

    /// A range of indices along the last axis of its shape; without a shape, elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the range leaves the axis.
    pub fn rows(self, rows: impl RangeBounds<usize>) -> Result<MemoryView<'a, T>, Error> {
        let mut shape = match self.shape.is_none() {
            true => ViewShape::new(&[self.len() as u64], self.len())?,
            false => self.shape,
        };
        let last = shape.axes as usize - 1;
        let count = shape.extents()[last] as usize;
        let rows = resolve(rows, count).map_err(|error| match error {
            Error::Range { start, end, .. } => Error::Shape(format!(
                "expected rows inside 0..{count}, the last axis of the shape {:?}, found the rows {start}..{end}: pass fewer rows",
                shape.extents()
            )),
            other => other,
        })?;
        // The product of all extents is the length, so that of the first ones does not overflow.
        let row: usize = shape.extents()[..last].iter().map(|&extent| extent as usize).product();
        let range = self.range.start + rows.start * row..self.range.start + rows.end * row;
        shape.extents[last].write(rows.len() as u64);
        Ok(MemoryView { range, shape, ..self })
    }

    pub(crate) fn into_parts(self) -> (ViewOwner<'a, T>, Range<usize>, ViewShape) {
        (self.memory, self.range, self.shape)
    }
}

impl<T> Clone for MemoryView<'_, T> {
    /// Another view of the same elements.
    fn clone(&self) -> Self {
        let memory = match &self.memory {
            ViewOwner::Lent(memory) => ViewOwner::Lent(memory),
            ViewOwner::Own(memory) => ViewOwner::Own(memory.clone()),
        };
        MemoryView { memory, range: self.range.clone(), shape: self.shape }
    }
}

impl<T> fmt::Debug for MemoryView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryView({:?}", self.range)?;
        match self.shape() {
            [] => f.write_str(")"),
            shape => write!(f, ", shape {shape:?})"),
        }
    }
}
