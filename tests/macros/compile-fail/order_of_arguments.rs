use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Scatter, Whole, Write};

#[derive(KernelDefinition)]
#[kernel(name = "histogram", dims(x))]
struct Histogram<'a> {
    a: Item<'a, Write<f32>>,
    bins: Scatter<'a, u32>,
    values: Whole<'a, Read<f32>>,
    width: f32,
}

fn main() {}
