use flash_core::KernelDefinition;
use flash_core::kernel::Element;
use flash_core::kernel::views::{Item, Write};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
#[implementations(opencl = "../fill.cl", cooperating)]
struct Fill<'a, T: Element> {
    value: T,
    x: Item<'a, Write<T>>,
}

fn main() {}
