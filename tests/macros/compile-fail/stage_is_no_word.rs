use flash_core::KernelDefinition;
use flash_core::kernel::views::Phased;

#[derive(KernelDefinition)]
#[kernel(name = "step", dims(x, stage), group_by(stage))]
struct Step<'a> {
    #[along(x)]
    #[phased(stage = [read, modify])]
    a: Phased<'a, f32>,
}

fn main() {}
