use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

#[derive(KernelDefinition)]
struct Fill<'a> {
    x: Item<'a, Write<f32>>,
}

fn main() {}
