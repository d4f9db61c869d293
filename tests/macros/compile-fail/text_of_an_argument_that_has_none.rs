use flash_core::kernel::prelude::*;

#[derive(Clone, Copy, Element)]
#[repr(C)]
struct Point {
    x: f32,
}

#[derive(KernelDefinition)]
#[kernel(name = "points", dims(x))]
struct Points<'a> {
    points: Item<'a, ReadWrite<Point>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Points<'_>> for Plain {
    fn item(_: Index<1>, k: PointsItem<'_>) {
        k.points.x = 1.0;
    }
}

fn main() {}
