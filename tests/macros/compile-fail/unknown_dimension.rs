use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Phased, Read, Write};

#[derive(KernelDefinition)]
#[kernel(name = "a", dims(x, y), sort_by(z))]
struct SortBy<'a> {
    a: Item<'a, Write<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "b", dims(x, y), group_by(step = {3}))]
struct GroupBy<'a> {
    a: Item<'a, Write<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "c", dims(x, y))]
struct Along<'a> {
    #[along(x, z)]
    a: Item<'a, Read<f32>>,
    #[along(x)]
    #[phased(stage = [read, write])]
    b: Phased<'a, f32>,
}

fn main() {}
