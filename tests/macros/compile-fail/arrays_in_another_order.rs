use flash_core::kernel::views::{Item, Read, Whole, Write};
use flash_core::{FlashMemory, KernelDefinition};

#[derive(KernelDefinition)]
#[kernel(name = "gather", dims(i))]
struct Gather<'a> {
    index: Item<'a, Read<u32>>,
    table: Whole<'a, Read<f32>>,
    out: Item<'a, Write<f64>>,
}

fn main() {
    let (index, table, out) =
        (FlashMemory::<u32>::zeroed(3), FlashMemory::<f32>::zeroed(3), FlashMemory::<f64>::zeroed(3));
    let _ = Gather::of(&table, &index, &out);
}
