//! Sums of products.

use super::{InstructionSet, Number, Vector, prefetch};

/// Registers of sums: so many additions do not wait for each other.
const REGISTERS: usize = 8;

/// Bytes between asking for elements and adding them: the memory is 6 % faster than where the CPU sees by itself what
/// comes next.
const AHEAD: usize = 2048;

/// The sum of `x[i] * y[i]`. Its bits depend on the elements, their number and the registers alone.
///
/// # Panics
/// If the lengths differ, or the CPU lacks the instructions.
#[inline(always)]
pub(crate) fn dot<I: InstructionSet, T: Number>(x: &[T], y: &[T]) -> T {
    assert!(x.len() == y.len(), "expected vectors of one length, found {} and {} elements", x.len(), y.len());
    assert!(I::there(), "this CPU lacks the instructions");
    let lanes = I::Vector::<T>::LANES;
    let (blocks, registers) = (x.len() / (lanes * REGISTERS), x.len() / lanes);
    let mut rest = [T::ZERO; 16];
    // SAFETY: the CPU has the instructions, as asserted; both have so many registers of elements, and `rest` one.
    unsafe {
        let at = |register: usize| {
            let at = register * lanes;
            for vector in [x, y] {
                prefetch(vector.as_ptr().wrapping_add(at + AHEAD / size_of::<T>()));
            }
            (I::Vector::<T>::load(x.as_ptr().add(at)), I::Vector::<T>::load(y.as_ptr().add(at)))
        };
        let mut sums = [I::Vector::<T>::splat(T::ZERO); REGISTERS];
        for block in 0..blocks {
            for (v, sum) in sums.iter_mut().enumerate() {
                let (x, y) = at(block * REGISTERS + v);
                *sum = x.mul_add(y, *sum);
            }
        }
        let [mut total, b, c, d, e, f, g, h] = sums;
        for register in blocks * REGISTERS..registers {
            let (x, y) = at(register);
            total = x.mul_add(y, total);
        }
        total = total.add(b).add(c.add(d)).add(e.add(f).add(g.add(h)));
        total.store(rest.as_mut_ptr());
    }
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
    rest[0]
}
