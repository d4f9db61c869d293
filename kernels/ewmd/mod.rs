//! The quotient of two matrices, element by element.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::views::{Item, Read, Write};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// `c[i] = a[i] / b[i]`. Dimensions: (i: n). Made by [`ewmd`](fn@ewmd), or by `of` for slices and owned
/// memories.
///
/// # Errors
/// A launch of more elements than each of the arrays has is refused.
#[derive(KernelDefinition)]
#[kernel(name = "flash.ewmd", dims(i), part_by(i))]
#[cfg_attr(
    feature = "implementations",
    implementations(opencl = "ewmd.c", cuda = "ewmd.c", name = "any", cooperating, for(f32, f64))
)]
pub struct Ewmd<'a, T: Number> {
    /// Elements of the whole quotient: large ones are stored past the caches.
    n: u64,
    /// The dividend.
    a: Item<'a, Read<T>>,
    /// The divisor.
    b: Item<'a, Read<T>>,
    /// The quotient.
    c: Item<'a, Write<T>>,
}

/// The quotient of two arrays, element by element; matrices, or of any other shape, which must be one. To be
/// launched with the dimensions `[c.len()]`.
///
/// # Errors
/// [`Error::Argument`] if the shapes differ.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let (a, b) = (FlashMemory::from([1.0f32, 3.0, 3.0]), FlashMemory::from([4.0, 2.0, 3.0]));
/// let c = FlashMemory::zeroed(3);
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::ewmd(&a, &b, &c)?).exec([3])?;
/// assert_eq!(*c.read()?, [0.25, 1.5, 1.0]);
/// # Ok(())
/// # }
/// ```
pub fn ewmd<'a, T: Number>(
    a: &'a FlashMemory<T>,
    b: &'a FlashMemory<T>,
    c: &'a FlashMemory<T>,
) -> Result<Ewmd<'a, T>, Error> {
    shapes::equal("flash.ewmd", ("a", a), ("b", b))?;
    shapes::equal("flash.ewmd", ("a", a), ("c", c))?;
    // Ranges have no shape, so that one index names an element of a matrix, too.
    Ok(Ewmd::of(c.len() as u64, a.range(..)?, b.range(..)?, c.range(..)?))
}
