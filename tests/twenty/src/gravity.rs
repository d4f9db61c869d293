//! Softened gravity of all bodies on each.

use crate::{Problem, points};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.gravity", dims(body))]
#[implementations(opencl = "gravity.cl", name = "by_hand", priority = -4, cooperating)]
struct Gravity<'a> {
    softening: f32,
    position: Whole<'a, Read<[f32; 3]>>,
    mass: Whole<'a, Read<f32>>,
    acceleration: Item<'a, Write<[f32; 3]>>,
}

once! {{
    impl CpuItem<Gravity<'_>> for Once {
        fn item(ix: Index<1>, k: GravityItem<'_>) {
            let [x, y, z] = k.position[ix[0]];
            let mut sum = [0.0; 3];
            for j in 0..k.mass.len() {
                let other = k.position[j];
                let d = [other[0] - x, other[1] - y, other[2] - z];
                let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + k.softening;
                let weight = k.mass[j] / (square * square.sqrt());
                for axis in 0..3 {
                    sum[axis] += d[axis] * weight;
                }
            }
            k.acceleration.set(sum);
        }
    }
}}

struct Bodies {
    position: FlashMemory<[f32; 3]>,
    mass: FlashMemory<f32>,
    acceleration: FlashMemory<[f32; 3]>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let mass = (0..n).map(|i| 1.0 + (i % 60) as f32).collect();
    Box::new(Bodies { position: points(n).into(), mass, acceleration: FlashMemory::zeroed(n) })
}

impl Problem for Bodies {
    fn items(&self) -> u64 {
        self.mass.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Gravity::of(0.01, &self.position, &self.mass, &self.acceleration)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok(self.acceleration.read()?.as_flattened().iter().map(|x| f64::from(*x)).collect())
    }
}
