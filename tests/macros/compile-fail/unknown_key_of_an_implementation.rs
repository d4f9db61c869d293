use flash_core::KernelDefinition;
use flash_core::kernel;
use flash_core::kernel::views::{Item, Write};
use flash_core::kernel::{CpuItem, Element, Index};

trait Real: Element {}
impl Real for f32 {}

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a, T: Real> {
    value: T,
    a: Item<'a, Write<T>>,
}

struct Plain;

#[kernel(for(f32), speed = 10)]
impl<T: Real> CpuItem<Fill<'_, T>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_, T>) {
        k.a.set(k.value)
    }
}

fn main() {}
