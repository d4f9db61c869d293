//! The matrix of Smith and Waterman by diagonals: `best` of the cells (i, diagonal - i).

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.smith_waterman", dims(i, diagonal), sort_by(diagonal))]
#[implementations(opencl = "smith_waterman.cl", name = "by_hand", priority = -4, cooperating)]
struct SmithWaterman<'a> {
    gap: i32,
    a: Whole<'a, Read<u8>>,
    b: Whole<'a, Read<u8>>,
    #[along(i)]
    once: Phased<'a, i32>,
    #[along(i)]
    twice: Phased<'a, i32>,
    #[along(i)]
    best: Item<'a, ReadWrite<i32>>,
}

once! {{
    impl CpuItem<SmithWaterman<'_>> for Once {
        fn item(ix: Index<2>, mut k: SmithWatermanItem<'_>) {
            let [i, diagonal] = ix.values();
            if diagonal < i || diagonal - i >= k.b.len() {
                return;
            }
            let j = diagonal - i;
            let before = |values: i32, there: bool| if there { values } else { 0 };
            let (mut left, mut corner) = (0, 0);
            if i > 0 {
                left = k.once.get(i - 1);
                corner = k.twice.get(i - 1);
            }
            let up = before(k.once.own(), j > 0);
            let score = if k.a[i] == k.b[j] { 3 } else { -3 };
            let value = (before(corner, j > 0) + score).max(left - k.gap).max(up - k.gap).max(0);
            k.twice.set(k.once.own());
            k.once.set(value);
            if value > *k.best {
                *k.best = value;
            }
        }
    }
}}

struct Strings {
    a: FlashMemory<u8>,
    b: FlashMemory<u8>,
    once: FlashMemory<i32>,
    twice: FlashMemory<i32>,
    best: FlashMemory<i32>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let string = |len: usize, by: usize| (0..len).map(|i| b"ACGT"[(i * i / by + i / 3) % 4]).collect();
    let [once, twice, best] = [(); 3].map(|()| FlashMemory::zeroed(n));
    Box::new(Strings { a: string(n, 5), b: string(n + 3, 7), once, twice, best })
}

impl Problem for Strings {
    fn items(&self) -> u64 {
        (self.a.len() * (self.a.len() + self.b.len() - 1)) as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let Strings { a, b, once, twice, best } = self;
        let (n, m) = (a.len() as u64, b.len() as u64);
        rt.submit(SmithWaterman::of(2, a, b, once, twice, best)).exec([n, n + m - 1])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.best)
    }
}
