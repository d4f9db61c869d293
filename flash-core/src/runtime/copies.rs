//! Copies between arrays, prefetches and evictions in pipelines: what a program writes. See
//! [`movement`](super::movement).

use super::api::Pipeline;
use super::dynamic::{Argument, ByName, IntoArgument, Value};
use super::movement::{CopyShape, Movement};
use crate::devices::DeviceHandle;
use crate::error::Error;
use flash_types::index::IntoBox;
use smallvec::SmallVec;
use std::ops::Range;

impl<'a> Pipeline<'a> {
    /// Adds a copy of all elements of `from` to `to`, which has as many of the same type: memories, ranges of
    /// them and slices. It is a submission as every other: it comes after those that write what it reads, and
    /// before those that read what it writes. The elements are copied where most of `from` is, and moved
    /// nowhere else.
    ///
    /// # Errors
    /// Those of the arguments come from `exec`: [`Error::Argument`] if types or lengths differ, or they
    /// overlap.
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
            (Value::Array { array: a, .. }, Value::Array { array: b, .. }) if a.len == b.len => {
                let len = a.len as u64;
                Ok([len, 1, 1, 0, len, len, 0, len, len])
            }
            (Value::Array { array: a, .. }, Value::Array { array: b, .. }) => Err(wrong(
                "to",
                format!("expected {} elements, as many as are copied, found {}", a.len, b.len),
            )),
            _ => Err(wrong("from", NOT_AN_ARRAY.into())),
        };
        self.add_copy(from, to, outcome)
    }

    /// Adds a copy of a box of elements of `from` to a box of the same extents of `to`. A box is a range of
    /// index values for each axis of the memory's shape, at most three, axis 0 first, as `[1..3, 0..2]`; of
    /// what has no shape, one range, as `1..3`. Elements of `to` outside of its box keep their values.
    /// Otherwise as [`copy`](Self::copy).
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
        let shape = || -> Result<CopyShape, Error> {
            let (extent, first, stride) = side("from", &from, &from_box)?;
            let (same, to_first, to_stride) = side("to", &to, &to_box)?;
            if extent != same {
                return Err(wrong("to", format!("expected a box of the extents {extent:?}, found {same:?}")));
            }
            let ([x, y, z], [row, plane], [to_row, to_plane]) = (extent, stride, to_stride);
            Ok([x, y, z, first, row, plane, to_first, to_row, to_plane])
        };
        let outcome = shape();
        self.add_copy(from, to, outcome)
    }

    fn add_copy<'b>(
        mut self,
        from: Argument<'b>,
        to: Argument<'b>,
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

    fn add_device<'b>(mut self, movement: Movement, of: Argument<'b>, device: &DeviceHandle) -> Pipeline<'b>
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

/// A box as extent, first element, and strides.
fn side(
    name: &str,
    argument: &Argument<'_>,
    ranges: &[Range<u64>],
) -> Result<([u64; 3], u64, [u64; 2]), Error> {
    let Value::Array { array, .. } = &argument.value else { return Err(wrong(name, NOT_AN_ARRAY.into())) };
    let shape: SmallVec<[u64; 4]> = match array.shape() {
        [] => smallvec::smallvec![array.len as u64],
        shape => shape.into(),
    };
    if ranges.len() != shape.len() || shape.len() > 3 {
        let text = format!(
            "expected a range for each axis of an array of at most 3, whose shape is {shape:?}, found {}",
            ranges.len()
        );
        return Err(wrong(name, text));
    }
    let (mut extent, mut first, mut strides, mut stride) = ([1; 3], 0, [0; 3], 1);
    for (axis, (range, len)) in ranges.iter().zip(&shape).enumerate() {
        if range.start > range.end || range.end > *len {
            let text = format!("expected a box inside the shape {shape:?}, found {ranges:?}");
            return Err(wrong(name, text));
        }
        extent[axis] = range.end - range.start;
        first += range.start * stride;
        strides[axis] = stride;
        stride *= len;
    }
    Ok((extent, first, [strides[1], strides[2]]))
}
