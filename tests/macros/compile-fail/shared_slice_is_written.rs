use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    a: Item<'a, Write<f32>>,
}

fn main() {
    let a = vec![0.0; 3];
    let _ = Fill::of(&a[..]);
}
