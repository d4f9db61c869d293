//! The first kernels of a user.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{cpu, devices};

/// `y = a * x + y`.
#[derive(KernelDefinition)]
#[kernel(name = "once.saxpy", dims(i))]
struct Saxpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Saxpy<'_>> for Plain {
    fn item(_: Index<1>, k: SaxpyItem<'_>) {
        *k.y += k.a * *k.x;
    }
}

#[test]
fn saxpy() {
    let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.3).collect();
    let run = |rt: &flash::RuntimeObj| {
        let y = FlashMemory::from(x.iter().map(|x| x * 1.7).collect::<Vec<f32>>());
        rt.submit(Saxpy::of(2.3, &x, &y)).exec([1000]).unwrap();
        y.read().unwrap().to_vec()
    };
    let expected = run(&cpu());
    for (device, rt) in devices("first::saxpy") {
        assert_eq!(run(&rt), expected, "{device}");
    }
}
