use flash_core::kernel::views::{Item, Read, ReadWrite};
use flash_core::{FlashMemory, KernelDefinition};

#[derive(KernelDefinition)]
#[kernel(name = "saxpy", dims(i))]
struct Saxpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

fn main() {
    let (x, y) = (FlashMemory::<f32>::zeroed(3), FlashMemory::<f32>::zeroed(3));
    let _ = Saxpy::of(&x, &y);
}
