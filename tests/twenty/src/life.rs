//! A generation of Life on a torus, of cells that are 0 or 1.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.life", dims(x, y))]
#[implementations(opencl = "life.cl", name = "by_hand", priority = -4, cooperating)]
struct Life<'a> {
    width: u32,
    height: u32,
    was: Whole<'a, Read<u8>>,
    is: Item<'a, Write<u8>>,
}

once! {{
    impl CpuItem<Life<'_>> for Once {
        fn item(ix: Index<2>, k: LifeItem<'_>) {
            let (w, h) = (k.width as usize, k.height as usize);
            let mut neighbours = 0;
            for dy in 0..3 {
                for dx in 0..3 {
                    if dx == 1 && dy == 1 {
                        continue;
                    }
                    let (x, y) = ((ix[0] + w + dx - 1) % w, (ix[1] + h + dy - 1) % h);
                    neighbours += k.was[x + y * w];
                }
            }
            k.is.set(match (k.was[ix[0] + ix[1] * w], neighbours) {
                (1, 2 | 3) => 1,
                (0, 3) => 1,
                _ => 0,
            });
        }
    }
}}

struct Cells {
    shape: [u32; 2],
    was: FlashMemory<u8>,
    is: FlashMemory<u8>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let (w, h) = (n + 6, n);
    let was = (0..w * h).map(|i| u8::from((i * i + i / 3) % 3 == 0)).collect();
    Box::new(Cells { shape: [w as u32, h as u32], was, is: FlashMemory::from(vec![9; w * h]) })
}

impl Problem for Cells {
    fn items(&self) -> u64 {
        self.was.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let [w, h] = self.shape;
        rt.submit(Life::of(w, h, &self.was, &self.is)).exec([w, h].map(u64::from))
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.is)
    }
}
