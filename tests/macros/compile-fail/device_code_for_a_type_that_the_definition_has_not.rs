use flash_core::KernelDefinition;
use flash_core::kernel::Element;
use flash_core::kernel::views::{Item, Write};

trait Real: Element {}
impl Real for f32 {}

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
#[implementations(opencl = "../fill.cl", cooperating, for(f32, u32))]
struct Fill<'a, T: Real> {
    value: T,
    x: Item<'a, Write<T>>,
}

fn main() {}
