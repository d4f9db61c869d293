//! Convolutions on the CPU: several registers of results at once, each filter element for all of them.

use super::{Conv1d, Conv1dSpan};
use crate::simd::{InstructionSet, Number, Vector, spans};
use flash_core::kernel::Span;

/// Registers of results that share each element of the filter.
const REGISTERS: usize = 8;

#[inline(always)]
fn convolve<I: InstructionSet, T: Number>(run: Span<1>, k: Conv1dSpan<'_, T>) {
    let filter = k.filter;
    if filter.is_empty() {
        return k.out.fill(T::ZERO);
    }
    // The elements of the signal that the run needs, which the view checks.
    let signal = k.signal.slice(run.range().start..run.range().end + filter.len() - 1);
    let width = REGISTERS * I::Vector::<T>::LANES;
    let mut first = 0;
    assert!(I::there(), "this CPU lacks the instructions");
    while first + width <= k.out.len() {
        let (from, to) = (&signal[first..first + width + filter.len() - 1], &mut k.out[first..first + width]);
        // SAFETY: the CPU has the instructions, as asserted; `to` has `width` elements,
        // and `from` as many from each place of the filter on.
        unsafe {
            let zero = I::Vector::<T>::splat(T::ZERO);
            let mut sums = [zero; REGISTERS];
            for (j, h) in filter.iter().rev().enumerate() {
                let h = I::Vector::<T>::splat(*h);
                for (v, sum) in sums.iter_mut().enumerate() {
                    let x = I::Vector::<T>::load(from.as_ptr().add(j + v * I::Vector::<T>::LANES));
                    *sum = h.mul_add(x, *sum);
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(to.as_mut_ptr().add(v * I::Vector::<T>::LANES));
            }
        }
        first += width;
    }
    // One by one in the same order: no cut changes a bit.
    for (i, out) in k.out.iter_mut().enumerate().skip(first) {
        let products = filter.iter().rev().zip(&signal[i..]);
        *out = products.fold(T::ZERO, |sum, (h, x)| I::mul_add(*h, *x, sum));
    }
}

spans! { Conv1d, Conv1dSpan, 1, convolve }
