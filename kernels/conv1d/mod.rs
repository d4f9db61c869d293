//! The convolution of a signal with a filter.

#[cfg(feature = "implementations")]
mod cpu;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::views::{Item, Read, Whole, Window, Write};
use flash_core::kernel::{Boxes, Candidate, partition_map};
use flash_core::{Error, FlashMemory, KernelDefinition};

partition_map! {
    /// `a..b` of the result needs `a..b + k - 1` of the signal, for a filter of `k` elements.
    static REACH = "conv1d.reach": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let (values, k) = (at.values("i"), at.len("filter"));
        match *at.shape("signal") {
            [n] => {
                let end = values.end.saturating_add(k.saturating_sub(1)).min(n);
                boxes.set("signal", values.start.min(end)..end);
            }
            // Neighbouring numbers may be anywhere in a shape of several axes.
            _ => boxes.all("signal"),
        }
    };
}

/// `out[i]`, the sum over j of `filter[j] * signal[i + k - 1 - j]`, with `k` elements in the filter.
/// Dimensions: (i: n - k + 1), where the filter lies inside the signal of `n` elements. Made by
/// [`conv1d`](fn@conv1d), or by `of` for slices and owned memories.
///
/// # Errors
/// A launch of more elements than `out` has is refused; where the signal ends before the filter does the
/// kernel fails on the CPU.
#[derive(KernelDefinition)]
#[kernel(name = "flash.conv1d", dims(i), part_by(i, map = REACH))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "conv1d.cl", name = "any", cooperating, for(f32, f64);
    opencl = ["../simd/vector.cl", "conv1d_cpu.cl"], name = "cpu", architecture = "cpu",
    cooperating, for(f32, f64), items_per_thread = 128;
    cuda = "conv1d.cu", cooperating, for(f32, f64), work_group_size = 256
))]
pub struct Conv1d<'a, T: Number> {
    /// The filter: the response to a single 1.
    filter: Whole<'a, Read<T>>,
    /// The signal.
    signal: Window<'a, Read<T>>,
    /// The result.
    out: Item<'a, Write<T>>,
}

/// The convolution of a signal of `n` elements with a filter of `k`, where the filter lies inside the signal:
/// `n - k + 1` elements. To be launched with the dimensions `[out.len()]`.
///
/// # Errors
/// [`Error::Argument`] if the filter is empty or longer than the signal, or `out` has another length.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// # fn example() -> Result<(), flash_core::Error> {
/// let signal = FlashMemory::from([0.0f32, 0.0, 1.0, 0.0, 2.0]);
/// let (filter, out) = (FlashMemory::from([1.0, 0.5, 0.25]), FlashMemory::zeroed(3));
/// get_runtime("ALL_ACCEL")?.submit(flash_kernels::conv1d(&filter, &signal, &out)?).exec([3])?;
/// assert_eq!(*out.read()?, [1.0, 0.5, 2.25]);
/// # Ok(())
/// # }
/// ```
pub fn conv1d<'a, T: Number>(
    filter: &'a FlashMemory<T>,
    signal: &'a FlashMemory<T>,
    out: &'a FlashMemory<T>,
) -> Result<Conv1d<'a, T>, Error> {
    let (k, n) = (filter.len(), signal.len());
    if k == 0 || k > n {
        return Err(shapes::refused(
            "flash.conv1d",
            "filter",
            format!(
                "expected 1 to {n} elements, as many as `signal` has at most, found {k}: pass a shorter filter, or a longer signal"
            ),
        ));
    }
    shapes::vector("flash.conv1d", ("out", out), n - k + 1, "the filter has places in the signal")?;
    Ok(Conv1d::of(filter.range(..)?, signal.range(..)?, out.range(..)?))
}
