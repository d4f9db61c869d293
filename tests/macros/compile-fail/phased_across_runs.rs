use flash_core::KernelDefinition;
use flash_core::kernel::views::Phased;

#[derive(KernelDefinition)]
#[kernel(name = "transpose", dims(x, y))]
struct Transpose<'a> {
    #[along(y, x)]
    a: Phased<'a, f32>,
}

fn main() {}
