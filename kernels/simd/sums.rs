//! Sums of products.

use super::{InstructionSet, Number};

/// Products that are summed beside each other: a vector each, so that no addition waits for the last one.
const LANES: usize = 16;
const VECTORS: usize = 4;

/// The sum of `x[i] * y[i]`. Its bits depend on the elements and their number alone.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(crate) fn dot<I: InstructionSet, T: Number>(x: &[T], y: &[T]) -> T {
    assert!(x.len() == y.len(), "expected vectors of one length, found {} and {} elements", x.len(), y.len());
    let mut sums = [[T::ZERO; LANES]; VECTORS];
    let ((x, x_rest), (y, y_rest)) =
        (x.as_chunks::<{ LANES * VECTORS }>(), y.as_chunks::<{ LANES * VECTORS }>());
    for (x, y) in x.iter().zip(y) {
        for v in 0..VECTORS {
            for l in 0..LANES {
                sums[v][l] = I::mul_add(x[v * LANES + l], y[v * LANES + l], sums[v][l]);
            }
        }
    }
    let ((x, x_rest), (y, y_rest)) = (x_rest.as_chunks::<LANES>(), y_rest.as_chunks::<LANES>());
    for ((x, y), sums) in x.iter().zip(y).zip(&mut sums) {
        for l in 0..LANES {
            sums[l] = I::mul_add(x[l], y[l], sums[l]);
        }
    }
    let [mut total, b, c, d] = sums;
    for l in 0..LANES {
        total[l] = (total[l] + b[l]) + (c[l] + d[l]);
    }
    for (l, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        total[l] = I::mul_add(*x, *y, total[l]);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            total[l] += total[l + width];
        }
        width /= 2;
    }
    total[0]
}
