//! The transpose of a matrix.

use crate::{Problem, field, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.transpose", dims(column, row))]
#[implementations(opencl = "transpose.cl", name = "by_hand", priority = -4, cooperating, for(f32, i32))]
struct Transpose<'a, T: Element> {
    rows: u64,
    from: Whole<'a, Read<T>>,
    to: Item<'a, Write<T>>,
}

once! { for(f32, i32) {
    impl<T: Element> CpuItem<Transpose<'_, T>> for Once {
        fn item(ix: Index<2>, k: TransposeItem<'_, T>) {
            k.to.set(k.from[ix[1] + ix[0] * k.rows as usize]);
        }
    }
}}

struct Matrices<T: Element> {
    shape: [u64; 2],
    from: FlashMemory<T>,
    to: FlashMemory<T>,
}

pub fn of_f32(n: usize) -> Box<dyn Problem> {
    Box::new(Matrices::new(n, |x| x))
}

pub fn of_i32(n: usize) -> Box<dyn Problem> {
    Box::new(Matrices::new(n, |x| (x * 1013.0) as i32))
}

impl<T: Element> Matrices<T> {
    fn new(n: usize, value: impl Fn(f32) -> T) -> Self {
        let (columns, rows) = (n, n + 6);
        let from = field(columns * rows).into_iter().map(value).collect();
        let to = FlashMemory::zeroed(columns * rows);
        Matrices { shape: [columns as u64, rows as u64], from, to }
    }
}

impl<T: Element + Into<f64>> Problem for Matrices<T> {
    fn items(&self) -> u64 {
        self.from.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Transpose::of(self.shape[1], &self.from, &self.to)).exec(self.shape)
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.to)
    }
}
