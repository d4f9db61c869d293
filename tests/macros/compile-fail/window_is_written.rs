use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Window, Write};

#[derive(KernelDefinition)]
#[kernel(name = "step", dims(x))]
struct Step<'a> {
    from: Window<'a, Write<f32>>,
    #[structure]
    pointers: Window<'a, Read<u64>>,
    to: Item<'a, Write<f32>>,
}

fn main() {}
