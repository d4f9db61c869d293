use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    value: f32,
    a: Item<'a, Write<f32>>,
}

struct Plain;

#[kernel(devices)]
impl CpuSpan<Fill<'_>> for Plain {
    fn span(_: Span<1>, k: FillSpan<'_>) {
        k.a.fill(k.value);
    }
}

fn main() {}
