use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
#[implementations(opencl = "missing.cl", cooperating)]
struct Fill<'a> {
    x: Item<'a, Write<f32>>,
}

fn main() {}
