use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Window, Write};

const DIRECTIONS: usize = 9;

#[derive(KernelDefinition)]
#[kernel(name = "none", dims(x))]
struct None<'a> {
    from: [Window<'a, Read<f32>>; 0],
    to: [Item<'a, Write<f32>>; DIRECTIONS],
}

#[derive(KernelDefinition)]
#[kernel(name = "grid", dims(x))]
struct Grid<'a> {
    from: [[Window<'a, Read<f32>>; 3]; 3],
    to: Item<'a, Write<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "names", dims(x))]
struct Names<'a> {
    from_1: u32,
    from: [Window<'a, Read<f32>>; 3],
    to: Item<'a, Write<f32>>,
}

fn main() {}
