use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Whole, Write};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x, y))]
struct Fill<'a> {
    #[along(x)]
    n: u32,
    #[along(y)]
    table: Whole<'a, Read<f32>>,
    a: Item<'a, Write<f32>>,
}

fn main() {}
