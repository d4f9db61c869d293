use flash_core::KernelDefinition;
use flash_core::kernel::views::{ReadWrite, Whole};

#[derive(KernelDefinition)]
#[kernel(name = "sort", dims(x))]
struct Sort<'a> {
    a: Whole<'a, ReadWrite<f32>>,
}

fn main() {}
