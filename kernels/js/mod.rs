//! Jacobi's method for Poisson's equation in three dimensions.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::views::{Item, Read, Window, Write};
use flash_core::kernel::{Boxes, Candidate, partition_map};
use flash_core::{Error, FlashMemory, KernelDefinition};

partition_map! {
    /// Sets no box: it refuses a part whose neighbours would be looked up at wrong places.
    static GRID = "js.grid": |at: &Candidate<'_>, _: &mut Boxes| {
        let (shape, [nx, ny]) = (at.shape("from"), ["nx", "ny"].map(|extent| at.scalar::<u64>(extent)));
        assert!(
            matches!(*shape, [x, y, _] if [x, y] == [nx, ny]),
            "expected `from` of the shape [{nx}, {ny}, ..], found {shape:?}"
        );
    };
}

/// One sweep for the equation laplace(u) = f: every inner point becomes `(sum of its six neighbours - h^2 f)
/// / 6`. Dimensions: (x, y, z). Made by [`js`](fn@js), or by `of`.
///
/// A launch is of inner points only, such as `(1..nx - 1, 1..ny - 1, 1..nz - 1)`; the others are the boundary
/// values, in both arrays. A device that has a part of the points gets the planes beside it, too, and from
/// sweep to sweep only those.
///
/// # Errors
/// A launch of points that `to` does not have is refused; one of points on the border fails on the CPU, as
/// does one with extents that are not those of the arrays. Devices leave out points without neighbours, and
/// all points if `f` or `to` has other extents; the contents of `to` there are unspecified.
#[derive(KernelDefinition)]
#[kernel(name = "flash.js", dims(x, y, z), part_by(z, from = stencil(x = 1, y = 1, z = 1), map = GRID))]
#[cfg_attr(
    feature = "implementations",
    implementations(opencl = "js.c", cuda = "js.c", name = "any", cooperating, for(f32, f64))
)]
pub struct Js<'a, T: Number> {
    /// Square of the distance of points.
    h2: T,
    /// Points along x.
    nx: u64,
    /// Points along y.
    ny: u64,
    /// The points as they are; shape [nx, ny, nz].
    from: Window<'a, Read<T>>,
    /// The right side of the equation, in the same shape.
    f: Item<'a, Read<T>>,
    /// The points after the sweep, in the same shape.
    to: Item<'a, Write<T>>,
}

/// One sweep of Jacobi's method for laplace(u) = f on a grid of distance `h`, from one array to another. To
/// be launched with the dimensions `(1..nx - 1, 1..ny - 1, 1..nz - 1)` of the arrays' shape `[nx, ny, nz]`;
/// sweep after sweep with `from` and `to` exchanged.
///
/// # Errors
/// [`Error::Argument`] if the shapes are not one of three extents of at least 3.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let rt = get_runtime("ALL_ACCEL")?;
/// let (mut u, mut next) = (FlashMemory::zeroed([3, 3, 3]), FlashMemory::zeroed([3, 3, 3]));
/// let f = FlashMemory::from([6.0f32; 27]).with_shape([3, 3, 3])?;
/// for _ in 0..2 {
///     rt.submit(flash_kernels::js(0.5, &u, &f, &next)?).exec((1..2, 1..2, 1..2))?;
///     std::mem::swap(&mut u, &mut next);
/// }
/// assert_eq!(u.get(13)?, -0.25);
/// # Ok(())
/// # }
/// ```
pub fn js<'a, T: Number>(
    h: T,
    from: &'a FlashMemory<T>,
    f: &'a FlashMemory<T>,
    to: &'a FlashMemory<T>,
) -> Result<Js<'a, T>, Error> {
    if !matches!(from.shape(), [x, y, z] if x.min(y).min(z) >= &3) {
        return Err(shapes::refused(
            "flash.js",
            "from",
            format!(
                "expected a shape of three extents of at least 3, found {:?}: give it one with `with_shape`",
                from.shape()
            ),
        ));
    }
    shapes::equal("flash.js", ("from", from), ("f", f))?;
    shapes::equal("flash.js", ("from", from), ("to", to))?;
    let [nx, ny] = [from.shape()[0], from.shape()[1]];
    Ok(Js::of(h * h, nx, ny, from, f, to))
}
