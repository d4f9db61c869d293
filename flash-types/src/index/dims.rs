//! One dimension of an index space, and the types that it is made from.
//!
//! A [`Dim`] is made without a `Result`, so that `From` works for numbers and ranges of all types. What is
//! no dimension becomes [`Dim::Invalid`], and a [`Dim::Range`] may come from a recording. So an
//! [`Order`](super::Order) calls [`Dim::check`] on both before it uses them. No value of a dimension that
//! has been checked wraps.
//!
//! A [`Sequence`] computes the order of its values and their groups once, when it is made, and does not
//! change; clones share it. Values of constant step become a range, which needs no table. [`IntoDims`]
//! writes to a list that the caller keeps, so that the dimensions of the last launch are compared without
//! an allocation.

use std::fmt;
use std::iter::{Rev, StepBy};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::IndexError;

/// The dimensions of one launch, dimension 0 first; up to four need no allocation.
pub type DimList = SmallVec<[Dim; 4]>;

/// The index values of one dimension, by position.
///
/// Made from a count, a range (with or without step, either direction), or by [`count_by`]. An error in it is
/// reported when it is used, so that `From` can be used for negative numbers, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dim {
    /// The values `0..n`.
    Count(u64),
    /// The values `start`, `start + step`, ..., `count` of them.
    Range {
        /// First value.
        start: u64,
        /// Difference of neighbouring values, not 0.
        step: i64,
        /// Number of values.
        count: u64,
    },
    /// The values as listed.
    Sequence(Sequence),
    /// Not a dimension; [`Dim::check`] says why.
    Invalid(InvalidDim),
}

/// Why something is not a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InvalidDim {
    /// A count below zero.
    NegativeCount(i64),
    /// A value below zero.
    NegativeValue {
        /// The position of the value.
        position: u64,
        /// The value.
        value: i64,
    },
    /// 2^64 positions.
    TooLong,
}

impl Dim {
    /// Number of positions; 0 if invalid.
    #[inline]
    pub fn len(&self) -> u64 {
        match self {
            Dim::Count(n) => *n,
            Dim::Range { count, .. } => *count,
            Dim::Sequence(s) => s.values().len() as u64,
            Dim::Invalid(_) => 0,
        }
    }

    /// Whether there are no positions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a position below [`Dim::len`].
    ///
    /// # Panics
    /// If a sequence has no such position.
    #[inline]
    pub fn value(&self, position: u64) -> u64 {
        match self {
            Dim::Count(_) | Dim::Invalid(_) => position,
            Dim::Range { start, step, .. } => start.wrapping_add(position.wrapping_mul(*step as u64)),
            Dim::Sequence(s) => s.values()[position as usize],
        }
    }

    /// The largest value, `None` where there is none.
    #[inline]
    pub fn max_value(&self) -> Option<u64> {
        match self {
            _ if self.is_empty() => None,
            Dim::Range { step, count, .. } if *step > 0 => Some(self.value(count - 1)),
            Dim::Range { start, .. } => Some(*start),
            Dim::Sequence(s) => Some(s.0.max),
            _ => Some(self.len() - 1),
        }
    }

    /// The smallest value, `None` where there is none.
    #[inline]
    pub fn min_value(&self) -> Option<u64> {
        match self {
            _ if self.is_empty() => None,
            Dim::Range { step, count, .. } if *step < 0 => Some(self.value(count - 1)),
            Dim::Range { start, .. } => Some(*start),
            Dim::Sequence(s) => Some(s.0.min),
            _ => Some(0),
        }
    }

    /// Whether no value occurs twice.
    #[inline]
    pub fn distinct(&self) -> bool {
        match self {
            Dim::Range { step, count, .. } => *step != 0 || *count < 2,
            Dim::Sequence(s) => s.distinct(),
            _ => true,
        }
    }

    /// Reports an error in it, as dimension number `dim`.
    #[inline]
    pub fn check(&self, dim: usize) -> Result<(), IndexError> {
        match self {
            Dim::Count(_) | Dim::Sequence(_) => Ok(()),
            &Dim::Range { start, step, count } => check_range(dim, start, step, count),
            &Dim::Invalid(why) => Err(match why {
                InvalidDim::NegativeCount(found) => IndexError::NegativeCount { dim, found },
                InvalidDim::NegativeValue { position, value: found } => {
                    IndexError::NegativeValue { dim, position, found }
                }
                InvalidDim::TooLong => IndexError::TooLong { dim },
            }),
        }
    }
}

fn check_range(dim: usize, start: u64, step: i64, count: u64) -> Result<(), IndexError> {
    if count < 2 {
        return Ok(());
    }
    if step == 0 {
        return Err(IndexError::ZeroStep { dim });
    }
    // |step| <= 2^63 and count < 2^64, so that the product fits in 128 bits.
    let last = i128::from(start) + i128::from(step) * i128::from(count - 1);
    if u64::try_from(last).is_err() {
        return Err(IndexError::RangeOverflow { dim, start, step, count });
    }
    Ok(())
}

/// Listed values. The properties that the order and the proofs need are computed once, when it is made.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Sequence(Arc<Listed>);

struct Listed {
    values: Box<[u64]>,
    min: u64,
    max: u64,
    ascending: bool,
    /// Positions ascending by value, stably; empty if `ascending`.
    order: Box<[u64]>,
    /// The beginning of each group of equal values in `order`, and its length; empty if distinct.
    starts: Box<[u64]>,
    /// Positions whose successor has another value; empty if distinct.
    changes: Box<[u64]>,
}

impl Sequence {
    /// The values, by position.
    #[inline]
    pub fn values(&self) -> &[u64] {
        &self.0.values
    }

    /// Whether no value occurs twice.
    #[inline]
    pub fn distinct(&self) -> bool {
        self.0.starts.is_empty()
    }

    /// Whether every value is larger than the one before.
    #[inline]
    pub fn ascending(&self) -> bool {
        self.0.ascending
    }

    pub(super) fn order(&self) -> &[u64] {
        &self.0.order
    }

    pub(super) fn starts(&self) -> &[u64] {
        &self.0.starts
    }

    pub(super) fn changes(&self) -> &[u64] {
        &self.0.changes
    }
}

impl From<Vec<u64>> for Sequence {
    fn from(values: Vec<u64>) -> Self {
        let ascending = values.is_sorted_by(|a, b| a < b);
        let (mut order, mut starts, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        if !ascending {
            order.extend(0..values.len() as u64);
            order.sort_by_key(|&p| values[p as usize]);
            let value = |at: usize| values[order[at] as usize];
            starts.push(0);
            starts.extend((1..order.len()).filter(|&i| value(i) != value(i - 1)).map(|i| i as u64));
            starts.push(order.len() as u64);
            if starts.len() == order.len() + 1 {
                starts.clear();
            } else {
                changes
                    .extend((1..values.len()).filter(|&i| values[i] != values[i - 1]).map(|i| i as u64 - 1));
            }
        }
        Sequence(Arc::new(Listed {
            min: values.iter().copied().min().unwrap_or(0),
            max: values.iter().copied().max().unwrap_or(0),
            values: values.into(),
            ascending,
            order: order.into(),
            starts: starts.into(),
            changes: changes.into(),
        }))
    }
}

impl From<Sequence> for Vec<u64> {
    fn from(sequence: Sequence) -> Self {
        sequence.values().to_vec()
    }
}

impl PartialEq for Sequence {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.values() == other.values()
    }
}

impl Eq for Sequence {}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, more) = self.values().split_at(self.values().len().min(8));
        write!(f, "{shown:?}")?;
        if more.is_empty() { Ok(()) } else { write!(f, " and {} more", more.len()) }
    }
}

/// An integer that can be written as a count or an index value: `i32`, `i64`, `u32`, `u64`,
/// `usize`, and references to them.
pub trait IndexValue: Copy {
    /// The value, or the negative number.
    fn index_value(self) -> Result<u64, i64>;
}

impl<T: IndexValue> IndexValue for &T {
    #[inline]
    fn index_value(self) -> Result<u64, i64> {
        (*self).index_value()
    }
}

/// A dimension that takes the listed values, in that order: `count_by([4, 2, 2])`,
/// `count_by(&colours)`. Values of constant step become a range, which costs no table.
pub fn count_by<I>(values: I) -> Dim
where
    I: IntoIterator<Item: IndexValue>,
{
    let values = values.into_iter();
    let mut list = Vec::with_capacity(values.size_hint().0);
    for value in values {
        match value.index_value() {
            Ok(value) => list.push(value),
            Err(value) => {
                return Dim::Invalid(InvalidDim::NegativeValue { position: list.len() as u64, value });
            }
        }
    }
    match *list {
        [] => Dim::Count(0),
        [start] => Dim::Range { start, step: 1, count: 1 },
        [start, second, ..] => match difference(start, second) {
            Some(step) if list.windows(2).all(|w| difference(w[0], w[1]) == Some(step)) => {
                Dim::Range { start, step, count: list.len() as u64 }
            }
            _ => Dim::Sequence(list.into()),
        },
    }
}

/// A dimension of `count` positions that takes the values of a function of the position:
/// `count_by_fn(n, |i| i * i)`.
pub fn count_by_fn<V: IndexValue>(count: impl IndexValue, value: impl FnMut(u64) -> V) -> Dim {
    match count.index_value() {
        Ok(count) => count_by((0..count).map(value)),
        Err(count) => Dim::Invalid(InvalidDim::NegativeCount(count)),
    }
}

/// Step from one value to another, if it is valid: not 0, and 64 bits with sign.
#[inline]
pub(super) fn difference(from: u64, to: u64) -> Option<i64> {
    let step = to.wrapping_sub(from) as i64;
    (step != 0 && (step > 0) == (to > from)).then_some(step)
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl IndexValue for $int {
            #[inline]
            #[allow(irrefutable_let_patterns, clippy::useless_conversion, clippy::unnecessary_cast)]
            fn index_value(self) -> Result<u64, i64> {
                u64::try_from(self).map_err(|_| self as i64)
            }
        }

        impl From<$int> for Dim {
            #[inline]
            fn from(count: $int) -> Self {
                match count.index_value() {
                    Ok(count) => Dim::Count(count),
                    Err(count) => Dim::Invalid(InvalidDim::NegativeCount(count)),
                }
            }
        }

        iterators!(Range<$int>, RangeInclusive<$int>, StepBy<Range<$int>>,
            StepBy<RangeInclusive<$int>>, Rev<Range<$int>>, Rev<RangeInclusive<$int>>,
            StepBy<Rev<Range<$int>>>);
    )*};
}

macro_rules! iterators {
    ($($iterator:ty),*) => {$(
        impl From<$iterator> for Dim {
            #[inline]
            fn from(range: $iterator) -> Self {
                from_range(range)
            }
        }

        impl IntoDims for $iterator {
            #[inline]
            fn push_into(self, dims: &mut DimList) {
                dims.push(self.into());
            }
        }
    )*};
}

integers!(i32, i64, u32, u64, usize);
// Only these ranges know their length exactly, and so can be reversed after `step_by`.
iterators!(Rev<StepBy<Range<i32>>>, Rev<StepBy<Range<u32>>>, Rev<StepBy<Range<usize>>>);

/// A range of any type. `size_hint` is exact for them and `nth` takes constant time.
#[inline]
fn from_range<I: Iterator<Item: IndexValue> + Clone>(range: I) -> Dim {
    let count = match range.size_hint() {
        (_, Some(count)) => count as u64,
        (_, None) => return Dim::Invalid(InvalidDim::TooLong),
    };
    let Some(first) = range.clone().next() else {
        return Dim::Count(0);
    };
    let start = match first.index_value() {
        Ok(start) => start,
        Err(value) => return Dim::Invalid(InvalidDim::NegativeValue { position: 0, value }),
    };
    let Some(second) = range.clone().nth(1) else {
        return Dim::Range { start, step: 1, count };
    };
    let negative = |position, value| Dim::Invalid(InvalidDim::NegativeValue { position, value });
    let second = match second.index_value() {
        Ok(second) => second,
        Err(value) => return negative(1, value),
    };
    // All but the first may be below zero only in a falling range, whose last one is lowest.
    if second < start {
        let last = i128::from(start) - i128::from(start - second) * i128::from(count - 1);
        if last < 0 {
            return negative(count - 1, last as i64);
        }
    }
    match difference(start, second) {
        Some(1) if start == 0 => Dim::Count(count),
        Some(step) => Dim::Range { start, step, count },
        // A step of 2^63 and more: there are two values, or it would leave 64 bits.
        None => count_by(range.map(|v| v.index_value().unwrap_or(0))),
    }
}

/// The dimensions of a launch: a range, an array of one type, a tuple of up to eight, or a list of [`Dim`].
pub trait IntoDims {
    /// Appends them, dimension 0 first.
    fn push_into(self, dims: &mut DimList);

    /// True if they are `known`; otherwise they are in `dims` afterwards, and nothing else is.
    #[inline]
    fn are(self, known: &[Dim], dims: &mut DimList) -> bool
    where
        Self: Sized,
    {
        dims.clear();
        self.push_into(dims);
        dims[..] == *known
    }
}

/// As [`IntoDims::are`]. Not inlined into every call of it.
#[inline(never)]
fn given_are<const N: usize>(given: [Dim; N], known: &[Dim], dims: &mut DimList) -> bool {
    dims.clear();
    dims.extend(given);
    dims[..] == *known
}

impl<T: Into<Dim>, const N: usize> IntoDims for [T; N] {
    #[inline]
    fn push_into(self, dims: &mut DimList) {
        for dim in self {
            dims.push(dim.into());
        }
    }

    #[inline(always)]
    fn are(self, known: &[Dim], dims: &mut DimList) -> bool {
        let given = self.map(Into::into);
        // Almost every launch has one count, which is compared quickly here.
        match (&given[..], known) {
            ([Dim::Count(n)], [Dim::Count(known)]) if n == known => true,
            _ => given_are(given, known, dims),
        }
    }
}

impl IntoDims for Vec<Dim> {
    #[inline]
    fn push_into(self, dims: &mut DimList) {
        dims.extend(self);
    }
}

impl IntoDims for &[Dim] {
    #[inline]
    fn push_into(self, dims: &mut DimList) {
        dims.extend(self.iter().cloned());
    }
}

/// A box of elements: a range of index values per axis, axis 0 first. That of one axis is just a range.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no box of elements",
    label = "write a range of `u64` for each axis, `[1..3, 0..2]`, or `1..3` for one axis"
)]
pub trait IntoBox {
    /// Its ranges.
    fn into_box(self) -> Vec<Range<u64>>;
}

impl IntoBox for Range<u64> {
    fn into_box(self) -> Vec<Range<u64>> {
        std::iter::once(self).collect()
    }
}

impl<const N: usize> IntoBox for [Range<u64>; N] {
    fn into_box(self) -> Vec<Range<u64>> {
        self.into()
    }
}

impl IntoBox for Vec<Range<u64>> {
    fn into_box(self) -> Vec<Range<u64>> {
        self
    }
}

impl IntoBox for &[Range<u64>] {
    fn into_box(self) -> Vec<Range<u64>> {
        self.to_vec()
    }
}

impl<const N: usize> IntoBox for &[Range<u64>; N] {
    fn into_box(self) -> Vec<Range<u64>> {
        self.to_vec()
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Into<Dim>),+> IntoDims for ($($name,)+) {
            #[inline]
            #[allow(non_snake_case)]
            fn push_into(self, dims: &mut DimList) {
                let ($($name,)+) = self;
                $(dims.push($name.into());)+
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
