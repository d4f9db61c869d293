use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Reduce, Sum};

#[derive(KernelDefinition)]
#[kernel(name = "total", dims(x))]
struct Total<'a> {
    x: Item<'a, Read<f64>>,
    total: Reduce<'a, Read<[f64]>, Sum>,
}

fn main() {}
