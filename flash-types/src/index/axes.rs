//! One phase as a function of the row, for kernels that decode a row on their own. Per dimension it is a
//! division, a remainder and a multiplication, or a list of values.

use super::SpaceRef;
use crate::abi::space::{DIM_AFFINE, LOOP_FULL, LOOP_GROUP, LOOP_REVERSED};
use smallvec::SmallVec;
use std::ops::Range;

/// The index values of one phase. Row `i` of the phase is `first + i` for all of its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Rows of the innermost sweep before the phase's first.
    pub first: u64,
    /// One per dimension.
    pub dims: SmallVec<[Axis; 4]>,
}

/// The values of one dimension in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// One for all rows.
    Constant(u64),
    /// `start + row / cell % count * step`, modulo 2^64; `count` 0: no remainder is taken.
    #[allow(missing_docs)] // above
    Steps { start: u64, step: i64, cell: u64, count: u64 },
    /// `values[row / cell % count]`; `count` 0: no remainder is taken.
    #[allow(missing_docs)] // above
    Listed { values: Vec<u64>, cell: u64, count: u64 },
}

impl Axis {
    /// Its value at a row, counted from the beginning of the sweep.
    #[cfg(test)]
    fn value(&self, row: u64) -> u64 {
        let at = |cell: u64, count: u64| if count == 0 { row / cell } else { row / cell % count };
        match self {
            Axis::Constant(value) => *value,
            Axis::Steps { start, step, cell, count } => {
                start.wrapping_add(at(*cell, *count).wrapping_mul(*step as u64))
            }
            Axis::Listed { values, cell, count } => values[at(*cell, *count) as usize],
        }
    }
}

impl SpaceRef<'_> {
    /// A phase as axes; `None` where groups of different sizes follow each other in it, which only a list of
    /// its rows can express.
    ///
    /// # Panics
    /// If there is no such phase.
    pub fn axes(&self, phase: u64) -> Option<Axes> {
        let rows = self.phase(phase);
        let items = rows.end - rows.start;
        let (mut at, mut group) = self.state();
        self.decode(rows.start, &mut at, &mut group);
        let mut values: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.dims().len());
        self.value(rows.start, &mut values);
        let mut dims: SmallVec<[Axis; 4]> = values.into_iter().map(Axis::Constant).collect();
        // From the innermost loop outwards, as far as the phase reaches: the rows of a sweep of the loops so
        // far, and the number of them before the phase.
        let (mut cell, mut first) = (1u64, 0u64);
        let mut outermost = None;
        for lp in self.loops().iter().rev() {
            if first + items <= cell {
                break;
            }
            if lp.kind == LOOP_GROUP {
                return None;
            }
            let (number, count) = (lp.dim as usize, self.extent(lp, &group));
            let dim = &self.dims()[number];
            dims[number] = match (dim.kind, lp.kind) {
                (DIM_AFFINE, LOOP_FULL) => Axis::Steps { start: dim.start, step: dim.step, cell, count },
                (DIM_AFFINE, LOOP_REVERSED) => {
                    let start = self.value_at(dim, lp.count - 1);
                    Axis::Steps { start, step: dim.step.wrapping_neg(), cell, count }
                }
                _ => {
                    let value = |i| self.value_at(dim, self.position_at(lp, i, &group));
                    Axis::Listed { values: (0..count).map(value).collect(), cell, count }
                }
            };
            first += at[number] * cell;
            cell *= count;
            outermost = Some(number);
        }
        if let Some(Axis::Steps { count, .. } | Axis::Listed { count, .. }) = outermost.map(|d| &mut dims[d])
        {
            *count = 0;
        }
        Some(Axes { first, dims })
    }
}

impl<'a> SpaceRef<'a> {
    /// The values of each dimension, where they are ranges of step 1 and run in natural order: a range that a
    /// device's own index space can express.
    #[inline]
    pub fn natural_box(&self) -> Option<impl ExactSizeIterator<Item = Range<u64>> + use<'a>> {
        // Dimensions without a loop have one value; dimension 0 is innermost.
        let natural = self.loops().is_sorted_by(|outer, inner| outer.dim > inner.dim)
            && self.loops().iter().all(|lp| lp.kind == LOOP_FULL)
            && self.dims().iter().all(|dim| dim.kind == DIM_AFFINE && (dim.count == 1 || dim.step == 1));
        natural.then(|| self.dims().iter().map(|dim| dim.start..dim.start + dim.count))
    }
}

#[cfg(test)]
mod tests {
    use crate::index::{Dim, Group, Order, OrderTraits, count_by};

    /// Compares every row of every phase with the table. Returns the number of phases that have no axes.
    fn compare(dims: &[Dim], traits: &OrderTraits<'_>) -> u64 {
        let order = Order::new(dims, traits).unwrap();
        let view = order.view();
        let space = view.get();
        let mut listed = 0;
        for phase in 0..space.phases() {
            let Some(axes) = space.axes(phase) else {
                listed += 1;
                continue;
            };
            let rows = space.phase(phase);
            for row in rows.clone() {
                let mut expected = vec![0; dims.len()];
                space.value(row, &mut expected);
                let found: Vec<u64> =
                    axes.dims.iter().map(|axis| axis.value(axes.first + row - rows.start)).collect();
                assert_eq!(found, expected, "row {row} of phase {phase} of {dims:?}, {traits:?}");
            }
        }
        listed
    }

    fn spaces() -> Vec<Vec<Dim>> {
        vec![
            vec![Dim::from(1), Dim::from(1), Dim::from(1)],
            vec![Dim::from(7), Dim::from(5), Dim::from(3)],
            vec![Dim::from(3..9), Dim::from(1), Dim::from(2..4)],
            vec![count_by([5u64, 1, 3, 0, 2]), count_by([2u64, 0, 7]), Dim::from(1..7)],
            vec![count_by([9u64, 7, 5]), count_by(0..4u64), count_by([4u64, 2])],
        ]
    }

    #[test]
    #[cfg_attr(miri, ignore = "every row of many spaces takes minutes")]
    fn axes_give_the_rows_of_the_table() {
        for dims in spaces() {
            for sort in [&[][..], &[0], &[1], &[2], &[0, 1], &[1, 2]] {
                for group in [
                    None,
                    Some(Group::Dims(&[1])),
                    Some(Group::Only(&[0])),
                    Some(Group::Into { dim: 2, values: &[3, 5] }),
                ] {
                    let traits = OrderTraits { sort, group };
                    assert_eq!(compare(&dims, &traits), 0, "{dims:?} {traits:?}");
                }
            }
        }
    }

    #[test]
    fn groups_of_equal_values_are_axes_one_by_one_and_a_list_together() {
        let dims = [Dim::from(3), count_by([1u64, 0, 1, 1])];
        let traits = OrderTraits { sort: &[1], group: None };
        assert_eq!(compare(&dims, &traits), 0, "a barrier between any two groups");
        let traits = OrderTraits { sort: &[1], group: Some(Group::Into { dim: 1, values: &[9] }) };
        assert_eq!(compare(&dims, &traits), 1, "no barrier");
    }
}
