//! `y = a * x + y`.

use crate::{Problem, field, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.saxpy", dims(i))]
#[implementations(opencl = "saxpy.cl", name = "by_hand", priority = -4, cooperating)]
struct Saxpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

once! {{
    impl CpuItem<Saxpy<'_>> for Once {
        fn item(_: Index<1>, k: SaxpyItem<'_>) {
            *k.y += k.a * *k.x;
        }
    }
}}

struct Vectors {
    x: FlashMemory<f32>,
    y: FlashMemory<f32>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let x = field(n);
    let y = x.iter().map(|x| x * 1.7).collect();
    Box::new(Vectors { x: x.into(), y })
}

impl Problem for Vectors {
    fn items(&self) -> u64 {
        self.x.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Saxpy::of(2.3, &self.x, &self.y)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.y)
    }
}
