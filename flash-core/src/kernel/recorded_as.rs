//! Names that kernels have in recordings of version 1.
//!
//! In version 1 of the format the kernels of FLASH's own library have other names than today: `mmm` is now
//! `flash.mmm`. The library says so itself, by [`recorded_as!`](crate::kernel::recorded_as), and the reader
//! of recordings asks [`present_name`]. The core has no list of kernels.
//!
//! The names are known where the library is linked into the program. A program that has its kernels only
//! from a plugin library reads such a recording with the names that are in it.

use flash_types::descriptor::KernelDescriptor;

/// A kernel of this program, and its name in recordings of version 1.
#[doc(hidden)]
pub struct RecordedAsEntry {
    /// The name in the recordings.
    pub name: &'static str,
    /// The kernel as it is. Its element types do not count.
    pub kernel: fn() -> KernelDescriptor,
}

inventory::collect!(RecordedAsEntry);

/// Registers names of version 1: `"mmm" => Mmm<'_, f32>;` for each definition whose kernel has another name
/// now. Which element types it is given does not matter.
#[macro_export]
#[doc(hidden)]
macro_rules! __recorded_as {
    ($($name:literal => $definition:ty;)+) => {
        $($crate::__private::inventory::submit! {
            $crate::kernel::RecordedAsEntry {
                name: $name,
                kernel: || $crate::kernel::descriptor_of::<$definition>(),
            }
        })+
    };
}

/// The name that a kernel of a version 1 recording has now, if that is another one.
///
/// A program may have recorded a kernel of its own under a name that the library used, too. So the
/// dimensions and arguments must have the names that they have in the library.
#[cfg(feature = "recordings")]
pub(crate) fn present_name(recorded: &KernelDescriptor) -> Option<String> {
    let named_so = inventory::iter::<RecordedAsEntry>.into_iter().filter(|entry| entry.name == recorded.name);
    let is_it = |kernel: &KernelDescriptor| {
        let arguments =
            |of: &KernelDescriptor| of.arguments.iter().map(|a| a.name.clone()).collect::<Vec<_>>();
        kernel.dimensions == recorded.dimensions && arguments(kernel) == arguments(recorded)
    };
    named_so.map(|entry| (entry.kernel)()).find(is_it).map(|kernel| kernel.name)
}
