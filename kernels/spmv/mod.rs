//! The product of a sparse matrix and a vector.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use crate::sparse::{Csr, check};
use flash_core::kernel::views::{Item, Read, Whole, Window, Write};
use flash_core::kernel::{Contents, WrongContents};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// `y[i]`, the sum over the elements of row i of a sparse matrix of `value * x[column]`. Dimensions:
/// (row: m). Made by [`spmv`](fn@spmv) of a [`Csr`], or by `of` for raw arrays, slices and owned memories.
///
/// The sparse matrix is in CSR form: the elements of row i are those from `start[i]` to `start[i + 1]`, in
/// any order, each with its column. Launches are cut into parts of equal numbers of elements.
///
/// # Errors
/// A launch of more rows than `y` has is refused. Of raw arrays whose row pointers decrease or leave the
/// elements, or with a column that `x` lacks, the kernel fails on the CPU. On devices the sums are then those
/// of the existing elements in columns that `x` has; with `FLASH_CHECK_BOUNDS=1` the launch fails on any
/// device, with the same text.
#[derive(KernelDefinition)]
#[kernel(
    name = "flash.spmv",
    dims(row),
    part_by(row, column = csr_rows(row, start), value = csr_rows(row, start))
)]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "spmv.cl", name = "any", cooperating, for(f32, f64);
    opencl = "spmv_cpu.cl", name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64), items_per_thread = 16;
    cuda = "spmv.cu", cooperating, for(f32, f64), work_group_size = 256, threads_per_item = 32
))]
pub struct Spmv<'a, T: Number> {
    /// The first element of each row, and the end of the last: one more than there are rows.
    #[structure]
    start: Whole<'a, Read<u64>>,
    /// Columns of the elements.
    column: Window<'a, Read<u32>>,
    /// The elements.
    value: Window<'a, Read<T>>,
    /// The vector, of an element per column.
    x: Whole<'a, Read<T>>,
    /// The product, of an element per row.
    y: Item<'a, Write<T>>,
}

flash_core::kernel::contents_check! { Spmv<'static, f32>, [start, column], contents }
flash_core::kernel::contents_check! { Spmv<'static, f64>, [start, column], contents }

/// Checks raw arrays.
fn contents(launch: &Contents<'_>) -> Result<(), WrongContents> {
    check::rows(launch, "`x` has as many elements", launch.len("x") as usize)
}

/// The product of a sparse matrix with a vector. To be launched with the dimensions `[a.rows()]`.
///
/// `x` has as many elements as the matrix has columns, `y` as many as it has rows.
///
/// # Errors
/// [`Error::Argument`] if they do not; it names what was expected and what was found.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// use flash_kernels::{Csr, spmv};
/// # fn example() -> Result<(), flash_core::Error> {
/// // Rows (2, 0, 5), (0, 0, 0) and (0, 3, 0).
/// let a = Csr::new([3, 3], [0, 2, 2, 3], [0, 2, 1], [2.0f64, 5.0, 3.0])?;
/// let (x, y) = (FlashMemory::from([1.0, 2.0, 3.0]), FlashMemory::zeroed(3));
/// get_runtime("ALL_ACCEL")?.submit(spmv(&a, &x, &y)?).exec([a.rows()])?;
/// assert_eq!(*y.read()?, [17.0, 0.0, 6.0]);
/// # Ok(())
/// # }
/// ```
pub fn spmv<'a, T: Number>(
    a: &'a Csr<T>,
    x: &'a FlashMemory<T>,
    y: &'a FlashMemory<T>,
) -> Result<Spmv<'a, T>, Error> {
    shapes::vector("flash.spmv", ("x", x), a.columns(), "the matrix has columns")?;
    shapes::vector("flash.spmv", ("y", y), a.rows(), "the matrix has rows")?;
    let (start, column, value) = a.arrays();
    // As flat arrays, whatever their shapes.
    Ok(Spmv::of(start.range(..)?, column.range(..)?, value.range(..)?, x.range(..)?, y))
}
