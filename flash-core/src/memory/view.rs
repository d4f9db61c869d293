//! A view: some elements of a memory, or all of them, in a shape of their own, as an argument of a launch.
//!
//! A view is a range of the memory's elements and, if it was given one, a shape. Without gaps, the product of
//! the shape is the range's length. With gaps there is a stride per axis, no two indices name the same
//! element, and the range is from the first element that one names to the last. All of this is proved when
//! the view is made, so that a launch takes it as it is. A view borrows the memory, or owns a handle, and
//! copies nothing. What is rejected, and why, is in the README beside this file.

use super::{FlashMemory, IntoShape, resolve};
use crate::error::Error;
use flash_types::index::IntoBox;
use smallvec::SmallVec;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Range, RangeBounds};

/// A view of a [`FlashMemory`], as an argument: see [`FlashMemory::range`], [`view`](FlashMemory::view),
/// [`rows`](FlashMemory::rows), [`section`](FlashMemory::section), [`step_by`](FlashMemory::step_by) and
/// [`permuted`](FlashMemory::permuted).
///
/// The launch touches these elements and no others of the memory. Launches and guards of elements before its
/// first and after its last need not wait for it. A kernel sees an array that begins with the view's first
/// element: indices and strides are those of the view, and so is the length, if it has no gaps.
///
/// # Gaps
/// A section, a step or other axes may leave elements of the memory between those of the view. Such a view is
/// for arguments that are an `Item` (also of a `Row`, a `Block` or a `Tile`, whose elements have to be
/// adjacent) of implementations that ask for strides. Those of `CpuItem`, `CpuSpan` and `CpuTeam` do, and the
/// texts of `#[kernel(devices)]`. Files named by `#[implementations(..)]` do if they say `strides`. If it is
/// adjacent along axis 0, it is also for a `Window` of a kernel by `#[kernel(devices)]` that uses `at`,
/// `begin` and `end` of its windows alone. To others the launch is refused: copy the elements
/// ([`Pipeline::copy`](crate::Pipeline::copy)).
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

/// The extents and strides of a view, without an allocation. No axes: it has no shape. As most have none,
/// extents are written, and copied by [`set`](ViewShape::set), only with axes: every argument of every launch
/// has one.
#[derive(Clone, Copy)]
// What almost every use reads stands first.
#[repr(C)]
pub(crate) struct ViewShape {
    axes: u32,
    /// It has strides, for at most [`MAX_GAP_AXES`] axes. Otherwise its elements are adjacent.
    gaps: bool,
    /// The first `axes` are initialised.
    extents: [MaybeUninit<u64>; MAX_AXES],
    /// The first `axes` are initialised, if it has gaps.
    strides: [MaybeUninit<u64>; MAX_GAP_AXES],
}

/// Three dimensions of an index, and a row. What has more axes is seen by `sizes(..)`.
const MAX_AXES: usize = 4;
/// Boxes of elements have three axes.
const MAX_GAP_AXES: usize = 3;

/// The strides of a shape without gaps. They overflow only in an array without elements.
fn adjacent(extents: &[u64]) -> SmallVec<[u64; 4]> {
    let next = |stride: &mut u64, extent: &u64| {
        let own = *stride;
        *stride = own.saturating_mul(*extent);
        Some(own)
    };
    extents.iter().scan(1, next).collect()
}

/// The extents of a box of an array, by its ranges, and the number of its first element, if it has elements.
/// `None`: there are not as many ranges as axes, or one leaves its axis.
pub(crate) fn box_of(
    extents: &[u64],
    strides: &[u64],
    ranges: &[Range<u64>],
) -> Option<(SmallVec<[u64; 4]>, u64)> {
    let is_inside = |(range, extent): (&Range<u64>, &u64)| range.start <= range.end && range.end <= *extent;
    if ranges.len() != extents.len() || !ranges.iter().zip(extents).all(is_inside) {
        return None;
    }
    let first = ranges
        .iter()
        .zip(strides)
        .fold(0u64, |first, (range, stride)| first.saturating_add(range.start.saturating_mul(*stride)));
    Some((ranges.iter().map(|range| range.end - range.start).collect(), first))
}

/// An array as a launch sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrayLayout<'a> {
    /// Extent per axis, axis 0 first; empty: it has no shape.
    pub extents: &'a [u64],
    /// Elements from neighbour to neighbour along each axis; empty: there are no gaps, and axis 0 is fastest.
    pub strides: &'a [u64],
}

impl<'a> ArrayLayout<'a> {
    /// Adjacent elements.
    pub fn of(extents: &'a [u64]) -> ArrayLayout<'a> {
        ArrayLayout { extents, strides: &[] }
    }

    /// Its strides, or those of adjacent elements in a shape that it is seen in.
    pub fn strides_for(&self, extents: &[u64]) -> SmallVec<[u64; 4]> {
        if self.strides.is_empty() { adjacent(extents) } else { self.strides.into() }
    }

    /// Elements from the first to the last, if it has a stride and an element along each of at most three
    /// axes, and the neighbours along an axis are farther apart than all that lie along axes of smaller
    /// strides: then no two indices name the same element. For strides that are not those of a view.
    #[cfg(feature = "recordings")]
    pub fn span(&self) -> Option<u64> {
        let axes = 1..=MAX_GAP_AXES;
        if !axes.contains(&self.extents.len()) || self.strides.len() != self.extents.len() {
            return None;
        }
        self.by_stride().iter().try_fold(1u64, |span, &(extent, stride)| {
            let along = extent.checked_sub(1)?.checked_mul(stride)?;
            if extent > 1 && stride < span { None } else { span.checked_add(along) }
        })
    }

    /// True if an element is one of its own, counted from its first. It has a [`span`](Self::span).
    #[cfg(feature = "recordings")]
    pub fn has(&self, element: u64) -> bool {
        let rest = self
            .by_stride()
            .iter()
            .rev()
            .filter(|(extent, _)| *extent > 1)
            .try_fold(element, |rest, &(extent, stride)| (rest / stride < extent).then_some(rest % stride));
        rest == Some(0)
    }

    /// Extents and strides, the smallest stride first.
    #[cfg(feature = "recordings")]
    fn by_stride(&self) -> SmallVec<[(u64, u64); 4]> {
        let mut axes: SmallVec<_> = self.extents.iter().copied().zip(self.strides.iter().copied()).collect();
        axes.sort_unstable_by_key(|(_, stride)| *stride);
        axes
    }
}

impl ViewShape {
    /// No shape of its own.
    pub const NONE: ViewShape = ViewShape {
        axes: 0,
        gaps: false,
        extents: [MaybeUninit::uninit(); MAX_AXES],
        strides: [MaybeUninit::uninit(); MAX_GAP_AXES],
    };

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
        Ok(ViewShape::of(shape, &[]))
    }

    /// These extents and strides, of which there may be none.
    pub fn of(extents: &[u64], strides: &[u64]) -> ViewShape {
        let mut own = ViewShape { axes: extents.len() as u32, gaps: !strides.is_empty(), ..ViewShape::NONE };
        for (to, &extent) in own.extents.iter_mut().zip(extents) {
            to.write(extent);
        }
        for (to, &stride) in own.strides.iter_mut().zip(strides) {
            to.write(stride);
        }
        own
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

    /// True if its elements are not adjacent, axis 0 fastest.
    #[inline(always)]
    pub fn has_gaps(&self) -> bool {
        self.axes != 0 && self.gaps
    }

    /// Elements from neighbour to neighbour along each axis; empty without gaps.
    #[inline]
    pub fn strides(&self) -> &[u64] {
        let strides = if self.has_gaps() { &self.strides[..self.axes as usize] } else { &[] };
        // SAFETY: with gaps the first `axes` are initialised; `MaybeUninit` has the layout of its content.
        unsafe { std::slice::from_raw_parts(strides.as_ptr().cast(), strides.len()) }
    }

    /// Both.
    #[inline]
    pub fn layout(&self) -> ArrayLayout<'_> {
        ArrayLayout { extents: self.extents(), strides: self.strides() }
    }
}

impl PartialEq for ViewShape {
    // Almost all have no axes.
    #[inline(always)]
    fn eq(&self, other: &ViewShape) -> bool {
        self.axes == other.axes && (self.axes == 0 || self.layout() == other.layout())
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
        self.shaped()?.rows(rows)
    }

    /// A box of its elements: a range of indices along each axis of its shape, axis 0 first. Without a shape,
    /// one range of elements. It has the extents of the box, and [gaps](MemoryView#gaps) where the memory has
    /// elements between two of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of ranges is not that of the axes, one of them leaves its axis, or
    /// there would be gaps along more than three axes.
    ///
    /// # Examples
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::FlashMemory;
    /// let grid = (0..12).collect::<FlashMemory<u32>>().with_shape([4, 3])?;
    /// let inner = grid.section([1..3, 1..3])?;
    /// assert_eq!((inner.len(), inner.shape()), (4, &[2, 2][..]));
    /// let packed = FlashMemory::<u32>::zeroed(4);
    /// rt.pipeline().copy(inner, &packed).exec()?;
    /// assert_eq!(*packed.read()?, [5, 6, 9, 10]);
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn section(&self, ranges: impl IntoBox) -> Result<MemoryView<'_, T>, Error> {
        self.shaped()?.section(ranges)
    }

    /// Its elements at every `steps[a]`-th index along each axis `a` of its shape, the first included.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of steps is not that of the axes, a step is 0, or there would be gaps
    /// along more than three axes.
    ///
    /// # Examples
    /// ```
    /// use flash_core::FlashMemory;
    /// let grid = FlashMemory::<f32>::zeroed([5, 4]);
    /// assert_eq!(grid.step_by([2, 2])?.shape(), [3, 2]);
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn step_by(&self, steps: impl IntoShape) -> Result<MemoryView<'_, T>, Error> {
        self.shaped()?.step_by(steps)
    }

    /// Its elements with their axes in another order: axis `a` of the view is axis `axes[a]` of the memory.
    ///
    /// # Errors
    /// [`Error::Shape`] if not each axis of the memory is named once, or there would be gaps along more than
    /// three axes.
    ///
    /// # Examples
    /// ```
    /// use flash_core::FlashMemory;
    /// let matrix = FlashMemory::<f32>::zeroed([5, 4]);
    /// assert_eq!(matrix.permuted([1, 0])?.shape(), [4, 5]);       // the transpose
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    #[doc(alias = "transpose")]
    pub fn permuted(&self, axes: impl IntoShape) -> Result<MemoryView<'_, T>, Error> {
        self.shaped()?.permuted(axes)
    }

    /// All of it in its own shape.
    fn shaped(&self) -> Result<MemoryView<'_, T>, Error> {
        let len = self.header.len();
        let shape = match self.header.shape() {
            [] => ViewShape::new(&[len as u64], len)?,
            shape => ViewShape::new(shape, len)?,
        };
        Ok(MemoryView { shape, ..self.lend() })
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
        match self.has_gaps() {
            false => self.range.len(),
            // All of these are elements of a memory.
            true => self.shape().iter().product::<u64>() as usize,
        }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Extent per axis, axis 0 fastest. Empty if no shape was given.
    pub fn shape(&self) -> &[u64] {
        self.shape.extents()
    }

    /// Elements of the memory from neighbour to neighbour along each axis. Empty if the view has no
    /// [gaps](MemoryView#gaps): its elements are adjacent then, axis 0 fastest.
    pub fn strides(&self) -> &[u64] {
        self.shape.strides()
    }

    /// True if there are elements of the memory between those of the view, or their order is another one.
    pub fn has_gaps(&self) -> bool {
        self.shape.has_gaps()
    }

    /// A range of its elements, counted from its first, without a shape.
    ///
    /// # Errors
    /// [`Error::Range`] if the range leaves the view. [`Error::Shape`] if the view has gaps.
    pub fn range(self, range: impl RangeBounds<usize>) -> Result<MemoryView<'a, T>, Error> {
        if self.has_gaps() {
            return Err(Error::Shape(format!(
                "expected a view of adjacent elements, found one with gaps of the shape {:?}: take a `.section(..)` of it, which has an index per axis",
                self.shape()
            )));
        }
        let range = resolve(range, self.len())?;
        let range = self.range.start + range.start..self.range.start + range.end;
        Ok(MemoryView { range, shape: ViewShape::NONE, ..self })
    }

    /// The same elements in another shape, axis 0 fastest. With gaps, only axes of extent 1 can come or go.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shape does not have as many elements, or has more than four axes, or the view
    /// has gaps and the shape differs in more than axes of extent 1.
    pub fn view(self, shape: impl IntoShape) -> Result<MemoryView<'a, T>, Error> {
        let extents = shape.into_shape();
        let shape = ViewShape::new(&extents, self.len())?;
        if !self.has_gaps() {
            return Ok(MemoryView { shape, ..self });
        }
        let mut axes = self.shape().iter().zip(self.strides()).filter(|(extent, _)| **extent != 1);
        let stride_of = |&extent: &u64| match extent {
            1 => Some(1),
            _ => axes.next().filter(|(own, _)| **own == extent).map(|(_, stride)| *stride),
        };
        let strides: Option<SmallVec<[u64; 4]>> = extents.iter().map(stride_of).collect();
        match strides {
            Some(strides) => self.with(extents, strides, 0),
            None => Err(Error::Shape(format!(
                "expected the shape {:?} of a view with gaps, but for axes of extent 1, found {extents:?}: copy its elements to an array of their own first",
                self.shape()
            ))),
        }
    }

    /// A range of indices along the last axis of its shape; without a shape, elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the range leaves the axis.
    pub fn rows(self, rows: impl RangeBounds<usize>) -> Result<MemoryView<'a, T>, Error> {
        let (mut extents, strides) = self.axes();
        let last = extents.len() - 1;
        let count = extents[last] as usize;
        let rows = resolve(rows, count).map_err(|error| match error {
            Error::Range { start, end, .. } => Error::Shape(format!(
                "expected rows inside 0..{count}, the last axis of the shape {:?}, found the rows {start}..{end}: pass fewer rows",
                &extents[..]
            )),
            other => other,
        })?;
        extents[last] = rows.len() as u64;
        let first = rows.start * strides[last] as usize;
        self.with(extents, strides, first)
    }

    /// A box of its elements: a range of indices along each axis of its shape.
    ///
    /// # Errors
    /// As [`FlashMemory::section`].
    pub fn section(self, ranges: impl IntoBox) -> Result<MemoryView<'a, T>, Error> {
        let ((extents, strides), ranges) = (self.axes(), ranges.into_box());
        let Some((own, first)) = box_of(&extents, &strides, &ranges) else {
            return Err(Error::Shape(format!(
                "expected a range of indices for each axis of the shape {:?}, found {ranges:?}",
                &extents[..]
            )));
        };
        self.with(own, strides, first as usize)
    }

    /// Its elements at every `steps[a]`-th index along each axis `a`, the first included.
    ///
    /// # Errors
    /// As [`FlashMemory::step_by`].
    pub fn step_by(self, steps: impl IntoShape) -> Result<MemoryView<'a, T>, Error> {
        let ((mut extents, mut strides), steps) = (self.axes(), steps.into_shape());
        if steps.len() != extents.len() || steps.contains(&0) {
            return Err(Error::Shape(format!(
                "expected a step of at least 1 for each axis of the shape {:?}, found {:?}",
                &extents[..],
                &steps[..]
            )));
        }
        for ((extent, stride), step) in extents.iter_mut().zip(&mut strides).zip(&steps) {
            *extent = extent.div_ceil(*step);
            // An axis with more than one of its elements left has at least that many.
            *stride = stride.saturating_mul(*step);
        }
        self.with(extents, strides, 0)
    }

    /// Its elements with their axes in another order: axis `a` of the result is its axis `axes[a]`.
    ///
    /// # Errors
    /// As [`FlashMemory::permuted`].
    pub fn permuted(self, axes: impl IntoShape) -> Result<MemoryView<'a, T>, Error> {
        let ((extents, strides), axes) = (self.axes(), axes.into_shape());
        if axes.len() != extents.len() || !(0..extents.len() as u64).all(|axis| axes.contains(&axis)) {
            return Err(Error::Shape(format!(
                "expected each of the {} axes of the shape {:?} once, found {:?}",
                extents.len(),
                &extents[..],
                &axes[..]
            )));
        }
        let order = |of: &[u64]| axes.iter().map(|&axis| of[axis as usize]).collect();
        let (extents, strides) = (order(&extents), order(&strides));
        self.with(extents, strides, 0)
    }

    /// Its extents and strides: of all elements in one row, if it has no shape.
    fn axes(&self) -> (SmallVec<[u64; 4]>, SmallVec<[u64; 4]>) {
        let len = [self.range.len() as u64];
        let extents: &[u64] = if self.shape.is_none() { &len } else { self.shape() };
        let strides = if self.has_gaps() { self.strides().into() } else { adjacent(extents) };
        (extents.into(), strides)
    }

    /// The elements with these extents and strides whose first one is its element `first`, all of which lie
    /// inside of it.
    fn with(
        self,
        extents: SmallVec<[u64; 4]>,
        mut strides: SmallVec<[u64; 4]>,
        first: usize,
    ) -> Result<MemoryView<'a, T>, Error> {
        if extents.contains(&0) {
            let (range, shape) = (self.range.start..self.range.start, ViewShape::of(&extents, &[]));
            return Ok(MemoryView { range, shape, ..self });
        }
        let start = self.range.start + first;
        // Along an axis with one index there is no neighbour.
        let gapless = adjacent(&extents);
        if (0..extents.len()).all(|axis| extents[axis] == 1 || strides[axis] == gapless[axis]) {
            let end = start + extents.iter().product::<u64>() as usize;
            return Ok(MemoryView { range: start..end, shape: ViewShape::of(&extents, &[]), ..self });
        }
        if extents.len() > MAX_GAP_AXES {
            return Err(Error::Shape(format!(
                "expected a view with gaps of at most {MAX_GAP_AXES} axes, found the shape {:?}: take axes of extent 1 away first (`.view(..)`), or copy its elements",
                &extents[..]
            )));
        }
        let (mut last, mut adjacent) = (0, 1);
        for (stride, extent) in strides.iter_mut().zip(&extents) {
            match extent {
                1 => *stride = adjacent,
                _ => last += (*stride * (extent - 1)) as usize,
            }
            adjacent = *stride * extent;
        }
        Ok(MemoryView { range: start..start + last + 1, shape: ViewShape::of(&extents, &strides), ..self })
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
            shape if self.has_gaps() => write!(f, ", shape {shape:?}, strides {:?})", self.strides()),
            shape => write!(f, ", shape {shape:?})"),
        }
    }
}
