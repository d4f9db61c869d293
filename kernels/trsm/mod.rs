//! Systems of equations with a triangular matrix.

#[cfg(feature = "implementations")]
pub(crate) mod cpu;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod cublas;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod openblas;

use crate::operand::{Operand, expect, size};
use crate::simd::Number;
use flash_core::kernel::prelude::*;
use flash_core::{Error, FlashMemory};

/// The solution of `op(l) * x = alpha * b` or `x * op(l) = alpha * b`, in the place of `b`; `l` is a lower
/// triangle, `op` the stored matrix or the transposed one: xTRSM of the BLAS. What is above the diagonal of
/// `l` is not read. Dimensions: (item). Made by [`trsm`](fn@trsm), or by `of` for slices and owned memories.
///
/// On the right, each row of `b` is a system of its own and a work item: over several devices each solves
/// some, with the bits of one device. On the left, each column is, and rows depend on each other: one work
/// item has all of `b`, and a launch has one or several matrices `b` one after another.
///
/// With `alpha` 0 neither `l` nor what `b` had is used.
///
/// # Errors
/// A launch of more items than `b` has is refused. Where a leading dimension is less than a row, or a matrix
/// shorter than its rows, the kernel fails on the CPU. Devices solve nothing then; `b` is unspecified. A
/// diagonal element of 0 makes infinities and NaNs, as in the BLAS.
#[derive(KernelDefinition)]
#[kernel(name = "flash.trsm", dims(item), part_by(item))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = ["../stored.c", "trsm.c"], cuda = ["../stored.c", "trsm.c"], name = "any",
    cooperating, for(f32, f64), threads_per_item = 64, work_group_size = 64
))]
pub struct Trsm<'a, T: Number> {
    /// The factor of the right-hand sides.
    alpha: T,
    /// Rows and columns of `l`.
    n: u64,
    /// Columns of `b`.
    width: u64,
    /// 1: `l` is on the right of `x`; 0: on the left.
    right: u32,
    /// 1: `l` is transposed; 0: it is not.
    transposed: u32,
    /// 1: all elements of the diagonal are 1, and are not read; 0: they are read.
    unit: u32,
    /// Elements from row to row of `l`.
    ldl: u64,
    /// Elements from row to row of `b`.
    ldb: u64,
    /// The triangle, row by row.
    l: Whole<'a, Read<T>>,
    /// The right-hand sides, row by row, and then the solution: a row for each item, or a matrix.
    b: Item<'a, ReadWrite<Row<T>>>,
}

/// Where the triangle of [`trsm`](fn@trsm) stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `l * x = alpha * b`. To be launched with the dimensions `[1]`.
    Left,
    /// `x * l = alpha * b`. To be launched with the dimensions `[m]`, the rows of `b`.
    Right,
}

/// The diagonal of a triangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagonal {
    /// What is stored.
    Stored,
    /// All of its elements are 1; what is stored is not read.
    Unit,
}

/// The solution `x` of `l * x = alpha * b` or `x * l = alpha * b`, in the place of `b`.
///
/// `l` is `&matrix` or `transposed(&matrix)`, of a matrix whose lower triangle is used. To be launched with
/// the dimensions `[1]` for [`Side::Left`], and with `[m]`, the rows of `b`, for [`Side::Right`].
///
/// Matrices lie row by row; the shape of `b` is `[n, m]`, and that of `l` is `[m, m]` on the left, `[n, n]`
/// on the right.
///
/// # Errors
/// [`Error::Argument`] if they are not; it names what was expected and what was found.
///
/// # Examples
/// A panel of a Cholesky factorisation: `x * l^T = b`.
/// ```
/// # use flash_backend_cpu as _;
/// use flash_core::{FlashMemory, get_runtime};
/// use flash_kernels::trsm::{Diagonal, Side};
/// use flash_kernels::{transposed, trsm};
/// # fn example() -> Result<(), flash_core::Error> {
/// let l = FlashMemory::from([2.0f64, 0.0, 1.0, 4.0]).with_shape([2, 2])?;
/// let b = FlashMemory::from([2.0f64, 9.0, 4.0, 6.0]).with_shape([2, 2])?;
/// let solve = trsm(Side::Right, transposed(&l), Diagonal::Stored, 1.0, &b)?;
/// get_runtime("ALL_ACCEL")?.submit(solve).exec([2])?;
/// assert_eq!(*b.read()?, [1.0, 2.0, 2.0, 1.0]);
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub fn trsm<'a, T: Number>(
    side: Side,
    l: impl Into<Operand<'a, T>>,
    diagonal: Diagonal,
    alpha: T,
    b: &'a FlashMemory<T>,
) -> Result<Trsm<'a, T>, Error> {
    const KERNEL: &str = "flash.trsm";
    let (l, [rows, columns]) = (l.into().factor(KERNEL, "l")?, size(KERNEL, ("b", b))?);
    let (n, why) = match side {
        Side::Left => (rows, "as `b` has rows"),
        Side::Right => (columns, "as `b` has columns"),
    };
    expect(KERNEL, "l", [n, n], why, [l.rows, l.columns])?;
    let [right, unit] = [side == Side::Right, diagonal == Diagonal::Unit].map(u32::from);
    let (order, width) = (n as u64, columns as u64);
    // A flat array: all of it is the one item's, or as many rows as there are items.
    Ok(Trsm::of(alpha, order, width, right, l.transposed, unit, l.leading, width, l.memory, b.range(..)?))
}
