use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, ReadWrite};

#[derive(KernelDefinition)]
#[kernel(name = "step", dims(x, stage), group_by(stage))]
struct Step<'a> {
    #[along(x)]
    #[phased(stage = [read, write])]
    a: Item<'a, ReadWrite<f32>>,
}

fn main() {}
