use flash_core::KernelDefinition;
use flash_core::kernel;
use flash_core::kernel::views::{Item, Read, Write};
use flash_core::kernel::{CpuItem, Index};

#[derive(KernelDefinition)]
#[kernel(name = "scale", dims(x))]
struct Scale<'a> {
    from: Item<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Scale<'_>> for Plain {
    fn item(_: Index<1>, k: ScaleItem<'_>) {
        *k.from = 1.0;
    }
}

fn main() {}
