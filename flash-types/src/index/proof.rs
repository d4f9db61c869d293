//! Whether each item of a phase has an array element of its own.

use thiserror::Error;

use super::{Dim, Order};

/// Why two items of one phase may have the same element. Dimensions go by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProofFailure {
    /// A dimension moves inside a phase, and the element does not depend on it.
    #[error(
        "items of one phase differ in dimension {dim} only and would have the same element; index the array along it, or make every change of it a barrier (group_by)"
    )]
    NotIndexed {
        /// The dimension.
        dim: usize,
    },
    /// A dimension takes one value at several positions inside a phase.
    #[error(
        "dimension {dim} takes the same value at several positions, and those would have the same element in one phase; use distinct values, or make every step of it a barrier"
    )]
    Repeats {
        /// The dimension.
        dim: usize,
    },
}

/// Proves that no two items of one phase have the same index values along the dimensions `along`.
///
/// It holds if every other dimension stays at one position within each phase, and the values at
/// the positions along `along` are distinct. That never accepts wrongly. Without value sets and
/// `only` it never rejects wrongly either: a phase then is a set of rows in which the dimensions
/// with barriers keep their *values* and all others take every combination of positions, so that
/// whatever moves in some phase and is not told apart by value gives two items that collide.
pub fn item_is_exclusive(order: &Order, dims: &[Dim], along: &[usize]) -> Result<(), ProofFailure> {
    if order.items() == 0 {
        return Ok(());
    }
    for (dim, values) in dims.iter().enumerate() {
        let indexed = along.contains(&dim);
        if (indexed && values.distinct()) || order.constant_within_phases(dim) {
            continue;
        }
        return Err(match indexed {
            true => ProofFailure::Repeats { dim },
            false => ProofFailure::NotIndexed { dim },
        });
    }
    Ok(())
}
