//! The dot product of two vectors.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::views::{Item, Read, Reduce, ReduceOp, Write};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// The sum of `x[i] * y[i]`. Dimensions: (i: n). Made by [`vdp`](fn@vdp), or by `of` for slices and owned
/// memories.
///
/// The sum is one of blocks of fixed size, so threads and cuts do not change a bit of it.
///
/// # Errors
/// A launch of more elements than each of the vectors has is refused.
#[derive(KernelDefinition)]
#[kernel(name = "flash.vdp", dims(i), part_by(i))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "vdp.cl", name = "any", cooperating, for(f32, f64), work_group_size = 64;
    opencl = ["../simd/vector.cl", "vdp_cpu.cl"], name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64), items_per_thread = 1;
    cuda = "../simd/sums.cu", cooperating, for(f32, f64), work_group_size = 1024
))]
pub struct Vdp<'a, T: Number> {
    /// The first vector.
    x: Item<'a, Read<T>>,
    /// The second vector.
    y: Item<'a, Read<T>>,
    /// The sum.
    sum: Reduce<'a, Write<T>, Total>,
}

/// [`Sum`](flash_core::kernel::views::Sum), of any [`Number`].
pub struct Total;

impl<T: Number> ReduceOp<T> for Total {
    #[inline(always)]
    fn identity() -> T {
        T::ZERO
    }

    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a + b
    }
}

/// The dot product of two vectors, into a memory of one element. To be launched with the dimensions
/// `[x.len()]`.
///
/// # Errors
/// [`Error::Argument`] if the lengths differ, or `sum` does not have one element.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let (x, y) = (FlashMemory::from([1.0f32, 2.0, 3.0]), FlashMemory::from([4.0, 5.0, 6.0]));
/// let sum = FlashMemory::zeroed(1);
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::vdp(&x, &y, &sum)?).exec([3])?;
/// assert_eq!(sum.get(0)?, 32.0);
/// # Ok(())
/// # }
/// ```
pub fn vdp<'a, T: Number>(
    x: &'a FlashMemory<T>,
    y: &'a FlashMemory<T>,
    sum: &'a FlashMemory<T>,
) -> Result<Vdp<'a, T>, Error> {
    shapes::vector("flash.vdp", ("y", y), x.len(), "`x` has")?;
    shapes::vector("flash.vdp", ("sum", sum), 1, "one sum needs")?;
    Ok(Vdp::of(x, y, sum))
}
