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
        'outer: for i in 0..3 {
            for j in 0..3 {
                if i * j == 2 {
                    break 'outer;
                }
            }
        }
        k.a.set(k.value);
    }
}

fn main() {}
