//! Copies between arrays, prefetches and evictions in pipelines: what a program writes. See
//! [`movement`](super::movement).

use super::api::Pipeline;
use super::dynamic::{Argument, ByName, IntoArgument, Value};
use super::movement::{CopyShape, Movement};
use crate::devices::DeviceHandle;
use crate::error::Error;
use crate::kernel::views::Array;
use crate::memory::{ArrayLayout, ViewShape, box_of};
use flash_types::index::IntoBox;
use smallvec::SmallVec;
use std::ops::Range;

impl<'a> Pipeline<'a> {
    /// Adds a copy of all elements of `from` to `to`, which has as many of the same type: memories, views of
    /// them and slices. Where one of them is a view with [gaps](crate::MemoryView#gaps), its elements are
    /// copied in the order of its indices, axis 0 fastest, from or to the other one's. It is a submission as
    /// every other: it comes after those that write what it reads, and before those that read what it writes.
    /// The elements are copied where most of `from` is, and moved nowhere else.
    ///
    /// # Errors
    /// Those of the arguments come from `exec`: [`Error::Argument`] if types or lengths differ, they overlap,
    /// or two views with gaps have other shapes; and for a view with gaps of three axes none of which is
    /// adjacent in both, as the transpose of a cube: copy it plane by plane.
    ///
    /// # Examples
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::FlashMemory;
    /// let (from, to) = (FlashMemory::from([1u32, 2, 3, 4]), FlashMemory::<u32>::zeroed(8));
    /// rt.pipeline().copy(from.range(1..)?, to.range(5..)?).exec()?;
    /// assert_eq!(*to.read()?, [0, 0, 0, 0, 0, 2, 3, 4]);
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn copy<'b>(self, from: impl IntoArgument<'b>, to: impl IntoArgument<'b>) -> Pipeline<'b>
    where
        'a: 'b,
    {
        let (from, to) = (from.into_argument(), to.into_argument());
        let outcome = match (&from.value, &to.value) {
            (Value::Array { array: a, .. }, Value::Array { array: b, .. }) => whole(a, b),
            _ => Err(wrong("from", NOT_AN_ARRAY.into())),
        };
        self.add_copy(from, to, outcome)
    }

    /// Adds a copy of a box of elements of `from` to a box of the same extents of `to`. A box is a range of
    /// index values for each axis of the memory's shape, at most three, axis 0 first, as `[1..3, 0..2]`; of
    /// what has no shape, one range, as `1..3`. Of a view they count in the view. Elements of `to` outside of
    /// its box keep their values. Otherwise as [`copy`](Self::copy).
    ///
    /// # Errors
    /// As [`copy`](Self::copy), and [`Error::Argument`] if a box has other axes than its array, leaves it, or
    /// the two have different extents.
    ///
    /// # Examples
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::FlashMemory;
    /// let from = (0..12u32).collect::<FlashMemory<u32>>().with_shape([4, 3])?;
    /// let to = FlashMemory::<u32>::zeroed([2, 2]);
    /// rt.pipeline().copy_box(&from, [1..3, 0..2], &to, [0..2, 0..2]).exec()?;
    /// assert_eq!(*to.read()?, [1, 2, 5, 6]);
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    pub fn copy_box<'b>(
        self,
        from: impl IntoArgument<'b>,
        from_box: impl IntoBox,
        to: impl IntoArgument<'b>,
        to_box: impl IntoBox,
    ) -> Pipeline<'b>
    where
        'a: 'b,
    {
        let (from, to) = (from.into_argument(), to.into_argument());
        let (from_box, to_box) = (from_box.into_box(), to_box.into_box());
        let outcome = side("from", &from, &from_box).and_then(|source| {
            let destination = side("to", &to, &to_box)?;
            let (expected, found) = (source.padded(), destination.padded());
            match expected == found {
                true => between(&source, &destination),
                false => {
                    Err(wrong("to", format!("expected a box of the extents {expected:?}, found {found:?}")))
                }
            }
        });
        self.add_copy(from, to, outcome)
    }

    fn add_copy<'b>(
        mut self,
        mut from: Argument<'b>,
        mut to: Argument<'b>,
        shape: Result<CopyShape, Error>,
    ) -> Pipeline<'b>
    where
        'a: 'b,
    {
        let shape = shape.and_then(|shape| {
            if from.element != to.element {
                return Err(wrong(
                    "to",
                    format!("expected elements of {}, found {}", from.element, to.element),
                ));
            }
            match &to.value {
                Value::Array { writable: true, .. } => Ok(shape),
                _ => Err(wrong(
                    "to",
                    "expected a memory or an exclusive slice, found what can only be read".into(),
                )),
            }
        });
        match shape {
            Ok(shape) => {
                let len = match &to.value {
                    Value::Array { array, .. } => array.len as u64,
                    Value::Scalar(_) => 0,
                };
                for argument in [&mut from, &mut to] {
                    close_gaps(argument);
                }
                let covers = shape[..3].iter().try_fold(1u64, |all, n| all.checked_mul(*n)) == Some(len);
                let descriptor = Movement::Copy.descriptor(&from.element, covers);
                let shape = Value::Scalar(bytemuck::bytes_of(&shape).to_vec());
                let shape = Argument { element: descriptor.arguments[2].element.clone(), value: shape };
                self.submit(ByName::erased(descriptor, vec![from, to, shape])).defer([1usize])
            }
            Err(error) => {
                self.fail(error);
                self
            }
        }
    }

    /// Adds a copy of what a device of the runtime lacks of a memory, or of a range of one, to that device,
    /// so that later submissions there find it. A device that uses the host's memory gets what others have of
    /// it.
    ///
    /// # Errors
    /// From `exec`: [`Error::Option`] if the device is none of the runtime's; [`Error::DeviceMemory`] if it
    /// has no room.
    pub fn prefetch<'b>(self, of: impl IntoArgument<'b>, device: &DeviceHandle) -> Pipeline<'b>
    where
        'a: 'b,
    {
        self.add_device(Movement::Prefetch, of.into_argument(), device)
    }

    /// Takes what a device of the runtime has of a memory from it: what only the device has is copied to the
    /// host first. Its room is free for other arrays. Nothing happens on a device that uses the host's
    /// memory.
    ///
    /// # Errors
    /// From `exec`: [`Error::Option`] if the device is none of the runtime's.
    pub fn evict<'b>(self, of: impl IntoArgument<'b>, device: &DeviceHandle) -> Pipeline<'b>
    where
        'a: 'b,
    {
        self.add_device(Movement::Evict, of.into_argument(), device)
    }

    fn add_device<'b>(
        mut self,
        movement: Movement,
        mut of: Argument<'b>,
        device: &DeviceHandle,
    ) -> Pipeline<'b>
    where
        'a: 'b,
    {
        if matches!(of.value, Value::Scalar(_)) {
            self.fail(Error::Option { option: movement.name().into(), text: NOT_AN_ARRAY.into() });
            return self;
        }
        let devices = &self.buffer.parts().1.devices;
        let Some(number) = devices.iter().position(|known| known.id() == device.id()) else {
            let there: Vec<&str> = devices.iter().map(|device| device.id()).collect();
            let there = there.join(", ");
            let text = format!("expected a device of the runtime ({there}), found {}", device.id());
            self.fail(Error::Option { option: movement.name().into(), text });
            return self;
        };
        close_gaps(&mut of);
        let descriptor = movement.descriptor(&of.element, false);
        let number = (number as u32).into_argument();
        self.submit(ByName::erased(descriptor, vec![of, number])).defer([1usize])
    }

    /// The first error of the pipeline, which `exec` reports before anything runs.
    fn fail(&mut self, error: Error) {
        self.buffer.record_with(|list, _| {
            list.error.get_or_insert(error);
        });
    }
}

const NOT_AN_ARRAY: &str = "expected a memory, a range of one or a slice, found a number";

fn wrong(argument: &str, text: String) -> Error {
    Error::Argument { kernel: Movement::Copy.name().into(), argument: argument.into(), text }
}

/// Takes a view with gaps for the range from its first element to its last: the shape of a movement says
/// which of them are meant.
fn close_gaps(argument: &mut Argument<'_>) {
    if let Value::Array { array, .. } = &mut argument.value
        && array.seen.has_gaps()
    {
        array.seen = ViewShape::NONE;
    }
}

/// A box of an argument's elements.
struct Side {
    /// Extent per axis.
    extents: SmallVec<[u64; 4]>,
    /// The first element, counted in the argument.
    first: u64,
    /// Elements from neighbour to neighbour along each axis.
    strides: SmallVec<[u64; 4]>,
}

impl Side {
    /// The extents of three axes.
    fn padded(&self) -> [u64; 3] {
        std::array::from_fn(|axis| self.extents.get(axis).copied().unwrap_or(1))
    }
}

/// A box of an argument, by its ranges.
fn side(name: &str, argument: &Argument<'_>, ranges: &[Range<u64>]) -> Result<Side, Error> {
    let Value::Array { array, .. } = &argument.value else { return Err(wrong(name, NOT_AN_ARRAY.into())) };
    let (len, layout) = ([array.len as u64], array.layout());
    let shape = if layout.extents.is_empty() { &len[..] } else { layout.extents };
    if ranges.len() != shape.len() || shape.len() > 3 {
        let text = format!(
            "expected a range for each axis of an array of at most 3, whose shape is {shape:?}, found {}",
            ranges.len()
        );
        return Err(wrong(name, text));
    }
    let strides = layout.strides_for(shape);
    match box_of(shape, &strides, ranges) {
        Some((extents, first)) => Ok(Side { extents, first, strides }),
        None => Err(wrong(name, format!("expected a box inside the shape {shape:?}, found {ranges:?}"))),
    }
}

/// A copy of all elements of an array to another.
fn whole(from: &Array<'_>, to: &Array<'_>) -> Result<CopyShape, Error> {
    let (source, destination) = (from.layout(), to.layout());
    let elements = |array: &Array<'_>| match array.seen.has_gaps() {
        true => array.layout().extents.iter().product(),
        false => array.len as u64,
    };
    let (len, found) = (elements(from), elements(to));
    if len != found {
        return Err(wrong("to", format!("expected {len} elements, as many as are copied, found {found}")));
    }
    // What has no gaps takes the other one's shape.
    let extents = match (source.strides, destination.strides) {
        ([], []) => &[len][..],
        ([], _) => destination.extents,
        _ => source.extents,
    };
    let side = |layout: &ArrayLayout<'_>| {
        let extents = if layout.strides.is_empty() { extents } else { layout.extents };
        Side { extents: extents.into(), first: 0, strides: layout.strides_for(extents) }
    };
    between(&side(&source), &side(&destination))
}

/// A copy of a box to another one.
fn between(from: &Side, to: &Side) -> Result<CopyShape, Error> {
    if from.extents.contains(&0) {
        return Ok([0, 1, 1, from.first, 1, 1, to.first, 1, 1]);
    }
    let axes = |side: &Side| {
        let axes = side.extents.iter().zip(&side.strides).filter(|(extent, _)| **extent != 1);
        axes.map(|(extent, stride)| (*extent, *stride)).collect::<SmallVec<[(u64, u64); 4]>>()
    };
    let (own, others) = (axes(from), axes(to));
    if !own.iter().map(|(extent, _)| extent).eq(others.iter().map(|(extent, _)| extent)) {
        let (expected, found) = (&from.extents[..], &to.extents[..]);
        return Err(wrong(
            "to",
            format!("expected the shape {expected:?} of what is copied, found {found:?}"),
        ));
    }
    // Per axis the extent, and the strides of destination and source. Their order does not matter to a copy,
    // and two axes that lie in each other in both are one.
    let mut all: SmallVec<[[u64; 3]; 4]> =
        own.iter().zip(&others).map(|(&(extent, from), &(_, to))| [extent, to, from]).collect();
    all.sort_unstable_by_key(|[_, to, _]| *to);
    let mut axes: SmallVec<[[u64; 3]; 4]> = SmallVec::new();
    for [extent, to, from] in all {
        match axes.last_mut() {
            Some(inner) if [to, from] == [inner[0] * inner[1], inner[0] * inner[2]] => inner[0] *= extent,
            _ => axes.push([extent, to, from]),
        }
    }
    if axes.first().is_none_or(|[_, to, from]| [*to, *from] != [1, 1]) {
        axes.insert(0, [1, 1, 1]);
    }
    if axes.len() > 3 {
        let text = format!(
            "expected an axis along which elements are adjacent in both, or two axes, found the shape {:?} with the strides {:?} and {:?}: copy plane by plane",
            &from.extents[..],
            &from.strides[..],
            &to.strides[..]
        );
        return Err(wrong("to", text));
    }
    let mut next = 1;
    while axes.len() < 3 {
        next =
            axes.iter().fold(next, |most, [extent, to, from]| most.max(extent.saturating_mul(*to.max(from))));
        axes.push([1, next, next]);
    }
    let [[x, ..], [y, to_row, row], [z, to_plane, plane]] = axes[..] else { unreachable!("three axes") };
    Ok([x, y, z, from.first, row, plane, to.first, to_row, to_plane])
}
