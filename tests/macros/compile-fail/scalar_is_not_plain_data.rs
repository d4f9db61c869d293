use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

struct Settings {
    width: f32,
}

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    settings: Settings,
    a: Item<'a, Write<f32>>,
}

fn main() {}
