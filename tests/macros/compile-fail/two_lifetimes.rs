use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Write};

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a, 'b> {
    from: Item<'a, Read<f32>>,
    to: Item<'b, Write<f32>>,
}

fn main() {}
