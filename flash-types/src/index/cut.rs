//! Cutting an index space along one dimension.
//!
//! A space is cut along a dimension that every phase spans and that carries no barrier. A subspace then
//! has the same phases as the whole, each with its share of the items: the barriers stand at loops
//! outside the dimension's own, and none of them depends on its values.

use std::ops::Range;

use smallvec::SmallVec;

use super::order::{OrderTraits, carries_barriers};
use super::{Dim, DimList, Order, SpaceRef, count_by};
use crate::abi::space::DIM_VALUES;

/// The positions of a dimension that each share gets, ascending; empty shares are left out.
pub type Cut = SmallVec<[(usize, Range<u64>); 4]>;

/// Whether the space may be cut along a dimension: every phase has all of its positions, and no barrier
/// depends on its values.
pub fn may_cut(order: &Order, dim: usize, traits: &OrderTraits<'_>) -> bool {
    // A dimension that carries barriers may have none in a part and still cause those outside it. With values
    // 3, 1, 2 and a barrier before each 3, every step of the loop outside is one, but without the 3 none
    // would be.
    order.every_phase_spans(dim) && !carries_barriers(dim, traits)
}

/// The dimension to cut along by default: the slowest of those that may be cut, with values in ascending or
/// descending order, so that the elements that the parts index do not overlap. `None`: the launch runs whole.
pub fn cut_dimension(order: &Order, dims: &[Dim], traits: &OrderTraits<'_>) -> Option<usize> {
    let monotone = |dim: &Dim| match dim {
        Dim::Sequence(sequence) => sequence.ascending(),
        _ => true,
    };
    order.dims_by_speed().find(|&dim| monotone(&dims[dim]) && may_cut(order, dim, traits))
}

/// Cuts `count` positions in proportion to the weights, on multiples of `multiple`: every position goes
/// to exactly one share. Weights that are not above zero get nothing, unless none is: then all are equal.
///
/// # Examples
/// ```
/// use flash_core::index::cut;
/// assert_eq!(cut(10, &[1.0, 1.0], 1)[..], [(0, 0..5), (1, 5..10)]);
/// assert_eq!(cut(10, &[3.0, 0.0, 1.0], 4)[..], [(0, 0..8), (2, 8..10)]);
/// ```
///
/// # Panics
/// If there is no weight.
pub fn cut(count: u64, weights: &[f64], multiple: u64) -> Cut {
    cut_by(count, weights, multiple, count, |position| position)
}

/// Cuts as [`cut`] does, in proportion not to the number of positions but to their cost: `cost(i)` is that
/// of the positions `0..i`, does not decrease, and is `total` for all of them. A cost of 0 cuts by number.
///
/// # Panics
/// If there is no weight.
pub fn cut_by(count: u64, weights: &[f64], multiple: u64, total: u64, cost: impl Fn(u64) -> u64) -> Cut {
    assert!(!weights.is_empty(), "a cut into no shares");
    if total == 0 && count > 0 {
        return cut(count, weights, multiple);
    }
    let positive = |w: f64| if w.is_finite() && w > 0.0 { w } else { 0.0 };
    // The sum of the largest numbers overflows. Scaled like this it does not.
    let sum: f64 = weights.iter().map(|&w| positive(w)).sum();
    let scale = if sum.is_finite() { 1.0 } else { f64::EPSILON };
    let usable = |w: f64| positive(w) * scale;
    let sum: f64 = weights.iter().map(|&w| usable(w)).sum();
    let equal = sum == 0.0;
    let last = weights.iter().rposition(|&w| equal || usable(w) > 0.0).unwrap_or(0);
    let (multiple, mut reached, mut from) = (multiple.max(1), 0.0, 0);
    let mut parts = Cut::new();
    for (share, &weight) in weights.iter().enumerate() {
        reached += if equal { 1.0 / weights.len() as f64 } else { usable(weight) / sum };
        let to = match share < last {
            true => nearest(count, multiple, total as f64 * reached, &cost),
            false => count,
        };
        // Rounding never goes back, and never beyond the end.
        let to = to.clamp(from, count);
        if to > from {
            parts.push((share, from..to));
        }
        from = to;
    }
    parts
}

/// The multiple, or the end, up to which the cost is nearest to `wanted`.
fn nearest(count: u64, multiple: u64, wanted: f64, cost: &impl Fn(u64) -> u64) -> u64 {
    let position = |multiples: u64| multiples.saturating_mul(multiple).min(count);
    // The first with at least that cost.
    let (mut low, mut high) = (0, count.div_ceil(multiple));
    while low < high {
        let middle = low + (high - low) / 2;
        if (cost(position(middle)) as f64) < wanted { low = middle + 1 } else { high = middle }
    }
    let (above, below) = (position(low), position(low.saturating_sub(1)));
    let distance = |position| (cost(position) as f64 - wanted).abs();
    if distance(below) <= distance(above) { below } else { above }
}

/// A cut of `count` positions in which each share in `probes` that it leaves empty gets one multiple, in
/// ascending order. The other shares keep at least one multiple; where there are not enough multiples, the
/// cut stays.
pub fn with_probes(cut: Cut, count: u64, multiple: u64, probes: &[usize]) -> Cut {
    let multiple = multiple.max(1);
    let none = probes.iter().filter(|probe| !cut.iter().any(|(share, _)| share == *probe));
    let mut shares: SmallVec<[(usize, Option<u64>); 8]> = none.map(|probe| (*probe, None)).collect();
    if shares.is_empty() || ((shares.len() + cut.len()) as u64) > count.div_ceil(multiple) {
        return cut;
    }
    shares.extend(cut.iter().map(|(share, positions)| (*share, Some(positions.end))));
    shares.sort_unstable_by_key(|(share, _)| *share);
    // The end of each share, in multiples: at least one after the end of the one before ...
    let mut before = 0;
    let mut ends: SmallVec<[u64; 8]> = SmallVec::new();
    for (_, end) in &shares {
        before = end.map_or(0, |end| end.div_ceil(multiple)).max(before + 1);
        ends.push(before);
    }
    // ... and one before the end of the next.
    let mut limit = count.div_ceil(multiple);
    for end in ends.iter_mut().rev() {
        *end = limit.min(*end);
        limit = *end - 1;
    }
    let mut from = 0;
    let positions = shares.iter().zip(ends).map(|((share, _), end)| {
        let range = from..end.saturating_mul(multiple).min(count);
        from = range.end;
        (*share, range)
    });
    positions.collect()
}

/// The dimensions of a subspace: those positions of dimension `dim`, all of the others.
///
/// # Panics
/// If there is no such dimension or position.
pub fn restrict(dims: &[Dim], dim: usize, positions: Range<u64>) -> DimList {
    let mut restricted: DimList = dims.iter().cloned().collect();
    restricted[dim] = part_of(&dims[dim], positions);
    restricted
}

fn part_of(dim: &Dim, positions: Range<u64>) -> Dim {
    assert!(positions.start <= positions.end && positions.end <= dim.len(), "positions of the dimension");
    let count = positions.end - positions.start;
    match dim {
        _ if count == dim.len() => dim.clone(),
        Dim::Count(_) if positions.start == 0 => Dim::Count(count),
        Dim::Count(_) | Dim::Invalid(_) => Dim::Range { start: positions.start, step: 1, count },
        Dim::Range { step, .. } => Dim::Range { start: dim.value(positions.start), step: *step, count },
        Dim::Sequence(s) => count_by(&s.values()[positions.start as usize..positions.end as usize]),
    }
}

/// The half-open range of a dimension's values, and whether it takes each of them.
pub fn value_range(dim: &Dim) -> (Range<u64>, bool) {
    let (Some(min), Some(max)) = (dim.min_value(), dim.max_value()) else {
        return (0..0, true);
    };
    let different = match dim {
        Dim::Sequence(s) if !s.distinct() => s.starts().len() as u64 - 1,
        _ => dim.len(),
    };
    // The value 2^64 - 1 indexes no array; the proofs have refused it where it would.
    (min..max.saturating_add(1), different == (max - min).saturating_add(1))
}

impl SpaceRef<'_> {
    /// The half-open range of a dimension's values, as in [`value_range`].
    pub fn value_range(&self, dim: usize) -> Range<u64> {
        let dim = &self.dims()[dim];
        let (first, last) = match dim.kind {
            _ if dim.count == 0 => return 0..0,
            DIM_VALUES => {
                let values = self.values(dim);
                values.iter().fold((u64::MAX, 0), |(min, max), &value| (min.min(value), max.max(value)))
            }
            _ => {
                let last = dim.start.wrapping_add((dim.count - 1).wrapping_mul(dim.step as u64));
                (dim.start.min(last), dim.start.max(last))
            }
        };
        first..last.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_probe_is_taken_from_its_neighbours() {
        let probed = |count, weights: &[f64], multiple, probes: &[usize]| {
            with_probes(cut(count, weights, multiple), count, multiple, probes).into_vec()
        };
        assert_eq!(probed(10, &[1.0, 0.0, 1.0], 1, &[1]), [(0, 0..5), (1, 5..6), (2, 6..10)]);
        assert_eq!(probed(70, &[1.0, 1e-9], 16, &[1]), [(0, 0..64), (1, 64..70)]);
        assert_eq!(probed(70, &[1e-9, 1.0], 16, &[0]), [(0, 0..16), (1, 16..70)]);
        // A share that is not empty keeps some positions.
        assert_eq!(probed(2, &[1.0, 1.0, 0.0], 1, &[2]), [(0, 0..1), (1, 1..2)]);
        assert_eq!(probed(3, &[2.0, 1.0, 0.0], 1, &[2]), [(0, 0..1), (1, 1..2), (2, 2..3)]);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "nothing unsafe, and many cuts")]
        fn with_probes_every_position_is_in_one_share(
            count in 0u64..200,
            weights in prop::collection::vec(prop_oneof![Just(0.0), 0.001f64..2.0], 1..6),
            multiple in 1u64..20,
            probes in prop::collection::btree_set(0usize..6, 0..4),
        ) {
            let plain = cut(count, &weights, multiple);
            let probes: Vec<usize> = probes.into_iter().filter(|probe| *probe < weights.len()).collect();
            let probed = with_probes(plain.clone(), count, multiple, &probes);
            let mut reached = 0;
            for (k, (share, positions)) in probed.iter().enumerate() {
                prop_assert!(positions.start == reached && positions.start < positions.end, "{:?}", probed);
                prop_assert!(positions.start % multiple == 0 && probed[..k].iter().all(|(before, _)| before < share));
                reached = positions.end;
            }
            prop_assert_eq!(reached, count);
            let mut all: Vec<usize> = plain.iter().map(|(share, _)| *share).chain(probes).collect();
            all.sort_unstable();
            all.dedup();
            match all.len() as u64 <= count.div_ceil(multiple) {
                true => prop_assert!(probed.iter().map(|(share, _)| *share).eq(all)),
                false => prop_assert_eq!(probed, plain),
            }
        }
    }
}
