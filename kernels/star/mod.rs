//! The mean over a star of 13 points: Jacobi's method with two neighbours on each side of each axis.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{InstructionSet, Number, Portable, Vector};
use flash_core::kernel::views::{Item, Read, Window, Write};
use flash_core::kernel::{Boxes, Candidate, partition_map};
use flash_core::{Error, FlashMemory, KernelDefinition};

partition_map! {
    /// Sets no box: it refuses a part whose neighbours would be looked up at wrong places.
    static GRID = "star.grid": |at: &Candidate<'_>, _: &mut Boxes| {
        let (shape, [nx, ny]) = (at.shape("from"), ["nx", "ny"].map(|extent| at.scalar::<u64>(extent)));
        assert!(
            matches!(*shape, [x, y, _] if [x, y] == [nx, ny]),
            "expected `from` of the shape [{nx}, {ny}, ..], found {shape:?}"
        );
    };
}

/// One sweep: every inner point becomes the mean of itself and its two neighbours on each side along each
/// axis. Dimensions: (x, y, z). Made by [`star`](fn@star), or by `of`.
///
/// A launch is of inner points only, such as `(2..nx - 2, 2..ny - 2, 2..nz - 2)`; the others are the boundary
/// values, in both arrays. Sums are rounded in one order: all implementations on all devices give the same
/// bits, and so does [`row`].
///
/// # Errors
/// A launch of points that `to` does not have is refused; one of points without all neighbours fails on the
/// CPU, as does one with extents that are not those of the arrays. Devices leave out points without
/// neighbours, and all points if `to` has other extents; the contents of `to` there are unspecified.
#[derive(KernelDefinition)]
#[kernel(name = "flash.star", dims(x, y, z), part_by(z, from = stencil(x = 2, y = 2, z = 2), map = GRID))]
#[cfg_attr(
    feature = "implementations",
    implementations(opencl = "star.c", cuda = "star.c", name = "any", cooperating, for(f32, f64))
)]
pub struct Star<'a, T: Number> {
    /// What the sum of 13 points is multiplied by: [`thirteenth`], for the mean.
    scale: T,
    /// Points along x.
    nx: u64,
    /// Points along y.
    ny: u64,
    /// The points as they are; shape [nx, ny, nz].
    from: Window<'a, Read<T>>,
    /// The points after the sweep, in the same shape.
    to: Item<'a, Write<T>>,
}

/// 1/13: the share of each point in the mean.
pub fn thirteenth<T: Number>() -> T {
    T::ONE / T::nearest(13.0)
}

/// One sweep from one array to another. To be launched with the dimensions `(2..nx - 2, 2..ny - 2, 2..nz -
/// 2)` of the arrays' shape `[nx, ny, nz]`; sweep after sweep with `from` and `to` exchanged.
///
/// # Errors
/// [`Error::Argument`] if the shapes are not one of three extents of at least 5.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let rt = get_runtime("ALL_ACCEL")?;
/// let [from, to] = [(); 2].map(|()| FlashMemory::zeroed([5, 5, 5]));
/// from.write()?[62] = 26.0; // the one inner point
/// rt.submit(flash_kernels::star(&from, &to)?).exec((2..3, 2..3, 2..3))?;
/// assert_eq!(to.get(62)?, 2.0);
/// # Ok(())
/// # }
/// ```
pub fn star<'a, T: Number>(from: &'a FlashMemory<T>, to: &'a FlashMemory<T>) -> Result<Star<'a, T>, Error> {
    if !matches!(from.shape(), [x, y, z] if x.min(y).min(z) >= &5) {
        return Err(shapes::refused(
            "flash.star",
            "from",
            format!(
                "expected a shape of three extents of at least 5, found {:?}: give it one with `with_shape`",
                from.shape()
            ),
        ));
    }
    shapes::equal("flash.star", ("from", from), ("to", to))?;
    let [nx, ny] = [from.shape()[0], from.shape()[1]];
    Ok(Star::of(thirteenth(), nx, ny, from, to))
}

/// A row of points along x, and what is around it.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a, T> {
    /// The two points before its first one, in the order of x.
    pub before: [T; 2],
    /// The row.
    pub middle: &'a [T],
    /// The two points behind its last one, in the order of x.
    pub behind: [T; 2],
    /// The rows at y - 2, y - 1, y + 1 and y + 2, as long as `middle`.
    pub y: [&'a [T]; 4],
    /// The rows at z - 2, z - 1, z + 1 and z + 2, as long as `middle`.
    pub z: [&'a [T]; 4],
}

/// A row of a sweep, with the bits of [`Star`]: for programs that go through a grid in an order of their own.
/// Compiled for the widest registers of this CPU.
///
/// # Panics
/// If the rows are of different lengths.
pub fn row<T: Number>(scale: T, around: &Around<'_, T>, to: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    if Avx512::there() {
        return Avx512::run(|| mean::<Avx512, T>(scale, around, to));
    } else if Avx2::there() {
        return Avx2::run(|| mean::<Avx2, T>(scale, around, to));
    }
    mean::<Portable, T>(scale, around, to);
}

/// The sum of three axes and the point itself.
#[inline(always)]
fn sum<T: Number>(point: T, x: [T; 4], y: [T; 4], z: [T; 4]) -> T {
    let both = |[a, b, c, d]: [T; 4]| (a + d) + (b + c);
    (point + both(x)) + (both(y) + both(z))
}

/// As [`row`], compiled for what it is inlined into.
#[inline(always)]
fn mean<I: InstructionSet, T: Number>(scale: T, around: &Around<'_, T>, to: &mut [T]) {
    let n = to.len();
    let Around { before: [b2, b1], middle, behind: [b3, b4], y, z } = *around;
    let rows = [middle].into_iter().chain(y).chain(z);
    assert!(rows.into_iter().all(|row| row.len() == n), "a row and those around it have one length");
    let one = |i: usize| {
        let point = |at: usize| match at {
            0 => b2,
            1 => b1,
            at if at < n + 2 => middle[at - 2],
            at if at == n + 2 => b3,
            _ => b4,
        };
        let x = [i, i + 1, i + 3, i + 4].map(point);
        sum(middle[i], x, y.map(|row| row[i]), z.map(|row| row[i])) * scale
    };
    let lanes = I::Vector::<T>::LANES;
    if n < (2 * lanes).max(lanes + 4) {
        (0..n).for_each(|i| to[i] = one(i));
        return;
    }
    // The points beside the first and the last register, of which two are elsewhere.
    let [mut head, mut tail] = [[T::ZERO; MOST_LANES + 4]; 2];
    head[..2].copy_from_slice(&[b2, b1]);
    head[2..lanes + 4].copy_from_slice(&middle[..lanes + 2]);
    tail[..lanes + 2].copy_from_slice(&middle[n - lanes - 2..]);
    tail[lanes + 2..lanes + 4].copy_from_slice(&[b3, b4]);
    I::assert_there();
    for first in (lanes..n - lanes).step_by(lanes) {
        // The last one overlaps the one before.
        let first = first.min(n - 2 - lanes);
        // SAFETY: the CPU has the instructions, as asserted.
        unsafe { register::<I, T>(scale, around, &middle[first - 2..], first, to) };
    }
    // SAFETY: as above.
    unsafe {
        register::<I, T>(scale, around, &head, 0, to);
        register::<I, T>(scale, around, &tail, n - lanes, to);
    }
}

/// Numbers of f32 in the widest register.
const MOST_LANES: usize = 16;

/// The points of a register from the point `first` on; `beside` begins two points before it.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn register<I: InstructionSet, T: Number>(
    scale: T,
    around: &Around<'_, T>,
    beside: &[T],
    first: usize,
    to: &mut [T],
) {
    let Around { middle, y: [y2, y1, y3, y4], z: [z2, z1, z3, z4], .. } = *around;
    let points = first..first + I::Vector::<T>::LANES;
    let beside = &beside[..I::Vector::<T>::LANES + 4];
    // SAFETY: the CPU has the instructions. What is loaded and stored are slices of as many points as a
    // register has, and `beside` has four more.
    unsafe {
        let at = |row: &[T]| I::Vector::<T>::load(row[points.clone()].as_ptr());
        let [x2, x1, x3, x4] = [0, 1, 3, 4].map(|i| I::Vector::<T>::load(beside.as_ptr().add(i)));
        let x = x2.add(x4).add(x1.add(x3));
        let y = at(y2).add(at(y4)).add(at(y1).add(at(y3)));
        let z = at(z2).add(at(z4)).add(at(z1).add(at(z3)));
        let sum = at(middle).add(x).add(y.add(z));
        sum.mul(I::Vector::<T>::splat(scale)).store(to[points.clone()].as_mut_ptr());
    }
}
