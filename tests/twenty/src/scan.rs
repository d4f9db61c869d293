//! An inclusive prefix sum: in each step, each element and the one `2^step` before it.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.scan", dims(i, step), group_by(step))]
#[implementations(opencl = "scan.cl", name = "by_hand", priority = -4, cooperating)]
struct Scan<'a> {
    #[along(i)]
    values: Phased<'a, u32>,
}

once! {{
    impl CpuItem<Scan<'_>> for Once {
        fn item(ix: Index<2>, mut k: ScanItem<'_>) {
            let distance = 1 << ix[1];
            if ix[0] >= distance {
                k.values.set(k.values.own().wrapping_add(k.values.get(ix[0] - distance)));
            }
        }
    }
}}

struct Values {
    values: FlashMemory<u32>,
    space: [u64; 2],
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let values = (0..n as u32).map(|i| i.wrapping_mul(i) + 1).collect();
    Box::new(Values { values, space: [n as u64, u64::from(n.next_power_of_two().trailing_zeros())] })
}

impl Problem for Values {
    fn items(&self) -> u64 {
        self.space.iter().product()
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Scan::of(&self.values)).exec(self.space)
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.values)
    }
}
