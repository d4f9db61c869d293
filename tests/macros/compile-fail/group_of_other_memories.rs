use flash_core::kernel::views::{Item, Read, Write};
use flash_core::{FlashMemory, KernelDefinition};

#[derive(KernelDefinition)]
#[kernel(name = "sum", dims(x))]
struct Sum<'a> {
    from: [Item<'a, Read<f32>>; 2],
    to: Item<'a, Write<f32>>,
}

fn main() {
    let [a, b, c] = [(); 3].map(|()| FlashMemory::<f32>::zeroed(3));
    let other = FlashMemory::<f64>::zeroed(3);
    let _ = Sum::of([&other, &other], &c);
    let _ = Sum::of([&a, &b, &c], &c);
    let _ = Sum::of(&a, &c);
}
