use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Scatter};

#[derive(KernelDefinition)]
#[kernel(name = "histogram", dims(x, y), part_by(y))]
struct Histogram<'a> {
    values: Item<'a, Read<u32>>,
    bins: Scatter<'a, u32>,
}

fn main() {}
