//! The Cholesky factorisation.

#[cfg(feature = "implementations")]
pub(crate) mod cpu;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod cusolver;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod openblas;

use crate::operand::{expect, size};
use crate::shapes::refused;
use crate::simd::Number;
use flash_core::kernel::prelude::*;
use flash_core::{Error, FlashMemory};

/// The lower triangle `l` with `l * l^T = a`, in the place of the lower triangle of a symmetric, positive
/// definite matrix: xPOTRF of LAPACK. What is above the diagonal is neither read nor written. Dimensions:
/// (matrix): 1, or as many matrices of one size as lie one after another. Made by [`potrf`](fn@potrf), or by
/// `of` for slices and owned memories.
///
/// A matrix is factorised on one device.
///
/// # Errors
/// Of a matrix that is not positive definite, the kernel fails on the CPU with the first pivot that is not
/// positive, and its row; so it does where a matrix is shorter than its rows. Kernels of devices cannot
/// report it: they end at that pivot, which is then on the diagonal, or NaN by cuSOLVER, and [`check`] finds
/// it.
#[derive(KernelDefinition)]
#[kernel(name = "flash.potrf", dims(matrix))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = ["../stored.c", "potrf.c"], cuda = ["../stored.c", "potrf.c"], name = "any",
    cooperating, for(f32, f64), threads_per_item = 128, work_group_size = 128
))]
pub struct Potrf<'a, T: Number> {
    /// Rows and columns.
    n: u64,
    /// Elements from row to row.
    lda: u64,
    /// The matrix, row by row, and then the factor.
    a: Item<'a, ReadWrite<Row<T>>>,
}

const KERNEL: &str = "flash.potrf";

/// The Cholesky factor of `a` in its lower triangle: `l * l^T = a`. To be launched with the dimensions `[1]`.
///
/// `a` lies row by row; its shape is `[n, n]`. Only its lower triangle is read and written. The formula is
/// l_ij = (a_ij - sum over p < j of l_ip l_jp) / l_jj, and the root of that sum's rest on the diagonal (Golub
/// and Van Loan, Matrix Computations, section 4.2).
///
/// # Errors
/// [`Error::Argument`] if it has another shape. The launch fails as [`Potrf`] says.
///
/// # Examples
/// ```
/// # use flash_backend_cpu as _;
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let a = FlashMemory::from([4.0f64, 2.0, 2.0, 10.0]).with_shape([2, 2])?;
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::potrf(&a)?).exec([1])?;
/// flash_kernels::potrf::check(&a)?;
/// assert_eq!(*a.read()?, [2.0, 2.0, 1.0, 3.0]);
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub fn potrf<T: Number>(a: &FlashMemory<T>) -> Result<Potrf<'_, T>, Error> {
    let [rows, columns] = size(KERNEL, ("a", a))?;
    expect(KERNEL, "a", [rows, rows], "a square matrix", [rows, columns])?;
    Ok(Potrf::of(rows as u64, columns as u64, a.range(..)?))
}

/// Checks that [`potrf`](fn@potrf) of `a` has come to its end: reads the diagonal on the host. Only launches
/// on devices need it: on the CPU the launch fails.
///
/// # Errors
/// [`Error::Argument`] with the first pivot that is not positive, and its row; if the shape is not that of a
/// square matrix. Those of reading the memory.
pub fn check<T: Number>(a: &FlashMemory<T>) -> Result<(), Error> {
    let [rows, columns] = size(KERNEL, ("a", a))?;
    expect(KERNEL, "a", [rows, rows], "a square matrix", [rows, columns])?;
    for row in 0..rows {
        let pivot = a.get(row * (columns + 1))?;
        if !is_positive(pivot) {
            return Err(refused(KERNEL, "a", not_definite(row, rows, pivot)));
        }
    }
    Ok(())
}

/// False of a NaN.
fn is_positive<T: Number>(pivot: T) -> bool {
    pivot > T::ZERO
}

fn not_definite<T: Number>(row: usize, rows: usize, pivot: T) -> String {
    format!(
        "expected a positive definite matrix, found the pivot {:e} in row {row} of {rows}, counted from 0: check the matrix, or add something to its diagonal",
        Into::<f64>::into(pivot)
    )
}
