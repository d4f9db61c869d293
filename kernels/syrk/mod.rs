//! The product of a matrix and its transposed one, added to a symmetric matrix.

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

/// The lower triangle, with the diagonal, of `c = alpha * op(a) * op(a)^T + beta * c`, where `op` is the
/// stored matrix or the transposed one: xSYRK of the BLAS. What is above the diagonal of `c` is neither read
/// nor written. Dimensions: (row: n), the rows of `c`. Made by [`syrk`](fn@syrk), or by `of` for slices and
/// owned memories.
///
/// With `beta` 0 what `c` had is not used, be it NaN; with `alpha` 0 neither is `a`.
///
/// Over several devices each computes some rows, with the bits of one device.
///
/// # Errors
/// A launch of more rows than `c` has is refused. Where a leading dimension is less than a row, or a matrix
/// shorter than its rows, the kernel fails on the CPU. Devices leave such products out; `c` is unspecified.
#[derive(KernelDefinition)]
#[kernel(name = "flash.syrk", dims(row), part_by(row))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = ["../stored.c", "syrk.c"], cuda = ["../stored.c", "syrk.c"], name = "any",
    cooperating, for(f32, f64), threads_per_item = 32, work_group_size = 128
))]
pub struct Syrk<'a, T: Number> {
    /// The factor of the product.
    alpha: T,
    /// The factor of what `c` had.
    beta: T,
    /// Products in a sum.
    k: u64,
    /// 1: `a` is transposed, its rows are the columns of the factor; 0: it is not.
    transposed: u32,
    /// Elements from row to row of `a`.
    lda: u64,
    /// Elements from row to row of `c`.
    ldc: u64,
    /// The factor, row by row.
    a: Whole<'a, Read<T>>,
    /// The result, row by row: shape [leading dimension, rows].
    c: Item<'a, ReadWrite<Row<T>>>,
}

/// The lower triangle of `c = alpha * a * a^T + beta * c`. To be launched with the dimensions `[n]`, the rows
/// of `c`.
///
/// `a` is `&matrix`, or `transposed(&matrix)` for `alpha * matrix^T * matrix`. Matrices lie row by row; the
/// shape of `c` is `[n, n]`, and in the formula `a` has n rows.
///
/// # Errors
/// [`Error::Argument`] if they do not; it names what was expected and what was found.
///
/// # Examples
/// ```
/// # use flash_backend_cpu as _;
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let a = FlashMemory::from([1.0f64, 2.0, 3.0, 4.0]).with_shape([2, 2])?;
/// let c = FlashMemory::from([7.0f64; 4]).with_shape([2, 2])?;
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::syrk(1.0, &a, 0.0, &c)?).exec([2])?;
/// assert_eq!(*c.read()?, [5.0, 7.0, 11.0, 25.0]);
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub fn syrk<'a, T: Number>(
    alpha: T,
    a: impl Into<Operand<'a, T>>,
    beta: T,
    c: &'a FlashMemory<T>,
) -> Result<Syrk<'a, T>, Error> {
    const KERNEL: &str = "flash.syrk";
    let a = a.into().factor(KERNEL, "a")?;
    expect(KERNEL, "c", [a.rows, a.rows], "the rows of `a`", size(KERNEL, ("c", c))?)?;
    Ok(Syrk::of(alpha, beta, a.columns as u64, a.transposed, a.leading, a.rows as u64, a.memory, c))
}
