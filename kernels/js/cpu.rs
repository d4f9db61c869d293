//! Sweeps of Jacobi's method on the CPU: a run is a piece of a row, and reads five rows.

use super::{Js, JsItem, JsSpan};
use crate::simd::{InstructionSet, Number, Vector, one_stream, prefetch, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

/// Bytes between the prefetch of what no earlier row has read and its use, about a row, on CPUs whose own
/// prefetch is not good enough. On an EPYC (Zen 4) the prefetch makes a difference of 0 to 0.05 less.
const AHEAD: usize = 1024;

#[inline(always)]
fn sweep<I: InstructionSet, T: Number>(run: Span<3>, k: JsSpan<'_, T>) {
    let [x, y, z] = run.first().values();
    let (nx, ny, n) = (k.nx as usize, k.ny as usize, run.len());
    let is_shaped = k.from.strides() == [nx, nx.wrapping_mul(ny)];
    if !(is_shaped && x > 0 && x + n < nx && y > 0 && y + 1 < ny && z > 0) {
        outside([nx, ny], k.from.strides(), [x, y, z], n);
    }
    // The points that are read begin with the neighbours below and end with those above. They are looked up
    // at once: needless work for a row, and all that it writes to the stack, delays the stores of results.
    let (plane, below) = (nx * ny, ((z - 1) * ny + y) * nx + x);
    let (middle, front, back, below, above) = match k.from.stretch(below..below + 2 * plane + n) {
        Some(all) => {
            let at = |first: usize| &all[first..][..n];
            (&all[plane - 1..][..n + 2], at(plane - nx), at(plane + nx), at(0), at(2 * plane))
        }
        None => {
            let [middle, front, back, below, above] = apart(&k, below, n);
            (middle, front, back, below, above)
        }
    };
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
    let ask = !one_stream();
    I::assert_there();
    for first in (0..n).step_by(lanes) {
        // The last register overlaps the one before.
        let first = first.min(n - lanes);
        if ask {
            for row in [above.as_ptr(), f.as_ptr(), to.as_ptr()] {
                prefetch(row.wrapping_add(first + AHEAD / size_of::<T>()));
            }
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

/// The rows that are read, if the device does not have all between them.
#[cold]
fn apart<'k, T: Number>(k: &JsSpan<'k, T>, below: usize, n: usize) -> [&'k [T]; 5] {
    let (nx, plane) = (k.nx as usize, (k.nx * k.ny) as usize);
    let at = |first: usize| k.from.slice(first..first + n);
    let middle = below + plane;
    [
        k.from.slice(middle - 1..middle + n + 1),
        at(middle - nx),
        at(middle + nx),
        at(below),
        at(middle + plane),
    ]
}

#[cold]
fn outside([nx, ny]: [usize; 2], [row, plane]: [usize; 2], [x, y, z]: [usize; 3], n: usize) -> ! {
    assert!(
        [row, plane] == [nx, nx.wrapping_mul(ny)],
        "flash.js: expected `from` of the shape [{nx}, {ny}, ..], found rows of {row} points and planes of {plane}"
    );
    panic!(
        "flash.js: expected points inside a grid of {nx} x {ny} x .. points, found {x}..{} x {y} x {z}",
        x + n
    )
}

/// One point at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Js<'_, T>> for Plain {
    fn item(point: Index<3>, k: JsItem<'_, T>) {
        let [x, y, z] = point.values();
        let [row, plane] = [k.nx as usize, k.nx as usize * k.ny as usize];
        if k.from.strides() != [row, plane]
            || x == 0
            || x + 1 >= row
            || y == 0
            || y + 1 >= k.ny as usize
            || z == 0
        {
            outside([row, k.ny as usize], k.from.strides(), [x, y, z], 1);
        }
        let at = x + y * row + z * plane;
        let u = |at: usize| k.from.get(at);
        let around = u(at - 1) + u(at + 1) + u(at - row) + u(at + row) + u(at - plane) + u(at + plane);
        let six = T::ONE + T::ONE + T::ONE + T::ONE + T::ONE + T::ONE;
        k.to.set((around - k.h2 * *k.f) / six);
    }
}

spans! { Js<T>, JsSpan, 3, sweep }
