//! Sweeps of Jacobi's method on the CPU: a run is a piece of a row, and reads five rows.

use super::{Js, JsSpan};
use crate::simd::{InstructionSet, Number, Vector, prefetch, spans};
use flash_core::kernel::Span;

/// Bytes between asking for what no earlier row has read and using it: about a row. What there is to do between two
/// rows would else keep the memory waiting.
const AHEAD: usize = 1024;

#[inline(always)]
fn sweep<I: InstructionSet, T: Number>(run: Span<3>, k: JsSpan<'_, T>) {
    let [x, y, z] = run.first().values();
    let (nx, ny, n) = (k.nx as usize, k.ny as usize, run.len());
    assert!(
        x > 0 && x + n < nx && y > 0 && y + 1 < ny && z > 0,
        "js: expected points inside a grid of {nx} x {ny} x .. points, found {x}..{} x {y} x {z}",
        x + n
    );
    let row = |y: usize, z: usize| (z * ny + y) * nx + x;
    let at = |first: usize| k.from.slice(first..first + n);
    let middle = k.from.slice(row(y, z) - 1..row(y, z) + n + 1);
    let (front, back) = (at(row(y - 1, z)), at(row(y + 1, z)));
    let (below, above) = (at(row(y, z - 1)), at(row(y, z + 1)));
    let (f, to) = (&k.f[..n], &mut k.to[..n]);
    let two = T::ONE + T::ONE;
    let (sixth, minus) = (T::ONE / (two + two + two), T::ZERO - k.h2);
    let lanes = I::Vector::<T>::LANES;
    if n < lanes {
        for i in 0..n {
            let around = (middle[i] + middle[i + 2]) + (front[i] + back[i]) + (below[i] + above[i]);
            to[i] = I::mul_add(minus, f[i], around) * sixth;
        }
        return;
    }
    assert!(I::there(), "this CPU lacks the instructions");
    for first in (0..n).step_by(lanes) {
        // The last register has points of the one before once more.
        let first = first.min(n - lanes);
        for row in [above.as_ptr(), f.as_ptr(), to.as_ptr()] {
            prefetch(row.wrapping_add(first + AHEAD / size_of::<T>()));
        }
        // SAFETY: the CPU has the instructions, as asserted. `lanes` points from `first` on are in all
        // rows, of which `middle` has two more.
        unsafe {
            let at = |row: &[T]| I::Vector::<T>::load(row.as_ptr().add(first));
            let across = at(middle).add(at(&middle[2..]));
            let around = across.add(at(front).add(at(back))).add(at(below).add(at(above)));
            let [sixth, minus] = [I::Vector::<T>::splat(sixth), I::Vector::<T>::splat(minus)];
            minus.mul_add(at(f), around).mul(sixth).store(to.as_mut_ptr().add(first));
        }
    }
}

spans! { Js, JsSpan, 3, sweep }
