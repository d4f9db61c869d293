use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Whole, Window, Write};

#[derive(KernelDefinition)]
#[kernel(
    name = "step",
    dims(x, y),
    part_by(z, from = stencil(x = 1, q = 1), table = rows(y), to = rows(y), form = rows(y))
)]
struct Step<'a> {
    table: Whole<'a, Read<f32>>,
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

fn main() {}
