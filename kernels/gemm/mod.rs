//! The product of two matrices, added to a third one.

#[cfg(feature = "implementations")]
pub(crate) mod cpu;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod cublas;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
pub(crate) mod openblas;

use crate::operand::{Operand, expect, size};
use crate::simd::Number;
use flash_core::kernel::prelude::*;
use flash_core::{Error, FlashMemory};

/// `c = alpha * op(a) * op(b) + beta * c`, where `op` is the stored matrix or the transposed one: xGEMM of
/// the BLAS. Dimensions: (row: m), the rows of `c`. Made by [`gemm`](fn@gemm), or by `of` for slices and
/// owned memories.
///
/// With `beta` 0 what `c` had is not used, be it NaN; with `alpha` 0 neither factor is.
///
/// Over several devices each computes some rows, with the bits of one device.
///
/// # Errors
/// A launch of more rows than `c` has is refused. Where a leading dimension is less than a row, or a matrix
/// shorter than its rows, the kernel fails on the CPU. Devices leave such products out; `c` is unspecified.
#[derive(KernelDefinition)]
#[kernel(name = "flash.gemm", dims(row), part_by(row))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = ["../stored.c", "gemm.c"], cuda = ["../stored.c", "gemm.c"], name = "any",
    cooperating, for(f32, f64), threads_per_item = 32, work_group_size = 128
))]
pub struct Gemm<'a, T: Number> {
    /// The factor of the product.
    alpha: T,
    /// The factor of what `c` had.
    beta: T,
    /// Columns of `c`.
    n: u64,
    /// Products in a sum.
    k: u64,
    /// 1: `a` is transposed, its rows are the columns of the factor; 0: it is not.
    a_transposed: u32,
    /// The same of `b`.
    b_transposed: u32,
    /// Elements from row to row of `a`.
    lda: u64,
    /// Elements from row to row of `b`.
    ldb: u64,
    /// Elements from row to row of `c`.
    ldc: u64,
    /// The left factor, row by row.
    a: Whole<'a, Read<T>>,
    /// The right factor, row by row.
    b: Whole<'a, Read<T>>,
    /// The result, row by row: shape [leading dimension, rows].
    c: Item<'a, ReadWrite<Row<T>>>,
}

/// `c = alpha * a * b + beta * c`; each factor is `&matrix` or `transposed(&matrix)`. To be launched with the
/// dimensions `[m]`, the rows of `c`.
///
/// Matrices lie row by row; the shape of `c` is `[n, m]`, and in the formula `a` has m rows and k columns,
/// `b` has k rows and n columns.
///
/// # Errors
/// [`Error::Argument`] if they do not; it names what was expected and what was found.
///
/// # Examples
/// ```
/// # use flash_backend_cpu as _;
/// use flash_core::{FlashMemory, get_runtime};
/// use flash_kernels::{gemm, transposed};
/// # fn example() -> Result<(), flash_core::Error> {
/// let a = FlashMemory::from([1.0f32, 2.0, 3.0, 4.0]).with_shape([2, 2])?;
/// let c = FlashMemory::from([30.0f32; 4]).with_shape([2, 2])?;
/// get_runtime("ALL_ACCEL")?.submit(gemm(-1.0, &a, transposed(&a), 1.0, &c)?).exec([2])?;
/// assert_eq!(*c.read()?, [25.0, 19.0, 19.0, 5.0]);
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub fn gemm<'a, T: Number>(
    alpha: T,
    a: impl Into<Operand<'a, T>>,
    b: impl Into<Operand<'a, T>>,
    beta: T,
    c: &'a FlashMemory<T>,
) -> Result<Gemm<'a, T>, Error> {
    const KERNEL: &str = "flash.gemm";
    let (a, b) = (a.into().factor(KERNEL, "a")?, b.into().factor(KERNEL, "b")?);
    let [m, n] = size(KERNEL, ("c", c))?;
    expect(KERNEL, "a", [m, a.columns], "the rows of `c`", [a.rows, a.columns])?;
    expect(KERNEL, "b", [a.columns, n], "the columns of `a` and of `c`", [b.rows, b.columns])?;
    let (k, turned) = (a.columns as u64, [a.transposed, b.transposed]);
    Ok(Gemm::of(
        alpha, beta, n as u64, k, turned[0], turned[1], a.leading, b.leading, n as u64, a.memory, b.memory, c,
    ))
}
