//! Boxes of elements of an array that is seen with three axes.

use crate::memory::ArrayLayout;
use crate::memory::region::{Grid, GridBox, folded};
use flash_types::abi;
use std::ops::Range;

/// An array as a launch sees it: extents of up to three axes. Missing axes have extent 1, and those beyond
/// the third are folded into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchGrid {
    pub extents: [u64; 3],
    /// Elements from neighbour to neighbour along each axis. Without gaps axis 0 is contiguous.
    pub strides: [u64; 3],
}

/// Elements of a grid: per axis the first, and one past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementBox {
    pub begin: [u64; 3],
    pub end: [u64; 3],
}

impl LaunchGrid {
    /// The grid of a shape without gaps, whose product is at most an array's length.
    pub fn of(extents: &[u64]) -> LaunchGrid {
        LaunchGrid::of_layout(&ArrayLayout::of(extents))
    }

    /// The grid of an array with or without gaps.
    pub fn of_layout(layout: &ArrayLayout<'_>) -> LaunchGrid {
        let axis = |a: usize| layout.extents.get(a).copied().unwrap_or(1);
        let extents = [axis(0), axis(1), folded(layout.extents.get(2..).unwrap_or_default())];
        let (mut strides, mut adjacent) = ([1; 3], 1u64);
        for (a, stride) in strides.iter_mut().enumerate() {
            *stride = layout.strides.get(a).copied().unwrap_or(adjacent);
            adjacent = stride.saturating_mul(extents[a]);
        }
        LaunchGrid { extents, strides }
    }

    /// True if its elements are not adjacent, axis 0 fastest.
    pub fn has_gaps(&self) -> bool {
        *self != LaunchGrid::of(&self.extents)
    }

    /// The same as a grid of regions, if it has no gaps.
    pub fn as_grid(&self) -> Option<Grid> {
        (!self.has_gaps()).then(|| Grid::new(&self.extents, self.extents.iter().product()))
    }

    /// All elements.
    pub fn all(&self) -> ElementBox {
        ElementBox { begin: [0; 3], end: self.extents }
    }

    /// Whether the elements of a box are adjacent in the array: from the first to the last there are no
    /// others.
    pub fn is_solid(&self, elements: &ElementBox) -> bool {
        let extent = |axis: usize| elements.end[axis].saturating_sub(elements.begin[axis]);
        extent(0) * extent(1) * extent(2) == self.span(elements)
    }

    /// The numbers of the array's elements from the first to the last of a box.
    pub fn range(&self, elements: &ElementBox) -> Range<u64> {
        if elements.is_empty() {
            return 0..0;
        }
        let number = |at: [u64; 3]| (0..3).map(|axis| at[axis] * self.strides[axis]).sum::<u64>();
        number(elements.begin)..number(elements.end.map(|end| end - 1)) + 1
    }

    /// How many these are.
    pub fn span(&self, elements: &ElementBox) -> u64 {
        let range = self.range(elements);
        range.end - range.start
    }

    /// The [`abi::Part`] of a box, for the kernel. The caller fills in the buffers' origins. Where axis 0 has
    /// gaps, a part cannot say so: it is the range from the first element to the last.
    pub fn part(&self, elements: &ElementBox) -> abi::Part {
        let part = |begin, end, stride| abi::Part { begin, end, stride, origin: 0, next_origin: 0 };
        let [unit, row, plane] = self.strides;
        if unit != 1 && !elements.is_empty() {
            let range = self.range(elements);
            return part([range.start, 0, 0], [range.end, 1, 1], [range.end; 2]);
        }
        part(elements.begin, elements.end, [row, plane])
    }
}

impl ElementBox {
    /// No elements.
    pub const EMPTY: ElementBox = ElementBox { begin: [0; 3], end: [0; 3] };

    /// A box of an array of any number of axes, and whether folding kept it exactly: a box that is not full
    /// along folded axes becomes the range from its first to its last element along them.
    pub fn folded(axes: &[Range<u64>], extents: &[u64]) -> (ElementBox, bool) {
        debug_assert_eq!(axes.len(), extents.len());
        if axes.iter().any(|range| range.start >= range.end) {
            return (ElementBox::EMPTY, true);
        }
        let axis = |a: usize| axes.get(a).cloned().unwrap_or(0..1);
        let (mut first, mut last, mut stride, mut exact) = (0, 0, 1, true);
        // Several values along an axis leave gaps unless all axes inside it are full.
        let mut full = true;
        for (range, &extent) in axes.iter().zip(extents).skip(2) {
            exact &= full || range.end - range.start == 1;
            full &= range.end - range.start == extent;
            first += range.start * stride;
            last += (range.end - 1) * stride;
            stride *= extent;
        }
        let (a, b) = (axis(0), axis(1));
        (ElementBox { begin: [a.start, b.start, first], end: [a.end, b.end, last + 1] }, exact)
    }

    /// The same as a box of a grid of regions.
    pub fn block(&self) -> GridBox {
        GridBox { begin: self.begin, end: self.end }
    }

    pub fn is_empty(&self) -> bool {
        (0..3).any(|a| self.begin[a] >= self.end[a])
    }

    /// Whether they have an element in common.
    pub fn meets(&self, other: &ElementBox) -> bool {
        (0..3).all(|a| self.begin[a].max(other.begin[a]) < self.end[a].min(other.end[a]))
    }

    /// The smallest box that contains both.
    pub fn hull(&self, other: &ElementBox) -> ElementBox {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => *other,
            (_, true) => *self,
            _ => ElementBox {
                begin: std::array::from_fn(|a| self.begin[a].min(other.begin[a])),
                end: std::array::from_fn(|a| self.end[a].max(other.end[a])),
            },
        }
    }

    /// The range of each axis.
    pub fn ranges(&self) -> [Range<u64>; 3] {
        std::array::from_fn(|a| self.begin[a]..self.end[a])
    }
}
