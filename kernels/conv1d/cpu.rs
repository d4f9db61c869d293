//! Convolutions on the CPU: several registers of results at once, with each filter element used for all of
//! them.

use super::{Conv1d, Conv1dItem, Conv1dSpan};
use crate::simd::{InstructionSet, Number, Vector, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

/// Elements of the filter, a register's lanes apart, that are multiplied with the same registers of the
/// signal. Each register is loaded once for all of them. Loads that cross cache lines, as most of these do,
/// take twice as long as multiplications.
const TAPS: usize = 4;

/// Calls `body` with the numbers of a filter's elements in the order in which their products are added: `C`
/// of them at a time, each `lanes` after the one before.
macro_rules! taps {
    ($k:expr, $lanes:expr, |$first:ident, $count:ident| $body:expr) => {
        for block in (0..$k).step_by(TAPS * $lanes) {
            for $first in block..$k.min(block + $lanes) {
                let $count = ($k.min(block + TAPS * $lanes) - $first).div_ceil($lanes);
                $body
            }
        }
    };
}

#[inline(always)]
fn convolve<I: InstructionSet, T: Number>(run: Span<1>, k: Conv1dSpan<'_, T>) {
    let filter = k.filter;
    if filter.is_empty() {
        return k.out.fill(T::ZERO);
    }
    // The elements of the signal that the run needs; the view checks them.
    let signal = k.signal.slice(run.range().start..run.range().end + filter.len() - 1);
    let (n, lanes) = (k.out.len(), I::Vector::<T>::LANES);
    I::assert_there();
    if n < lanes {
        for (i, out) in k.out.iter_mut().enumerate() {
            let mut sum = T::ZERO;
            taps!(filter.len(), lanes, |first, count| {
                for j in (first..).step_by(lanes).take(count) {
                    sum = I::mul_add(filter[filter.len() - 1 - j], signal[i + j], sum);
                }
            });
            *out = sum;
        }
        return;
    }
    let mut done = 0;
    while done < n {
        // SAFETY: the CPU has the instructions, as asserted.
        done += unsafe {
            match (n - done) / lanes {
                8.. => results::<I, T, 8>(filter, signal, done, k.out),
                4.. => results::<I, T, 4>(filter, signal, done, k.out),
                2.. => results::<I, T, 2>(filter, signal, done, k.out),
                1 => results::<I, T, 1>(filter, signal, done, k.out),
                // The last register overlaps the one before: no cut changes a bit.
                0 => results::<I, T, 1>(filter, signal, n - lanes, k.out),
            }
        };
    }
}

/// `R` registers of results, from number `first` on. Returns how many numbers that are.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn results<I: InstructionSet, T: Number, const R: usize>(
    filter: &[T],
    signal: &[T],
    first: usize,
    out: &mut [T],
) -> usize {
    let (k, lanes) = (filter.len(), I::Vector::<T>::LANES);
    let width = R * lanes;
    let (from, to) = (&signal[first..][..width + k - 1], &mut out[first..][..width]);
    // SAFETY: the caller vouches for the instructions. `to` has `width` elements, and `from` as many from the
    // place of each of the filter's elements on: those from number `first` on, every `lanes` of `count`,
    // exist.
    unsafe {
        let mut sums = [I::Vector::<T>::splat(T::ZERO); R];
        taps!(k, lanes, |first, count| {
            let with = filter.as_ptr().add(k - 1 - first);
            let from = from.as_ptr().add(first);
            match count {
                1 => add::<I, T, R, 1>(with, from, &mut sums),
                2 => add::<I, T, R, 2>(with, from, &mut sums),
                3 => add::<I, T, R, 3>(with, from, &mut sums),
                _ => add::<I, T, R, TAPS>(with, from, &mut sums),
            }
        });
        for (v, sum) in sums.into_iter().enumerate() {
            sum.store(to.as_mut_ptr().add(v * lanes));
        }
    }
    width
}

/// Adds the products of `C` elements of the filter, the first at `with` and each of the others `lanes` before
/// it, with the registers of the signal from `from` on.
///
/// # Safety
/// The CPU has the instructions, and the elements exist.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // all are unrolled, and their arrays become registers
unsafe fn add<I: InstructionSet, T: Number, const R: usize, const C: usize>(
    with: *const T,
    from: *const T,
    sums: &mut [I::Vector<T>; R],
) {
    let lanes = I::Vector::<T>::LANES;
    // SAFETY: the caller vouches.
    unsafe {
        let mut h = [I::Vector::<T>::splat(T::ZERO); C];
        for c in 0..C {
            h[c] = I::Vector::<T>::splat(*with.sub(c * lanes));
        }
        for u in 0..R + C - 1 {
            let x = I::Vector::<T>::load(from.add(u * lanes));
            for c in 0..C {
                if u >= c && u - c < R {
                    sums[u - c] = h[c].mul_add(x, sums[u - c]);
                }
            }
        }
    }
}

/// One result at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Conv1d<'_, T>> for Plain {
    fn item(i: Index<1>, k: Conv1dItem<'_, T>) {
        let signal = k.signal.slice(i[0]..i[0] + k.filter.len());
        let products = k.filter.iter().rev().zip(signal).map(|(h, x)| *h * *x);
        k.out.set(products.fold(T::ZERO, |sum, product| sum + product));
    }
}

spans! { Conv1d<T>, Conv1dSpan, 1, convolve }
