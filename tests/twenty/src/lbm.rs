//! A step of the lattice Boltzmann method on a torus, D2Q9: an array for each direction.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use std::array::from_fn;

const DIRECTIONS: [[i32; 2]; 9] =
    [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]];
const WEIGHTS: [f64; 9] =
    [4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0];

#[derive(KernelDefinition)]
#[kernel(name = "twenty.lbm", dims(x, y))]
#[implementations(opencl = "lbm.cl", name = "by_hand", priority = -4, cooperating)]
struct Lbm<'a> {
    width: u64,
    height: u64,
    omega: f64,
    from: [Whole<'a, Read<f64>>; 9],
    to: [Item<'a, Write<f64>>; 9],
}

/// The distribution in equilibrium along a direction.
#[kernel_fn]
fn equilibrium(direction: usize, rho: f64, ux: f64, uy: f64) -> f64 {
    let [ex, ey] = DIRECTIONS[direction];
    let eu = ex as f64 * ux + ey as f64 * uy;
    WEIGHTS[direction] * rho * (1.0 + 3.0 * eu + 4.5 * eu * eu - 1.5 * (ux * ux + uy * uy))
}

once! {{
    impl CpuItem<Lbm<'_>> for Once {
        fn item(ix: Index<2>, k: LbmItem<'_>) {
            let (w, h) = (k.width as i64, k.height as i64);
            let mut f = [0.0; 9];
            let (mut rho, mut mx, mut my) = (0.0, 0.0, 0.0);
            for i in 0..9 {
                let [ex, ey] = DIRECTIONS[i];
                let x = (ix[0] as i64 - i64::from(ex) + w) % w;
                let y = (ix[1] as i64 - i64::from(ey) + h) % h;
                f[i] = k.from[i][(x + y * w) as usize];
                rho += f[i];
                mx += f[i] * ex as f64;
                my += f[i] * ey as f64;
            }
            for i in 0..9 {
                k.to[i].set(f[i] + k.omega * (equilibrium(i, rho, mx / rho, my / rho) - f[i]));
            }
        }
    }
}}

struct Lattice {
    shape: [u64; 2],
    from: [FlashMemory<f64>; 9],
    to: [FlashMemory<f64>; 9],
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let (w, h) = (n + 2, n);
    let value = |d: usize, i: usize| WEIGHTS[d] * (1.0 + 0.01 * ((i * 31 + d) % 17) as f64);
    let from = from_fn(|d| (0..w * h).map(|i| value(d, i)).collect());
    Box::new(Lattice { shape: [w as u64, h as u64], from, to: from_fn(|_| FlashMemory::zeroed(w * h)) })
}

impl Problem for Lattice {
    fn items(&self) -> u64 {
        self.from[0].len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let [w, h] = self.shape;
        rt.submit(Lbm::of(w, h, 0.7, &self.from, &self.to)).exec(self.shape)
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok(self.to.iter().map(numbers).collect::<Result<Vec<_>, Error>>()?.concat())
    }
}
