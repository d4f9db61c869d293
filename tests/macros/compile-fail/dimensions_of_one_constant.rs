use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x, X))]
struct Fill<'a> {
    a: Item<'a, Write<u64>>,
}

fn main() {}
