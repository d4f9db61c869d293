use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Write};

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a> {
    from: Item<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

fn main() {
    let mut a = vec![0.0; 3];
    let submission = Copy::of(&a, &mut a);
    drop(submission);
}
