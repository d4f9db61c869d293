use flash_core::kernel::views::{Item, ReadWrite};
use flash_core::{FlashMemory, KernelDefinition};

#[derive(KernelDefinition)]
#[kernel(name = "scale", dims(i))]
struct Scale<'a> {
    a: f32,
    x: Item<'a, ReadWrite<f32>>,
}

fn main() {
    let x = FlashMemory::<f32>::zeroed(3);
    let _ = Scale::of(2, &x);
}
