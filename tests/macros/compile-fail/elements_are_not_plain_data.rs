use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Write};

struct Particle {
    position: [f32; 3],
}

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    a: Item<'a, Write<Particle>>,
}

fn main() {}
