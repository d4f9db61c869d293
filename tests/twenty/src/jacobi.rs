//! Jacobi in three dimensions: the mean of six neighbours.

use crate::{Problem, field, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.jacobi", dims(x, y, z), part_by(z, from = stencil(x = 1, y = 1, z = 1)))]
#[implementations(opencl = "jacobi.cl", name = "by_hand", priority = -4, cooperating)]
struct Jacobi<'a> {
    from: Window<'a, Read<f64>>,
    to: Item<'a, Write<f64>>,
}

once! {{
    impl CpuItem<Jacobi<'_>> for Once {
        fn item(ix: Index<3>, k: JacobiItem<'_>) {
            let [x, y, z] = ix.values();
            let mut sum = 0.0;
            for d in [0, 2] {
                sum += k.from.at([x + d - 1, y, z]);
                sum += k.from.at([x, y + d - 1, z]);
                sum += k.from.at([x, y, z + d - 1]);
            }
            k.to.set(sum / 6.0);
        }
    }
}}

struct Fields {
    from: FlashMemory<f64>,
    to: FlashMemory<f64>,
    inner: std::ops::Range<u64>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let values: FlashMemory<f64> = field(n * n * n).into_iter().map(f64::from).collect();
    let from = values.with_shape([n, n, n]).expect("as many elements");
    Box::new(Fields { from, to: FlashMemory::zeroed([n, n, n]), inner: 1..n as u64 - 1 })
}

impl Problem for Fields {
    fn items(&self) -> u64 {
        (self.inner.end - 1).pow(3)
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let inner = || self.inner.clone();
        rt.submit(Jacobi::of(&self.from, &self.to)).exec([inner(), inner(), inner()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.to)
    }
}
