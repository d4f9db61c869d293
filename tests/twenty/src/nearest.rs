//! The nearest of some centres, of k-means.

use crate::{Problem, numbers, points};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.nearest", dims(point))]
#[implementations(opencl = "nearest.cl", name = "by_hand", priority = -4, cooperating)]
struct Nearest<'a> {
    centres: Whole<'a, Read<[f32; 3]>>,
    points: Item<'a, Read<[f32; 3]>>,
    nearest: Item<'a, Write<u32>>,
}

once! {{
    impl CpuItem<Nearest<'_>> for Once {
        fn item(_: Index<1>, k: NearestItem<'_>) {
            let (mut best, mut least) = (0, f32::MAX);
            for c in 0..k.centres.len() {
                let mut square = 0.0;
                for axis in 0..3 {
                    let d = k.points[axis] - k.centres[c][axis];
                    square += d * d;
                }
                if square < least {
                    least = square;
                    best = c as u32;
                }
            }
            k.nearest.set(best);
        }
    }
}}

struct Points {
    centres: FlashMemory<[f32; 3]>,
    points: FlashMemory<[f32; 3]>,
    nearest: FlashMemory<u32>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let points = points(n);
    let centres = points.iter().step_by(n / 16).copied().collect();
    Box::new(Points { centres, points: points.into(), nearest: FlashMemory::zeroed(n) })
}

impl Problem for Points {
    fn items(&self) -> u64 {
        self.points.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Nearest::of(&self.centres, &self.points, &self.nearest)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.nearest)
    }
}
