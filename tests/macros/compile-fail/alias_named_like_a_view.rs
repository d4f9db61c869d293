use flash_core::KernelDefinition;
use flash_core::kernel::views::Read;

type Item<'a, A> = flash_core::kernel::views::Whole<'a, A>;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    a: Item<'a, Read<f32>>,
}

fn main() {}
