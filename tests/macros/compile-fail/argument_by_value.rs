use flash_core::kernel::views::{Item, Write};
use flash_core::KernelDefinition;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    to: Item<'a, Write<f32>>,
}

fn main() {
    let _ = Fill::of(vec![0.0f32; 3]);
}
