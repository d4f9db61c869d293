//! Whether a thread runs code of a kernel, inside which launches and guards are errors.

use std::cell::Cell;

thread_local! {
    static IN_KERNEL: Cell<u32> = const { Cell::new(0) };
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread runs a Rust kernel, a function of the host in a pipeline, or a partition map.
#[inline]
pub(crate) fn in_kernel() -> bool {
    IN_KERNEL.get() != 0
}

/// True while this thread runs a function of the host in a pipeline.
pub(crate) fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// The mark of this thread: in a kernel another number in each phase, never 0.
#[inline]
pub(crate) fn mark() -> u32 {
    IN_KERNEL.get()
}

/// Marks this thread as running a kernel; restores the mark before it, also when the kernel panics.
pub(crate) struct KernelMark {
    before: u32,
}

impl KernelMark {
    #[inline]
    pub(crate) fn set() -> KernelMark {
        KernelMark::as_on(1)
    }

    /// In a phase of a kernel.
    #[inline]
    pub(crate) fn in_phase(phase: u64) -> KernelMark {
        KernelMark::as_on((phase as u32).saturating_add(1))
    }

    /// The mark of the thread that this one helps.
    #[inline]
    pub(crate) fn as_on(mark: u32) -> KernelMark {
        KernelMark { before: IN_KERNEL.replace(mark) }
    }
}

impl Drop for KernelMark {
    #[inline]
    fn drop(&mut self) {
        IN_KERNEL.set(self.before);
    }
}

/// Marks this thread as running a function of the host in a pipeline, too.
pub(crate) struct HostFunctionMark {
    before: bool,
    _kernel: KernelMark,
}

impl HostFunctionMark {
    pub(crate) fn set() -> HostFunctionMark {
        HostFunctionMark { before: IN_HOST_FUNCTION.replace(true), _kernel: KernelMark::set() }
    }
}

impl Drop for HostFunctionMark {
    fn drop(&mut self) {
        IN_HOST_FUNCTION.set(self.before);
    }
}
