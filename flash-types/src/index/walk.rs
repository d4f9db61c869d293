//! Running through the rows of a space, as the loops inside kernel shims do.
//!
//! A cursor hands out *runs*: stretches of the innermost loop along which one dimension moves by a
//! constant step. Finding the first row costs divisions, once; after that an odometer steps the
//! loops, and nothing is divided, looked up or allocated per item.

use std::ops::Range;

use smallvec::SmallVec;

use super::dims::difference;
use super::view::SpaceRef;
use crate::abi::space::{DIM_AFFINE, LOOP_FULL, LOOP_GROUP, LOOP_REVERSED, Loop};

/// Consecutive items of the table, along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<const N: usize> {
    /// Index values of the first item.
    pub index: [u64; N],
    /// The dimension that varies.
    pub dim: usize,
    /// Growth of its value from item to item; never 0.
    pub step: i64,
    /// Number of items, at least 1.
    pub count: u64,
}

/// Runs of one length, each the one before moved along a second dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch<const N: usize> {
    /// The first run.
    pub run: Run<N>,
    /// The dimension that varies from run to run.
    pub across: usize,
    /// Growth of its value.
    pub stride: i64,
    /// Number of runs, at least 1.
    pub runs: u64,
}

/// The same as a [`Run`] for a number of dimensions that is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynRun<'r> {
    /// Index values of the first item.
    pub index: &'r [u64],
    /// The dimension that varies.
    pub dim: usize,
    /// Growth of its value from item to item; never 0.
    pub step: i64,
    /// Number of items, at least 1.
    pub count: u64,
}

/// The runs of some rows of a space with `N` dimensions, each row once.
pub struct Runs<'a, const N: usize>(Cursor<'a, [u64; N]>);

impl<'a, const N: usize> Runs<'a, N> {
    /// # Panics
    /// If the space has not `N` dimensions, or not those rows.
    #[inline(always)]
    pub fn new(space: SpaceRef<'a>, rows: Range<u64>) -> Self {
        assert!(space.dims().len() == N, "a space of {} dimensions, not {N}", space.dims().len());
        Runs(Cursor::new(space, rows, [[0; N]; 3]))
    }

    /// The next run, as long as there is one.
    #[inline(always)]
    pub fn next_run(&mut self) -> Option<Run<N>> {
        let (dim, step, count) = self.0.next()?;
        Some(Run { index: self.0.index, dim, step, count })
    }

    /// The next run with those that follow it along a second dimension, as long as there is one.
    #[inline(always)]
    pub fn next_patch(&mut self) -> Option<Patch<N>> {
        let run = self.next_run()?;
        let (across, stride, more) = self.0.alike(run.count);
        Some(Patch { run, across, stride, runs: 1 + more })
    }
}

impl<const N: usize> Iterator for Runs<'_, N> {
    type Item = Run<N>;

    #[inline(always)]
    fn next(&mut self) -> Option<Run<N>> {
        self.next_run()
    }
}

/// The runs of some rows of a space with any number of dimensions, each row once.
pub struct DynRuns<'a>(Cursor<'a, SmallVec<[u64; 4]>>);

impl<'a> DynRuns<'a> {
    /// # Panics
    /// If the space has not those rows.
    pub fn new(space: SpaceRef<'a>, rows: Range<u64>) -> Self {
        let zeros = SmallVec::from_elem(0, space.dims().len());
        DynRuns(Cursor::new(space, rows, [zeros.clone(), zeros.clone(), zeros]))
    }

    /// The next run, as long as there is one.
    #[inline]
    pub fn next_run(&mut self) -> Option<DynRun<'_>> {
        let (dim, step, count) = self.0.next()?;
        Some(DynRun { index: &self.0.index, dim, step, count })
    }
}

/// One number per dimension: an array, or a vector where their number is not known.
trait Slots: AsRef<[u64]> + AsMut<[u64]> {}

impl<T: AsRef<[u64]> + AsMut<[u64]>> Slots for T {}

struct Cursor<'a, S> {
    space: SpaceRef<'a>,
    /// Rows not handed out yet.
    left: u64,
    /// Iterations of the innermost loop not handed out yet in this sweep.
    room: u64,
    /// Dimension of the innermost loop.
    dim: usize,
    /// Growth per iteration; 0 if its values are listed.
    step: i64,
    /// The first value of a sweep of the innermost loop, unless its values are listed.
    first: u64,
    /// Values of the first item of the last run.
    index: S,
    /// Iteration of each dimension's loop; of its `MEMBER` loop if it has two. Not kept up to
    /// date for the innermost loop.
    at: S,
    /// Iteration of each dimension's `GROUP` loop.
    group: S,
}

impl<'a, S: Slots> Cursor<'a, S> {
    #[inline(always)]
    fn new(space: SpaceRef<'a>, rows: Range<u64>, [index, at, group]: [S; 3]) -> Self {
        let items = space.items();
        assert!(rows.start <= rows.end && rows.end <= items, "rows {rows:?} of {items}");
        let left = rows.end - rows.start;
        // No loop at all means one item.
        let mut cursor = Cursor { space, left, room: 1, dim: 0, step: 1, first: 0, index, at, group };
        if left != 0 {
            cursor.seek(rows.start);
        }
        cursor
    }

    /// Sets everything for a first run at `row`.
    #[inline(always)]
    fn seek(&mut self, row: u64) {
        // One dimension of evenly spaced values, in its own order, as in most launches.
        if let ([lp], [dim]) = (self.space.loops(), self.space.dims())
            && (lp.kind, dim.kind) == (LOOP_FULL, DIM_AFFINE)
        {
            self.step = dim.step;
            self.room = dim.count - row;
            self.index.as_mut()[0] = self.space.value_at(dim, row);
        } else {
            self.seek_any(row);
        }
    }

    #[inline(never)]
    fn seek_any(&mut self, row: u64) {
        let space = self.space;
        let (at, group) = (self.at.as_mut(), self.group.as_mut());
        space.decode(row, at, group);
        for (value, dim) in self.index.as_mut().iter_mut().zip(space.dims()) {
            *value = space.value_at(dim, 0);
        }
        let Some(last) = space.loops().last() else {
            return;
        };
        self.dim = last.dim as usize;
        let dim = &space.dims()[self.dim];
        self.step = match (dim.kind, last.kind) {
            (DIM_AFFINE, LOOP_FULL) => dim.step,
            (DIM_AFFINE, LOOP_REVERSED) => dim.step.wrapping_neg(),
            _ => 0,
        };
        self.first = space.value_at(dim, space.position_at(last, 0, group));
        self.room = space.extent(last, group) - at[self.dim];
        for lp in space.loops().iter().filter(|lp| lp.kind != LOOP_GROUP) {
            let i = self.at.as_ref()[lp.dim as usize];
            self.set(lp, i);
        }
    }

    /// Dimension, step and count of the next run; its first item is in `index`.
    #[inline(always)]
    fn next(&mut self) -> Option<(usize, i64, u64)> {
        if self.left == 0 {
            return None;
        }
        if self.room == 0 {
            self.carry();
        }
        let (step, count) = match self.step {
            0 => self.listed(),
            step => (step, self.room.min(self.left)),
        };
        self.left -= count;
        self.room -= count;
        Some((self.dim, step, count))
    }

    /// Hands out the runs that follow the last one, of `count` items, and differ from it by steps of the loop
    /// around the innermost one: its dimension, its growth, and the number of runs.
    #[inline]
    fn alike(&mut self, count: u64) -> (usize, i64, u64) {
        const NONE: (usize, i64, u64) = (0, 0, 0);
        let [.., around, last] = self.space.loops() else {
            return NONE;
        };
        // The values are listed, or the run is a part of the innermost loop.
        if self.step == 0 || self.room != 0 || count != last.count {
            return NONE;
        }
        let across = around.dim as usize;
        let dim = &self.space.dims()[across];
        let stride = match (dim.kind, around.kind) {
            (DIM_AFFINE, LOOP_FULL) => dim.step,
            (DIM_AFFINE, LOOP_REVERSED) => dim.step.wrapping_neg(),
            _ => return NONE,
        };
        let at = &mut self.at.as_mut()[across];
        let more = (around.count - 1 - *at).min(self.left / count);
        *at += more;
        let value = &mut self.index.as_mut()[across];
        *value = value.wrapping_add(more.wrapping_mul(stride as u64));
        self.left -= more * count;
        (across, stride, more)
    }

    /// Puts a loop at iteration `i`.
    #[inline(always)]
    fn set(&mut self, lp: &Loop, i: u64) {
        let dim = lp.dim as usize;
        if lp.kind == LOOP_GROUP {
            self.group.as_mut()[dim] = i;
        } else {
            self.at.as_mut()[dim] = i;
        }
        let position = self.space.position_at(lp, i, self.group.as_ref());
        self.index.as_mut()[dim] = self.space.value_at(&self.space.dims()[dim], position);
    }

    /// Steps the loops outside the innermost one, which has come to its end; there is a next row.
    #[inline]
    fn carry(&mut self) {
        let Some((last, outer)) = self.space.loops().split_last() else {
            return;
        };
        // Members begin anew before their group may change: a group begins with its first.
        if self.step == 0 {
            self.set(last, 0);
        } else {
            self.index.as_mut()[self.dim] = self.first;
        }
        for lp in outer.iter().rev() {
            let state = if lp.kind == LOOP_GROUP { self.group.as_ref() } else { self.at.as_ref() };
            let next = state[lp.dim as usize] + 1;
            if next < self.space.extent(lp, self.group.as_ref()) {
                self.set(lp, next);
                break;
            }
            self.set(lp, 0);
        }
        self.room = if self.step == 0 { self.space.extent(last, self.group.as_ref()) } else { last.count };
    }

    /// Step and count of the next run of an innermost loop whose values are listed.
    #[inline(never)]
    fn listed(&mut self) -> (i64, u64) {
        let Some(lp) = self.space.loops().last() else {
            return (1, 1);
        };
        let dim = &self.space.dims()[self.dim];
        let value = |i, group: &[u64]| self.space.value_at(dim, self.space.position_at(lp, i, group));
        let group = self.group.as_ref();
        let first = self.space.extent(lp, group) - self.room;
        let most = self.room.min(self.left);
        let (mut step, mut count) = (1, 1);
        let mut before = value(first, group);
        let start = before;
        while count < most {
            let next = value(first + count, group);
            match difference(before, next) {
                Some(found) if count == 1 || found == step => step = found,
                _ => break,
            }
            before = next;
            count += 1;
        }
        self.index.as_mut()[self.dim] = start;
        (step, count)
    }
}
