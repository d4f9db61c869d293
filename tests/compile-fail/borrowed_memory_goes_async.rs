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
        *k.a *= 2.0;
    }
}

fn main() {
    let rt = flash_core::get_runtime("ALL_CPU").unwrap();
    let a = flash_core::FlashMemory::<f32>::zeroed(4);
    let pipeline = rt.submit(Scale::of(&a)).defer([4]);
    pipeline.exec_async().wait().unwrap();
}
