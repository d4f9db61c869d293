//! Errors in dimensions and traits.

use thiserror::Error;

/// Dimensions or traits that describe no index space. Dimensions go by number, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A launch with more or fewer dimensions than its kernel has.
    #[error(
        "the kernel has {expected} dimension(s), found {found}; give one entry per dimension, dimension 0 first"
    )]
    DimCount {
        /// Dimensions of the kernel.
        expected: usize,
        /// Dimensions given.
        found: usize,
    },
    /// A count below zero.
    #[error("dimension {dim}: expected a count of 0 or more, found {found}")]
    NegativeCount {
        /// The dimension.
        dim: usize,
        /// The count given.
        found: i64,
    },
    /// A range or sequence with a value below zero.
    #[error(
        "dimension {dim}: expected index values of 0 or more, found {found} at position {position}; shift the values and subtract inside the kernel"
    )]
    NegativeValue {
        /// The dimension.
        dim: usize,
        /// The first such position, or for a range an end of it.
        position: u64,
        /// The value there.
        found: i64,
    },
    /// A range with step 0.
    #[error(
        "dimension {dim}: expected a step other than 0; for one value many times use count_by_fn(count, |_| value)"
    )]
    ZeroStep {
        /// The dimension.
        dim: usize,
    },
    /// A range that leaves 64 bits.
    #[error("dimension {dim}: the range from {start} by {step}, {count} times, leaves 0..2^64; shorten it")]
    RangeOverflow {
        /// The dimension.
        dim: usize,
        /// First value.
        start: u64,
        /// Difference of neighbouring values.
        step: i64,
        /// Number of values.
        count: u64,
    },
    /// A range of 2^64 values.
    #[error("dimension {dim}: expected fewer than 2^64 positions; shorten the range")]
    TooLong {
        /// The dimension.
        dim: usize,
    },
    /// A product of 2^64 items or more.
    #[error("the index space {extents:?} has 2^64 items or more, expected fewer; run it in several launches")]
    TooManyItems {
        /// Positions of each dimension.
        extents: Vec<u64>,
    },
    /// A trait that names a missing dimension.
    #[error("{named_by} names dimension {dim}, but there are {dims}; expected numbers below that")]
    NoSuchDim {
        /// `sort_by` or `group_by`.
        named_by: &'static str,
        /// The dimension named.
        dim: usize,
        /// Number of dimensions.
        dims: usize,
    },
    /// A dimension listed twice.
    #[error("sort_by lists dimension {dim} twice; list it once")]
    SortedTwice {
        /// The dimension.
        dim: usize,
    },
}
