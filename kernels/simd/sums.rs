//! Sums of products.

use super::streams::{STREAMS, ask_ahead, streams};
use super::{InstructionSet, Number, Vector, one_stream};

/// Registers of sums of one dot product, so that additions do not wait for each other.
const REGISTERS: usize = 8;

/// The sum of `x[i] * y[i]`. Its bits depend only on the elements, their number, the registers and the CPU's
/// maker.
///
/// # Panics
/// If the lengths differ, or the CPU lacks the instructions.
#[inline(always)]
pub(crate) fn dot<I: InstructionSet, T: Number>(x: &[T], y: &[T]) -> T {
    match one_stream() {
        true => dots::<I, T, 1, REGISTERS, false>([x], y)[0],
        false => dot_of_streams::<I, T>(x, y),
    }
}

/// The same by several streams.
#[inline(always)]
fn dot_of_streams<I: InstructionSet, T: Number>(x: &[T], y: &[T]) -> T {
    check::<I, T>(x, y);
    let mut sums = [T::ZERO; 16];
    // SAFETY: the CPU has the instructions, as checked; both have the elements that are gone through.
    let together = unsafe {
        let mut all = [I::Vector::<T>::splat(T::ZERO); STREAMS];
        let together = streams::<T>(x.len(), I::Vector::<T>::LANES, |at| {
            for stream in 0..STREAMS {
                let (x, y) = (load::<I, T, true>(x, at[stream]), load::<I, T, true>(y, at[stream]));
                all[stream] = x.mul_add(y, all[stream]);
            }
        });
        total::<I, T, STREAMS>(all).store(sums.as_mut_ptr());
        together
    };
    across(sums) + dots::<I, T, 1, REGISTERS, true>([&x[together..]], &y[together..])[0]
}

/// # Panics
/// If the lengths differ, or the CPU lacks the instructions.
#[inline(always)]
fn check<I: InstructionSet, T: Number>(x: &[T], y: &[T]) {
    let (x, y) = (x.len(), y.len());
    assert!(x == y, "expected vectors of one length, found {x} and {y} elements");
    I::assert_there();
}

/// A register of elements; `ASK`: prefetches those that follow soon.
///
/// # Safety
/// The CPU has the instructions, and the vector the elements.
#[inline(always)]
unsafe fn load<I: InstructionSet, T: Number, const ASK: bool>(vector: &[T], at: usize) -> I::Vector<T> {
    if ASK {
        ask_ahead(vector.as_ptr().wrapping_add(at));
    }
    // SAFETY: the caller vouches.
    unsafe { I::Vector::<T>::load(vector.as_ptr().add(at)) }
}

/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn total<I: InstructionSet, T: Number, const R: usize>(mut sums: [I::Vector<T>; R]) -> I::Vector<T> {
    let mut width = R / 2;
    while width > 0 {
        for v in 0..width {
            // SAFETY: the caller vouches.
            sums[v] = unsafe { sums[v].add(sums[v + width]) };
        }
        width /= 2;
    }
    sums[0]
}

/// The sum of the elements of a register; missing ones are 0.
#[inline(always)]
fn across<T: Number>(mut lanes: [T; 16]) -> T {
    let mut width = lanes.len() / 2;
    while width > 0 {
        for l in 0..width {
            let other = lanes[l + width];
            lanes[l] += other;
        }
        width /= 2;
    }
    lanes[0]
}

/// The same of several vectors with one, for as many streams from memory, with `R` registers of sums for
/// each, a power of two. Its bits depend on the elements, their number and `R`, not on `N`. `ASK`: as for
/// [`load`].
///
/// # Panics
/// As [`dot`].
#[inline(always)]
pub(crate) fn dots<I: InstructionSet, T: Number, const N: usize, const R: usize, const ASK: bool>(
    xs: [&[T]; N],
    y: &[T],
) -> [T; N] {
    for x in xs {
        check::<I, T>(x, y);
    }
    let lanes = I::Vector::<T>::LANES;
    let (blocks, registers) = (y.len() / (lanes * R), y.len() / lanes);
    let mut rests = [[T::ZERO; 16]; N];
    // SAFETY: the CPU has the instructions, as asserted; all have this many registers of elements, and a
    // rest.
    unsafe {
        let at = |vector: &[T], register: usize| load::<I, T, ASK>(vector, register * lanes);
        let mut sums = [[I::Vector::<T>::splat(T::ZERO); R]; N];
        for block in 0..blocks {
            for v in 0..R {
                let register = block * R + v;
                let y = at(y, register);
                for (sums, x) in sums.iter_mut().zip(xs) {
                    sums[v] = at(x, register).mul_add(y, sums[v]);
                }
            }
        }
        for ((mut sums, x), rest) in sums.into_iter().zip(xs).zip(&mut rests) {
            for register in blocks * R..registers {
                sums[0] = at(x, register).mul_add(at(y, register), sums[0]);
            }
            total::<I, T, R>(sums).store(rest.as_mut_ptr());
        }
    }
    let mut totals = [T::ZERO; N];
    for ((x, mut rest), total) in xs.into_iter().zip(rests).zip(&mut totals) {
        for (sum, at) in rest.iter_mut().zip(registers * lanes..x.len()) {
            *sum = I::mul_add(x[at], y[at], *sum);
        }
        *total = across(rest);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;
    use crate::simd::streams::STREAM;
    #[cfg(target_arch = "x86_64")]
    use crate::simd::{Avx2, Avx512};

    /// Small whole numbers, whose sums are exact in any order.
    fn all_are_added<I: InstructionSet, T: Number + From<u8> + Into<f64>>() {
        if !I::there() {
            return;
        }
        let whole = STREAMS * STREAM / size_of::<T>();
        for n in [0, 1, 100, whole - 1, whole, whole + 1, 3 * whole + 77] {
            let numbers = |period: usize| (0..n).map(|i| T::from((i % period) as u8)).collect::<Vec<_>>();
            let expected: usize = (0..n).map(|i| (i % 7) * (i % 5)).sum();
            let (x, y) = (numbers(7), numbers(5));
            assert_eq!(Into::<f64>::into(dot::<I, T>(&x, &y)), expected as f64, "{n}");
            assert_eq!(Into::<f64>::into(dot_of_streams::<I, T>(&x, &y)), expected as f64, "{n}");
            assert_eq!(dots::<I, T, 1, REGISTERS, false>([&x], &y).map(Into::into), [expected as f64], "{n}");
            let several: [f64; 4] = dots::<I, T, 4, 1, true>([&x, &y, &x, &y], &y).map(Into::into);
            let squares = (0..n).map(|i| (i % 5) * (i % 5)).sum::<usize>() as f64;
            assert_eq!(several, [expected as f64, squares, expected as f64, squares], "{n}");
        }
    }

    #[test]
    fn every_product_is_added_once_by_any_registers() {
        all_are_added::<Portable, f32>();
        all_are_added::<Portable, f64>();
        #[cfg(target_arch = "x86_64")]
        {
            all_are_added::<Avx2, f32>();
            all_are_added::<Avx2, f64>();
            all_are_added::<Avx512, f32>();
            all_are_added::<Avx512, f64>();
        }
    }
}
