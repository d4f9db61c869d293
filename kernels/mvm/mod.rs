//! The product of a matrix and a vector.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::views::{Item, Read, Row, Whole, Write};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// `y[i]`, the sum over j of `a[i, j] * x[j]`. Dimensions: (row: m). Made by [`mvm`](fn@mvm), or by `of` for
/// slices and owned memories.
///
/// A part of a launch that is cut has its rows of `a` and all of `x`.
///
/// # Errors
/// A launch of more rows than `a` or `y` has is refused; with rows of `a`, or an `x`, shorter than `n` the
/// kernel fails on the CPU.
#[derive(KernelDefinition)]
#[kernel(name = "flash.mvm", dims(row), part_by(row))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "mvm.cl", name = "any", cooperating, for(f32, f64);
    opencl = ["../simd/vector.cl", "mvm_cpu.cl"], name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64), items_per_thread = 4;
    cuda = "../simd/sums.cu", cooperating, for(f32, f64), work_group_size = 256, threads_per_item = 32
))]
pub struct Mvm<'a, T: Number> {
    /// Columns of the matrix.
    n: u64,
    /// The matrix, row by row: shape [leading dimension, rows].
    a: Item<'a, Read<Row<T>>>,
    /// The vector, of `n` elements.
    x: Whole<'a, Read<T>>,
    /// The product, of an element per row.
    y: Item<'a, Write<T>>,
}

/// The product of the first `m` rows and `n` columns of a matrix with a vector of `n` elements. To be
/// launched with the dimensions `[m]`.
///
/// `a` has the shape `[leading dimension, rows]` with at least `n` and `m`; `x` has `n` elements, `y` has
/// `m`.
///
/// # Errors
/// [`Error::Argument`] if they do not; it names what was expected and what was found.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let a = FlashMemory::from([1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0]).with_shape([3, 2])?;
/// let (x, y) = (FlashMemory::from([1.0, 0.0, -1.0]), FlashMemory::zeroed(2));
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::mvm([2, 3], &a, &x, &y)?).exec([2])?;
/// assert_eq!(*y.read()?, [-2.0, -2.0]);
/// # Ok(())
/// # }
/// ```
pub fn mvm<'a, T: Number>(
    [m, n]: [usize; 2],
    a: &'a FlashMemory<T>,
    x: &'a FlashMemory<T>,
    y: &'a FlashMemory<T>,
) -> Result<Mvm<'a, T>, Error> {
    shapes::matrix("flash.mvm", ("a", a), [m, n])?;
    shapes::vector("flash.mvm", ("x", x), n, "the matrix has columns")?;
    shapes::vector("flash.mvm", ("y", y), m, "the matrix has rows")?;
    Ok(Mvm::of(n as u64, a, x, y))
}
