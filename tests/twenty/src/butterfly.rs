//! A stage of a fast Fourier transform: butterflies of `apart` apart.

use crate::Problem;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.butterfly", dims(i))]
#[implementations(opencl = "butterfly.cl", name = "by_hand", priority = -4, cooperating)]
struct Butterfly<'a> {
    apart: u32,
    from: Whole<'a, Read<[f64; 2]>>,
    to: Item<'a, Write<[f64; 2]>>,
}

once! {{
    impl CpuItem<Butterfly<'_>> for Once {
        fn item(ix: Index<1>, k: ButterflyItem<'_>) {
            let (i, apart) = (ix[0], k.apart as usize);
            let angle = -std::f64::consts::PI * (i & (apart - 1)) as f64 / k.apart as f64;
            let (even, odd) = (k.from[i & !apart], k.from[i | apart]);
            let (c, s) = (angle.cos(), angle.sin());
            let turned = [odd[0] * c - odd[1] * s, odd[0] * s + odd[1] * c];
            let sign = if i & apart == 0 { 1.0 } else { -1.0 };
            k.to.set([even[0] + sign * turned[0], even[1] + sign * turned[1]]);
        }
    }
}}

struct Signal {
    apart: u32,
    from: FlashMemory<[f64; 2]>,
    to: FlashMemory<[f64; 2]>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let from = (0..n).map(|i| [(i % 7) as f64 - 2.5, (i % 5) as f64 * 0.5]).collect();
    Box::new(Signal { apart: n as u32 / 4, from, to: FlashMemory::zeroed(n) })
}

impl Problem for Signal {
    fn items(&self) -> u64 {
        self.from.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Butterfly::of(self.apart, &self.from, &self.to)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok(self.to.read()?.as_flattened().to_vec())
    }
}
