use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "fill", dims(x))]
struct Fill<'a> {
    value: f32,
    a: Item<'a, Write<f32>>,
}

struct Plain;

#[derive(Clone, Copy)]
struct Point {
    x: f32,
}

#[kernel(devices)]
impl CpuItem<Fill<'_>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_>) {
        let point = Point { x: k.value };
        k.a.set(point.x);
    }
}

fn main() {}
