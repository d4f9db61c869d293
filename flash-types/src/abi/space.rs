//! The plain-data form of an index space and its order, as it crosses the plugin boundary.
//!
//! A [`Space`] is self-contained: a row of the index table can be turned into index values, and a phase into
//! rows, from it alone. It borrows; its maker keeps the arrays alive and unchanged for as long as the other
//! side may read them.
//!
//! **Table.** The rows `0..items` are a nest of `nloops` loops, `loops[0]` outermost. Running the
//! nest visits the rows in order. A loop with a single iteration is left out, so a dimension
//! without a loop stays at position 0, and a dimension has two loops (`GROUP` outside, `MEMBER`
//! inside) only if it is sorted and has values that occur more than once.
//!
//! **Rows to positions.** Outermost first, with `cell = items` and `r = row`: for every loop but
//! `GROUP`, `cell /= iterations; i = r / cell; r %= cell`. For `GROUP`, `cell /= positions of the
//! dimension; q = r / cell`; `i` is the group with `starts[i] <= q < starts[i + 1]`; then
//! `r -= starts[i] * cell; cell *= starts[i + 1] - starts[i]`.
//!
//! **Phases.** The step of a loop from iteration `i` to `i + 1` (every loop inside it starts again)
//! ends a phase if the loop's barriers say so. If `phase_items` is not 0 every phase has that many
//! rows, so that phase `k` is the rows `k * phase_items .. (k + 1) * phase_items`.

/// An index space in the order in which it is run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Size of this struct in bytes, as its maker knows it.
    pub struct_size: u32,
    /// Number of dimensions, and length of `dims`.
    pub ndims: u32,
    /// Work items, which is rows of the index table.
    pub items: u64,
    /// Phases; 0 if and only if there are no items.
    pub phases: u64,
    /// Rows of every phase if they all have the same number, else 0.
    pub phase_items: u64,
    /// Length of `loops`.
    pub nloops: u32,
    /// 0.
    pub reserved: u32,
    /// The dimensions, `ndims` of them.
    pub dims: *const SpaceDim,
    /// The loops, outermost first, `nloops` of them; dangling where there are none.
    pub loops: *const Loop,
}

/// `value = start + position * step` (see [`SpaceDim::kind`]).
pub const DIM_AFFINE: u32 = 0;
/// `value = values[position]` (see [`SpaceDim::kind`]).
pub const DIM_VALUES: u32 = 1;

/// The values of one dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SpaceDim {
    /// [`DIM_AFFINE`] or [`DIM_VALUES`].
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// First value, if affine.
    pub start: u64,
    /// Difference of neighbouring values, if affine; arithmetic is modulo 2^64.
    pub step: i64,
    /// Number of positions.
    pub count: u64,
    /// `count` values if the kind is [`DIM_VALUES`], else null.
    pub values: *const u64,
}

/// Iteration `i` is position `i` (see [`Loop::kind`]).
pub const LOOP_FULL: u32 = 0;
/// Iteration `i` is position `count - 1 - i`.
pub const LOOP_REVERSED: u32 = 1;
/// Iteration `i` is position `order[i]`.
pub const LOOP_ORDERED: u32 = 2;
/// Iteration `i` is the `i`-th group of positions of equal value,
/// `order[starts[i] .. starts[i + 1]]`. A `MEMBER` loop of the same dimension follows inside.
pub const LOOP_GROUP: u32 = 3;
/// Iteration `i` is position `order[starts[g] + i]`, `g` the current iteration of the loop
/// `loops[group_loop]`. It has `starts[g + 1] - starts[g]` iterations.
pub const LOOP_MEMBER: u32 = 4;

/// No step of the loop is a barrier (see [`Loop::barrier`]).
pub const BARRIER_NONE: u32 = 0;
/// Every step of the loop is a barrier.
pub const BARRIER_ALL: u32 = 1;
/// The steps from `i` to `i + 1` are barriers for each `i` in the list.
pub const BARRIER_LIST: u32 = 2;

/// One loop of the nest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// The dimension that it moves.
    pub dim: u32,
    /// One of the `LOOP_` constants.
    pub kind: u32,
    /// One of the `BARRIER_` constants.
    pub barrier: u32,
    /// For [`LOOP_MEMBER`], the number of its group's loop; else 0.
    pub group_loop: u32,
    /// Iterations; for [`LOOP_MEMBER`], positions of the dimension.
    pub count: u64,
    /// `nbarriers` iterations, ascending, if `barrier` is [`BARRIER_LIST`], else null.
    pub barriers: *const u64,
    /// Length of `barriers`.
    pub nbarriers: u64,
    /// The dimension's positions, ascending by value and stably, for [`LOOP_ORDERED`],
    /// [`LOOP_GROUP`] and [`LOOP_MEMBER`], else null.
    pub order: *const u64,
    /// The beginning of each group in `order`, and its length at the end, for [`LOOP_GROUP`] and
    /// [`LOOP_MEMBER`], else null.
    pub starts: *const u64,
}

// SAFETY: the structs are plain data and their pointees are only ever read. Code that turns a struct back
// into references promises that those are alive and unchanged.
unsafe impl Send for Space {}
// SAFETY: as above; there is no interior mutability.
unsafe impl Sync for Space {}
// SAFETY: as for `Space`.
unsafe impl Send for SpaceDim {}
// SAFETY: as for `Space`.
unsafe impl Sync for SpaceDim {}
// SAFETY: as for `Space`.
unsafe impl Send for Loop {}
// SAFETY: as for `Space`.
unsafe impl Sync for Loop {}
