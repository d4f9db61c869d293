//! The part of an array that is present in a cut launch: checks of the views that may reach any element.

use flash_types::abi::Part;
use std::ops::Range;

/// From the first to the last element, or row of `row_len`, that the values of each dimension name.
///
/// # Safety
/// There is a stride for every dimension.
#[inline]
pub(super) unsafe fn reach(values: &[Range<u64>], strides: *const u64, row_len: usize) -> Range<usize> {
    let (mut first, mut last) = (0, 0);
    for (dimension, values) in values.iter().enumerate() {
        if values.is_empty() {
            return 0..0;
        }
        // SAFETY: the caller vouches.
        let stride = unsafe { *strides.add(dimension) };
        first += values.start * stride;
        last += (values.end - 1) * stride;
    }
    first as usize..last as usize + row_len
}

/// From the first to the last element of a part.
pub(super) fn span(part: &Part) -> Range<usize> {
    if (0..3).any(|axis| part.begin[axis] >= part.end[axis]) {
        return 0..0;
    }
    let number = |[x, y, z]: [u64; 3]| (x + y * part.stride[0] + z * part.stride[1]) as usize;
    number(part.begin)..number(part.end.map(|end| end - 1)) + 1
}

/// Element `i` of a part by its axes.
#[inline]
pub(super) fn axes(part: &Part, i: usize) -> [u64; 3] {
    let (i, [row, plane]) = (i as u64, part.stride);
    // A stride of 0 belongs to an axis of no elements: nothing lies inside then.
    let z = i.checked_div(plane).unwrap_or(0);
    let rest = i - z * plane;
    let y = rest.checked_div(row).unwrap_or(0);
    [rest - y * row, y, z]
}

/// Whether the element at these axes is present.
#[inline]
pub(super) fn has(part: &Part, at: [u64; 3]) -> bool {
    (0..3).all(|axis| part.begin[axis] <= at[axis] && at[axis] < part.end[axis])
}

/// Whether a part is all of an array of `len` elements.
pub(super) fn is_all(part: &Part, len: usize) -> bool {
    let extent = |axis: usize| part.end[axis].saturating_sub(part.begin[axis]);
    part.begin == [0; 3] && extent(0) * extent(1) * extent(2) == len as u64
}

/// Panics if the element is not present. Out of line, since arrays are usually whole.
///
/// # Safety
/// `part` is not NULL and lives.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) unsafe fn check(part: *const Part, i: usize) {
    // SAFETY: the caller vouches.
    let part = unsafe { &*part };
    let at = axes(part, i);
    if !has(part, at) {
        missing(part, at, &format!("element {i}"));
    }
}

/// Panics if some element is not present.
///
/// # Safety
/// `part` is not NULL and lives.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) unsafe fn check_all(part: *const Part, len: usize, what: &str) {
    // SAFETY: the caller vouches.
    let part = unsafe { &*part };
    assert!(
        is_all(part, len),
        "{what} needs all {len} elements, and of this cut launch only the part {} is here: use single elements, or launch it whole",
        text(part)
    );
}

#[cold]
#[track_caller]
pub(super) fn missing(part: &Part, at: [u64; 3], what: &str) -> ! {
    panic!(
        "{what}, at {at:?} of the array, is not in the part {} that this cut launch has here: the partition map must cover every element that the kernel touches",
        text(part)
    )
}

/// Panics: there is no such element. Takes numbers, as all that kernels call where they may panic: a view
/// whose address is passed to a function stays in memory, and is read again after each element that is
/// written.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn outside(i: usize, len: usize) -> ! {
    panic!("element {i} of an array of {len}")
}

/// `[0..4, 2..6, 0..1]`.
fn text(part: &Part) -> String {
    let ranges: [_; 3] = std::array::from_fn(|axis| part.begin[axis]..part.end[axis]);
    format!("{ranges:?}")
}
