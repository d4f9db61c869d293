use flash_core::KernelDefinition;
use flash_core::kernel::views::Scatter;

#[derive(KernelDefinition)]
#[kernel(name = "sum", dims(x))]
struct Sum<'a> {
    a: Scatter<'a, [f32; 3]>,
}

fn main() {}
