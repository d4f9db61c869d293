use flash_core::KernelDefinition;
use flash_core::kernel::Element;
use flash_core::kernel::views::{Item, Read, Write};

type Result<T> = Write<T>;

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a, T: Element> {
    to: Item<'a, Result<T>>,
    from: Item<'a, Read<T>>,
}

fn main() {
    let (mut to, from) = ([0.0], [1.0]);
    let _ = Copy::<f32>::of(&mut to[..], &from[..]);
}
