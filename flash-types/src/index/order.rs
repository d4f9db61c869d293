//! From dimensions and traits to loops with barriers.
//!
//! The table is a nest, outermost first: for each sorted dimension, the highest-numbered first, its groups of
//! equal value in ascending order; then, for all dimensions from the highest-numbered, the unsorted ones in
//! full and the sorted ones the members of their group. That is a stable sort: among rows of equal key the
//! natural order stays. A sorted dimension whose values are distinct has only the outer loop. A loop of one
//! iteration is left out.
//!
//! Barriers compare values. A step of a loop changes the value of its own dimension, and of every
//! dimension further in whose last value is not its first. The second makes *every* step of the
//! loop a barrier, so that a loop has barriers at all of its steps, at none, or at those where its
//! own values say so; only the last needs a list.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::view::SpaceView;
use super::{Dim, IndexError, Sequence};
use crate::abi::space::{
    BARRIER_ALL, BARRIER_LIST, BARRIER_NONE, DIM_AFFINE, DIM_VALUES, LOOP_FULL, LOOP_GROUP, LOOP_MEMBER,
    LOOP_ORDERED, LOOP_REVERSED, Loop, Space, SpaceDim,
};

/// The traits that fix order and barriers. Dimensions go by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderTraits<'a> {
    /// Sort the table by these, ascending by value and stably, the highest-numbered one most significant in
    /// whatever order they are listed. Without `group`, a barrier stands where that one changes value.
    pub sort: &'a [usize],
    /// Barriers in place of those of `sort`.
    pub group: Option<Group<'a>>,
}

impl OrderTraits<'_> {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.sort.is_empty() && self.group.is_none()
    }
}

/// The places of barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group<'a> {
    /// Wherever one of these changes value, or any dimension more significant in table order than
    /// one of these.
    Dims(&'a [usize]),
    /// Wherever one of these changes value.
    Only(&'a [usize]),
    /// Wherever `dim` changes into one of `values`.
    Into {
        /// The dimension.
        dim: usize,
        /// The values, in any order.
        values: &'a [u64],
    },
}

/// An index space in the order in which it runs, with its phases.
///
/// O(dimensions) memory, whatever the number of items; listed values and what is computed from
/// them are shared with their [`Sequence`].
#[derive(Clone, Debug, Default)]
pub struct Order {
    items: u64,
    phases: u64,
    /// Rows of every phase if they all have the same number, else 0.
    phase_items: u64,
    /// Whether there are counts of 2 and more only, at least one, and no traits.
    refits: bool,
    dims: SmallVec<[SpaceDim; 4]>,
    loops: SmallVec<[Loop; 4]>,
    /// Keep what `dims` and `loops` point to; never changed while they do.
    sequences: Vec<Sequence>,
    list: Option<Arc<[u64]>>,
}

impl Order {
    /// The order of a space.
    ///
    /// # Errors
    /// Dimensions or traits that describe no space; see [`IndexError`].
    #[inline]
    pub fn new(dims: &[Dim], traits: &OrderTraits<'_>) -> Result<Self, IndexError> {
        let mut order = Order::default();
        if traits.is_empty() && order.counts(dims) {
            return Ok(order);
        }
        order.set_anew(dims, traits)?;
        Ok(order)
    }

    /// Makes this the order of a space, reusing its memory. After an error it is the empty space of no
    /// dimensions. A warm launch uses this: it takes a few ns where the last space, too, was one of counts
    /// without traits.
    ///
    /// # Errors
    /// As [`Order::new`].
    #[inline]
    pub fn set(&mut self, dims: &[Dim], traits: &OrderTraits<'_>) -> Result<(), IndexError> {
        if traits.is_empty() && self.refit(dims) { Ok(()) } else { self.set_anew(dims, traits) }
    }

    /// Changes the counts only, if the loops stay the same otherwise. If not, returns false and leaves the
    /// order incomplete.
    #[inline]
    fn refit(&mut self, dims: &[Dim]) -> bool {
        if !self.refits || dims.len() != self.dims.len() {
            return false;
        }
        let mut items = 1u64;
        let loops = self.loops.iter_mut().rev();
        for ((dim, own), lp) in dims.iter().zip(self.dims.iter_mut()).zip(loops) {
            let &Dim::Count(count @ 2..) = dim else {
                return false;
            };
            let Some(product) = items.checked_mul(count) else {
                return false;
            };
            own.count = count;
            lp.count = count;
            items = product;
        }
        self.items = items;
        self.phase_items = items;
        true
    }

    /// Makes a fresh order one of up to four counts of 2 and more. If they are not, returns false and leaves
    /// the order incomplete.
    #[inline(always)]
    fn counts(&mut self, dims: &[Dim]) -> bool {
        if dims.is_empty() || dims.len() > 4 {
            return false;
        }
        for (number, _) in dims.iter().enumerate().rev() {
            self.dims.push(COUNT);
            self.loops.push(Loop { dim: number as u32, ..FULL });
        }
        self.refits = true;
        self.phases = 1;
        self.refit(dims)
    }

    #[inline(never)]
    fn set_anew(&mut self, dims: &[Dim], traits: &OrderTraits<'_>) -> Result<(), IndexError> {
        self.dims.clear();
        self.loops.clear();
        self.sequences.clear();
        self.list = None;
        self.items = 0;
        self.phases = 0;
        self.phase_items = 0;
        self.refits = false;
        let result = if traits.is_empty() { self.natural(dims) } else { self.build(dims, traits) };
        if result.is_err() {
            self.dims.clear();
        }
        result
    }

    /// Work items, which is rows of the index table.
    #[inline]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Phases; 0 if and only if there are no items.
    #[inline]
    pub fn phases(&self) -> u64 {
        self.phases
    }

    /// The rows of phase `phase`.
    ///
    /// # Panics
    /// If there is no such phase.
    #[inline]
    pub fn phase(&self, phase: u64) -> Range<u64> {
        self.view().get().phase(phase)
    }

    /// The phase that a row belongs to.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn phase_of(&self, row: u64) -> u64 {
        self.view().get().phase_of(row)
    }

    /// The position of a row along each dimension.
    ///
    /// # Panics
    /// If there is no such row, or `position` has not one element per dimension.
    pub fn position(&self, row: u64, position: &mut [u64]) {
        self.view().get().position(row, position);
    }

    /// The index values of a row.
    ///
    /// # Panics
    /// As [`Order::position`].
    pub fn value(&self, row: u64, value: &mut [u64]) {
        self.view().get().value(row, value);
    }

    /// Whether a dimension stays at one *position* inside every phase.
    ///
    /// Its position moves with the steps of its own loops, and with those of any loop outside
    /// them. So all steps of the loops from the outermost to its innermost have to be barriers.
    #[inline]
    pub fn constant_within_phases(&self, dim: usize) -> bool {
        let own = self.loops.iter().rposition(|lp| lp.dim as usize == dim);
        own.is_none_or(|own| self.loops[..=own].iter().all(|lp| lp.barrier == BARRIER_ALL))
    }

    /// Whether every phase is sure to contain every position of a dimension, with each
    /// combination of the dimensions inside it. False for an empty space, where nothing runs.
    ///
    /// If no loop from the dimension's outermost inwards has barriers, then phases begin and end
    /// where that loop does.
    #[inline]
    pub fn every_phase_spans(&self, dim: usize) -> bool {
        let own = self.loops.iter().position(|lp| lp.dim as usize == dim);
        self.items != 0 && own.is_none_or(|own| self.loops[own..].iter().all(|lp| lp.barrier == BARRIER_NONE))
    }

    /// The dimensions of more than one position, the slowest first.
    #[inline]
    pub fn dims_by_speed(&self) -> impl Iterator<Item = usize> {
        self.loops.iter().filter(|lp| lp.kind != LOOP_MEMBER).map(|lp| lp.dim as usize)
    }

    /// The space as plain data, for kernels and plugins.
    #[inline]
    pub fn view(&self) -> SpaceView<'_> {
        let raw = Space {
            struct_size: size_of::<Space>() as u32,
            ndims: self.dims.len() as u32,
            items: self.items,
            phases: self.phases,
            phase_items: self.phase_items,
            nloops: self.loops.len() as u32,
            reserved: 0,
            dims: self.dims.as_ptr(),
            loops: self.loops.as_ptr(),
        };
        // SAFETY: the arrays are in `self`, in heap blocks that `self` shares ownership of
        // (`sequences`, `list`) or in neither, and nothing changes them while `self` is borrowed.
        // `natural` and `build` made them as the documentation of `Space` says.
        unsafe { SpaceView::new(raw) }
    }

    /// One phase in natural order, as in almost every launch.
    fn natural(&mut self, dims: &[Dim]) -> Result<(), IndexError> {
        self.take(dims)?;
        if self.items != 0 {
            for (dim, values) in self.dims.iter().enumerate().rev() {
                if values.count > 1 {
                    self.loops.push(FULL);
                    if let Some(lp) = self.loops.last_mut() {
                        lp.dim = dim as u32;
                        lp.count = values.count;
                    }
                }
            }
            self.phases = 1;
            self.phase_items = self.items;
            let loops = self.loops.len();
            self.refits = loops == dims.len() && dims.iter().all(|d| matches!(d, Dim::Count(_)));
        }
        Ok(())
    }

    /// Checks the dimensions and counts the items.
    fn take(&mut self, dims: &[Dim]) -> Result<(), IndexError> {
        let (mut product, mut overflow) = (1u64, false);
        for (number, dim) in dims.iter().enumerate() {
            let (start, step, count) = match dim {
                Dim::Count(count) => (0, 1, *count),
                Dim::Range { start, step, count } => {
                    dim.check(number)?;
                    (*start, *step, *count)
                }
                Dim::Sequence(sequence) => {
                    self.sequences.push(sequence.clone());
                    (0, 0, sequence.values().len() as u64)
                }
                Dim::Invalid(_) => {
                    dim.check(number)?;
                    (0, 1, 0)
                }
            };
            let (kind, values) = match dim {
                Dim::Sequence(sequence) => (DIM_VALUES, sequence.values().as_ptr()),
                _ => (DIM_AFFINE, std::ptr::null()),
            };
            // Fields one by one: copying a struct just written stalls.
            self.dims.push(COUNT);
            let own = &mut self.dims[number];
            own.kind = kind;
            own.start = start;
            own.step = step;
            own.count = count;
            own.values = values;
            let (next, over) = product.overflowing_mul(count);
            overflow |= over;
            product = if over { 1 } else { next };
        }
        // An empty dimension makes an empty space, whatever the others are.
        if overflow {
            let extents: Vec<u64> = dims.iter().map(Dim::len).collect();
            if !extents.contains(&0) {
                return Err(IndexError::TooManyItems { extents });
            }
            product = 0;
        }
        self.items = product;
        Ok(())
    }

    fn build(&mut self, dims: &[Dim], traits: &OrderTraits<'_>) -> Result<(), IndexError> {
        check_traits(dims.len(), traits)?;
        self.take(dims)?;
        if self.items != 0 {
            self.nest(dims, traits.sort);
            self.place_barriers(dims, traits);
            self.count_phases();
        }
        Ok(())
    }

    /// The loops, without barriers.
    fn nest(&mut self, dims: &[Dim], sort: &[usize]) {
        let loops = &mut self.loops;
        for (number, dim) in dims.iter().enumerate().rev().filter(|(d, _)| sort.contains(d)) {
            let mut lp = Loop { dim: number as u32, count: dim.len(), ..FULL };
            match dim {
                _ if lp.count < 2 => continue,
                Dim::Range { step, .. } if *step < 0 => lp.kind = LOOP_REVERSED,
                Dim::Sequence(s) if !s.ascending() => {
                    lp.order = s.order().as_ptr();
                    lp.kind = LOOP_ORDERED;
                    if !s.distinct() {
                        lp.kind = LOOP_GROUP;
                        lp.starts = s.starts().as_ptr();
                        lp.count = s.starts().len() as u64 - 1;
                    }
                    // One value only: sorting changes nothing.
                    if lp.count < 2 {
                        continue;
                    }
                }
                _ => {}
            }
            loops.push(lp);
        }
        let outer = loops.len();
        for (number, dim) in dims.iter().enumerate().rev().filter(|(_, dim)| dim.len() > 1) {
            let mut lp = Loop { dim: number as u32, count: dim.len(), ..FULL };
            if let Some(group) = loops[..outer].iter().position(|lp| lp.dim as usize == number) {
                if loops[group].kind != LOOP_GROUP {
                    continue;
                }
                lp.kind = LOOP_MEMBER;
                lp.group_loop = group as u32;
                lp.order = loops[group].order;
                lp.starts = loops[group].starts;
            }
            loops.push(lp);
        }
    }

    /// The barriers, innermost loop first.
    fn place_barriers(&mut self, dims: &[Dim], traits: &OrderTraits<'_>) {
        let mut wraps = false;
        for l in (0..self.loops.len()).rev() {
            let lp = self.loops[l];
            let dim = lp.dim as usize;
            // The value of a dimension changes with its outer loop only, if it has two.
            let matters = lp.kind != LOOP_MEMBER && carries_barriers(dim, traits);
            let target = match traits.group {
                Some(Group::Into { values, .. }) => Some(values),
                _ => None,
            };
            let (first, last) = (self.loop_value(&lp, 0), self.loop_value(&lp, lp.count - 1));
            if wraps {
                self.loops[l].barrier = BARRIER_ALL;
            } else if matters {
                match target {
                    Some(values) => self.barriers_into(l, values),
                    None => self.barriers_between(l, &dims[dim]),
                }
            }
            wraps |= matters && first != last && target.is_none_or(|t| t.contains(&first));
        }
    }

    /// The value of a loop's dimension in an iteration; meaningless for a `MEMBER` loop.
    fn loop_value(&self, lp: &Loop, i: u64) -> u64 {
        if lp.kind == LOOP_MEMBER {
            return 0;
        }
        let view = self.view();
        let view = view.get();
        view.value_at(&self.dims[lp.dim as usize], view.position_at(lp, i, &[]))
    }

    /// Barriers where the value of the loop's own dimension changes.
    fn barriers_between(&mut self, l: usize, dim: &Dim) {
        let lp = &mut self.loops[l];
        match dim {
            Dim::Sequence(s) if !s.distinct() && lp.kind == LOOP_FULL => {
                // The list lives in the sequence, which this order keeps.
                set_list(lp, s.changes());
            }
            _ => lp.barrier = BARRIER_ALL,
        }
    }

    /// Barriers where the value of the loop's own dimension changes into one of `values`.
    fn barriers_into(&mut self, l: usize, values: &[u64]) {
        let lp = self.loops[l];
        let dim = self.dims[lp.dim as usize];
        let mut list: Vec<u64> = Vec::new();
        if dim.kind == DIM_AFFINE {
            for &value in values {
                let offset = i128::from(value) - i128::from(dim.start);
                let step = i128::from(dim.step);
                let position = offset / step;
                if offset % step == 0 && (0..i128::from(dim.count)).contains(&position) {
                    let position = position as u64;
                    let i = match lp.kind {
                        LOOP_REVERSED => lp.count - 1 - position,
                        _ => position,
                    };
                    list.extend(i.checked_sub(1));
                }
            }
            list.sort_unstable();
            list.dedup();
        } else {
            let mut before = self.loop_value(&lp, 0);
            for i in 1..lp.count {
                let value = self.loop_value(&lp, i);
                if value != before && values.contains(&value) {
                    list.push(i - 1);
                }
                before = value;
            }
        }
        let list: Arc<[u64]> = list.into();
        set_list(&mut self.loops[l], &list);
        // Only one dimension has value sets, and one loop of it values: there is no other list.
        self.list = Some(list);
    }

    fn count_phases(&mut self) {
        // Phases are equal if outer loops have all barriers and inner ones none, unless the
        // members of a group chosen outside are inside.
        let is = |kind| move |lp: &&Loop| lp.barrier == kind;
        let outer = self.loops.iter().take_while(is(BARRIER_ALL)).count();
        let inner = &self.loops[outer..];
        let equal = inner.iter().all(|lp| {
            lp.barrier == BARRIER_NONE && (lp.kind != LOOP_MEMBER || lp.group_loop as usize >= outer)
        });
        if equal {
            // A dimension with both loops inside counts once, with all of its positions.
            let rows = inner.iter().filter(|lp| lp.kind != LOOP_GROUP).map(|lp| lp.count).product();
            self.phase_items = rows;
            self.phases = self.items / rows;
        } else {
            self.phases = 1 + self.view().get().all_barriers();
        }
    }
}

// SAFETY: the raw pointers are to arrays that the order owns or shares ownership of and that are only read;
// their owners (`Sequence`, `Arc<[u64]>`) are Send and Sync.
unsafe impl Send for Order {}
// SAFETY: as above; nothing changes behind a shared reference.
unsafe impl Sync for Order {}

/// The dimension of no positions.
const COUNT: SpaceDim =
    SpaceDim { kind: DIM_AFFINE, reserved: 0, start: 0, step: 1, count: 0, values: std::ptr::null() };

/// A loop over every position, without barriers.
const FULL: Loop = Loop {
    dim: 0,
    kind: LOOP_FULL,
    barrier: BARRIER_NONE,
    group_loop: 0,
    count: 0,
    barriers: std::ptr::null(),
    nbarriers: 0,
    order: std::ptr::null(),
    starts: std::ptr::null(),
};

/// Barriers at the listed steps of a loop. `list` has to outlive the loop.
fn set_list(lp: &mut Loop, list: &[u64]) {
    if list.is_empty() {
        lp.barrier = BARRIER_NONE;
    } else if list.len() as u64 == lp.count - 1 {
        lp.barrier = BARRIER_ALL;
    } else {
        lp.barrier = BARRIER_LIST;
        lp.barriers = list.as_ptr();
        lp.nbarriers = list.len() as u64;
    }
}

fn check_traits(dims: usize, traits: &OrderTraits<'_>) -> Result<(), IndexError> {
    let into;
    let grouped = match traits.group {
        None => &[],
        Some(Group::Dims(listed) | Group::Only(listed)) => listed,
        Some(Group::Into { dim, .. }) => {
            into = [dim];
            &into[..]
        }
    };
    for (named_by, listed) in [("sort_by", traits.sort), ("group_by", grouped)] {
        if let Some(&dim) = listed.iter().find(|&&dim| dim >= dims) {
            return Err(IndexError::NoSuchDim { named_by, dim, dims });
        }
    }
    for (i, &dim) in traits.sort.iter().enumerate() {
        if traits.sort[..i].contains(&dim) {
            return Err(IndexError::SortedTwice { dim });
        }
    }
    Ok(())
}

/// Whether changes of a dimension's value are barriers; for value sets, some of them.
pub(super) fn carries_barriers(dim: usize, traits: &OrderTraits<'_>) -> bool {
    // Table order: sorted before unsorted, and among either the higher number before.
    let significance = |dim: &usize| (traits.sort.contains(dim), *dim);
    match traits.group {
        None => traits.sort.iter().max() == Some(&dim),
        Some(Group::Dims(listed)) => {
            listed.iter().map(significance).min().is_some_and(|least| significance(&dim) >= least)
        }
        Some(Group::Only(listed)) => listed.contains(&dim),
        Some(Group::Into { dim: into, .. }) => dim == into,
    }
}
