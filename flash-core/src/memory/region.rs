//! Sets of an array's elements: grids, boxes, and regions of boxes.
//!
//! An array is seen as a grid of three axes, axis 0 contiguous. Launches touch boxes of it, so sets of
//! elements are kept as few disjoint boxes and never element by element. Operations take time in the number
//! of boxes, whatever the boxes' size.

#[cfg(test)]
pub(crate) mod tests;

use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// The extents of an array along three axes, axis 0 contiguous; 1 for axes that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    extent: [u64; 3],
}

/// A box of a grid: `begin` along each axis, up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GridBox {
    pub begin: [u64; 3],
    pub end: [u64; 3],
}

/// A set of elements of a grid: disjoint boxes, none of them empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    blocks: SmallVec<[GridBox; 1]>,
}

/// A box converts to another shape as few boxes if it has at most this many contiguous runs ...
const FEW_RUNS: u64 = 32;
/// ... and becomes at most this many boxes.
const FEW_BLOCKS: usize = 8;

/// The extent of several axes that are seen as one. It overflows only in an array without elements, because
/// another axis has extent 0.
pub(crate) fn folded(axes: &[u64]) -> u64 {
    axes.iter().fold(1, |all: u64, extent| all.saturating_mul(*extent))
}

/// The greatest common divisor; of 0 and a number, that number.
pub(crate) fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Grid {
    /// The grid of an array of `len` elements with a shape (axis 0 fastest), or without one: then it is flat.
    /// Axes beyond the third are folded into it.
    pub fn new(shape: &[u64], len: u64) -> Grid {
        let extent = match *shape {
            [] => [len, 1, 1],
            [x] => [x, 1, 1],
            [x, y] => [x, y, 1],
            [x, y, ref rest @ ..] => [x, y, folded(rest)],
        };
        debug_assert_eq!(extent.iter().product::<u64>(), len, "the shape {shape:?} fits the length");
        Grid { extent }
    }

    /// Extent along each axis.
    #[cfg(test)]
    pub fn extent(&self) -> [u64; 3] {
        self.extent
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.extent.iter().product()
    }

    /// True if it has only one axis.
    #[inline]
    pub fn is_flat(&self) -> bool {
        self.extent[1] == 1 && self.extent[2] == 1
    }

    /// Elements from neighbour to neighbour along axes 1 and 2.
    pub fn stride(&self) -> [u64; 2] {
        [self.extent[0], self.extent[0] * self.extent[1]]
    }

    /// Number of the element at a position.
    pub fn flat(&self, at: [u64; 3]) -> u64 {
        at[0] + self.extent[0] * (at[1] + self.extent[1] * at[2])
    }

    /// All of it.
    pub fn block(&self) -> GridBox {
        GridBox { begin: [0; 3], end: self.extent }
    }
}

impl GridBox {
    /// True if there is no element in it.
    pub fn is_empty(&self) -> bool {
        (0..3).any(|a| self.begin[a] >= self.end[a])
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        (0..3).map(|a| self.end[a].saturating_sub(self.begin[a])).product()
    }

    /// Extent along each axis.
    pub fn extent(&self) -> [u64; 3] {
        [0, 1, 2].map(|a| self.end[a].saturating_sub(self.begin[a]))
    }

    /// True if all of the other is in it. An empty box is in every box.
    pub fn contains(&self, other: &GridBox) -> bool {
        other.is_empty() || (0..3).all(|a| self.begin[a] <= other.begin[a] && other.end[a] <= self.end[a])
    }

    /// The box that is in both.
    pub fn intersection(&self, other: &GridBox) -> Option<GridBox> {
        let both = GridBox {
            begin: [0, 1, 2].map(|a| self.begin[a].max(other.begin[a])),
            end: [0, 1, 2].map(|a| self.end[a].min(other.end[a])),
        };
        (!both.is_empty()).then_some(both)
    }

    /// True if some element is in both.
    pub fn overlaps(&self, other: &GridBox) -> bool {
        self.intersection(other).is_some()
    }

    /// Elements from the first to the last, counted in the grid. Empty for an empty box.
    pub fn hull(&self, grid: &Grid) -> Range<u64> {
        if self.is_empty() {
            return 0..0;
        }
        grid.flat(self.begin)..grid.flat(self.end.map(|e| e - 1)) + 1
    }

    /// Calls `keep` with the parts of it that are not in `hole`: at most six. The slowest axis is cut first,
    /// so that the rest is as contiguous as possible.
    fn without(mut self, hole: &GridBox, mut keep: impl FnMut(GridBox)) {
        if !self.overlaps(hole) {
            return keep(self);
        }
        for axis in [2, 1, 0] {
            if self.begin[axis] < hole.begin[axis] {
                let mut part = self;
                part.end[axis] = hole.begin[axis];
                keep(part);
                self.begin[axis] = hole.begin[axis];
            }
            if hole.end[axis] < self.end[axis] {
                let mut part = self;
                part.begin[axis] = hole.end[axis];
                keep(part);
                self.end[axis] = hole.end[axis];
            }
        }
    }

    /// Merges two boxes that are adjacent and equal along the other axes.
    fn merged(&self, other: &GridBox) -> Option<GridBox> {
        let equal = |a: usize| self.begin[a] == other.begin[a] && self.end[a] == other.end[a];
        let axis = (0..3).find(|&a| !equal(a))?;
        if (axis + 1..3).any(|a| !equal(a)) {
            return None;
        }
        let mut whole = *self;
        if self.end[axis] == other.begin[axis] {
            whole.end[axis] = other.end[axis];
        } else if other.end[axis] == self.begin[axis] {
            whole.begin[axis] = other.begin[axis];
        } else {
            return None;
        }
        Some(whole)
    }
}

/// Elements of a grid at equal distances along each of its axes.
pub(crate) struct Lattice {
    begin: [u64; 3],
    /// Elements along each axis; none is 0.
    counts: [u64; 3],
    /// Indices from one to the next; 1 along an axis with one element.
    steps: [u64; 3],
}

impl Lattice {
    /// The elements of a box whose neighbours along its axes are `strides` elements apart, and whose index
    /// 0 is element `offset` of the grid. All are elements of the grid, and there are some. `None`: they are
    /// not such a set.
    pub fn of(block: &GridBox, strides: &[u64; 3], offset: u64, to: &Grid) -> Option<Lattice> {
        if block.is_empty() {
            return None;
        }
        let first = offset + (0..3).map(|axis| block.begin[axis] * strides[axis]).sum::<u64>();
        let [row, plane] = to.stride();
        let apart = [1, row, plane];
        let begin = [first % row, first % plane / row, first / plane];
        let mut lattice = Lattice { begin, counts: [1; 3], steps: [1; 3] };
        for (count, &stride) in block.extent().into_iter().zip(strides).filter(|(count, _)| *count > 1) {
            // The axis of the grid along which neighbours are a whole number of indices apart, and stay
            // inside.
            let axis = (0..3).rev().find(|&axis| {
                stride.is_multiple_of(apart[axis])
                    && lattice.counts[axis] == 1
                    && begin[axis] + stride / apart[axis] * (count - 1) < to.extent[axis]
            })?;
            (lattice.counts[axis], lattice.steps[axis]) = (count, stride / apart[axis]);
        }
        Some(lattice)
    }

    /// The smallest box with all of its elements.
    fn hull(&self) -> GridBox {
        let end = |axis: usize| self.begin[axis] + (self.counts[axis] - 1) * self.steps[axis] + 1;
        GridBox { begin: self.begin, end: [0, 1, 2].map(end) }
    }

    /// True if it certainly has no element in common with another one of the same grid.
    pub fn is_apart(&self, other: &Lattice) -> bool {
        let (own, others) = (self.hull(), other.hull());
        !own.overlaps(&others)
            || (0..3).any(|axis| {
                // From an element of one to any of the same there is a multiple of it.
                let step = common_divisor(self.step(axis), other.step(axis));
                step > 1 && !self.begin[axis].abs_diff(other.begin[axis]).is_multiple_of(step)
            })
    }

    /// The step along an axis; 0 if there is one element.
    fn step(&self, axis: usize) -> u64 {
        if self.counts[axis] == 1 { 0 } else { self.steps[axis] }
    }
}

impl From<GridBox> for Region {
    fn from(block: GridBox) -> Region {
        Region { blocks: if block.is_empty() { SmallVec::new() } else { smallvec![block] } }
    }
}

impl Region {
    /// The empty region.
    pub fn empty() -> Region {
        Region::default()
    }

    /// Every element.
    pub fn all(grid: &Grid) -> Region {
        grid.block().into()
    }

    /// Elements of a range, counted in the grid: at most five boxes.
    pub fn of_range(grid: &Grid, range: Range<u64>) -> Region {
        let (mut region, range) = (Region::empty(), range.start..range.end.min(grid.elements()));
        region.push_range(grid, range);
        region
    }

    fn push_range(&mut self, grid: &Grid, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if grid.is_flat() {
            return self.blocks.push(GridBox { begin: [range.start, 0, 0], end: [range.end, 1, 1] });
        }
        let nx = grid.extent[0];
        let ((first, left), (last, right)) =
            ((range.start / nx, range.start % nx), (range.end / nx, range.end % nx));
        if first == last {
            return self.push_rows(grid, left..right, first..first + 1);
        }
        let rows = first + u64::from(left > 0);
        self.push_rows(grid, left..nx, first..rows);
        self.push_rows(grid, 0..nx, rows..last);
        self.push_rows(grid, 0..right, last..last + 1);
    }

    /// Adds elements that are not in it yet: columns `x` of rows that are counted through all planes.
    fn push_rows(&mut self, grid: &Grid, x: Range<u64>, mut rows: Range<u64>) {
        let ny = grid.extent[1];
        while !rows.is_empty() && !x.is_empty() {
            let (y, z) = (rows.start % ny, rows.start / ny);
            let left = rows.end - rows.start;
            let (y, z) = if y == 0 && left >= ny {
                (0..ny, z..z + left / ny)
            } else {
                (y..ny.min(y + left), z..z + 1)
            };
            rows.start += (y.end - y.start) * (z.end - z.start);
            self.blocks.push(GridBox { begin: [x.start, y.start, z.start], end: [x.end, y.end, z.end] });
        }
    }

    /// A box of one grid in another, whose elements from number `offset` on are those of the first. `None`:
    /// it would be many boxes.
    pub fn of_block(block: &GridBox, from: &Grid, offset: u64, to: &Grid) -> Option<Region> {
        if block.is_empty() {
            return Some(Region::empty());
        }
        debug_assert!(offset + from.elements() <= to.elements());
        if from == to && offset == 0 {
            return Some((*block).into());
        }
        let mut region = Region::empty();
        let [_, ny, nz] = block.extent();
        if from.stride()[1] == to.stride()[1] && nz > 1 {
            // Planes are equal: one of them determines all.
            let mut plane = *block;
            plane.end[2] = plane.begin[2] + 1;
            region = Region::of_block(&plane, from, offset, to)?;
            for part in &mut region.blocks {
                part.end[2] += nz - 1;
            }
        } else if from.extent[0] == to.extent[0] && offset.is_multiple_of(to.extent[0]) {
            // Rows are equal, and counted through all planes they are a flat array.
            let whole = ny == from.extent[1];
            if !whole && nz > FEW_RUNS {
                return None;
            }
            let (planes, rows) = if whole { (1, ny * nz) } else { (nz, ny) };
            for plane in 0..planes {
                let first =
                    offset / to.extent[0] + block.begin[1] + from.extent[1] * (block.begin[2] + plane);
                region.push_rows(to, block.begin[0]..block.end[0], first..first + rows);
            }
        } else {
            let runs = runs(&block.extent(), from);
            if runs.count[0].saturating_mul(runs.count[1]) > FEW_RUNS {
                return None;
            }
            let first = offset + from.flat(block.begin);
            for z in 0..runs.count[1] {
                for y in 0..runs.count[0] {
                    let at = first + y * runs.stride[0] + z * runs.stride[1];
                    region.push_range(to, at..at + runs.length);
                }
            }
        }
        region.merge();
        (region.blocks.len() <= FEW_BLOCKS).then_some(region)
    }

    /// The elements of a box whose neighbours along its axes are `strides` elements apart, and whose index 0
    /// is element `offset` of a grid: the smallest box or range of the grid that has all of them. The second
    /// value: it has no others.
    pub fn of_strided(block: &GridBox, strides: &[u64; 3], offset: u64, to: &Grid) -> (Region, bool) {
        if block.is_empty() {
            return (Region::empty(), true);
        }
        match Lattice::of(block, strides, offset, to) {
            Some(lattice) => (lattice.hull().into(), lattice.steps == [1; 3]),
            None => {
                let number = |at: [u64; 3]| offset + (0..3).map(|axis| at[axis] * strides[axis]).sum::<u64>();
                let range = number(block.begin)..number(block.end.map(|end| end - 1)) + 1;
                (Region::of_range(to, range), false)
            }
        }
    }

    /// The same elements in another grid. `None`: they would be many boxes.
    pub fn regrid(&self, from: &Grid, to: &Grid) -> Option<Region> {
        let mut region = Region::empty();
        for block in &self.blocks {
            region.blocks.extend(Region::of_block(block, from, 0, to)?.blocks);
        }
        region.merge();
        Some(region)
    }

    /// True if there is no element in it.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.blocks.iter().map(GridBox::elements).sum()
    }

    /// Its boxes, which are disjoint and not empty.
    pub fn blocks(&self) -> &[GridBox] {
        &self.blocks
    }

    /// True if all of the other is in it.
    pub fn contains(&self, other: &Region) -> bool {
        other.blocks.iter().all(|b| {
            self.blocks.iter().any(|a| a.contains(b)) || {
                let in_it = self.blocks.iter().filter_map(|a| a.intersection(b));
                in_it.map(|part| part.elements()).sum::<u64>() == b.elements()
            }
        })
    }

    /// True if some element is in both.
    pub fn overlaps(&self, other: &Region) -> bool {
        self.blocks.iter().any(|a| other.blocks.iter().any(|b| a.overlaps(b)))
    }

    /// Adds a box.
    pub fn add_block(&mut self, block: &GridBox) {
        if block.is_empty() || self.blocks.iter().any(|b| b.contains(block)) {
            return;
        }
        self.blocks.retain(|b| !block.contains(b));
        if self.blocks.is_empty() {
            return self.blocks.push(*block);
        }
        let mut new: SmallVec<[GridBox; 8]> = smallvec![*block];
        for old in &self.blocks {
            cut(&mut new, old);
        }
        self.blocks.extend(new);
        self.merge();
    }

    /// Adds all of the other.
    pub fn add(&mut self, other: &Region) {
        other.blocks.iter().for_each(|b| self.add_block(b));
    }

    /// Removes a box.
    pub fn subtract_block(&mut self, block: &GridBox) {
        if self.blocks.iter().any(|b| b.overlaps(block)) {
            cut(&mut self.blocks, block);
            self.merge();
        }
    }

    /// Removes all of the other.
    pub fn subtract(&mut self, other: &Region) {
        other.blocks.iter().for_each(|b| self.subtract_block(b));
    }

    /// The elements in both.
    pub fn intersection(&self, other: &Region) -> Region {
        let pairs = self.blocks.iter().flat_map(|a| other.blocks.iter().filter_map(|b| a.intersection(b)));
        let mut region = Region { blocks: pairs.collect() };
        region.merge();
        region
    }

    /// The elements in it and not in the other.
    pub fn without(&self, other: &Region) -> Region {
        let mut region = self.clone();
        region.subtract(other);
        region
    }

    /// Elements from the first to the last, counted in the grid.
    pub fn hull(&self, grid: &Grid) -> Range<u64> {
        let hulls = self.blocks.iter().map(|b| b.hull(grid));
        hulls.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// Merges neighbours as long as there are some: few boxes keep everything quick.
    fn merge(&mut self) {
        let mut i = 0;
        while i < self.blocks.len() {
            let found = (i + 1..self.blocks.len())
                .find_map(|j| self.blocks[i].merged(&self.blocks[j]).map(|whole| (j, whole)));
            match found {
                Some((j, whole)) => {
                    self.blocks.swap_remove(j);
                    self.blocks[i] = whole;
                    // It may now fit to one that was passed.
                    i = 0;
                }
                None => i += 1,
            }
        }
    }
}

impl PartialEq for Region {
    /// The same elements, however they are cut into boxes.
    fn eq(&self, other: &Region) -> bool {
        self.elements() == other.elements() && self.contains(other)
    }
}

/// Removes a box from disjoint boxes.
fn cut<const N: usize>(blocks: &mut SmallVec<[GridBox; N]>, hole: &GridBox)
where
    [GridBox; N]: smallvec::Array<Item = GridBox>,
{
    let mut kept: SmallVec<[GridBox; N]> = SmallVec::new();
    for block in blocks.iter() {
        block.without(hole, |part| kept.push(part));
    }
    *blocks = kept;
}

/// A box as runs of contiguous elements.
pub(crate) struct Runs {
    /// Elements in a run.
    pub length: u64,
    /// Runs in a plane, and planes.
    pub count: [u64; 2],
    /// Elements from run to run, and from plane to plane.
    pub stride: [u64; 2],
}

/// The fewest runs of a box with these extents in a grid.
pub(crate) fn runs(extent: &[u64; 3], grid: &Grid) -> Runs {
    let [x, y, z] = *extent;
    let stride = grid.stride();
    let rows = x == grid.extent[0] || y * z == 1;
    let planes = rows && y == grid.extent[1] || z == 1;
    match (rows, planes) {
        (true, true) => Runs { length: x * y * z, count: [1, 1], stride },
        (true, false) => Runs { length: x * y, count: [z, 1], stride: [stride[1], 0] },
        (false, _) => Runs { length: x, count: [y, z], stride },
    }
}
