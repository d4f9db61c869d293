use flash_core::KernelDefinition;
use flash_core::kernel;
use flash_core::kernel::views::{Item, Write};
use flash_core::kernel::{CpuItem, Index};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x, y))]
struct Fill<'a> {
    a: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Fill<'_>> for Plain {
    fn item(ix: Index<2>, k: FillItem<'_>) {
        k.a.set(ix[Fill::Z] as u64)
    }
}

fn main() {}
