use flash_core::kernel::views::{Item, Read, Write};
use flash_core::{FlashMemory, KernelDefinition};

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a> {
    from: Item<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

fn main() {
    let (from, to) = (FlashMemory::<f64>::zeroed(3), FlashMemory::<f32>::zeroed(3));
    let _ = Copy::of(&from, &to);
}
