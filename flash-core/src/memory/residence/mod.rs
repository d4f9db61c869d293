//! The residence of an array: a summary of its directory that saves a lookup.
//!
//! An array's *residence* is a device and one box of its elements that is current there. A launch that holds
//! the array, computes on that device, and touches only elements in the box needs neither the directory nor
//! its lock; if the box is current nowhere else, that holds for writing, too. Nothing of an array with a
//! residence is poisoned.
//!
//! The residence is [published] whenever the directory was changed, under its lock. While a launch is the
//! only holder, it is not published. A launch that shares the hold counts itself as its user. A thread that
//! removes the copy waits until it has no users: those are launches in flight, which need no lock before they
//! end. A thread that would publish another residence publishes none instead, and the next change of the
//! directory does.

mod published;
mod sync;

use super::device::{DeviceMemory, LastUse};
use super::region::{Grid, GridBox};
use flash_types::abi::Buffer;
use std::ops::Range;

/// The published residence of one array, if it has one.
pub(crate) type PublishedResidence = published::Published<Residence>;

/// The resident box.
#[derive(PartialEq)]
pub(crate) struct Residence {
    pub memory: &'static DeviceMemory,
    pub buffer: Buffer,
    /// The first element of the buffer.
    pub first: u64,
    pub last_use: LastUse,
    /// The grid of the array's directory.
    pub grid: Grid,
    /// The current elements.
    pub block: GridBox,
    /// They are all of the array.
    pub all: bool,
    /// They are current nowhere else.
    pub only: bool,
}

impl Residence {
    /// True if a box is resident, seen in a grid of all of the array.
    #[inline]
    pub fn has(&self, block: &GridBox, seen: &Grid) -> bool {
        self.all || (self.grid == *seen && self.block.contains(block))
    }

    /// True if a range of elements is resident.
    #[inline]
    pub fn has_range(&self, range: &Range<u64>) -> bool {
        let flat =
            self.grid.is_flat() && self.block.begin[0] <= range.start && range.end <= self.block.end[0];
        flat || self.all
    }
}
