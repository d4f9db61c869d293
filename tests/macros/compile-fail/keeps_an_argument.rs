use flash_core::KernelDefinition;
use flash_core::kernel;
use flash_core::kernel::views::{Item, ReadWrite};
use flash_core::kernel::{CpuItem, Index};

#[derive(KernelDefinition)]
#[kernel(name = "scale", dims(x))]
struct Scale<'a> {
    a: Item<'a, ReadWrite<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Scale<'_>> for Plain {
    fn item(_: Index<1>, k: ScaleItem<'_>) {
        let _kept: &'static mut f32 = k.a;
    }
}

fn main() {}
