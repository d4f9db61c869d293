//! Whether a thread runs code of a kernel, inside which launches and guards are errors.

use std::cell::Cell;

thread_local! {
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread runs a Rust kernel, a function of the host in a pipeline, or a partition map.
#[inline]
pub(crate) fn in_kernel() -> bool {
    IN_KERNEL.get()
}

/// Marks this thread as running a kernel; restores the mark before it, also when the kernel panics.
pub(crate) struct KernelMark {
    before: bool,
}

impl KernelMark {
    #[inline]
    pub(crate) fn set() -> KernelMark {
        KernelMark { before: IN_KERNEL.replace(true) }
    }
}

impl Drop for KernelMark {
    #[inline]
    fn drop(&mut self) {
        IN_KERNEL.set(self.before);
    }
}
