//! Forces between pairs nearer than a cutoff, Lennard-Jones.

use crate::{Problem, points};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.forces", dims(atom))]
#[implementations(opencl = "forces.cl", name = "by_hand", priority = -4, cooperating, for(f32, f64))]
struct Forces<'a, T: Real> {
    cutoff: T,
    position: Whole<'a, Read<[T; 3]>>,
    force: Item<'a, Write<[T; 3]>>,
}

/// The force over the distance, of the square of the distance.
#[kernel_fn]
fn lennard_jones<T: Real>(square: T) -> T {
    let inverse = T::of(1.0) / square;
    let sixth = inverse * inverse * inverse;
    T::of(24.0) * inverse * sixth * (T::of(2.0) * sixth - T::of(1.0))
}

once! { for(f32, f64) {
    impl<T: Real> CpuItem<Forces<'_, T>> for Once {
        fn item(ix: Index<1>, k: ForcesItem<'_, T>) {
            let own = k.position[ix[0]];
            let mut sum = [T::of(0.0); 3];
            for j in 0..k.position.len() {
                if j == ix[0] {
                    continue;
                }
                let mut d = k.position[j];
                let mut square = T::of(0.0);
                for axis in 0..3 {
                    d[axis] = own[axis] - d[axis];
                    square += d[axis] * d[axis];
                }
                if square < k.cutoff * k.cutoff {
                    let factor = lennard_jones(square);
                    for axis in 0..3 {
                        sum[axis] += d[axis] * factor;
                    }
                }
            }
            k.force.set(sum);
        }
    }
}}

struct Atoms<T: Real> {
    position: FlashMemory<[T; 3]>,
    force: FlashMemory<[T; 3]>,
}

pub fn problem<T: Real + Into<f64>>(n: usize) -> Box<dyn Problem> {
    let position = points(n).into_iter().map(|p| p.map(|x| T::of(x.into()))).collect();
    Box::new(Atoms::<T> { position, force: FlashMemory::zeroed(n) })
}

impl<T: Real + Into<f64>> Problem for Atoms<T> {
    fn items(&self) -> u64 {
        self.position.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Forces::of(T::of(0.4), &self.position, &self.force)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok(self.force.read()?.as_flattened().iter().map(|x| (*x).into()).collect())
    }
}
