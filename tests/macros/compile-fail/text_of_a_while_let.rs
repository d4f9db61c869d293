use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    value: f32,
    a: Item<'a, Write<f32>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Fill<'_>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_>) {
        let mut n = Some(3);
        while let Some(left) = n {
            n = if left > 0 { Some(left - 1) } else { None };
        }
        k.a.set(k.value);
    }
}

fn main() {}
