//! A step of the heat equation in two dimensions, inside a border.

use crate::{Problem, field, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

/// As the module says: `from` and `to` have the same shape.
#[derive(KernelDefinition)]
#[kernel(name = "twenty.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
#[implementations(opencl = "heat.cl", name = "by_hand", priority = -4, cooperating)]
pub struct Heat<'a> {
    rate: f32,
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

once! {{
    impl CpuItem<Heat<'_>> for Once {
        fn item(ix: Index<2>, k: HeatItem<'_>) {
            let at = |x: usize, y: usize| k.from.at([x, y, 0]);
            let (x, y) = (ix[Heat::X], ix[Heat::Y]);
            let around = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
            k.to.set(at(x, y) + k.rate * (around - 4.0 * at(x, y)));
        }
    }
}}

struct Fields {
    from: FlashMemory<f32>,
    to: FlashMemory<f32>,
    inside: [std::ops::Range<u64>; 2],
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let (w, h) = (n + 4, n);
    let from = FlashMemory::from(field(w * h)).with_shape([w, h]).expect("as many elements");
    Box::new(Fields { from, to: FlashMemory::zeroed([w, h]), inside: [1..w as u64 - 1, 1..h as u64 - 1] })
}

impl Problem for Fields {
    fn items(&self) -> u64 {
        self.inside.iter().map(|range| range.end - range.start).product()
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Heat::of(0.1, &self.from, &self.to)).exec(self.inside.clone())
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.to)
    }
}
