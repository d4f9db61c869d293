//! A plugin that brings two kernels of its own. The library of kernels and the CPU backend are linked, too,
//! for its own use: a program must not see them.

use flash_backend_cpu as _;
use flash_core::kernel::prelude::*;
use flash_kernels as _;

/// Fills an array, as the program's definition of this name says.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.fill", dims(x))]
struct Fill<'a> {
    value: u32,
    out: Item<'a, Write<u32>>,
}

struct Private;

#[kernel(priority = 5)]
impl CpuItem<Fill<'_>> for Private {
    fn item(_: Index<1>, k: FillItem<'_>) {
        k.out.set(k.value + 500);
    }
}

/// Named as the program's own, of the same priority.
struct Plain;

#[kernel]
impl CpuItem<Fill<'_>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_>) {
        k.out.set(k.value + 7);
    }
}

flash_core::export_plugin!();
