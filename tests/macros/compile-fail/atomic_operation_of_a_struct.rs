use flash_core::KernelDefinition;
use flash_core::kernel;
use flash_core::kernel::views::Scatter;
use flash_core::kernel::{CpuItem, Index};

#[derive(KernelDefinition)]
#[kernel(name = "sum", dims(x))]
struct Sum<'a> {
    a: Scatter<'a, [f32; 3]>,
}

struct Plain;

#[kernel]
impl CpuItem<Sum<'_>> for Plain {
    fn item(_: Index<1>, k: SumItem<'_>) {
        k.a.store(0, [1.0; 3]);
        k.a.add(0, [1.0; 3]);
    }
}

fn main() {}
