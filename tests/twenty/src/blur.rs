//! Box blurs of radius 1 and of radius 3 along rows, whose borders are repeated.

use crate::{Problem, field, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.blur", dims(x, y))]
#[implementations(opencl = "blur.cl", name = "by_hand", priority = -4, cooperating)]
struct Blur<'a> {
    width: u64,
    from: Whole<'a, Read<f32>>,
    near: Item<'a, Write<f32>>,
    far: Item<'a, Write<f32>>,
}

/// The mean around an element of a row of `w` elements, which begins at `row`.
#[kernel_fn]
fn mean<const R: usize>(from: &[f32], row: usize, w: usize, at: usize) -> f32 {
    let mut sum = 0.0;
    for i in 0..=2 * R {
        let x = (at + i).saturating_sub(R).min(w - 1);
        sum += from[row + x];
    }
    sum / (2 * R + 1) as f32
}

once! {{
    impl CpuItem<Blur<'_>> for Once {
        fn item(ix: Index<2>, k: BlurItem<'_>) {
            let w = k.width as usize;
            k.near.set(mean::<1>(k.from, ix[1] * w, w, ix[0]));
            k.far.set(mean::<3>(k.from, ix[1] * w, w, ix[0]));
        }
    }
}}

struct Image {
    shape: [u64; 2],
    from: FlashMemory<f32>,
    near: FlashMemory<f32>,
    far: FlashMemory<f32>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let (w, h) = (n + 5, n);
    let [near, far] = [(); 2].map(|()| FlashMemory::zeroed(w * h));
    Box::new(Image { shape: [w as u64, h as u64], from: field(w * h).into(), near, far })
}

impl Problem for Image {
    fn items(&self) -> u64 {
        self.from.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let Image { shape, from, near, far } = self;
        rt.submit(Blur::of(shape[0], from, near, far)).exec(*shape)
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok([numbers(&self.near)?, numbers(&self.far)?].concat())
    }
}
