//! The product of two matrices.

#[cfg(all(target_arch = "x86_64", feature = "implementations"))]
mod amx;
#[cfg(feature = "implementations")]
pub(crate) mod blocked;
#[cfg(feature = "implementations")]
mod cpu;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod cublas;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
pub(crate) mod openblas;
#[cfg(all(target_arch = "x86_64", feature = "implementations"))]
mod pairs;
#[cfg(feature = "implementations")]
pub(crate) mod product;
#[cfg(feature = "implementations")]
pub(crate) mod tiles;

use crate::shapes;
use crate::simd::Factor;
use flash_core::kernel::views::{Item, Read, Row, Whole, Write};
use flash_core::{Error, FlashMemory, KernelDefinition};
pub use half::bf16;

/// `c[i, j]`, the sum over l of `a[i, l] * b[l, j]`. Dimensions: (row: m). Made by [`mmm`](fn@mmm), or by
/// `of` for slices and owned memories.
///
/// Implementations on the CPU: `openblas`, where that library is found, and `blocked` give all of a device's
/// threads to one product; `avx512`, `avx2`, `portable` and `plain`, whichever is named, are for some rows
/// each. Over several devices each computes some rows of the product, with the bits of one device. The
/// exceptions are `openblas` and `cublas`, which may sum in another order where a product has another number
/// of rows. On NVIDIA's GPUs `cublas` is taken, where that library is found, else `mmm.cu`.
///
/// Factors in [`bf16`] are summed in single precision: by `amx_bf16`, where a CPU has tiles and Linux lets
/// the process use them, and by `avx512_bf16`, where it has such instructions, which both treat numbers below
/// `f32::MIN_POSITIVE` as 0; and by `blocked` and `plain`, which keep them.
///
/// # Errors
/// A launch of more rows than `a` or `c` has is refused. Where a leading dimension is less than a row, a row
/// of `c` longer than `n`, or a matrix shorter than its rows, the kernel fails on the CPU and by `cublas`.
/// Devices compute what they can; the rest of `c` is unspecified.
#[derive(KernelDefinition)]
#[kernel(name = "flash.mmm", dims(row), part_by(row))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "mmm.cl", name = "any", cooperating, for(f32, f64, bf16);
    opencl = ["../simd/vector.cl", "mmm_cpu.cl"], name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64, bf16), items_per_thread = 8;
    cuda = "mmm.cu", cooperating, for(f32, f64, bf16), work_group_size = 256, threads_per_item = 64
))]
pub struct Mmm<'a, T: Factor> {
    /// Columns of `b` and `c`.
    n: u64,
    /// Columns of `a`, rows of `b`: products in a sum.
    k: u64,
    /// Elements from row to row of `a`.
    lda: u64,
    /// Elements from row to row of `b`.
    ldb: u64,
    /// Elements from row to row of `c`.
    ldc: u64,
    /// The left factor, row by row: shape [leading dimension, rows].
    a: Item<'a, Read<Row<T>>>,
    /// The right factor, in the same way.
    b: Whole<'a, Read<T>>,
    /// The product, in the same way; its rows have no other elements.
    c: Item<'a, Write<Row<T::Sum>>>,
}

/// The product of the first `m` rows and `k` columns of `a` with the first `k` rows and `n` columns of `b`.
/// To be launched with the dimensions `[m]`.
///
/// Matrices lie row by row, and their shapes are `[leading dimension, rows]`: at least `[k, m]` for `a`, at
/// least `[n, k]` for `b`, and just `[n, m]` for `c`. The product is of the same numbers, or of `f32` for
/// factors in [`bf16`].
///
/// # Errors
/// [`Error::Argument`] if they are not; it names what was expected and what was found.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let a = FlashMemory::from([1.0f32, 2.0, 3.0, 4.0]).with_shape([2, 2])?;
/// let b = FlashMemory::from([0.0f32, 1.0, 1.0, 0.0]).with_shape([2, 2])?;
/// let c = FlashMemory::zeroed([2, 2]);
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::mmm([2, 2, 2], &a, &b, &c)?).exec([2])?;
/// assert_eq!(*c.read()?, [2.0, 1.0, 4.0, 3.0]);
/// # Ok(())
/// # }
/// ```
pub fn mmm<'a, T: Factor>(
    [m, n, k]: [usize; 3],
    a: &'a FlashMemory<T>,
    b: &'a FlashMemory<T>,
    c: &'a FlashMemory<T::Sum>,
) -> Result<Mmm<'a, T>, Error> {
    let lda = shapes::matrix("flash.mmm", ("a", a), [m, k])?;
    let ldb = shapes::matrix("flash.mmm", ("b", b), [k, n])?;
    let ldc = shapes::just("flash.mmm", ("c", c), [m, n])?;
    Ok(Mmm::of(n as u64, k as u64, lda, ldb, ldc, a, b, c))
}
