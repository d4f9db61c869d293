use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Reduce, Sum, Write};

struct Mine;

#[derive(Clone, Copy, flash_core::kernel::Element)]
#[repr(C)]
struct Point(f64);

#[derive(KernelDefinition)]
#[kernel(name = "total", dims(x))]
struct Total<'a> {
    x: Item<'a, Read<f64>>,
    total: Reduce<'a, Write<f64>, Mine>,
    points: Reduce<'a, Write<[Point]>, Sum>,
}

fn main() {}
