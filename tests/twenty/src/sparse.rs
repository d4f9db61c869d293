//! A sparse matrix times a vector, row by row.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.sparse", dims(row))]
#[implementations(opencl = "sparse.cl", name = "by_hand", priority = -4, cooperating)]
struct Sparse<'a> {
    start: Whole<'a, Read<u32>>,
    column: Whole<'a, Read<u32>>,
    value: Whole<'a, Read<f64>>,
    x: Whole<'a, Read<f64>>,
    y: Item<'a, Write<f64>>,
}

once! {{
    impl CpuItem<Sparse<'_>> for Once {
        fn item(ix: Index<1>, k: SparseItem<'_>) {
            let row = ix[0];
            let mut sum = 0.0;
            for i in k.start[row]..k.start[row + 1] {
                let i = i as usize;
                sum = k.value[i].mul_add(k.x[k.column[i] as usize], sum);
            }
            k.y.set(sum);
        }
    }
}}

struct Product {
    start: FlashMemory<u32>,
    column: FlashMemory<u32>,
    value: FlashMemory<f64>,
    x: FlashMemory<f64>,
    y: FlashMemory<f64>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let mut start = vec![0];
    for row in 0..n as u32 {
        start.push(start[row as usize] + row % 5);
    }
    let count = start[n];
    Box::new(Product {
        start: start.into(),
        column: (0..count).map(|i| (u64::from(i) * 7 % n as u64) as u32).collect(),
        value: (0..count).map(|i| f64::from(i % 1000) * 0.37 - 3.0).collect(),
        x: (0..n as u32).map(|i| 1.0 / f64::from(i + 1)).collect(),
        y: FlashMemory::from(vec![9.0; n]),
    })
}

impl Problem for Product {
    fn items(&self) -> u64 {
        self.y.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let Product { start, column, value, x, y } = self;
        rt.submit(Sparse::of(start, column, value, x, y)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.y)
    }
}
