use flash_core::kernel::Element;
use flash_core::kernel::views::{Item, Read, ReadWrite};
use flash_core::{FlashMemory, KernelDefinition};

#[derive(KernelDefinition)]
#[kernel(name = "saxpy", dims(i))]
struct Saxpy<'a, T: Element> {
    a: T,
    x: Item<'a, Read<T>>,
    y: Item<'a, ReadWrite<T>>,
}

fn main() {
    let (x, y) = (FlashMemory::<f32>::zeroed(3), FlashMemory::<f32>::zeroed(3));
    let _ = Saxpy::of(&x, &y, 2.0f32);
}
