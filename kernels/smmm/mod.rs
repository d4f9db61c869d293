//! The product of a sparse matrix and a dense one.

mod cpu;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::views::{Item, Read, Row, Whole, Window, Write};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// `c[i, j]`, the sum over the elements of row i of a sparse matrix of `value * b[column, j]`. Dimensions:
/// (row: m). Made by [`smmm`](fn@smmm), or by `of` for slices and owned memories.
///
/// The sparse matrix is in CSR form (compressed sparse rows): the elements of row i are those from `start[i]`
/// to `start[i + 1]`, in any order, each with its column. Launches are cut into parts of equal numbers of
/// elements.
///
/// # Errors
/// A launch of more rows than `c` has is refused. Where the row pointers decrease, leave the elements, or a
/// column is none of `b`'s rows, or a row of `c` does not have `n` elements, the kernel fails on the CPU. On
/// devices the product is that of the existing elements in columns that `b` has rows for.
#[derive(KernelDefinition)]
#[kernel(
    name = "flash.smmm",
    dims(row),
    part_by(row, column = csr_rows(row, start), value = csr_rows(row, start))
)]
#[implementations(
    opencl = "smmm.cl", name = "any", cooperating, for(f32, f64);
    opencl = ["../simd/vector.cl", "smmm_cpu.cl"], name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64), items_per_thread = 1;
    cuda = "smmm.cu", cooperating, for(f32, f64), work_group_size = 256, threads_per_item = 32
)]
pub struct Smmm<'a, T: Number> {
    /// Columns of `b` and `c`.
    n: u64,
    /// Elements from row to row of `b`.
    leading: u64,
    /// The first element of each row, and the end of the last: one more than there are rows.
    #[structure]
    start: Whole<'a, Read<u64>>,
    /// Columns of the elements.
    column: Window<'a, Read<u32>>,
    /// The elements.
    value: Window<'a, Read<T>>,
    /// The dense factor, row by row: shape [leading dimension, rows].
    b: Whole<'a, Read<T>>,
    /// The product, in the same way; its rows have no other elements.
    c: Item<'a, Write<Row<T>>>,
}

/// The product of a sparse matrix of `m` rows and `k` columns, in CSR form, with the first `k` rows and `n`
/// columns of a dense one. To be launched with the dimensions `[m]`.
///
/// `start` has `m + 1` row pointers, `column` and `value` as many elements as the last of them says; `b` has
/// the shape `[leading dimension, rows]` with at least `n` and `k`, `c` has exactly `[n, m]`.
///
/// # Errors
/// [`Error::Argument`] if they do not; it names what was expected and what was found. The contents of `start`
/// and `column` are checked when the kernel runs.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// // Rows (2, 0) and (0, 3), times ((1, 2), (4, 5)).
/// let (start, column) = (FlashMemory::from([0u64, 1, 2]), FlashMemory::from([0u32, 1]));
/// let value = FlashMemory::from([2.0f64, 3.0]);
/// let b = FlashMemory::from([1.0, 2.0, 4.0, 5.0]).with_shape([2, 2])?;
/// let c = FlashMemory::zeroed([2, 2]);
/// let kernel = flash_kernels::smmm([2, 2, 2], (&start, &column, &value), &b, &c)?;
/// get_runtime("ALL_ACCEL")?.submit(kernel).exec([2])?;
/// assert_eq!(*c.read()?, [2.0, 4.0, 12.0, 15.0]);
/// # Ok(())
/// # }
/// ```
pub fn smmm<'a, T: Number>(
    [m, n, k]: [usize; 3],
    (start, column, value): (&'a FlashMemory<u64>, &'a FlashMemory<u32>, &'a FlashMemory<T>),
    b: &'a FlashMemory<T>,
    c: &'a FlashMemory<T>,
) -> Result<Smmm<'a, T>, Error> {
    shapes::vector("flash.smmm", ("start", start), m.saturating_add(1), "the matrix has rows, and one more")?;
    shapes::vector("flash.smmm", ("column", column), value.len(), "`value` has")?;
    let leading = shapes::matrix("flash.smmm", ("b", b), [k, n])?;
    shapes::just("flash.smmm", ("c", c), [m, n])?;
    // As flat arrays, whatever their shapes.
    let (column, value, b) = (column.range(..)?, value.range(..)?, b.range(..k * leading as usize)?);
    Ok(Smmm::of(n as u64, leading, start, column, value, b, c))
}
