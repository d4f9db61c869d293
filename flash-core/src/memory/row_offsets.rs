//! Offsets of rows of different lengths, checked once and never changed.
//!
//! That is what a launch relies on whose work items write a row each
//! ([`Ragged`](crate::kernel::views::Ragged)): numbers that do not decrease keep rows apart. They are marked
//! in the array's header, and a launch that would write an array so marked is refused. Only this file makes
//! the mark, and its handles give out nothing that can write.

use super::{ArrayInner, FlashMemory};
use crate::error::Error;
use std::ops::Range;

/// Where the rows of an array begin and end: row `i` has the elements from offset `i` up to, and without,
/// offset `i + 1`. So there is one more than there are rows, and they never decrease. They never change,
/// either: another array of rows has offsets of its own.
///
/// Passed for a `Whole<'a, Read<u64>>`, which a [`Ragged`](crate::kernel::views::Ragged) names. A clone is
/// another handle.
///
/// # Examples
/// ```
/// use flash_core::memory::RowOffsets;
/// let rows = RowOffsets::new([0, 2, 2, 5])?;      // of 2, 0 and 3 elements
/// assert_eq!((rows.rows(), rows.elements()), (3, 5));
/// assert_eq!(rows.range(2)?, 2..5);
/// assert_eq!(RowOffsets::from_lengths([2, 0, 3])?.to_vec()?, [0, 2, 2, 5]);
/// let error = RowOffsets::new([0, 3, 2]).unwrap_err();
/// assert!(error.to_string().contains("offset 2 is 2, after 3"), "{error}");
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone)]
pub struct RowOffsets(FlashMemory<u64>);

impl RowOffsets {
    /// Of these offsets.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is none, or one is less than the one before.
    pub fn new(offsets: impl IntoIterator<Item = u64>) -> Result<RowOffsets, Error> {
        let offsets: Vec<u64> = offsets.into_iter().collect();
        let end = last(&offsets)?;
        let offsets = FlashMemory::from(offsets);
        offsets.header().are_offsets(end);
        Ok(RowOffsets(offsets))
    }

    /// Of rows of these lengths, one behind the other from element 0 on.
    ///
    /// # Errors
    /// [`Error::Shape`] if they have more than 2^64 elements together.
    pub fn from_lengths(lengths: impl IntoIterator<Item = u64>) -> Result<RowOffsets, Error> {
        let mut end = 0u64;
        let mut offsets = vec![0];
        for (row, length) in lengths.into_iter().enumerate() {
            end = end.checked_add(length).ok_or_else(|| {
                Error::Shape(format!("rows of more than 2^64 elements together, up to row {row}: use fewer"))
            })?;
            offsets.push(end);
        }
        RowOffsets::new(offsets)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.len() - 1
    }

    /// The end of the last row: an array of these rows has at least as many elements.
    pub fn elements(&self) -> u64 {
        self.0.header().end_of_rows().unwrap_or_else(|| unreachable!("it was marked when it was made"))
    }

    /// The elements of a row.
    ///
    /// # Errors
    /// [`Error::Range`] if there is no such row.
    pub fn range(&self, row: usize) -> Result<Range<usize>, Error> {
        let ends = self.0.read_range(row..row.saturating_add(2))?;
        Ok(ends[0] as usize..ends[1] as usize)
    }

    /// All offsets.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn to_vec(&self) -> Result<Vec<u64>, Error> {
        self.0.to_vec()
    }

    /// The array, which may be read.
    pub(crate) fn memory(&self) -> &FlashMemory<u64> {
        &self.0
    }
}

impl std::fmt::Debug for RowOffsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowOffsets({} rows, {} elements)", self.rows(), self.elements())
    }
}

/// The last of some offsets, which do not decrease.
fn last(offsets: &[u64]) -> Result<u64, Error> {
    let falls = offsets.windows(2).position(|pair| pair[1] < pair[0]);
    if let Some(at) = falls {
        return Err(Error::Shape(format!(
            "offset {} is {}, after {}: offsets of rows never decrease",
            at + 1,
            offsets[at + 1],
            offsets[at]
        )));
    }
    offsets.last().copied().ok_or_else(|| {
        Error::Shape("no offsets: there is one more than there are rows, the first where row 0 begins".into())
    })
}

impl ArrayInner {
    /// The end of the last row, if its elements are the offsets of rows.
    #[inline]
    pub fn end_of_rows(&self) -> Option<u64> {
        self.end_of_rows.get().copied()
    }

    /// Marks its elements as offsets that were checked, of which this is the last. Nothing has a handle that
    /// could write them.
    fn are_offsets(&self, end: u64) {
        self.end_of_rows.get_or_init(|| end);
    }

    /// Checks elements that were just put into an array, which has no other user, and marks them as offsets.
    ///
    /// # Errors
    /// As [`RowOffsets::new`].
    #[cfg(feature = "recordings")]
    pub fn check_offsets(self: &std::sync::Arc<Self>) -> Result<(), Error> {
        assert!(self.element_size() == size_of::<u64>() as u64 && std::sync::Arc::strong_count(self) == 1);
        // SAFETY: as many numbers are there, of which any bytes are one, aligned as all arrays are, and
        // nothing else has the array.
        let offsets = unsafe { std::slice::from_raw_parts(self.data().cast(), self.len()) };
        self.are_offsets(last(offsets)?);
        Ok(())
    }
}
