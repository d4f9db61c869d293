//! Sums of products.

use super::{InstructionSet, Number, Vector, prefetch};

/// Registers of sums: so many additions do not wait for each other.
const REGISTERS: usize = 8;

/// Bytes between asking for elements and adding them. On a Sapphire Rapids half of it makes `vdp` and `mvm` 4 to 6 %
/// slower, and twice as much `mvm`; on a Skylake nothing of it costs 6 %.
const AHEAD: usize = 4096;

/// The sum of `x[i] * y[i]`. Its bits depend on the elements, their number and the registers alone.
///
/// # Panics
/// If the lengths differ, or the CPU lacks the instructions.
#[inline(always)]
pub(crate) fn dot<I: InstructionSet, T: Number>(x: &[T], y: &[T]) -> T {
    dots::<I, T, 1>([x], y)[0]
}

/// The same of several vectors with one, for as many streams from memory.
///
/// # Panics
/// As [`dot`].
#[inline(always)]
pub(crate) fn dots<I: InstructionSet, T: Number, const N: usize>(xs: [&[T]; N], y: &[T]) -> [T; N] {
    for x in xs {
        let (x, y) = (x.len(), y.len());
        assert!(x == y, "expected vectors of one length, found {x} and {y} elements");
    }
    assert!(I::there(), "this CPU lacks the instructions");
    let lanes = I::Vector::<T>::LANES;
    let (blocks, registers) = (y.len() / (lanes * REGISTERS), y.len() / lanes);
    let mut rests = [[T::ZERO; 16]; N];
    // SAFETY: the CPU has the instructions, as asserted; all have so many registers of elements, and a rest one.
    unsafe {
        let at = |vector: &[T], register: usize| {
            let at = register * lanes;
            prefetch(vector.as_ptr().wrapping_add(at + AHEAD / size_of::<T>()));
            I::Vector::<T>::load(vector.as_ptr().add(at))
        };
        let mut sums = [[I::Vector::<T>::splat(T::ZERO); REGISTERS]; N];
        for block in 0..blocks {
            for v in 0..REGISTERS {
                let register = block * REGISTERS + v;
                let y = at(y, register);
                for (sums, x) in sums.iter_mut().zip(xs) {
                    sums[v] = at(x, register).mul_add(y, sums[v]);
                }
            }
        }
        for ((sums, x), rest) in sums.into_iter().zip(xs).zip(&mut rests) {
            let [mut total, b, c, d, e, f, g, h] = sums;
            for register in blocks * REGISTERS..registers {
                total = at(x, register).mul_add(at(y, register), total);
            }
            total = total.add(b).add(c.add(d)).add(e.add(f).add(g.add(h)));
            total.store(rest.as_mut_ptr());
        }
    }
    let mut totals = [T::ZERO; N];
    for ((x, mut rest), total) in xs.into_iter().zip(rests).zip(&mut totals) {
        for (sum, at) in rest.iter_mut().zip(registers * lanes..x.len()) {
            *sum = I::mul_add(x[at], y[at], *sum);
        }
        let mut width = rest.len() / 2;
        while width > 0 {
            for l in 0..width {
                rest[l] += rest[l + width];
            }
            width /= 2;
        }
        *total = rest[0];
    }
    totals
}
