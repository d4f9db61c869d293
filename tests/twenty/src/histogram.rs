//! A histogram: a value goes into its bin, and the largest of all is kept.

use crate::{Problem, field, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.histogram", dims(i))]
#[implementations(opencl = "histogram.cl", name = "by_hand", priority = -4, cooperating)]
struct Histogram<'a> {
    width: f32,
    x: Item<'a, Read<f32>>,
    bins: Reduce<'a, Write<[u32]>, Sum>,
    largest: Reduce<'a, Write<f32>, Max>,
}

once! {{
    impl CpuItem<Histogram<'_>> for Once {
        fn item(_: Index<1>, mut k: HistogramItem<'_>) {
            let bin = (*k.x / k.width) as usize;
            k.bins.put(bin.min(k.bins.len() - 1), 1);
            k.largest.put(*k.x);
        }
    }
}}

struct Values {
    x: FlashMemory<f32>,
    bins: FlashMemory<u32>,
    largest: FlashMemory<f32>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    Box::new(Values { x: field(n).into(), bins: FlashMemory::zeroed(64), largest: FlashMemory::zeroed(1) })
}

impl Problem for Values {
    fn items(&self) -> u64 {
        self.x.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Histogram::of(0.016, &self.x, &self.bins, &self.largest)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok([numbers(&self.bins)?, numbers(&self.largest)?].concat())
    }
}
