//! Sweeps on the CPU: a run is a piece of a row, and reads nine rows.

use super::{Around, Star, StarItem, StarSpan, mean, sum};
use crate::simd::{InstructionSet, Number, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

#[inline(always)]
fn sweep<I: InstructionSet, T: Number>(run: Span<3>, k: StarSpan<'_, T>) {
    let ([x, y, z], n) = (run.first().values(), run.len());
    let (nx, ny) = (k.nx as usize, k.ny as usize);
    inside([nx, ny], k.from.strides(), [x, y, z], n);
    let (plane, first) = (nx * ny, (z * ny + y) * nx + x);
    let row = |first: usize| k.from.slice(first..first + n);
    let middle = k.from.slice(first - 2..first + n + 2);
    let around = Around {
        before: [middle[0], middle[1]],
        middle: &middle[2..][..n],
        behind: [middle[n + 2], middle[n + 3]],
        y: [first - 2 * nx, first - nx, first + nx, first + 2 * nx].map(row),
        z: [first - 2 * plane, first - plane, first + plane, first + 2 * plane].map(row),
    };
    mean::<I, T>(k.scale, &around, &mut k.to[..n]);
}

/// # Panics
/// If these are not the extents of the array, or a point lacks neighbours.
#[inline(always)]
fn inside(extents: [usize; 2], strides: [usize; 2], point: [usize; 3], n: usize) {
    let ([nx, ny], [x, y, z]) = (extents, point);
    if !(strides == [nx, nx.wrapping_mul(ny)] && x > 1 && x + n + 1 < nx && y > 1 && y + 2 < ny && z > 1) {
        outside(extents, strides, point, n);
    }
}

#[cold]
fn outside([nx, ny]: [usize; 2], strides: [usize; 2], [x, y, z]: [usize; 3], n: usize) -> ! {
    assert!(
        strides == [nx, nx.wrapping_mul(ny)],
        "flash.star: expected `from` of the shape [{nx}, {ny}, ..], found rows of {} points and planes of {}",
        strides[0],
        strides[1]
    );
    panic!(
        "flash.star: expected points two from the border of a grid of {nx} x {ny} x .. points, found {x}..{} x \
         {y} x {z}",
        x + n
    )
}

/// One point at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Star<'_, T>> for Plain {
    fn item(point: Index<3>, k: StarItem<'_, T>) {
        let [x, y, z] = point.values();
        let [row, plane] = [k.nx as usize, k.nx as usize * k.ny as usize];
        inside([row, k.ny as usize], k.from.strides(), [x, y, z], 1);
        let at = x + y * row + z * plane;
        let u = |at: usize| k.from.get(at);
        let along = |step: usize| [u(at - 2 * step), u(at - step), u(at + step), u(at + 2 * step)];
        k.to.set(sum(u(at), along(1), along(row), along(plane)) * k.scale);
    }
}

spans! { Star<T>, StarSpan, 3, sweep }
