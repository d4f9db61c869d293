//! Iterations of `z = z * z + c` until `z` leaves the circle of radius 2.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.mandelbrot", dims(x, y))]
#[implementations(opencl = "mandelbrot.cl", name = "by_hand", priority = -4, cooperating)]
struct Mandelbrot<'a> {
    step: f64,
    most: u32,
    count: Item<'a, Write<u32>>,
}

once! {{
    impl CpuItem<Mandelbrot<'_>> for Once {
        fn item(ix: Index<2>, k: MandelbrotItem<'_>) {
            let (cx, cy) = (ix[0] as f64 * k.step - 2.0, ix[1] as f64 * k.step - 1.0);
            let (mut x, mut y, mut n) = (0.0, 0.0, 0);
            while n < k.most && x * x + y * y <= 4.0 {
                (x, y) = (x * x - y * y + cx, 2.0 * x * y + cy);
                n += 1;
            }
            k.count.set(n);
        }
    }
}}

struct Plane {
    edge: u64,
    count: FlashMemory<u32>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    Box::new(Plane { edge: n as u64, count: FlashMemory::zeroed(n * n) })
}

impl Problem for Plane {
    fn items(&self) -> u64 {
        self.edge * self.edge
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Mandelbrot::of(3.0 / self.edge as f64, 60, &self.count)).exec([self.edge; 2])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.count)
    }
}
