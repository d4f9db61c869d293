//! Decoding a [`Space`]: rows to positions and values, phases to rows.
//!
//! This is the only code that does so. [`super::Order`] goes through it, and so do the kernel shims, which
//! have only the `Space`.
//!
//! **Counting barriers.** `below(l, x)` is the number of barriers inside `x` whole iterations of loop `l`. It
//! is a sum over the loops further in. Each term is a product of extents: the number of sweeps of that loop,
//! times its barriers per sweep. Loops over the members of a group have no fixed extent, but their number of
//! sweeps is linear in the extent of each group's loop, and independent between dimensions. So a sum over a
//! range of groups is the same product, with the number of groups and of members in the range as factors in
//! place of 1 and the size of one group. No loop is ever walked.

use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

use smallvec::SmallVec;

use crate::abi::space::{
    BARRIER_ALL, BARRIER_LIST, DIM_AFFINE, LOOP_FULL, LOOP_GROUP, LOOP_MEMBER, LOOP_REVERSED, Loop, Space,
    SpaceDim,
};

/// A [`Space`] whose arrays are known to live for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct SpaceRef<'a> {
    raw: &'a Space,
}

/// A [`Space`] made from an [`super::Order`], which it borrows.
#[derive(Clone, Copy, Debug)]
pub struct SpaceView<'o> {
    raw: Space,
    order: PhantomData<&'o super::Order>,
}

impl SpaceView<'_> {
    /// # Safety
    /// As [`SpaceRef::new`], for the lifetime of this type.
    #[inline(always)]
    pub(super) unsafe fn new(raw: Space) -> Self {
        SpaceView { raw, order: PhantomData }
    }

    /// The decoder.
    #[inline(always)]
    pub fn get(&self) -> SpaceRef<'_> {
        // SAFETY: the caller of `new` promised this for the lifetime of `self`'s type, which
        // outlives the borrow of `self`.
        unsafe { SpaceRef::new(&self.raw) }
    }
}

impl<'a> SpaceRef<'a> {
    /// Trusts a description in plain data.
    ///
    /// # Safety
    /// Every pointer in `raw`, in its dimensions and in its loops is as the documentation of
    /// [`crate::abi::space`] says: aligned, valid for as many elements as stated there, and
    /// neither freed nor written during `'a`.
    #[inline(always)]
    pub unsafe fn new(raw: &'a Space) -> Self {
        SpaceRef { raw }
    }

    /// The plain-data form, for the other side of a plugin boundary.
    #[inline(always)]
    pub fn raw(&self) -> &'a Space {
        self.raw
    }

    /// The first value and the step of the rows from `row` on, if the space is one dimension in natural order
    /// with values at equal distances, as in almost every launch.
    #[inline(always)]
    pub fn line(&self, row: u64) -> Option<(u64, i64)> {
        let [dim] = self.dims() else { return None };
        let natural = match self.loops() {
            [] => true,
            [only] => only.kind == LOOP_FULL,
            _ => false,
        };
        let value = dim.start.wrapping_add(row.wrapping_mul(dim.step as u64));
        (natural && dim.kind == DIM_AFFINE).then_some((value, dim.step))
    }

    /// Work items, which is rows of the index table.
    #[inline(always)]
    pub fn items(&self) -> u64 {
        self.raw.items
    }

    /// Phases; 0 if and only if there are no items.
    #[inline(always)]
    pub fn phases(&self) -> u64 {
        self.raw.phases
    }

    /// The rows of phase `phase`.
    ///
    /// # Panics
    /// If there is no such phase.
    #[inline]
    pub fn phase(&self, phase: u64) -> Range<u64> {
        assert!(phase < self.raw.phases, "phase {phase} of {}", self.raw.phases);
        match self.raw.phase_items {
            0 => self.first_row(phase)..self.first_row(phase + 1),
            rows => phase * rows..(phase + 1) * rows,
        }
    }

    /// The phase that a row belongs to.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn phase_of(&self, row: u64) -> u64 {
        assert!(row < self.raw.items, "row {row} of {}", self.raw.items);
        if let Some(phase) = row.checked_div(self.raw.phase_items) {
            return phase;
        }
        let (mut at, mut group) = self.state();
        self.decode(row, &mut at, &mut group);
        let delta = |(l, lp): (usize, &Loop)| {
            let state = if lp.kind == LOOP_GROUP { &group } else { &at };
            self.before(l, state[lp.dim as usize], &group)
        };
        self.loops().iter().enumerate().map(delta).sum()
    }

    /// The position of a row along each dimension.
    ///
    /// # Panics
    /// If there is no such row, or `position` has not one element per dimension.
    pub fn position(&self, row: u64, position: &mut [u64]) {
        assert!(row < self.raw.items, "row {row} of {}", self.raw.items);
        assert_eq!(position.len(), self.dims().len(), "one element per dimension");
        let (mut at, mut group) = self.state();
        self.decode(row, &mut at, &mut group);
        position.fill(0);
        for lp in self.loops().iter().filter(|lp| lp.kind != LOOP_GROUP) {
            let dim = lp.dim as usize;
            position[dim] = self.position_at(lp, at[dim], &group);
        }
    }

    /// The index values of a row.
    ///
    /// # Panics
    /// As [`SpaceRef::position`].
    pub fn value(&self, row: u64, value: &mut [u64]) {
        self.position(row, value);
        for (v, dim) in value.iter_mut().zip(self.dims()) {
            *v = self.value_at(dim, *v);
        }
    }

    /// Its dimensions.
    #[inline(always)]
    pub fn dims(&self) -> &'a [SpaceDim] {
        // SAFETY: `new`'s caller promised `ndims` of them.
        unsafe { slice::from_raw_parts(self.raw.dims, self.raw.ndims as usize) }
    }

    /// Its loops, the outermost first.
    #[inline(always)]
    pub fn loops(&self) -> &'a [Loop] {
        // SAFETY: `new`'s caller promised `nloops` of them.
        unsafe { slice::from_raw_parts(self.raw.loops, self.raw.nloops as usize) }
    }

    /// The listed values of one of this space's dimensions of kind `DIM_VALUES`.
    #[inline]
    pub(super) fn values(&self, dim: &SpaceDim) -> &'a [u64] {
        debug_assert!(!dim.values.is_null());
        // SAFETY: `new`'s caller promised `count` values for this kind.
        unsafe { slice::from_raw_parts(dim.values, dim.count as usize) }
    }

    /// The `order` table of one of this space's loops that has one.
    #[inline]
    pub(super) fn order(&self, lp: &Loop) -> &'a [u64] {
        debug_assert!(!lp.order.is_null());
        let count = self.dims()[lp.dim as usize].count;
        // SAFETY: `new`'s caller promised every position of the dimension for these kinds.
        unsafe { slice::from_raw_parts(lp.order, count as usize) }
    }

    /// The `starts` table of one of this space's loops that has one.
    #[inline]
    pub(super) fn starts(&self, lp: &Loop) -> &'a [u64] {
        debug_assert!(!lp.starts.is_null());
        let groups =
            if lp.kind == LOOP_GROUP { lp.count } else { self.loops()[lp.group_loop as usize].count };
        // SAFETY: `new`'s caller promised one element per group and one more for these kinds.
        unsafe { slice::from_raw_parts(lp.starts, groups as usize + 1) }
    }

    /// The barriers of one of this space's loops of barrier kind `BARRIER_LIST`.
    #[inline]
    fn barriers(&self, lp: &Loop) -> &'a [u64] {
        debug_assert!(!lp.barriers.is_null());
        // SAFETY: `new`'s caller promised `nbarriers` of them for this kind.
        unsafe { slice::from_raw_parts(lp.barriers, lp.nbarriers as usize) }
    }

    /// The value of a dimension at a position.
    #[inline(always)]
    pub(super) fn value_at(&self, dim: &SpaceDim, position: u64) -> u64 {
        if dim.kind == DIM_AFFINE {
            dim.start.wrapping_add(position.wrapping_mul(dim.step as u64))
        } else {
            self.values(dim)[position as usize]
        }
    }

    /// The position of a loop's dimension in iteration `i`; of a group, its first.
    #[inline(always)]
    pub(super) fn position_at(&self, lp: &Loop, i: u64, group: &[u64]) -> u64 {
        match lp.kind {
            LOOP_FULL => i,
            LOOP_REVERSED => lp.count - 1 - i,
            LOOP_GROUP => self.order(lp)[self.starts(lp)[i as usize] as usize],
            LOOP_MEMBER => {
                let first = self.starts(lp)[group[lp.dim as usize] as usize];
                self.order(lp)[(first + i) as usize]
            }
            _ => self.order(lp)[i as usize],
        }
    }

    /// Iterations of a loop, given the groups chosen outside it.
    #[inline(always)]
    pub(super) fn extent(&self, lp: &Loop, group: &[u64]) -> u64 {
        if lp.kind == LOOP_MEMBER {
            let g = group[lp.dim as usize] as usize;
            let starts = self.starts(lp);
            starts[g + 1] - starts[g]
        } else {
            lp.count
        }
    }

    /// The iteration of every loop at a row below `items`, by dimension: of `GROUP` loops in
    /// `group`, of all others in `at`.
    #[inline(always)]
    pub(super) fn decode(&self, mut row: u64, at: &mut [u64], group: &mut [u64]) {
        let Some((last, outer)) = self.loops().split_last() else {
            return;
        };
        let mut cell = self.raw.items;
        for lp in outer {
            let i = self.enter(lp, &mut row, &mut cell, group);
            if lp.kind == LOOP_GROUP {
                group[lp.dim as usize] = i;
            } else {
                at[lp.dim as usize] = i;
            }
        }
        // The innermost loop's cell is one row, and it is never a GROUP.
        at[last.dim as usize] = row;
    }

    /// The iteration of `lp` that holds `row`, of the `cell` rows that one sweep of it has;
    /// narrows both to that iteration.
    #[inline(always)]
    fn enter(&self, lp: &Loop, row: &mut u64, cell: &mut u64, group: &[u64]) -> u64 {
        if lp.kind == LOOP_GROUP {
            *cell /= self.order(lp).len() as u64;
            let element = *row / *cell;
            let g = self.starts(lp).partition_point(|&start| start <= element) - 1;
            let (first, size) = self.group(lp, g as u64);
            *row -= first * *cell;
            *cell *= size;
            g as u64
        } else {
            *cell /= self.extent(lp, group);
            let i = *row / *cell;
            *row -= i * *cell;
            i
        }
    }

    /// The beginning of group `g` of a loop in its order, and its size.
    fn group(&self, lp: &Loop, g: u64) -> (u64, u64) {
        let starts = &self.starts(lp)[g as usize..];
        (starts[0], starts[1] - starts[0])
    }

    /// Barriers in the whole table.
    pub(super) fn all_barriers(&self) -> u64 {
        self.below(0, 1, &[])
    }

    /// Barriers inside `x` whole iterations, the first ones, of the loop outside loop `inner`.
    fn below(&self, inner: usize, x: u64, group: &[u64]) -> u64 {
        if x == 0 {
            return 0;
        }
        let loops = self.loops();
        let (mut sweeps, mut barriers) = (x, 0);
        for lp in &loops[inner..] {
            let inside = if lp.kind == LOOP_MEMBER {
                let g = lp.group_loop as usize;
                // The number of groups that the loops so far run through, and of their members together.
                let (groups, members) = if g + 1 < inner {
                    (1, self.extent(lp, group))
                } else if g + 1 == inner {
                    (x, self.starts(lp)[x as usize])
                } else {
                    (loops[g].count, lp.count)
                };
                sweeps / groups * members
            } else {
                sweeps * lp.count
            };
            barriers += match lp.barrier {
                BARRIER_ALL => inside - sweeps,
                BARRIER_LIST => sweeps * lp.nbarriers,
                _ => 0,
            };
            sweeps = inside;
        }
        barriers
    }

    /// Barriers between the first row of a sweep of loop `l` and the first of its iteration `i`.
    fn before(&self, l: usize, i: u64, group: &[u64]) -> u64 {
        let lp = &self.loops()[l];
        let own = match lp.barrier {
            BARRIER_ALL => i,
            BARRIER_LIST => self.barriers(lp).partition_point(|&b| b < i) as u64,
            _ => 0,
        };
        own + self.below(l + 1, i, group)
    }

    /// The first row of a phase, or the end of the table for the one after the last.
    fn first_row(&self, phase: u64) -> u64 {
        if phase == 0 {
            return 0;
        } else if phase == self.raw.phases {
            return self.raw.items;
        }
        // The row sought follows the last one with fewer than `phase` barriers before it. In each
        // loop that one lies in the last iteration that begins with fewer.
        let (_, mut group) = self.state();
        let (mut wanted, mut row, mut cell) = (phase, 0, self.raw.items);
        for (l, lp) in self.loops().iter().enumerate() {
            let extent = self.extent(lp, &group);
            let i = if lp.kind == LOOP_GROUP || lp.barrier == BARRIER_LIST {
                last_below(extent, |i| self.before(l, i, &group) < wanted)
            } else {
                let each = self.below(l + 1, 1, &group) + u64::from(lp.barrier == BARRIER_ALL);
                (wanted - 1).checked_div(each).map_or(extent - 1, |i| i.min(extent - 1))
            };
            wanted -= self.before(l, i, &group);
            if lp.kind == LOOP_GROUP {
                group[lp.dim as usize] = i;
                let (first, size) = self.group(lp, i);
                cell /= self.order(lp).len() as u64;
                row += first * cell;
                cell *= size;
            } else {
                cell /= extent;
                row += i * cell;
            }
        }
        row + 1
    }

    /// Room for the iteration of every loop, by dimension (see [`SpaceRef::decode`]).
    pub(super) fn state(&self) -> (SmallVec<[u64; 4]>, SmallVec<[u64; 4]>) {
        let zeros = SmallVec::from_elem(0, self.raw.ndims as usize);
        (zeros.clone(), zeros)
    }
}

/// The last `i` below `extent` for which `holds`, which does for 0 and stops doing so once.
fn last_below(extent: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, extent);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
