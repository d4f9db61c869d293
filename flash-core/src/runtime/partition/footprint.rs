//! The elements that a submission touches when it runs whole, as data. See `runtime/footprint/` for how it is
//! found.

use crate::memory::region::{Grid, GridBox};
use flash_types::abi;
use std::ops::Range;

/// The elements that a submission touches, when it runs whole.
pub(crate) struct Footprint {
    /// For every argument, its [`abi::Part`] without the beginning of the buffer.
    pub parts: Box<[abi::Part]>,
    pub touched: Box<[ArgumentFootprint]>,
}

/// The elements that it touches of one argument.
pub(crate) struct ArgumentFootprint {
    /// It touches no element.
    pub nothing: bool,
    pub block: GridBox,
    /// The launch's grid, which `block` is in.
    pub seen: Grid,
    /// That grid is all of the argument's memory.
    pub all: bool,
    /// From the first to the last element of `block`, counted from the argument's first.
    pub hull: Range<u64>,
    /// `block` has no gaps: it is all of `hull`.
    pub solid: bool,
    /// Every element of `block` is some item's own.
    pub covered: bool,
}
