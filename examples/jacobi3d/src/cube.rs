//! The problem: a cube of n x n x n points in random temperatures, in a wall that keeps its own. And one loop
//! over all points, which says what is right.
//!
//! Arrays with the wall have n + 4 points along each axis, the first two and the last two of the wall. Points
//! are stored row by row along x, then along y, then along z.

use flash::kernels::simd::Number;
use flash::kernels::star::{Around, row, thirteenth};
use std::ops::Range;

/// Neighbours on each side, and the thickness of the wall.
pub const REACH: usize = 2;
/// The temperature of the wall below the first plane.
pub const HOT: f64 = 1.0;
/// The temperature of the rest of the wall.
pub const COLD: f64 = 0.0;

/// Where points inside the wall are, in arrays with it.
pub fn inside(size: usize) -> Range<usize> {
    REACH..REACH + size
}

/// The first temperature of a point, by its coordinates along x, y and z: between 1/4 and 3/4, in no order,
/// and exact in both precisions.
pub fn start<T: Number>(x: usize, y: usize, z: usize) -> T {
    // splitmix64 of the coordinates.
    let at = (z as u64) << 42 | (y as u64) << 21 | x as u64;
    let mut bits = at.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    T::nearest(0.25 + (bits >> 42) as f64 / f64::from(1 << 23))
}

/// All points with the wall, as they are at the start.
pub fn walled<T: Number>(size: usize) -> Vec<T> {
    let (edge, inside) = (size + 2 * REACH, inside(size));
    let mut points = vec![T::nearest(COLD); edge * edge * edge];
    points[..REACH * edge * edge].fill(T::nearest(HOT));
    for z in 0..size {
        for y in 0..size {
            let row = &mut points[((z + REACH) * edge + y + REACH) * edge..][inside.clone()];
            row.iter_mut().enumerate().for_each(|(x, point)| *point = start(x, y, z));
        }
    }
    points
}

/// The points without the wall.
pub fn bare<T: Number>(size: usize, walled: &[T]) -> Vec<T> {
    let edge = size + 2 * REACH;
    let rows = inside(size).flat_map(|z| inside(size).map(move |y| (z * edge + y) * edge));
    rows.flat_map(|row| walled[row..][inside(size)].iter().copied()).collect()
}

/// All points after some iterations, without the wall, by one loop on one thread.
pub fn one_loop<T: Number>(size: usize, iterations: usize) -> Vec<T> {
    let (edge, scale) = (size + 2 * REACH, thirteenth::<T>());
    let mut from = walled::<T>(size);
    let mut to = from.clone();
    for _ in 0..iterations {
        for (z, y) in inside(size).flat_map(|z| inside(size).map(move |y| (z, y))) {
            let at = |y: usize, z: usize| &from[(z * edge + y) * edge..][inside(size)];
            let first = (z * edge + y) * edge + REACH;
            let around = Around {
                before: [from[first - 2], from[first - 1]],
                middle: at(y, z),
                behind: [from[first + size], from[first + size + 1]],
                y: [at(y - 2, z), at(y - 1, z), at(y + 1, z), at(y + 2, z)],
                z: [at(y, z - 2), at(y, z - 1), at(y, z + 1), at(y, z + 2)],
            };
            row(scale, &around, &mut to[first..][..size]);
        }
        std::mem::swap(&mut from, &mut to);
    }
    bare(size, &from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_takes_means_of_thirteen_points() {
        let size = 6;
        let edge = size + 2 * REACH;
        let mut expected: Vec<f64> = walled(size);
        for _ in 0..3 {
            let old = expected.clone();
            for (i, expected) in expected.iter_mut().enumerate() {
                let at = [i % edge, i / edge % edge, i / edge / edge];
                if at.iter().all(|c| inside(size).contains(c)) {
                    let axes = [1, edge, edge * edge];
                    let neighbours =
                        axes.iter().flat_map(|&step| [i - 2 * step, i - step, i + step, i + 2 * step]);
                    *expected = neighbours.chain([i]).map(|i| old[i]).sum::<f64>() / 13.0;
                }
            }
        }
        let (found, expected) = (one_loop::<f64>(size, 3), bare(size, &expected));
        assert_eq!(found.len(), size * size * size);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-14, "{found} for {expected}");
        }
    }

    #[test]
    fn the_cube_begins_between_its_walls() {
        let size = 3;
        let points: Vec<f32> = walled(size);
        assert_eq!(points.len(), 343);
        assert_eq!(points.iter().filter(|&&t| t == 1.0).count(), 2 * 49);
        assert_eq!(points.iter().filter(|&&t| t == 0.0).count(), 343 - 2 * 49 - 27);
        let inner: Vec<f32> = bare(size, &points);
        assert!(inner.iter().all(|t| (0.25..0.75).contains(t)), "{inner:?}");
        assert!((0..27).all(|i| inner[i] == start::<f32>(i % 3, i / 3 % 3, i / 9)));
        let wide: Vec<f64> = bare(size, &walled(size));
        assert!(inner.iter().zip(&wide).all(|(a, b)| f64::from(*a) == *b), "exact in both precisions");
    }
}
