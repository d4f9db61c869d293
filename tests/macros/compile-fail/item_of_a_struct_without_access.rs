use flash_core::KernelDefinition;
use flash_core::kernel::views::Item;

#[derive(Clone, Copy, flash_core::kernel::Element)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
}

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    a: Item<'a, Particle>,
}

fn main() {}
