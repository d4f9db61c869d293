//! The product of a sparse matrix and a dense one.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use crate::sparse::{Csr, check};
use flash_core::kernel::views::{Item, Read, Row, Whole, Window, Write};
use flash_core::kernel::{Contents, WrongContents};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// `c[i, j]`, the sum over the elements of row i of a sparse matrix of `value * b[column, j]`. Dimensions:
/// (row: m). Made by [`smmm`](fn@smmm) of a [`Csr`], or by `of` for raw arrays, slices and owned memories.
///
/// The sparse matrix is in CSR form (compressed sparse rows): the elements of row i are those from `start[i]`
/// to `start[i + 1]`, in any order, each with its column. Launches are cut into parts of equal numbers of
/// elements.
///
/// # Errors
/// A launch of more rows than `c` has is refused. Of raw arrays whose row pointers decrease or leave the
/// elements, or with a column that is none of `b`'s rows, and where a row of `c` does not have `n` elements,
/// the kernel fails on the CPU. On devices the product is then that of the existing elements in columns that
/// `b` has rows for; with `FLASH_CHECK_BOUNDS=1` the launch fails on any device, with the same text.
#[derive(KernelDefinition)]
#[kernel(
    name = "flash.smmm",
    dims(row),
    part_by(row, column = csr_rows(row, start), value = csr_rows(row, start))
)]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "smmm.cl", name = "any", cooperating, for(f32, f64);
    opencl = ["../simd/vector.cl", "smmm_cpu.cl"], name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64), items_per_thread = 1;
    cuda = "smmm.cu", cooperating, for(f32, f64), work_group_size = 256, threads_per_item = 32
))]
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

flash_core::kernel::contents_check! { Smmm<'static, f32>, [start, column], contents }
flash_core::kernel::contents_check! { Smmm<'static, f64>, [start, column], contents }

/// Checks raw arrays.
fn contents(launch: &Contents<'_>) -> Result<(), WrongContents> {
    let (n, leading, len) = (launch.scalar::<u64>("n"), launch.scalar::<u64>("leading"), launch.len("b"));
    if leading < n {
        let text = format!(
            "expected {n} elements from row to row of `b` at least, as a row has, found {leading}: pass the length of its rows"
        );
        return Err(WrongContents { argument: "leading", text });
    }
    // As many rows as there are whole ones, and a last one of `n` elements.
    let columns = match len.checked_sub(n) {
        None => 0,
        Some(behind) => behind.checked_div(leading).map_or(usize::MAX, |rows| rows as usize + 1),
    };
    check::rows(launch, "`b` has as many rows", columns)
}

/// The product of a sparse matrix with a dense one. To be launched with the dimensions `[a.rows()]`.
///
/// `c` has the shape `[n, a.rows()]`, for n columns of the product. `b` has the shape
/// `[leading dimension, rows]` with at least n and `a.columns()`; only those rows and columns are used.
///
/// # Errors
/// [`Error::Argument`] if they do not; it names what was expected and what was found.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// use flash_kernels::{Csr, smmm};
/// # fn example() -> Result<(), flash_core::Error> {
/// // Rows (2, 0) and (0, 3), times ((1, 2), (4, 5)).
/// let a = Csr::new([2, 2], [0, 1, 2], [0, 1], [2.0f64, 3.0])?;
/// let b = FlashMemory::from([1.0, 2.0, 4.0, 5.0]).with_shape([2, 2])?;
/// let c = FlashMemory::zeroed([2, 2]);
/// get_runtime("ALL_ACCEL")?.submit(smmm(&a, &b, &c)?).exec([a.rows()])?;
/// assert_eq!(*c.read()?, [2.0, 4.0, 12.0, 15.0]);
/// # Ok(())
/// # }
/// ```
pub fn smmm<'a, T: Number>(
    a: &'a Csr<T>,
    b: &'a FlashMemory<T>,
    c: &'a FlashMemory<T>,
) -> Result<Smmm<'a, T>, Error> {
    let n = shapes::columns("flash.smmm", ("c", c), a.rows())?;
    let leading = shapes::matrix("flash.smmm", ("b", b), [a.columns(), n])?;
    let (start, column, value) = a.arrays();
    // As flat arrays, whatever their shapes.
    let b = b.range(..a.columns() * leading as usize)?;
    Ok(Smmm::of(n as u64, leading, start.range(..)?, column.range(..)?, value.range(..)?, b, c))
}
