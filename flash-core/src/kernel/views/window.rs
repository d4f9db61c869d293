//! [`Window`](super::Window): the part of an array that the partition map gives, by global index.

use super::part::{axes, has, missing, outside};
use crate::kernel::Element;
use flash_types::abi::{self, Part};
use std::marker::PhantomData;
use std::ops::Range;

/// The view of a `Window` in every door: elements of the array by their global index, as far as they are in
/// the part that this launch has. Without a cut that is all of the array.
///
/// ```
/// use flash_core::kernel::views::{Item, Read, Window, Write};
/// use flash_core::{KernelDefinition, kernel::{CpuItem, Index}};
///
/// /// One step of the heat equation; `from` has the shape of the launch.
/// #[derive(KernelDefinition)]
/// #[kernel(name = "doc.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
/// struct Heat<'a> {
///     from: Window<'a, Read<f32>>,
///     to: Item<'a, Write<f32>>,
/// }
///
/// struct Plain;
/// impl CpuItem<Heat<'_>> for Plain {
///     fn item(ix: Index<2>, k: HeatItem<'_>) {
///         let at = |x: usize, y: usize| k.from.at([x, y, 0]);
///         let (x, y) = (ix[0], ix[1]);
///         // The border is not launched.
///         let around = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
///         k.to.set(at(x, y) + 0.25 * (around - 4.0 * at(x, y)));
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct WindowView<'k, T> {
    data: *const T,
    len: usize,
    part: Part,
    /// Where that is from; NULL: it is all of the array. For errors: what a view has itself stays in
    /// registers.
    given: *const Part,
    /// Elements that are certainly present, without a check of their axes.
    first: usize,
    count: usize,
    borrow: PhantomData<&'k T>,
}

// SAFETY: it reads elements that are not written while it lives, as a `&[T]` does.
unsafe impl<T: Sync> Send for WindowView<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for WindowView<'_, T> {}

impl<'k, T: Element> WindowView<'k, T> {
    /// # Safety
    /// `arg` is an array of `T` whose part (all of it, if it has none) is not written during `'k`.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn new(arg: &abi::Arg) -> Self {
        debug_assert_eq!(arg.element_size as usize, size_of::<T>());
        let len = arg.len as usize;
        // SAFETY: a part lives as long as the launch.
        let (part, first, count) = match unsafe { arg.part.as_ref() } {
            Some(part) => {
                let (first, count) = contiguous(part, len);
                (*part, first, count)
            }
            None => (all(len), 0, len),
        };
        WindowView {
            data: arg.data.cast_const().cast(),
            len,
            part,
            given: arg.part,
            first,
            count,
            borrow: PhantomData,
        }
    }

    /// Number of elements of the array, not of the part.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the array has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first index of the part along each axis of the array's shape.
    #[inline]
    pub fn begin(&self) -> [usize; 3] {
        self.part.begin.map(|begin| begin as usize)
    }

    /// One past the last index of the part along each axis of the array's shape; 1 for axes that the array
    /// does not have.
    #[inline]
    pub fn end(&self) -> [usize; 3] {
        self.part.end.map(|end| end as usize)
    }

    /// Elements from neighbour to neighbour along axes 1 and 2 of the array's shape: the extent of axis 0,
    /// and that of the first two together; all elements, for an array without a shape.
    #[inline]
    pub fn strides(&self) -> [usize; 2] {
        self.part.stride.map(|stride| stride as usize)
    }

    /// Element number `i` of the array. Panics if it is not in the part.
    #[inline]
    #[track_caller]
    pub fn get(&self, i: usize) -> T {
        if i.wrapping_sub(self.first) >= self.count {
            match self.count {
                // The part's elements are not adjacent, or there are none.
                // SAFETY: a part lives as long as the launch.
                0 => unsafe { check(self.given, self.len, i) },
                // Never returns: the loop over work items ends here, or there is nothing to be checked in it.
                // SAFETY: as above.
                _ => unsafe { absent_number(self.given, self.len, i) },
            }
        }
        // SAFETY: the element is in the part, as just checked, and is not written. `data` is the address of
        // element 0, so that the result is that of the element.
        unsafe { *self.data.wrapping_add(i) }
    }

    /// The element at an index per axis of the array's shape, axis 0 (which varies fastest) first; 0 for axes
    /// that the array does not have. Axes beyond the third are part of it: index `z + w * extent`. Panics if
    /// it is not in the part.
    #[inline]
    #[track_caller]
    pub fn at(&self, [x, y, z]: [usize; 3]) -> T {
        let Part { begin, end, .. } = self.part;
        // One comparison each, which the compiler takes out of a loop along the axis.
        let is_out = |axis: usize, at: usize| {
            (at as u64).wrapping_sub(begin[axis]) >= end[axis].saturating_sub(begin[axis])
        };
        if is_out(2, z) || is_out(1, y) || is_out(0, x) {
            // SAFETY: a part lives as long as the launch.
            unsafe { absent(self.given, self.len, x, y, z) };
        }
        let [row, plane] = self.strides();
        let i = x + y * row + z * plane;
        // SAFETY: as in `get`.
        unsafe { *self.data.wrapping_add(i) }
    }

    /// The elements with these numbers, if all of them are in the part. Panics if one is not.
    #[inline]
    #[track_caller]
    pub fn slice(&self, range: Range<usize>) -> &'k [T] {
        self.stretch(range.clone()).unwrap_or_else(|| {
            // SAFETY: a part lives as long as the launch.
            unsafe { check_range(self.given, self.len, range.start, range.end) };
            // SAFETY: all of them are in the part, adjacent, and not written.
            unsafe {
                std::slice::from_raw_parts(self.data.wrapping_add(range.start), range.end - range.start)
            }
        })
    }

    /// The elements with these numbers, if they lie in whole rows and planes of the array that the part has:
    /// all elements, where the launch is not cut. `None` does not mean that single ones are absent. For a
    /// kernel that reads many rows and asks for them once.
    #[inline]
    pub fn stretch(&self, range: Range<usize>) -> Option<&'k [T]> {
        if range.start >= range.end {
            return Some(&[]);
        }
        let inside = range.start >= self.first && range.end - self.first <= self.count;
        // SAFETY: all of them are in the part, adjacent, and not written.
        inside.then(|| unsafe {
            std::slice::from_raw_parts(self.data.wrapping_add(range.start), range.end - range.start)
        })
    }
}

/// All of an array without a shape.
fn all(len: usize) -> Part {
    Part { begin: [0; 3], end: [len as u64, 1, 1], stride: [len as u64; 2], origin: 0, next_origin: 0 }
}

/// # Safety
/// NULL, or a part that lives.
unsafe fn part_of(given: *const Part, len: usize) -> Part {
    // SAFETY: the caller vouches.
    unsafe { given.as_ref() }.copied().unwrap_or_else(|| all(len))
}

/// Panics: the element is not in the part. Takes numbers, as `outside` does.
///
/// # Safety
/// `given` is NULL, or a part that lives.
#[cold]
#[inline(never)]
#[track_caller]
unsafe fn absent(given: *const Part, len: usize, x: usize, y: usize, z: usize) -> ! {
    // SAFETY: the caller vouches.
    missing(&unsafe { part_of(given, len) }, [x as u64, y as u64, z as u64], "an element")
}

/// Panics: the element is not in the part.
///
/// # Safety
/// `given` is NULL, or a part that lives.
#[cold]
#[inline(never)]
#[track_caller]
unsafe fn absent_number(given: *const Part, len: usize, i: usize) -> ! {
    // SAFETY: the caller vouches.
    unsafe { check(given, len, i) };
    unreachable!("element {i} is absent")
}

/// Panics if the element is not in the part.
///
/// # Safety
/// `given` is NULL, or a part that lives.
#[cold]
#[inline(never)]
#[track_caller]
unsafe fn check(given: *const Part, len: usize, i: usize) {
    if i >= len {
        outside(i, len);
    }
    // SAFETY: the caller vouches.
    let part = unsafe { part_of(given, len) };
    let at = axes(&part, i);
    if !has(&part, at) {
        missing(&part, at, &format!("element {i}"));
    }
}

/// Panics if the elements are not all in the part, one beside the other.
///
/// # Safety
/// `given` is NULL, or a part that lives.
#[cold]
#[inline(never)]
#[track_caller]
unsafe fn check_range(given: *const Part, len: usize, start: usize, end: usize) {
    let last = end - 1;
    // SAFETY: the caller vouches.
    let part = unsafe {
        check(given, len, start);
        check(given, len, last);
        &part_of(given, len)
    };
    let (a, b) = (axes(part, start), axes(part, last));
    let full = |axis: usize, extent: u64| part.begin[axis] == 0 && part.end[axis] == extent;
    // The elements between them leave the row, or the plane, unless the part has all of those.
    let rows = a[1] == b[1] || full(0, part.stride[0]);
    let planes = a[2] == b[2] || (full(0, part.stride[0]) && full(1, part.stride[1] / part.stride[0].max(1)));
    if !(rows && planes) {
        missing(part, a, &format!("a part of the elements {start}..{end}, the first"));
    }
}

/// The first element and the number of a part's elements, if they are adjacent, since it has all of its rows
/// and planes; otherwise 0 and 0.
fn contiguous(part: &Part, len: usize) -> (usize, usize) {
    let extent = |axis: usize| part.end[axis].saturating_sub(part.begin[axis]);
    let [row, plane] = part.stride;
    let rows = extent(0) == row || (extent(1) == 1 && extent(2) == 1);
    let planes = extent(0) * extent(1) == plane || extent(2) == 1;
    if !rows || !planes || (0..3).any(|axis| extent(axis) == 0) {
        return (0, 0);
    }
    let first = part.begin[0] + part.begin[1] * row + part.begin[2] * plane;
    let count = extent(0) * extent(1) * extent(2);
    debug_assert!(first + count <= len as u64, "a part lies in its array");
    (first as usize, count as usize)
}
