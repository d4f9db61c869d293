use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    value: f32,
    a: Item<'a, Write<f32>>,
}

struct Plain;

#[kernel(devices, unchecked)]
impl CpuItem<Fill<'_>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_>) {
        k.a.set(k.value);
    }
}

fn main() {}
