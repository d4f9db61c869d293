use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    wrap: bool,
    table: Vec<f32>,
    a: Item<'a, Write<f32>>,
}

fn main() {}
