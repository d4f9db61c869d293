use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Write};

type Result<T> = Write<T>;

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a> {
    to: Item<'a, Result<f32>>,
    from: Item<'a, Read<f32>>,
}

fn main() {}
