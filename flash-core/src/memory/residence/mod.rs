//! Where an array is at hand: what a launch on that device then need not look up.
//!
//! An array's *home* is a device and one box of its elements that is current there. Who holds the array and
//! finds its home where it computes, and in the box all that it touches, needs neither the directory nor its
//! lock; if the box is current nowhere else, that holds for writing, too. Nothing of an array with a home is
//! poisoned.
//!
//! The home is [said](published) anew whenever the directory was changed, under its lock. While a launch holds the array
//! alone, nobody says it. A launch that shares the hold says that it uses the home. Who takes the copy away waits until
//! nobody does: those are launches on their way, which want no lock before they end. Who would say another one says
//! none instead, and the next change of the directory does.

mod published;
mod sync;

use super::device::{DeviceMemory, LastUse};
use super::region::{Grid, GridBox};
use crate::abi::Buffer;
use std::ops::Range;

/// The home of one array, if it has one.
pub(crate) type PublishedResidence = published::Published<Residence>;

/// What is there.
#[derive(PartialEq)]
pub(crate) struct Residence {
    pub memory: &'static DeviceMemory,
    pub buffer: Buffer,
    /// The element with which the buffer begins.
    pub first: u64,
    pub last_use: LastUse,
    /// The grid of the array's directory.
    pub grid: Grid,
    /// What is current.
    pub block: GridBox,
    /// That is all of the array.
    pub all: bool,
    /// It is current nowhere else.
    pub only: bool,
}

impl Residence {
    /// True if a box is there, seen in a grid of all of the array.
    #[inline]
    pub fn has(&self, block: &GridBox, seen: &Grid) -> bool {
        self.all || (self.grid == *seen && self.block.contains(block))
    }

    /// True if a range of elements is there.
    #[inline]
    pub fn has_range(&self, range: &Range<u64>) -> bool {
        let flat =
            self.grid.is_flat() && self.block.begin[0] <= range.start && range.end <= self.block.end[0];
        flat || self.all
    }
}
