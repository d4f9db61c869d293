//! `c = a b`: a team has 8 times 8 elements of `c`, and tiles of `a` and `b` in shared memory.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

/// As the module says; a work item for each tile of `c`.
#[derive(KernelDefinition)]
#[kernel(name = "twenty.product", dims(column, row))]
#[implementations(
    opencl = "product.cl",
    name = "by_hand",
    priority = -4,
    cooperating,
    threads_per_item = 32,
    work_group_size = 32
)]
pub struct Product<'a> {
    a: Window<'a, Read<f32>>,
    b: Window<'a, Read<f32>>,
    c: Item<'a, Write<Tile<f32, 8, 8>>>,
}

once! {{
    impl CpuTeam<Product<'_>, 32> for Once {
        fn team(ix: Index<2>, mut k: ProductItem<'_>, team: &mut Team<32>) {
            let (first, top) = (8 * ix[0], 8 * ix[1]);
            let (columns, inner, rows) = (k.b.end()[0], k.a.end()[0], k.a.end()[1]);
            let mut sums: [[f32; 8]; 8] = team.shared(|[_, _]| 0.0);
            for begin in (0..inner).step_by(8) {
                let a: [[f32; 8]; 8] = team.shared(|[y, x]| {
                    if top + y < rows && begin + x < inner { k.a.at([begin + x, top + y, 0]) } else { 0.0 }
                });
                let b: [[f32; 8]; 8] = team.shared(|[y, x]| {
                    if begin + y < inner && first + x < columns {
                        k.b.at([first + x, begin + y, 0])
                    } else {
                        0.0
                    }
                });
                team.update(&mut sums, |[y, x], old| {
                    let mut sum = old[y][x];
                    for j in 0..8 {
                        sum += a[y][j] * b[j][x];
                    }
                    sum
                });
            }
            team.set_tile(&mut k.c, |[y, x]| sums[y][x]);
        }
    }
}}

struct Matrices {
    a: FlashMemory<f32>,
    b: FlashMemory<f32>,
    c: FlashMemory<f32>,
    teams: [u64; 2],
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let (columns, inner, rows) = (n, n + 3, n + 13);
    let matrix = |columns: usize, rows: usize, by: u64| -> FlashMemory<f32> {
        let values = (1..=columns * rows).map(|i| ((i as u64).wrapping_mul(by) >> 7) % 17);
        let values: FlashMemory<f32> = values.map(|x| x as f32 - 8.0).collect();
        values.with_shape([columns, rows]).expect("as many elements")
    };
    Box::new(Matrices {
        a: matrix(inner, rows, 0x9E37_79B9),
        b: matrix(columns, inner, 0x85EB_CA6B),
        c: FlashMemory::zeroed([columns, rows]),
        teams: [columns.div_ceil(8), rows.div_ceil(8)].map(|teams| teams as u64),
    })
}

impl Problem for Matrices {
    fn items(&self) -> u64 {
        self.c.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Product::of(&self.a, &self.b, &self.c)).exec(self.teams)
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.c)
    }
}
