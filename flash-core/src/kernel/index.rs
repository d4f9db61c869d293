//! The place of CPU work: [`Index`] of a work item, [`Span`] of a run of them.

use flash_types::index::{Patch, Run, Runs, SpaceRef};
use std::fmt;
use std::ops::{Index as Subscript, Range};

/// The index of one work item: a value per dimension.
///
/// `ix[0]` by position, `ix[Heat::Y]` by name: a definition has a constant per dimension.
#[derive(Clone, Copy)]
pub struct Index<const N: usize> {
    values: [usize; N],
    names: &'static [&'static str],
}

impl<const N: usize> Index<N> {
    /// All values, dimension 0 first.
    #[inline]
    pub fn values(&self) -> [usize; N] {
        self.values
    }
}

impl<const N: usize> Subscript<usize> for Index<N> {
    type Output = usize;

    #[inline(always)]
    fn index(&self, dimension: usize) -> &usize {
        &self.values[dimension]
    }
}

impl<const N: usize> fmt::Debug for Index<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names.iter().zip(self.values)).finish()
    }
}

/// A run of work items with consecutive values of dimension 0, the others fixed.
#[derive(Clone, Copy)]
pub struct Span<const N: usize> {
    first: Index<N>,
    len: usize,
}

impl<const N: usize> Span<N> {
    /// Number of work items.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a run is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Index of the first work item.
    #[inline]
    pub fn first(&self) -> Index<N> {
        self.first
    }

    /// Values of dimension 0.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.first.values[0]..self.first.values[0] + self.len
    }
}

mod sealed {
    pub trait Sealed {}
    impl<const N: usize> Sealed for super::Index<N> {}
}

/// The number of dimensions of a definition, as a type: `Index<N>`.
pub trait Rank: Copy + sealed::Sealed + 'static {
    /// Number of dimensions.
    const N: usize;
    /// A run of work items.
    type Span: Copy;
    #[doc(hidden)]
    type Runs<'a>;
    #[doc(hidden)]
    fn runs(space: SpaceRef<'_>, rows: Range<u64>) -> Self::Runs<'_>;
    #[doc(hidden)]
    fn line(
        space: SpaceRef<'_>,
        rows: &Range<u64>,
        names: &'static [&'static str],
    ) -> Option<RankPatch<Self>>;
    #[doc(hidden)]
    fn next_patch(runs: &mut Self::Runs<'_>, names: &'static [&'static str]) -> Option<RankPatch<Self>>;
    #[doc(hidden)]
    fn along(self, dimension: usize, step: i64, count: usize) -> Self;
    #[doc(hidden)]
    fn as_slice(&self) -> &[usize];
    #[doc(hidden)]
    fn span(self, len: usize) -> Self::Span;
}

/// A run, for the shims.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct RankRun<I> {
    pub first: I,
    pub dimension: usize,
    pub step: i64,
    pub count: usize,
}

/// Runs side by side, for the shims.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct RankPatch<I> {
    pub run: RankRun<I>,
    pub across: usize,
    pub stride: i64,
    pub runs: usize,
}

impl<I: Rank> RankPatch<I> {
    /// Run number `i`, less than `runs`.
    #[inline(always)]
    pub fn run(&self, i: usize) -> RankRun<I> {
        RankRun { first: self.run.first.along(self.across, self.stride, i), ..self.run }
    }
}

impl<const N: usize> Rank for Index<N> {
    const N: usize = N;
    type Span = Span<N>;
    type Runs<'a> = Runs<'a, N>;

    #[inline]
    fn runs(space: SpaceRef<'_>, rows: Range<u64>) -> Runs<'_, N> {
        Runs::new(space, rows)
    }

    #[inline(always)]
    fn line(
        space: SpaceRef<'_>,
        rows: &Range<u64>,
        names: &'static [&'static str],
    ) -> Option<RankPatch<Self>> {
        if N != 1 {
            return None;
        }
        let (first, step) = space.line(rows.start)?;
        let first = Index { values: [first as usize; N], names };
        let run = RankRun { first, dimension: 0, step, count: (rows.end - rows.start) as usize };
        Some(RankPatch { run, across: 0, stride: 0, runs: 1 })
    }

    #[inline]
    fn next_patch(runs: &mut Runs<'_, N>, names: &'static [&'static str]) -> Option<RankPatch<Self>> {
        let Patch { run: Run { index, dim, step, count }, across, stride, runs } = runs.next_patch()?;
        let first = Index { values: index.map(|v| v as usize), names };
        let run = RankRun { first, dimension: dim, step, count: count as usize };
        Some(RankPatch { run, across, stride, runs: runs as usize })
    }

    /// Compares instead of indexing, which keeps the values in registers. A read of memory in another width
    /// than it was written in has to wait for all stores before it, a kernel's results among them.
    #[inline(always)]
    fn along(self, dimension: usize, step: i64, count: usize) -> Self {
        let by = (step as usize).wrapping_mul(count);
        let values = std::array::from_fn(|dim| {
            let value = self.values[dim];
            if dim == dimension { value.wrapping_add(by) } else { value }
        });
        Index { values, ..self }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[usize] {
        &self.values
    }

    #[inline(always)]
    fn span(self, len: usize) -> Span<N> {
        Span { first: self, len }
    }
}
