use flash_core::KernelDefinition;
use flash_core::kernel::views::Item;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    a: Item<'a, f32>,
}

fn main() {}
